use std::pin::pin;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use serde_json::json;
use watcher::Event;

use super::*;
use crate::mock;

type Shown = Event<PartialObjectMeta<Secret>>;

fn key(name: &str) -> SecretKey {
    SecretKey {
        namespace: "ns".into(),
        name: name.into(),
    }
}

fn secret(name: &str, version: &str) -> PartialObjectMeta<Secret> {
    PartialObjectMeta {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some("ns".into()),
            uid: Some("u".into()),
            resource_version: Some(version.into()),
            annotations: Some([("large".to_owned(), "x".repeat(1000))].into()),
            ..ObjectMeta::default()
        },
        ..PartialObjectMeta::default()
    }
}

fn version(versions: &SecretVersions<&'static str>, name: &str) -> Option<String> {
    versions
        .get(&key(name))
        .version()
        .map(|(_, version)| version.to_owned())
}

#[test]
fn only_referenced_secrets_are_kept_and_wake_their_owners() {
    let versions = SecretVersions::default();
    versions.set_references("host", [key("bmc"), key("image")]);
    let mut woken = Vec::new();
    for event in [
        Event::Init,
        Event::InitApply(secret("helm", "1")),
        Event::InitApply(secret("bmc", "2")),
        Event::InitDone,
    ] {
        woken.extend(versions.apply("ns", &event));
    }
    assert_eq!(woken, ["host", "host"]); // bmc appeared, image is known to be absent
    assert_eq!(version(&versions, "bmc").as_deref(), Some("2"));
    assert_eq!(versions.get(&key("image")), Known::Absent);
    assert_eq!(versions.get(&key("helm")), Known::Unknown);
    assert_eq!(versions.len(), 2);

    assert!(versions.apply("ns", &Event::Apply(secret("helm", "3"))).is_empty());
    assert!(versions.apply("ns", &Event::Apply(secret("bmc", "2"))).is_empty());
    assert_eq!(versions.apply("ns", &Event::Apply(secret("bmc", "4"))), ["host"]);
    assert_eq!(versions.apply("ns", &Event::Apply(secret("image", "5"))), ["host"]);
    assert_eq!(versions.apply("ns", &Event::Delete(secret("image", "6"))), ["host"]);
    assert_eq!(versions.get(&key("image")), Known::Absent);
}

#[test]
fn a_late_reference_is_unknown_until_read_or_seen() {
    let versions = SecretVersions::default();
    versions.set_references("early", [key("a")]);
    versions.apply("ns", &Shown::Init);
    versions.apply("ns", &Event::InitApply(secret("late", "1"))); // passed by: nobody references it yet
    versions.set_references("late", [key("late")]);
    assert_eq!(versions.apply("ns", &Shown::InitDone), ["early"]);
    assert_eq!(versions.get(&key("late")), Known::Unknown);

    versions.learn(&key("late"), Some(&secret("late", "1").metadata));
    assert_eq!(version(&versions, "late").as_deref(), Some("1"));
    versions.apply("ns", &Event::Apply(secret("late", "3")));
    versions.learn(&key("late"), Some(&secret("late", "2").metadata)); // an answer that arrives late
    assert_eq!(version(&versions, "late").as_deref(), Some("3"));
}

#[test]
fn memory_ends_with_the_references() {
    let versions = SecretVersions::default();
    versions.set_references("one", [key("shared"), key("own")]);
    versions.set_references("two", [key("shared")]);
    versions.learn(&key("shared"), None);
    versions.learn(&key("own"), None);
    versions.learn(&key("foreign"), None);
    assert_eq!(versions.len(), 2);
    versions.set_references("one", [key("shared")]);
    assert_eq!(versions.len(), 1);
    versions.remove_owner(&"one");
    assert_eq!(versions.len(), 1);
    versions.remove_owner(&"two");
    assert!(versions.is_empty());
    assert_eq!(versions.get(&key("shared")), Known::Unknown);
}

#[test]
fn the_list_of_one_namespace_says_nothing_about_another() {
    let versions = SecretVersions::default();
    let there = SecretKey {
        namespace: "other".into(),
        name: "bmc".into(),
    };
    versions.set_references("host", [key("bmc"), there.clone()]);
    versions.apply("ns", &Shown::Init);
    versions.apply("other", &Shown::Init);
    assert_eq!(versions.apply("ns", &Shown::InitDone), ["host"]);
    assert_eq!(versions.get(&key("bmc")), Known::Absent);
    assert_eq!(versions.get(&there), Known::Unknown);
}

#[test]
fn a_secret_that_vanished_while_the_watch_was_down_wakes_its_owner() {
    let versions = SecretVersions::default();
    versions.set_references("host", [key("bmc")]);
    for event in [
        Event::Init,
        Event::InitApply(secret("bmc", "1")),
        Event::InitDone,
        Event::Init,
    ] {
        versions.apply("ns", &event);
    }
    assert_eq!(versions.apply("ns", &Shown::InitDone), ["host"]);
    assert_eq!(versions.get(&key("bmc")), Known::Absent);
}

#[test]
fn marks_are_seen_to_come_and_go() {
    let versions = SecretVersions::marked_by(|metadata| metadata.labels.is_some());
    versions.set_references("host", [key("bmc"), key("read")]);
    let is_marked = |name: &str| match versions.get(&key(name)) {
        Known::Present(known) => known.is_marked,
        other => panic!("{name}: {other:?}"),
    };
    let marked = |name: &str, version: &str| {
        let mut secret = secret(name, version);
        secret.metadata.labels = Some([("ours".to_owned(), String::new())].into());
        secret
    };
    versions.apply("ns", &Event::Apply(secret("bmc", "1")));
    assert!(!is_marked("bmc"));
    assert_eq!(versions.apply("ns", &Event::Apply(marked("bmc", "2"))), ["host"]);
    assert!(is_marked("bmc"));
    versions.learn(&key("read"), Some(&marked("read", "3").metadata));
    assert!(is_marked("read"));
}

/// What a played API server says of the Secrets in the namespace `ns`.
#[derive(Default)]
struct Played {
    may_list: bool,
    may_read: bool,
    /// What the read of one Secret is answered with instead.
    trouble: Option<(&'static str, u16)>,
    /// Names and versions.
    secrets: Vec<(&'static str, &'static str)>,
}

impl Played {
    fn answer(&self, path: &str) -> (u16, serde_json::Value) {
        let object = |name: &str, version: &str| {
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version}})
        };
        match path.strip_prefix("/api/v1/namespaces/ns/secrets/") {
            None if self.may_list => {
                let items: Vec<_> = self
                    .secrets
                    .iter()
                    .map(|(name, version)| object(name, version))
                    .collect();
                let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                    "metadata": {"resourceVersion": "9"}, "items": items});
                (200, list)
            }
            Some(name) if self.trouble.is_some_and(|(troubled, _)| troubled == name) => {
                let (_, code) = self.trouble.unwrap_or_default();
                mock::failure(code, if code == 403 { "Forbidden" } else { "InternalError" })
            }
            Some(name) if self.may_read => match self.secrets.iter().find(|(known, _)| *known == name) {
                Some((name, version)) => (200, object(name, version)),
                None => mock::failure(404, "NotFound"),
            },
            _ => mock::failure(403, "Forbidden"),
        }
    }
}

// OWN 31ws: without the right to list Secrets in all namespaces, no change of one was noticed.
#[tokio::test(start_paused = true)]
async fn secrets_that_may_not_be_watched_are_read_by_name() {
    let played = Arc::new(Mutex::new(Played::default()));
    let answers = played.clone();
    let (client, requests) = mock::answering(move |request| answers.lock().answer(&request.path));
    let versions = SecretVersions::default();
    versions.set_references("host", [key("bmc")]);
    versions.set_references("other", [key("missing")]);
    let mut woken = pin!(versions.watch(&client, "ns"));
    let mut within = async |seconds| {
        let mut owners = Vec::new();
        let end = tokio::time::sleep(Duration::from_secs(seconds));
        let mut end = pin!(end);
        loop {
            tokio::select! {
                owner = woken.next() => owners.extend(owner),
                () = &mut end => return owners,
            }
        }
    };

    assert!(within(100).await.is_empty(), "nothing is known of what may not be read");
    assert_eq!(versions.get(&key("bmc")), Known::Unknown);
    *played.lock() = Played {
        may_read: true,
        secrets: vec![("bmc", "1"), ("foreign", "1")],
        ..Played::default()
    };
    let mut both = within(11).await;
    both.sort_unstable();
    assert_eq!(both, ["host", "other"]);
    assert_eq!(version(&versions, "bmc").as_deref(), Some("1"));
    assert_eq!(versions.get(&key("missing")), Known::Absent);

    requests.lock().clear();
    assert!(within(100).await.is_empty(), "what did not change wakes nobody");
    let asked = requests.lock().len();
    assert!(
        asked <= 3 * 11,
        "a list that is refused and two reads, every ten seconds: {asked}"
    );

    played.lock().secrets = vec![("bmc", "2"), ("missing", "2"), ("foreign", "2")];
    let mut both = within(11).await;
    both.sort_unstable();
    assert_eq!(both, ["host", "other"]);
    assert_eq!(version(&versions, "bmc").as_deref(), Some("2"));
    played.lock().secrets = vec![("missing", "2")];
    assert_eq!(within(11).await, ["host"], "one that was deleted");
    assert_eq!(versions.len(), 2, "the foreign one is neither read nor kept");

    // The right comes.
    played.lock().may_list = true;
    played.lock().secrets = vec![("missing", "3")];
    assert_eq!(within(11).await, ["other"]);
}

#[tokio::test(start_paused = true)]
async fn many_secrets_are_read_ten_a_second() {
    let played = Played {
        may_read: true,
        ..Played::default()
    };
    let (client, requests) = mock::answering(move |request| played.answer(&request.path));
    let versions = SecretVersions::default();
    versions.set_references("host", (0..1_000).map(|number| key(&format!("s{number}"))));
    let woken = versions.watch(&client, "ns").for_each(|_| std::future::ready(()));
    drop(tokio::time::timeout(Duration::from_secs(1_000), woken).await);
    let reads = requests
        .lock()
        .iter()
        .filter(|request| request.path.contains("/secrets/s"))
        .count();
    assert_eq!(reads, 10_000);
}

#[tokio::test(start_paused = true)]
async fn one_secret_that_cannot_be_read_hides_nothing_of_the_others() {
    let played = Arc::new(Mutex::new(Played {
        may_read: true,
        trouble: Some(("a-foreign", 403)),
        secrets: vec![("bmc", "1")],
        ..Played::default()
    }));
    let answers = played.clone();
    let (client, _) = mock::answering(move |request| answers.lock().answer(&request.path));
    let versions = SecretVersions::default();
    versions.set_references("host", [key("bmc")]);
    versions.set_references("other", [key("a-foreign")]);
    let mut woken = pin!(versions.watch(&client, "ns"));
    assert_eq!(woken.next().await, Some("host"));
    played.lock().secrets.clear();
    assert_eq!(woken.next().await, Some("host"), "one that was deleted");
    assert_eq!(versions.get(&key("bmc")), Known::Absent);
    assert_eq!(versions.get(&key("a-foreign")), Known::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_is_repeated_before_the_next_turn_of_many() {
    let played = Arc::new(Mutex::new(Played {
        may_read: true,
        trouble: Some(("s7", 500)),
        secrets: vec![("s7", "1")],
        ..Played::default()
    }));
    let answers = played.clone();
    let (client, _) = mock::answering(move |request| answers.lock().answer(&request.path));
    let versions = SecretVersions::default();
    versions.set_references("host", (0..1_000).map(|number| key(&format!("s{number}"))));
    let start = tokio::time::Instant::now();
    let mut woken = pin!(versions.watch(&client, "ns"));
    while versions.get(&key("s7")) == Known::Unknown {
        woken.next().await;
        if versions.len() == 999 {
            played.lock().trouble = None;
        }
    }
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "and not after 100 s: {took:?}");
}
