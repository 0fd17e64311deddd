//! What only a real API server can tell: conflicts, refused patches, metadata-only watches, reviews, the form of events.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails the test")]

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event, Secret, ServiceAccount},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::{
    Clock,
    args::ClientArgs,
    error::{Class, Classified},
    events::{self, Recorder, Reporter, Severity},
    leader::{self, Candidate, KubeLease, Lost, Signals, Timing},
    metrics::{Access, Decision, KubeAccess},
    patch::{self, Marks, Removal},
    secrets::{Known, SecretKey, SecretVersions},
    store::{Awaited, Follow, ObjectKey, Store},
};
use metal3_testkit::TestNamespace;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);

struct Replica {
    signals: Signals,
    leading: watch::Receiver<bool>,
    task: JoinSet<Result<(), Lost>>,
}

fn replica(namespace: &TestNamespace, name: &str) -> Replica {
    let (sender, leading) = watch::channel(false);
    let signals = Signals {
        stop: CancellationToken::new(),
        drained: CancellationToken::new(),
        leading: sender,
    };
    let timing = Timing {
        lease: Duration::from_secs(3),
        renew: Duration::from_secs(2),
        retry: Duration::from_millis(300),
    };
    let candidate = Candidate::new(name.to_owned(), timing, 1);
    let store = KubeLease::new(namespace.client.clone(), &namespace.name, "test");
    let passed = signals.clone();
    let mut task = JoinSet::new();
    task.spawn(async move { leader::run(&store, candidate, Clock::system(), passed).await });
    Replica { signals, leading, task }
}

async fn leads(replica: &mut Replica) {
    timeout(PATIENCE, replica.leading.wait_for(|leading| *leading))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_lease_changes_hands_by_release_and_by_expiry() {
    let namespace = metal3_testkit::namespace!().await;
    let mut first = replica(&namespace, "first");
    leads(&mut first).await;
    let mut second = replica(&namespace, "second");
    first.signals.stop.cancel();
    first.signals.drained.cancel();
    timeout(PATIENCE, first.task.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .unwrap();
    leads(&mut second).await;

    let mut third = replica(&namespace, "third");
    second.task.shutdown().await; // dies without a word
    leads(&mut third).await;
    let lease: Lease = namespace.api::<Lease>().get("test").await.unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_transitions),
        (Some("third"), Some(2))
    );
    assert_eq!(spec.lease_duration_seconds, Some(3));

    // Somebody takes the lease by force: the holder notices at its next renewal.
    let force = Patch::Merge(json!({ "spec": { "holderIdentity": "thief" } }));
    namespace
        .api::<Lease>()
        .patch("test", &PatchParams::default(), &force)
        .await
        .unwrap();
    let ended = timeout(PATIENCE, third.task.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        matches!(&ended, Err(Lost::TakenBy(holder)) if holder == "thief"),
        "{ended:?}"
    );
    assert!(!*third.leading.borrow());
}

async fn secret(namespace: &TestNamespace, name: &str, value: &str) {
    let yaml =
        format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, stringData: {{password: {value}}}}}");
    namespace.apply(&yaml).await;
}

#[tokio::test]
async fn changes_of_referenced_secrets_wake_their_owners() {
    let namespace = metal3_testkit::namespace!().await;
    let key = |name: &str| SecretKey {
        namespace: namespace.name.clone(),
        name: name.into(),
    };
    secret(&namespace, "bmc", "one").await;
    secret(&namespace, "late", "one").await;
    secret(&namespace, "foreign", "one").await;

    let versions = SecretVersions::default();
    versions.set_references("host", [key("bmc"), key("missing")]);
    let wake = versions.watch(&namespace.client, &namespace.name);
    let mut wake = std::pin::pin!(wake);
    let mut woken = async || timeout(PATIENCE, wake.next()).await.unwrap().unwrap();
    assert_eq!(woken().await, "host");
    assert_eq!(woken().await, "host"); // the list is complete: it is certain now that one is missing
    assert_eq!(versions.get(&key("missing")), Known::Absent);
    let first = versions.get(&key("bmc"));
    assert!(matches!(&first, Known::Present(known) if known.resource_version.is_some()));

    versions.set_references("other", [key("late")]);
    assert_eq!(versions.get(&key("late")), Known::Unknown);
    secret(&namespace, "foreign", "two").await; // wakes nobody
    secret(&namespace, "bmc", "two").await;
    assert_eq!(woken().await, "host");
    assert_ne!(versions.get(&key("bmc")), first);
    secret(&namespace, "late", "two").await;
    assert_eq!(woken().await, "other");
    assert_eq!(versions.len(), 3);

    namespace
        .api::<Secret>()
        .delete("bmc", &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(woken().await, "host");
    assert_eq!(versions.get(&key("bmc")), Known::Absent);
}

async fn config_map(namespace: &TestNamespace, yaml: &str) -> ConfigMap {
    let applied = namespace.apply(yaml).await;
    namespace.api().get(&applied[0].name_any()).await.unwrap()
}

#[tokio::test]
async fn events_are_accepted_and_counted() {
    let namespace = metal3_testkit::namespace!().await;
    let object = config_map(&namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await;
    let reporter = Reporter {
        component: "metal3-test-controller",
        controller: "metal3.io/test-controller",
    };
    let recorder = Recorder::new(namespace.client.clone(), reporter, Clock::system());
    let reference = object.object_ref(&());
    let note = |message: &str| events::Event {
        reason: "TestEvent",
        message: message.into(),
        severity: Severity::Warning,
    };
    for _ in 0..3 {
        recorder.publish(&reference, Some(&reference), &note("again")).await;
    }
    recorder.publish(&reference, None, &note(&"long ".repeat(1000))).await;
    let mut events = namespace
        .api::<Event>()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap()
        .items;
    events.sort_by_key(|event| event.count);
    assert_eq!(
        events.iter().map(|event| event.count).collect::<Vec<_>>(),
        [Some(1), Some(3)]
    );
    assert_eq!(
        events[1].reporting_component.as_deref(),
        Some("metal3.io/test-controller")
    );

    // Deleted on the server, as by its time to live: written anew.
    namespace
        .api::<Event>()
        .delete(&events[1].name_any(), &DeleteParams::default())
        .await
        .unwrap();
    recorder.publish(&reference, None, &note("again")).await;
    assert_eq!(
        namespace
            .api::<Event>()
            .list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        2
    );
}

#[tokio::test]
async fn metadata_is_written_without_losing_what_others_wrote() {
    let namespace = metal3_testkit::namespace!().await;
    let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {reboot.metal3.io: '', other: x}}}";
    let seen = config_map(&namespace, yaml).await;
    let api = namespace.api::<ConfigMap>();

    let added = patch::add_finalizer(&api, &seen, "test/one").await.unwrap().unwrap();
    assert_eq!(added.finalizers(), ["test/one"]);
    assert!(patch::add_finalizer(&api, &added, "test/one").await.unwrap().is_none());
    let stale = patch::add_finalizer(&api, &seen, "test/two").await.unwrap_err();
    assert_eq!(stale.class(), Class::Stale);
    let without = patch::remove_finalizer(&api, &added, "test/one")
        .await
        .unwrap()
        .unwrap();
    assert!(without.finalizers().is_empty());

    let renewed = Patch::Merge(json!({ "metadata": { "annotations": { "reboot.metal3.io": "again" } } }));
    api.patch("a", &PatchParams::default(), &renewed).await.unwrap();
    let remove = async |value: &str| {
        patch::remove_annotation(&api, "a", "reboot.metal3.io", value)
            .await
            .unwrap()
    };
    assert!(matches!(remove("").await, Removal::Changed));
    let Removal::Removed(object) = remove("again").await else {
        panic!("it has this value")
    };
    assert_eq!(object.annotations().keys().collect::<Vec<_>>(), ["other"]);
    assert!(matches!(remove("again").await, Removal::Changed));
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(matches!(remove("again").await, Removal::Gone));
    assert!(
        patch::remove_finalizer(&api, &added, "test/one")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn an_unmarked_object_is_marked_and_read_by_one_patch() {
    let namespace = metal3_testkit::namespace!().await;
    let marks = Marks {
        labels: &[("used-by", "us"), ("goes-along", "")],
        finalizer: "example.com/ours",
    };
    let secrets: Api<Secret> = namespace.api();
    let mark = async |name: &str| {
        let patch: Patch<()> = Patch::Json(patch::unmarked_marked(&marks, &[&["data", "user"], &["data", "word"]]));
        secrets.patch(name, &PatchParams::default(), &patch).await
    };
    let make = async |name: &str, metadata: Value, data: Value| {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data});
        secret["metadata"]["name"] = json!(name);
        namespace.apply(&secret.to_string()).await;
        secrets.get(name).await.unwrap()
    };
    let both = json!({"user": "u", "word": "w"});
    let plain = make("plain", json!({}), both.clone()).await;
    let marked = mark("plain").await.unwrap();
    assert_eq!(marked.data, plain.data, "the content comes with the answer, unchanged");
    assert_eq!(marked.labels()["used-by"], "us");
    assert_eq!(marked.labels()["goes-along"], "");
    assert_eq!(marked.finalizers(), ["example.com/ours"]);

    assert!(mark("missing").await.unwrap_err().to_string().contains("not found"));
    for (name, metadata, data) in [
        ("keyless", json!({}), json!({"user": "u"})),
        ("labelled", json!({"labels": {"a": "b"}}), both.clone()),
        ("held", json!({"finalizers": ["example.com/theirs"]}), both),
    ] {
        let before = make(name, metadata, data).await;
        match mark(name).await {
            Err(kube::Error::Api(status)) if status.is_invalid() => {}
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(secrets.get(name).await.unwrap(), before, "left as it is");
    }
    // What is marked already is not marked again, and nothing else of it is lost.
    assert!(mark("plain").await.is_err());
    let free: Patch<Value> = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for name in ["plain", "held"] {
        secrets.patch(name, &PatchParams::default(), &free).await.unwrap();
    }
}

#[tokio::test]
async fn a_status_is_written_in_what_changed_of_it_and_over_the_version_that_was_judged() {
    let namespace = metal3_testkit::namespace!().await;
    let yaml = "{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: a}, spec: {online: true}}";
    namespace.apply(yaml).await;
    let api = namespace.api::<BareMetalHost>();
    let first = json!({
        "operationalStatus": "error", "errorType": "inspection error", "errorMessage": "m", "poweredOn": true,
        "errorCount": 1, "provisioningFailCount": 0, "provisioning": { "state": "inspecting", "ID": "i" },
        "hardware": { "hostname": "h", "cpu": { "arch": "x86_64", "count": 4 }, "nics": [{ "name": "eth0", "mac": "52:54:00:00:00:01" }] },
    });
    let write = async |seen: &BareMetalHost, before: Option<&Value>, after: &Value| {
        let change = patch::status_changed(&seen.metadata, before, after).unwrap().unwrap();
        let change: Patch<()> = Patch::Json(change);
        api.patch_status("a", &PatchParams::default(), &change).await
    };
    let stored = async || serde_json::to_value(api.get("a").await.unwrap().status).unwrap();
    let seen = write(&api.get("a").await.unwrap(), None, &first).await.unwrap();
    assert_eq!(stored().await, first);

    // As a store has it that keeps no inventory.
    let mut before = first.clone();
    before.as_object_mut().unwrap().remove("hardware");
    let mut after = before.clone();
    after.as_object_mut().unwrap().remove("errorType");
    after["operationalStatus"] = json!("OK");
    after["provisioning"] = json!({ "state": "preparing", "ID": "" });
    let now = write(&seen, Some(&before), &after).await.unwrap();
    let mut expected = after.clone();
    expected["hardware"] = first["hardware"].clone();
    assert_eq!(stored().await, expected);

    // Late, also where the other writer has removed what this one removes.
    let late = write(&seen, Some(&before), &after).await.unwrap_err();
    assert_eq!(late.class(), Class::Stale, "{late}");
    assert_eq!(stored().await, expected);

    // Another inventory leaves nothing of the first.
    let mut inspected = after.clone();
    inspected["hardware"] = json!({ "cpu": { "arch": "aarch64" } });
    write(&now, Some(&after), &inspected).await.unwrap();
    assert_eq!(stored().await, inspected);
}

async fn token(namespace: &TestNamespace, name: &str) -> String {
    let account = format!("{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {name}}}}}");
    namespace.apply(&account).await;
    let api: Api<ServiceAccount> = namespace.api();
    let request = serde_json::from_value(json!({ "spec": { "audiences": null } })).unwrap();
    let answer = api
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .unwrap();
    answer.status.unwrap().token
}

#[tokio::test]
async fn the_cluster_says_who_may_read_the_metrics() {
    let namespace = metal3_testkit::namespace!().await;
    let (reader, stranger) = (token(&namespace, "reader").await, token(&namespace, "stranger").await);
    let name = &namespace.name;
    namespace
        .apply(&format!(
            "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: {name}}}, \
               rules: [{{nonResourceURLs: [/metrics], verbs: [get]}}]}}\n---\n\
             {{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {{name: {name}}}, \
               roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {name}}}, \
               subjects: [{{kind: ServiceAccount, name: reader, namespace: {name}}}]}}\n"
        ))
        .await;
    let access = KubeAccess::new(namespace.client.clone());
    assert_eq!(access.judge("not a token").await.unwrap(), Decision::Unauthenticated);
    assert_eq!(access.judge(&stranger).await.unwrap(), Decision::Forbidden);
    // The authoriser learns of the new role a moment later.
    let allowed = async {
        while access.judge(&reader).await.unwrap() != Decision::Allowed {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, allowed).await.unwrap();
}

// OWN 31sa: what a user wrote for a name became a query, and a read of one Secret a watch of all.
#[tokio::test]
async fn a_name_with_a_query_reads_nothing() {
    let namespace = metal3_testkit::namespace!().await;
    let name = "?watch=true&timeoutSeconds=1";
    let unguarded: Api<Secret> = Api::namespaced(namespace.client.clone(), &namespace.name);
    unguarded
        .create(&PostParams::default(), &secret_named("s"))
        .await
        .unwrap();
    let read = unguarded.get_opt(name).await.unwrap().unwrap();
    assert_eq!(read.type_.as_deref(), Some("ADDED"), "the event of a watch");
    let args = ClientArgs {
        kubeconfig: None,
        kube_api_qps: -1.0,
        kube_api_burst: 1,
    };
    let config = metal3_testkit::server().await.config().await.unwrap();
    let guarded: Api<Secret> = Api::namespaced(args.limited(config).unwrap(), &namespace.name);
    for name in [
        name,
        "../secrets/s",
        "s/../s",
        ".",
        "s?x=1",
        "s?watch=true#",
        "s/status",
    ] {
        assert!(guarded.get_opt(name).await.unwrap().is_none(), "{name}");
    }
    assert!(guarded.get_opt("s").await.unwrap().is_some());
}

// OWN 31sb: with this time in one object, which its user may write, no list of its kind could be read.
#[tokio::test]
async fn a_time_beyond_our_years_hides_no_other_object() {
    let namespace = metal3_testkit::namespace!().await;
    let api: Api<ConfigMap> = Api::namespaced(namespace.client.clone(), &namespace.name);
    for name in ["a", "b"] {
        let map = serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "v"}})).unwrap();
        api.create(&PostParams::default(), &map).await.unwrap();
    }
    let patch = json!([
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        {"op": "replace", "path": "/metadata/managedFields/0/time", "value": "9999-12-31T23:59:59Z"},
    ]);
    let patch = Patch::<()>::Json(serde_json::from_value(patch).unwrap());
    // The entry of another manager keeps the time.
    let params = PatchParams {
        field_manager: Some("another".to_owned()),
        ..PatchParams::default()
    };
    let patched = api.patch("a", &params, &patch).await;
    assert!(matches!(patched, Err(kube::Error::SerdeError(_))), "{patched:?}");
    let error = api.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(error, kube::Error::SerdeError(_)), "{error:?}");

    metal3_runtime::served::one(vec![api.clone()]).await.unwrap();
    let store: Store<ConfigMap> = Store::new(|_| Vec::new());
    let (awaited, stop) = (Awaited::default(), CancellationToken::new());
    awaited.expect();
    let follow = Follow {
        api: api.clone(),
        store: store.clone(),
        config: watcher::Config::default(),
        is_optional: false,
    };
    let changed = async {
        timeout(PATIENCE, awaited.all()).await.unwrap();
        let a = store.get(&ObjectKey::new(namespace.name.clone(), "a")).unwrap();
        assert!(a.labels().contains_key("a"));
        assert!(store.get(&ObjectKey::new(namespace.name.clone(), "b")).is_some());
        stop.cancel();
    };
    tokio::join!(follow.run(awaited.clone(), stop.clone()), changed);
}

fn secret_named(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}
