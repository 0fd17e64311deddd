//! One server for all tests of this binary, each test on a runtime and in a namespace of its own.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use metal3_api::metal3::BareMetalHost;
use metal3_testkit::{eventually, leaks, namespace, server};
use serde_json::json;

/// The message with which a future panics.
async fn message_of(future: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::task::JoinSet::from_iter([future])
        .join_next()
        .await
        .and_then(Result::err)
        .map(|err| err.into_panic());
    *panic
        .and_then(|panic| panic.downcast::<String>().ok())
        .unwrap_or_default()
}

const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}";

#[tokio::test]
async fn tests_share_a_server_but_not_a_namespace() {
    let (one, other) = (namespace!().await, namespace!().await);
    assert!(
        one.name.starts_with("tests-share-a-server-but-not-a-namespace-"),
        "{}",
        one.name
    );
    assert_ne!(one.name, other.name);
    assert!(std::ptr::eq(one.server(), server().await));
    one.apply(MAP).await;
    assert_eq!(
        other
            .api::<ConfigMap>()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items,
        []
    );
}

/// Would hang or fail if clients were shared between the runtimes of tests: this one has several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_with_another_kind_of_runtime_uses_the_same_server() {
    let namespace = namespace!().await;
    namespace.apply(MAP).await;
    namespace
        .expect("a", "is there", |map: &ConfigMap| map.data.is_some())
        .await;
}

#[tokio::test]
async fn the_projects_own_kinds_are_served() {
    let namespace = namespace!().await;
    let host = "{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: h}, spec: {online: true}}";
    namespace.apply(host).await;
    namespace
        .expect("h", "is online", |host: &BareMetalHost| host.spec.online)
        .await;
    namespace
        .api::<BareMetalHost>()
        .delete("h", &DeleteParams::default())
        .await
        .unwrap();
    namespace.expect_gone::<BareMetalHost>("h").await;
    namespace
        .expect_refused(&host.replace("true", "7"), "spec.online")
        .await;
}

#[tokio::test]
async fn what_does_not_come_about_fails_with_what_was_seen() {
    let namespace = namespace!().await;
    namespace.apply(MAP).await;
    let message = message_of(async {
        let asked = AtomicU32::new(0);
        eventually(Duration::from_millis(200), "the impossible", async || {
            Err::<(), _>(format!("sign {}", asked.fetch_add(1, Ordering::Relaxed)))
        })
        .await;
    })
    .await;
    assert!(
        message.contains("shared_server.rs"),
        "names the line that waited: {message}"
    );
    assert!(
        message.contains("the impossible: not within 200ms") && message.contains("last seen: sign "),
        "{message}"
    );

    let hanging = message_of(async {
        let first = AtomicBool::new(true);
        eventually(Duration::from_millis(200), "an answer", async || {
            if first.swap(false, Ordering::Relaxed) {
                Err::<(), _>("a busy line")
            } else {
                std::future::pending().await
            }
        })
        .await;
    })
    .await;
    assert!(
        hanging.contains("last seen: a busy line"),
        "a probe that hangs does not hang the test: {hanging}"
    );

    let refused = message_of(async move { namespace.expect_refused(MAP, "anything").await }).await;
    assert!(refused.contains("it was accepted"), "{refused}");
}

#[tokio::test]
async fn events_are_awaited_by_reason() {
    let namespace = namespace!().await;
    let event = "{apiVersion: v1, kind: Event, metadata: {name: e}, reason: Registered, message: done, \
                 involvedObject: {kind: BareMetalHost, name: h, namespace: NS}}";
    namespace.apply(&event.replace("NS", &namespace.name)).await;
    assert_eq!(
        namespace.expect_event("h", "Registered").await.message.as_deref(),
        Some("done")
    );
}

#[tokio::test]
async fn a_service_account_starts_without_rights_and_is_counted_by_name() {
    let namespace = namespace!().await;
    let before = server().await.audit_log().unwrap().end().unwrap();
    let robot: Client = namespace.service_account("robot").await;
    let secrets: Api<Secret> = Api::namespaced(robot, &namespace.name);
    let refused = secrets.list(&ListParams::default()).await.unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.is_forbidden()),
        "{refused}"
    );
    let user = namespace.service_account_user("robot");
    eventually(Duration::from_secs(5), "one request of the robot", async || {
        let (requests, _) = server().await.audit_log().unwrap().since(before).unwrap();
        let own: Vec<_> = requests.into_iter().filter(|request| request.user == user).collect();
        match own.as_slice() {
            [one] if one.resource == "secrets" && one.status == 403 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

// OWN 30sb: tests of a single program with the API server searched for no secrets.
#[tokio::test]
async fn a_secret_in_an_event_or_an_object_fails_the_test() {
    let namespace = namespace!().await;
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: bmc}, stringData: {password: a}}";
    namespace.apply(secret).await;
    let found = async || {
        leaks::in_namespace(namespace.client.clone(), &namespace.name)
            .await
            .unwrap()
    };
    assert_eq!(found().await, Vec::<String>::new(), "it may be in the Secret");
    let stored: Secret = namespace.api().get("bmc").await.unwrap();
    let canary = String::from_utf8(stored.data.unwrap()["canary"].0.clone()).unwrap();

    let event = "{apiVersion: v1, kind: Event, metadata: {name: e}, reason: Registered, message: CANARY, \
                 involvedObject: {kind: BareMetalHost, name: h, namespace: NS}}";
    let event = event.replace("NS", &namespace.name).replace("CANARY", &canary);
    namespace.apply(&event).await;
    let host = "{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: h}, \
                spec: {online: true, description: CANARY}}";
    namespace.apply(&host.replace("CANARY", &canary)).await;
    let hosts: Api<BareMetalHost> = namespace.api();
    let host = |name: &str| {
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name},
        "spec": {"online": true}})
    };
    let status = |message: &str, condition: &str| {
        json!({"status": {"operationalStatus": "OK", "errorCount": 0, "errorMessage": message, "poweredOn": true,
            "hardwareProfile": "", "provisioning": {"state": "", "ID": "", "image": {"url": ""}},
            "conditions": [{"type": "Waiting", "status": "True", "reason": "R", "message": condition,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
    };
    for (name, status) in [
        ("in-a-status", status(&canary, "")),
        ("in-a-condition", status("", &canary)),
    ] {
        namespace.apply(&host(name).to_string()).await;
        let patch = Patch::Merge(status);
        hosts.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
    let found = found().await;
    assert!(
        matches!(&*found, [event, spec, condition, status] if event.starts_with("an event: ")
            && spec.starts_with("BareMetalHost Some(\"h\")")
            && condition.starts_with("BareMetalHost Some(\"in-a-condition\")")
            && status.starts_with("BareMetalHost Some(\"in-a-status\")")),
        "{found:?}"
    );
    let message = message_of(async move { drop(namespace) }).await;
    assert!(message.contains("secrets were emitted"), "{message}");
}
