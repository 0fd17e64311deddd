//! Version negotiation and readiness.

use std::sync::Arc;
use std::time::Duration;

use metal3_ironic::{Client, ClientConfig, ErrorClass, Feature};
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::{Counter, Server, config, fault, respond, root, status, v1};

/// Whatever form the endpoint has, discovery asks there and calls go below `/v1`.
#[rstest]
#[case("", "/", "/v1/drivers")]
#[case("/", "/", "/v1/drivers")]
#[case("/v1", "/v1", "/v1/drivers")]
#[case("/v1/", "/v1", "/v1/drivers")]
#[case("/baremetal", "/baremetal", "/baremetal/v1/drivers")]
#[case("/baremetal/v1/", "/baremetal/v1", "/baremetal/v1/drivers")]
#[tokio::test]
async fn endpoints(#[case] path: &str, #[case] discovery: &str, #[case] drivers: &str) {
    let server = Server::start_bare(|seen, _| {
        let body = match seen.path.as_str() {
            path if path.ends_with("/v1") => v1("1.109"),
            path if path.ends_with("/v1/drivers") => json!({"drivers": [{"name": "ipmi"}]}),
            _ => root("1.109"),
        };
        // "Multiple choices" is a legitimate status for a version document.
        (Duration::ZERO, respond(if seen.path == "/" { 300 } else { 200 }, &body))
    })
    .await;
    let client = Client::new(config(&server.url.join(path).unwrap())).unwrap();
    let versions = client.ready().await.unwrap();
    assert!(versions.supports(Feature::Health) && !versions.supports(Feature::AbortDeployWait));

    let seen = server.all_seen();
    assert_eq!([seen[0].path.as_str(), seen[1].path.as_str()], [discovery, drivers]);
    // Discovery is open to all, and so neither tells who asks nor presumes a version.
    for header in [
        "authorization",
        "x-openstack-ironic-api-version",
        "openstack-api-version",
    ] {
        assert_eq!(seen[0].header(header), None);
    }
    assert_eq!(
        seen[1].header("authorization"),
        Some("Basic bWV0YWwzOmNvcnJlY3QtaG9yc2U=")
    );
    assert_eq!(seen[1].header("x-openstack-ironic-api-version"), Some("1.109"));
    assert_eq!(seen[1].header("openstack-api-version"), Some("baremetal 1.109"));
    assert_eq!(seen[1].header("accept"), Some("application/json"));
    assert!(
        seen[1]
            .header("user-agent")
            .unwrap()
            .starts_with("metal3-baremetal-operator/")
    );
}

#[rstest]
#[case::too_old(respond_with(v1("1.88"), json!({})), ErrorClass::VersionUnsupported, "at least 1.89 is needed")]
#[case::not_ironic(respond_with(json!({"hello": 1}), json!({})), ErrorClass::VersionUnsupported, "is the endpoint an Ironic API?")]
#[case::no_drivers(respond_with(v1("1.115"), json!({"drivers": []})), ErrorClass::Busy, "is a conductor running?")]
#[case::null_drivers(respond_with(v1("1.115"), json!({"drivers": null})), ErrorClass::Busy, "is a conductor running?")]
#[tokio::test]
async fn not_ready(#[case] documents: (Value, Value), #[case] class: ErrorClass, #[case] words: &str) {
    let server = Server::start_bare(move |seen, _| {
        let body = if seen.path == "/v1/drivers" {
            &documents.1
        } else {
            &documents.0
        };
        (Duration::ZERO, respond(200, body))
    })
    .await;
    let error = server.client().ready().await.unwrap_err();
    assert_eq!(error.class(), class, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

fn respond_with(discovery: Value, drivers: Value) -> (Value, Value) {
    (discovery, drivers)
}

#[tokio::test]
async fn wrong_credentials_are_noticed() {
    let server = Server::start_bare(|seen, _| {
        let refused = json!({"error": {"message": "Incorrect username or password", "code": 401}});
        (
            Duration::ZERO,
            if seen.path == "/v1/drivers" {
                respond(401, &refused)
            } else {
                respond(200, &root("1.115"))
            },
        )
    })
    .await;
    let error = server.client().ready().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unauthorized);
    assert_eq!(
        error.to_string(),
        "Ironic: listing drivers failed: Incorrect username or password (HTTP status 401)"
    );
}

/// A success is trusted for a while, and many who ask at once make one check; a failure is not remembered.
#[tokio::test]
async fn readiness_is_shared() {
    let server = Server::start_bare(|seen, nth| {
        let answer = match (seen.path.as_str(), nth) {
            ("/v1/drivers", 0) => respond(200, &json!({"drivers": []})),
            ("/v1/drivers", _) => respond(200, &json!({"drivers": [{}]})),
            _ => respond(200, &root("1.115")),
        };
        (Duration::from_millis(20), answer)
    })
    .await;
    let client = server.client();
    client.ready().await.unwrap_err();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        tasks.spawn(async move { client.ready().await.unwrap() });
    }
    tasks.join_all().await;
    assert_eq!(server.all_seen().len(), 4);

    let eager = Client::new(ClientConfig {
        ready_ttl: Duration::ZERO,
        ..server.config()
    })
    .unwrap();
    eager.ready().await.unwrap();
    eager.ready().await.unwrap();
    assert_eq!(server.all_seen().len(), 8);
}

/// When Ironic is silent, all who ask wait for one time-out, not one after the other.
#[tokio::test]
async fn a_failure_is_shared_by_those_who_wait() {
    let server = Server::start_bare(|_, _| (Duration::from_secs(60), status(200))).await;
    let client = Client::new(ClientConfig {
        timeout: Duration::from_millis(300),
        ..server.config()
    })
    .unwrap();
    let begin = tokio::time::Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for nth in 0..20 {
        let client = client.clone();
        tasks.spawn(async move {
            let error = if nth % 2 == 0 {
                client.ready().await.unwrap_err()
            } else {
                client.node("u").await.unwrap_err()
            };
            assert_eq!(error.class(), ErrorClass::Timeout);
        });
    }
    tasks.join_all().await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(server.all_seen().len(), 2);
}

/// Calls need no `ready` before them, and negotiate anew when the server was exchanged for an older one.
#[tokio::test]
async fn versions_are_negotiated_when_needed() {
    let server = Server::start_bare(|seen, nth| {
        let answer = match seen.path.as_str() {
            "/" => respond(200, &root(if nth == 0 { "1.115" } else { "1.90" })),
            "/v1/nodes/a" if seen.header("x-openstack-ironic-api-version") == Some("1.89") => {
                respond(200, &json!({"uuid": "a"}))
            }
            _ => status(406),
        };
        (Duration::ZERO, answer)
    })
    .await;
    let counter = Arc::new(Counter::default());
    let client = Client::new(ClientConfig {
        observer: Some(counter.clone()),
        ..server.config()
    })
    .unwrap();
    let error = client.node("a").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::VersionUnsupported);
    assert!(client.node("a").await.unwrap().is_some());
    assert!(client.node("a").await.unwrap().is_some());
    assert_eq!(counter.lines(), ["get_node 406", "get_node 200", "get_node 200"]);
    assert_eq!(server.all_seen().iter().filter(|seen| seen.path == "/").count(), 2);
}

// OWN 24: nothing told that Ironic stands open.
#[rstest]
#[case::noauth(None, Some(true))]
#[case::basic(Some(401), Some(false))]
#[case::for_others(Some(403), Some(false))]
// OWN 29g: any trouble of the only call counted as a refusal.
#[case::behind_a_gateway(Some(404), None)]
#[case::in_trouble(Some(503), None)]
#[tokio::test]
async fn who_sends_no_credentials_is_answered_or_not(#[case] refusal: Option<u16>, #[case] is_answered: Option<bool>) {
    let server = Server::start_bare(move |seen, _| {
        let has_credentials = seen.header("authorization").is_some();
        let answer = match seen.path.as_str() {
            "/" => respond(200, &root("1.109")),
            "/v1/drivers" if has_credentials => respond(200, &json!({"drivers": [{"name": "ipmi"}]})),
            path if path.starts_with("/v1/nodes/") => match refusal {
                Some(404) => respond(404, &json!({"message": "no route"})),
                Some(status) => fault(status, "Incorrect username or password"),
                None => fault(404, "Node 00000000-0000-0000-0000-000000000000 could not be found."),
            },
            _ => fault(401, "Incorrect username or password"),
        };
        (Duration::ZERO, answer)
    })
    .await;
    let client = server.client();
    client.ready().await.unwrap();
    assert_eq!(client.answers_anybody().await.unwrap(), is_answered);
    let asked = server.all_seen();
    let last = asked.last().unwrap();
    assert_eq!(
        (last.header("authorization"), last.path.starts_with("/v1/nodes/")),
        (None, true)
    );
}
