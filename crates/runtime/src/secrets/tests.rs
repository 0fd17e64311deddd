use super::*;
use watcher::Event;

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
