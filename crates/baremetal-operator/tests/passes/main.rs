//! The loop of passes as it is, between an API server of a few lines and a simulated Ironic: what is read, changed and
//! written when, whatever happens between two effects.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

mod cluster;
mod companions;
mod death;
mod fairness;
mod inspections;
mod names;
mod places;
mod ports;
mod secrets;
mod settings;
mod site;
mod trouble;
mod walk;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use metal3_api::metal3::{BareMetalHost, ErrorType, ProvisioningState};
use metal3_ironic_sim::{Action as Trouble, Rule};
use metal3_runtime::error::{Class, Classified as _};
use metal3_runtime::store::ObjectKey;
use metal3_testkit::played::Request;
use rstest::rstest;
use serde_json::{Value, json};

use crate::site::{IMAGE, NAME, Site, pause};

/// An image for the host.
fn deployed() -> Value {
    json!({"image": {"url": IMAGE, "checksum": "0".repeat(64), "checksumType": "sha256", "format": "raw"}})
}

/// What a user took back a moment ago is not done because the cache still shows it.
#[tokio::test]
async fn an_old_copy_is_refused_before_anything_happens_in_ironic() {
    let image = deployed();
    let site = Site::new(&image).await;
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Provisioned).await);
    site.edit(&json!({"spec": {"image": null}}));
    let old = site.host().unwrap();
    site.edit(&json!({"spec": image}));
    let now = site.host().unwrap();

    // With nothing remembered: its own writes would tell it.
    let other = site.begin(None);
    other.listed().await;
    site.cluster.requests();
    let answer = other.reconcile(old).await.unwrap();
    assert!(
        answer.is_err_and(|error| error.class() == Class::Stale),
        "it is looked at again"
    );
    let refused: Vec<_> = site.cluster.requests().into_iter().filter(Request::is_write).collect();
    assert_eq!(refused.len(), 1, "the status with the intent: {refused:?}");
    assert_eq!(site.host(), Some(now), "nothing was stored");
    assert_eq!((site.counters().undeploys, site.counters().deploys), (0, 1));
    assert!(site.until_at_rest(&other, ProvisioningState::Provisioned).await);
    assert_eq!((site.counters().undeploys, site.counters().deploys), (0, 1));
}

#[tokio::test]
async fn a_host_at_rest_costs_nothing_and_a_change_writes_what_differs() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    // Looked at again although nothing happened: by an operator that knows nothing, too.
    let other = site.begin(None);
    other.listed().await;
    for life in [&life, &other] {
        life.forget_rest();
        life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
        site.cluster.requests();
        let before = site.sim.requests();
        for _ in 0..3 {
            life.forget_rest();
            life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
            life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
        }
        let asked = site.cluster.requests();
        assert!(asked.is_empty(), "{asked:?}");
        let changed: Vec<_> = site
            .sim
            .requests()
            .into_iter()
            .filter(|(kind, count)| before.get(kind) != Some(count))
            .collect();
        assert!(
            changed.iter().all(|(kind, _)| kind == "GET /v1/nodes"),
            "the list of all: {changed:?}"
        );
    }

    site.edit(&json!({"spec": {"online": false}}));
    let from = site.cluster.versions().len();
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    for request in site
        .cluster
        .requests()
        .iter()
        .filter(|request| request.path.ends_with("/status"))
    {
        let paths = request
            .body
            .as_array()
            .unwrap()
            .iter()
            .map(|op| op["path"].as_str().unwrap());
        for path in paths {
            let may_differ = [
                "/metadata/resourceVersion",
                "/status/conditions",
                "/status/lastUpdated",
                "/status/poweredOn",
            ];
            assert!(may_differ.contains(&path), "{}", request.body);
        }
    }
    let versions = site.cluster.versions();
    let differ = versions[from - 1..]
        .windows(2)
        .all(|pair| pair[0].status != pair[1].status);
    assert!(differ, "no write without a difference");
}

/// What a host costs the API server from nothing to available, by method and path; paths of single objects without their name.
async fn enrolment(site: &Site) -> BTreeMap<String, usize> {
    let life = site.begin(None);
    life.listed().await;
    site.cluster.requests();
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    let mut counts = BTreeMap::new();
    for request in site.cluster.requests() {
        let mut parts = request.below_namespace().split('/');
        let kind = [parts.next(), parts.nth(1)].into_iter().flatten();
        let what = format!("{} {}", request.method, kind.collect::<Vec<_>>().join("/"));
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// Each request that is made for every host of a fleet is paid for a thousand times.
#[tokio::test]
async fn a_host_comes_to_available_with_twelve_requests() {
    let site = Site::new(&json!({})).await;
    let mut counts = enrolment(&site).await;
    // One for each wait that a user sees: verifying, inspecting, switching on; and one at the end. Where Ironic was quicker than
    // the operator there is one less.
    let writes = counts.remove("PATCH baremetalhosts/status").unwrap_or_default();
    assert!((3..=4).contains(&writes), "{writes} status writes, {counts:?}");
    // The operator watches these three; here nobody does.
    counts.retain(|what, _| !what.starts_with("GET hostfirmware") && what != "GET hostupdatepolicies");
    let expected = [
        ("PATCH baremetalhosts", 1),
        ("PATCH hardwaredata", 1),
        ("PATCH secrets", 1),
        ("POST events", 5),
    ];
    assert_eq!(counts, expected.map(|(what, count)| (what.to_owned(), count)).into());
    let secret: Secret = site.cluster.get("secrets", "bmc").unwrap();
    assert_eq!(secret.labels()["environment.metal3.io"], "baremetal");
    assert_eq!(secret.finalizers(), ["baremetalhost.metal3.io/secret"]);
    // OWN 28a: with the host as its owner, a deletion in the foreground would collect it.
    assert_eq!(secret.owner_references(), []);
    assert_eq!(secret.labels()["clusterctl.cluster.x-k8s.io/move"], "");
}

/// The role that upstream ships does not allow patches of Secrets.
#[tokio::test]
async fn a_secret_that_may_not_be_patched_is_read_and_written() {
    let site = Site::new(&json!({})).await;
    site.cluster.refuse(|request| {
        let is_patch = request.method == "PATCH" && request.below_namespace().starts_with("secrets/");
        is_patch.then_some(403)
    });
    let counts = enrolment(&site).await;
    let of_secrets: Vec<_> = counts
        .into_iter()
        .filter(|(what, _)| what.ends_with("secrets"))
        .collect();
    let expected = ["GET secrets", "PATCH secrets", "PUT secrets"];
    assert_eq!(of_secrets, expected.map(|what| (what.to_owned(), 1)));
    let secret: Secret = site.cluster.get("secrets", "bmc").unwrap();
    assert_eq!(secret.finalizers(), ["baremetalhost.metal3.io/secret"]);
}

/// What could not be stored after an effect is stored by the next reconciliation, and the effect is not repeated.
#[tokio::test]
async fn a_status_that_could_not_be_stored_is_stored_later() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    life.listed().await;
    site.cluster.fail_status_writes([500; 3]);
    let mut failures = 0;
    while site.status().provisioning.id.is_empty() {
        let host = site.host().unwrap();
        if let Err(error) = life.reconcile(host.clone()).await.unwrap() {
            assert_eq!(error.to_string(), "cannot write the status");
            failures += 1;
            assert!(failures <= 3, "{error}");
        }
        pause().await;
    }
    // One of them may be that of an intent, after which the host is looked at again.
    assert!(failures >= 2, "{failures}");
    assert_eq!(site.counters().creates, 1);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    let went = site.counters();
    assert_eq!((went.creates, went.inspections, went.power_ons), (1, 1, 1));
}

fn failures(host: Option<&BareMetalHost>) -> i32 {
    host.and_then(|host| host.status.as_ref())
        .map_or(0, |status| status.error_count)
}

/// An effect that Ironic refuses is an error of the host, told once in the status and once by an event.
#[tokio::test]
async fn a_refused_effect_is_told_once() {
    let site = Site::new(&json!({})).await;
    site.sim.add_rule(Rule {
        method: Some("POST".to_owned()),
        path: Some("/v1/nodes".to_owned()),
        action: Trouble::Refuse {
            status: 400,
            text: "no such driver".to_owned(),
            retry_after: None,
        },
        ..Rule::default()
    });
    let life = site.begin(None);
    life.listed().await;
    assert!(site.until(&life, "refused", |host| failures(host) > 0).await);
    let status = site.status();
    assert_eq!(status.error_type, Some(ErrorType::Registration));
    assert!(
        status.error_message.contains("no such driver"),
        "{}",
        status.error_message
    );
    for _ in 0..3 {
        life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
    }
    assert_eq!(site.status(), status, "it waits out its back-off");
    let events = site.cluster.requests();
    let told = events
        .iter()
        .filter(|request| request.below_namespace() == "events" && request.body["type"] == "Warning")
        .count();
    assert_eq!(told, 1);
}

/// A busy Ironic is no error: the host says at the first look what keeps it, and looks again when Ironic said to.
#[tokio::test]
async fn a_busy_ironic_is_told_at_the_first_look() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    site.sim.add_rule(Rule {
        method: Some("GET".to_owned()),
        path: Some("/v1/nodes/*".to_owned()),
        count: Some(1),
        action: Trouble::Refuse {
            status: 503,
            text: "no free conductor workers".to_owned(),
            retry_after: Some(7),
        },
        ..Rule::default()
    });
    site.edit(&json!({"spec": {"online": false}}));
    let busy = life.reconcile(site.host().unwrap()).await.unwrap().unwrap_err();
    assert_eq!(busy.class(), Class::Throttled(Duration::from_secs(7)));
    let status = site.status();
    let waiting = status
        .conditions
        .iter()
        .find(|c| c.type_ == baremetal_operator::host::WAITING)
        .unwrap();
    assert_eq!(waiting.reason, "IronicFailing");
    assert!(
        waiting.message.contains("no free conductor workers"),
        "{}",
        waiting.message
    );
    let end = "; next check: at least every 60 s";
    assert!(waiting.message.ends_with(end), "{}", waiting.message);
    assert_eq!((status.error_type, status.error_count), (None, 0));
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    assert!(!site.sim.is_on(0));
}

/// The search that ends every test of this program. That it reads the log, too, is shown in the testkit: a line here would fail
/// whatever test runs beside this one.
#[rstest]
#[case::nothing(|_: &Site| {}, false)]
#[case::event(|site: &Site| drop(site.cluster.ask("POST", "events", json!({"note": "secret-of-server-0 is refused"}))), true)]
#[case::status(|site: &Site| {
    let change = json!({"status": {"errorMessage": "c2VjcmV0LW9mLXNlcnZlci0w"}});
    site.cluster.ask("PATCH", &format!("baremetalhosts/{NAME}/status"), change);
}, true)]
#[case::secret(|site: &Site| site.write_secret("other", b"admin", b"secret-of-other"), false)]
#[case::error(|site: &Site| site.begin(None).search_error(&Err::<(), _>(std::io::Error::other("secret-of-bmc"))), true)]
#[case::metric(|site: &Site| {
    let host = ObjectKey::new("metal3", "secret-of-bmc");
    site.begin(None).ctx.metrics.upstream.reconciled(&host, true);
}, true)]
#[tokio::test]
async fn a_secret_that_is_emitted_fails_its_test(#[case] emit: fn(&Site), #[case] is_found: bool) {
    let site = Site::new(&json!({})).await;
    emit(&site);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(site)));
    assert_eq!(ended.is_err(), is_found);
}
