use super::follow::Shown;
use super::*;
use crate::readable::Readable;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ObjectMeta;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

fn object(name: &str, uid: &str, version: u64) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some("ns".into()),
            name: Some(name.into()),
            uid: Some(uid.into()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
        // The index key: two versions share a key.
        data: Some(BTreeMap::from([("k".to_owned(), (version / 2).to_string())])),
        ..ConfigMap::default()
    }
}

fn store() -> Store<ConfigMap, String> {
    Store::new(|map| map.data.iter().flatten().map(|(_, value)| value.clone()).collect())
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn version(store: &Store<ConfigMap, String>, name: &str) -> Option<String> {
    store.get(&key(name))?.resource_version()
}

#[test]
fn an_own_write_is_seen_before_the_watch_shows_it_and_tells_once() {
    let (store, told) = (store(), Arc::new(Mutex::new(0)));
    let count = told.clone();
    store.listen(move |_| *count.lock() += 1);
    let mut shown = Shown::new(store.clone());
    shown.apply(Event::Apply(object("a", "u", 2)));
    store.written(object("a", "u", 4));
    assert_eq!(version(&store, "a").unwrap(), "4");
    shown.apply(Event::Apply(object("a", "u", 3)));
    shown.apply(Event::Apply(object("a", "u", 4)));
    assert_eq!(version(&store, "a").unwrap(), "4");
    assert_eq!(*told.lock(), 2, "the watch's events for it tell nothing new");
    assert_eq!(store.find(&"2".to_owned()).len(), 1);
    assert_eq!((store.count(&"1".to_owned()), store.len()), (0, 1));
}

#[test]
fn no_late_answer_brings_an_object_back() {
    let store = store();
    let mut shown = Shown::new(store.clone());
    shown.apply(Event::Apply(object("a", "u", 2)));
    shown.apply(Event::Delete(object("a", "u", 3)));
    store.written(object("a", "u", 4));
    store.created(object("a", "u", 4));
    assert!(store.is_empty());
    store.written(object("b", "v", 5));
    assert!(store.is_empty(), "an answer for what was never shown");
    store.created(object("b", "v", 5));
    assert_eq!(store.all(), [key("b")]);
}

#[test]
fn a_write_that_takes_the_last_finalizer_off_ends_a_deletion() {
    let store = store();
    let mut shown = Shown::new(store.clone());
    shown.apply(Event::Apply(object("a", "u", 2)));
    let mut last = object("a", "u", 3);
    last.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    store.written(last.clone());
    assert!(store.is_empty());
    shown.apply(Event::Apply(last.clone()));
    shown.apply(Event::Delete(last));
    assert!(store.is_empty());
}

#[test]
fn what_was_made_anew_survives_the_end_of_its_predecessor() {
    let store = store();
    let mut shown = Shown::new(store.clone());
    shown.apply(Event::Apply(object("a", "old", 2)));
    store.created(object("a", "new", 4));
    shown.apply(Event::Delete(object("a", "old", 3)));
    assert_eq!(version(&store, "a").unwrap(), "4");
}

#[test]
fn a_new_list_removes_what_it_does_not_show_even_if_it_was_cut_off_once() {
    let store = store();
    let mut shown = Shown::new(store.clone());
    shown.apply(Event::Apply(object("gone", "g", 1)));
    shown.apply(Event::Apply(object("anew", "1", 2)));
    shown.apply(Event::Apply(object("stays", "s", 3)));
    shown.apply(Event::Init);
    shown.apply(Event::InitApply(object("stays", "s", 3)));
    shown.apply(Event::Init);
    shown.apply(Event::InitApply(object("anew", "2", 9)));
    assert_eq!(store.len(), 3, "nothing is missing before the list is complete");
    shown.apply(Event::InitApply(object("stays", "s", 3)));
    shown.apply(Event::InitDone);
    let mut names = store.all();
    names.sort();
    assert_eq!(names, [key("anew"), key("stays")]);
    assert_eq!(store.get(&key("anew")).unwrap().uid().unwrap(), "2");
}

#[test]
fn a_change_says_what_it_affects() {
    let change = Change {
        key: key("a"),
        before: Some(Arc::new(object("a", "u", 2))),
        after: Some(Arc::new(object("a", "u", 3))),
    };
    assert!(change.affects(ResourceExt::resource_version));
    assert!(!change.affects(|map| map.data.clone()));
    assert_eq!(change.states().count(), 2);
    let gone = Change { after: None, ..change };
    assert!(gone.affects(|_| ()));
}

proptest! {
    /// A server with one object name. Its events arrive in order; its responses to writes arrive at any time, or never.
    #[test]
    fn whatever_the_order_the_store_ends_as_the_server_is(
        steps in prop::collection::vec((0_u8..4, 0_usize..8), 1..60),
    ) {
        let store = store();
        let mut shown = Shown::new(store.clone());
        let (mut version, mut life) = (0, 0);
        let mut present: Option<ConfigMap> = None;
        let mut events: VecDeque<Event<ConfigMap>> = VecDeque::new();
        let mut answers: Vec<(bool, ConfigMap)> = Vec::new();
        for (step, which) in steps {
            version += 1;
            match step {
                0 if present.is_none() => {
                    life += 1;
                    let made = object("a", &life.to_string(), version);
                    events.push_back(Event::Apply(made.clone()));
                    answers.push((true, made.clone()));
                    present = Some(made);
                }
                0 => {
                    let changed = object("a", &life.to_string(), version);
                    events.push_back(Event::Apply(changed.clone()));
                    answers.push((false, changed.clone()));
                    present = Some(changed);
                }
                1 => events.extend(present.take().map(Event::Delete)),
                2 => if let Some(event) = events.pop_front() { shown.apply(event) },
                _ if answers.is_empty() => {}
                _ => {
                    let (is_create, answer) = answers.swap_remove(which % answers.len());
                    if is_create { store.created(answer) } else { store.written(answer) }
                }
            }
        }
        for event in events {
            shown.apply(event);
        }
        for (is_create, answer) in answers {
            if is_create { store.created(answer) } else { store.written(answer) }
        }
        let stored = store.get(&key("a"));
        prop_assert_eq!(stored.as_deref(), present.as_ref());
    }
}

// OWN 31sb
#[test]
fn an_object_that_cannot_be_read_stays_as_it_was_until_it_is_gone() {
    let store = store();
    let mut shown = Shown::new(store.clone());
    let outline =
        |name: &str, uid: &str| -> Readable<ConfigMap> { Readable::Unread(Box::new(object(name, uid, 9).metadata)) };
    let read = |name: &str| Readable::Read(object(name, "u", 2));
    for event in [
        Event::Init,
        Event::InitApply(read("a")),
        Event::InitApply(read("b")),
        Event::InitApply(read("c")),
        Event::InitDone,
        Event::Apply(outline("a", "u")),
        // Never readable: nothing is kept of it.
        Event::Apply(outline("d", "u")),
        Event::Init,
        Event::InitApply(outline("a", "u")),
        Event::InitApply(outline("b", "another")),
    ] {
        shown.apply_readable(event);
    }
    assert_eq!(
        shown.apply_readable(Event::InitApply(outline("d", "u"))),
        Some(key("d"))
    );
    assert_eq!(shown.apply_readable::<ConfigMap>(Event::InitDone), None);
    assert_eq!(version(&store, "a").as_deref(), Some("2"));
    assert_eq!(store.len(), 1, "b is another object, and c is gone");
    shown.apply_readable(Event::Delete(outline("a", "u")));
    assert_eq!(store.len(), 0);
}
