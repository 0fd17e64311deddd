//! Who gets a host that several wait for.

use std::time::Duration;

use metal3_api::infra::names::label::NODE_REUSE;
use metal3_api::metal3::ProvisioningState;
use metal3_runtime::controller::Reconcile;
use metal3_runtime::store::{Change, ObjectKey};
use metal3_runtime::work::Queue;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::args::HostChoice;
use crate::machine::Metal3Machines;
use crate::machine::listen::concerned;
use crate::machine::waiting::{Waiter, Waiting};
use crate::select::{HostRequest, Selector, selector};
use crate::sim::{Site, limits};
use crate::stores::Stores;
use crate::workload::Workloads;

fn request(name: &str) -> HostRequest {
    HostRequest {
        machine: ObjectKey::new("ns", name),
        uid: format!("u-{name}"),
        selector: Selector::default(),
        failure_domain: String::new(),
        is_domain_strict: false,
        reuse: None,
    }
}

/// Made so many seconds after the first one.
fn since(seconds: i64) -> Timestamp {
    now() + jiff::SignedDuration::from_secs(seconds)
}

/// A free host of this name, which the stores shows.
fn shown(stores: &Stores, name: &str) -> Arc<BareMetalHost> {
    let mut host = (*free()).clone();
    host.metadata.name = Some(name.to_owned());
    stores.hosts.created(host);
    stores.hosts.get(&key(name)).unwrap()
}

fn choose(waiting: &Waiting, stores: &Stores, name: &str, seconds: i64) -> Option<String> {
    let (selection, _) = waiting.choose(stores, &request(name), None, since(seconds), 7);
    match selection.outcome {
        Outcome::Chosen { host, .. } => host.metadata.name.clone(),
        _ => None,
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

#[test]
fn at_the_start_the_oldest_goes_first_whoever_is_looked_at_first() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    shown(&stores, "h");
    let waiters = || -> Vec<Waiter> { vec![(since(9), request("young"), None), (since(1), request("old"), None)] };
    waiting.seed(&stores, waiters, |_| 7);
    assert_eq!(choose(&waiting, &stores, "young", 9), None);
    assert_eq!(choose(&waiting, &stores, "old", 1).as_deref(), Some("h"));
    // Once: later on hosts are offered as they become free.
    waiting.seed(&stores, || panic!("only at the start"), |_| 7);
}

#[test]
fn at_the_start_a_host_that_is_named_is_kept_for_whoever_names_it() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    let named = shown(&stores, "h");
    let waiters = || -> Vec<Waiter> {
        vec![
            (since(1), request("old"), None),
            (since(9), request("named"), Some(named)),
        ]
    };
    waiting.seed(&stores, waiters, |_| 7);
    assert_eq!(choose(&waiting, &stores, "old", 1), None);
    assert_eq!(choose(&waiting, &stores, "named", 9).as_deref(), Some("h"));
}

#[test]
fn what_was_kept_for_a_machine_that_does_not_take_it_goes_to_the_next() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    shown(&stores, "h");
    let waiters = || -> Vec<Waiter> { vec![(since(1), request("old"), None), (since(9), request("young"), None)] };
    waiting.seed(&stores, waiters, |_| 7);
    waiting.forget(&key("old"));
    assert_eq!(waiting.end(&key("old"), &stores, false), Some(key("young")));
    assert_eq!(choose(&waiting, &stores, "young", 9).as_deref(), Some("h"));
}

#[test]
fn a_host_that_becomes_free_is_kept_for_the_oldest() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    for (name, seconds) in [("middle", 5), ("young", 9), ("old", 1)] {
        assert_eq!(choose(&waiting, &stores, name, seconds), None);
        waiting.end(&key(name), &stores, false);
    }
    let host = shown(&stores, "h");
    assert_eq!(waiting.offer(&host), Some(key("old")));
    assert_eq!(waiting.offer(&host), None, "it is kept already");
    assert_eq!(choose(&waiting, &stores, "young", 9), None);
    assert_eq!(choose(&waiting, &stores, "old", 1).as_deref(), Some("h"));
}

/// Its next attempt comes when its back-off is over; until then any machine may have the host. None is woken for it, or two
/// machines would wake each other for ever.
#[test]
fn a_pass_that_fails_lets_its_host_go_and_wakes_no_machine() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    let host = shown(&stores, "h");
    let begins = |name: &str, seconds| {
        waiting.begin(&key(name), Duration::ZERO);
        choose(&waiting, &stores, name, seconds)
    };
    assert_eq!(begins("old", 1).as_deref(), Some("h"));
    assert_eq!(begins("young", 9), None);
    assert_eq!(waiting.end(&key("young"), &stores, false), None);
    for (name, seconds) in [("old", 1), ("young", 9), ("old", 1), ("old", 1)] {
        assert_eq!(begins(name, seconds).as_deref(), Some("h"));
        assert_eq!(waiting.end(&key(name), &stores, true), None);
    }
    // A host that has changed may be worth a try.
    assert_eq!(waiting.offer(&host), Some(key("old")));
}

/// A host that a policy protects must not keep machines from those that become free.
#[test]
fn a_host_whose_claim_is_rejected_is_taken_if_there_is_no_other() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    let protected = shown(&stores, "h");
    let begins = |name: &str, seconds: i64, at: u64| {
        waiting.begin(&key(name), Duration::from_secs(at));
        let (choice, _) = waiting.choose(&stores, &request(name), Some(&protected), since(seconds), 7);
        match choice.outcome {
            Outcome::Chosen { host, .. } => host.metadata.name.clone(),
            _ => None,
        }
    };
    let is_rejected = |name: &str, at: u64| {
        waiting.avoid(&key(name), Duration::from_secs(at));
        waiting.end(&key(name), &stores, true)
    };
    for (name, seconds) in [("old", 1), ("old", 1), ("young", 9)] {
        assert_eq!(begins(name, seconds, 0).as_deref(), Some("h"), "there is no other");
        assert_eq!(is_rejected(name, 0), None);
    }
    assert_eq!(waiting.offer(&shown(&stores, "x")), Some(key("old")), "the oldest");
    assert_eq!(begins("old", 1, 2).as_deref(), Some("x"));
    waiting.forget(&key("old"));
    assert_eq!(waiting.end(&key("old"), &stores, false), Some(key("young")));
    assert_eq!(begins("young", 9, 3).as_deref(), Some("x"));
    // Later it may be worth a try, though another is free; and at once when it has changed.
    assert_eq!(begins("young", 9, 300).as_deref(), Some("h"));
    is_rejected("young", 300);
    assert_eq!(begins("young", 9, 301).as_deref(), Some("x"));
    waiting.offer(&protected);
    assert_eq!(begins("young", 9, 302).as_deref(), Some("h"));
}

#[test]
fn a_host_that_is_offered_during_a_pass_is_kept_for_the_next_one_and_no_longer() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    for (name, seconds) in [("young", 9), ("old", 1)] {
        waiting.begin(&key(name), Duration::ZERO);
        assert_eq!(choose(&waiting, &stores, name, seconds), None);
    }
    waiting.end(&key("young"), &stores, false);
    let host = shown(&stores, "h");
    assert_eq!(waiting.offer(&host), Some(key("old")));
    assert_eq!(waiting.end(&key("old"), &stores, false), None);
    assert_eq!(choose(&waiting, &stores, "young", 9), None);
    // The next one fails before it has chosen.
    waiting.begin(&key("old"), Duration::ZERO);
    assert_eq!(waiting.end(&key("old"), &stores, false), Some(key("young")));
}

#[test]
fn a_host_that_is_offered_before_a_pass_is_not_kept_beyond_it() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    for (name, seconds) in [("young", 9), ("old", 1)] {
        assert_eq!(choose(&waiting, &stores, name, seconds), None);
        waiting.end(&key(name), &stores, false);
    }
    assert_eq!(waiting.offer(&shown(&stores, "h")), Some(key("old")));
    waiting.begin(&key("old"), Duration::ZERO);
    assert_eq!(waiting.end(&key("old"), &stores, false), Some(key("young")));
}

#[test]
fn what_was_kept_for_a_machine_that_is_gone_goes_to_the_next() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    for (name, seconds) in [("young", 9), ("old", 1)] {
        assert_eq!(choose(&waiting, &stores, name, seconds), None);
    }
    assert_eq!(waiting.offer(&shown(&stores, "h")), Some(key("old")));
    waiting.begin(&key("old"), Duration::ZERO);
    waiting.forget(&key("old"));
    assert_eq!(waiting.end(&key("old"), &stores, false), Some(key("young")));
}

/// A free host that is kept for the machines of md-x, in this state.
fn kept(state: ProvisioningState) -> BareMetalHost {
    let mut host = (*free()).clone();
    host.metadata.name = Some("kept".to_owned());
    host.metadata
        .labels
        .get_or_insert_default()
        .insert(NODE_REUSE.to_owned(), "md-x".to_owned());
    host.status.get_or_insert_default().provisioning.state = state;
    host
}

#[test]
fn who_awaits_a_kept_host_is_offered_no_other() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    stores.hosts.created(kept(ProvisioningState::Preparing));
    let request = HostRequest {
        reuse: Some("md-x".to_owned()),
        ..request("m")
    };
    let other = shown(&stores, "other");
    let (selection, woken) = waiting.choose(&stores, &request, None, since(1), 7);
    assert!(matches!(selection.outcome, Outcome::Await(_)));
    assert_eq!((woken, waiting.end(&key("m"), &stores, false)), (None, None));
    assert_eq!(waiting.offer(&other), None);
    assert_eq!(waiting.offer(&kept(ProvisioningState::Available)), Some(key("m")));
}

/// It may have to take another now.
#[test]
fn who_awaits_a_kept_host_is_woken_when_that_goes() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    stores.hosts.created(kept(ProvisioningState::Preparing));
    let request = HostRequest {
        reuse: Some("md-x".to_owned()),
        ..request("m")
    };
    waiting.choose(&stores, &request, None, since(1), 7);
    let gone = Change {
        key: key("kept"),
        before: stores.hosts.get(&key("kept")),
        after: None,
    };
    assert_eq!(concerned(&stores, &waiting, &gone), [key("m")]);
    waiting.forget(&key("m"));
    assert_eq!(concerned(&stores, &waiting, &gone), []);
}

#[tokio::test]
async fn a_change_of_a_host_wakes_all_who_wait_by_one_key() {
    let site = Site::new("", |_, _, _| None);
    let workloads = Workloads::new(site.ctx.client.clone(), limits(), CancellationToken::new());
    let machines = Metal3Machines::new(site.ctx.clone(), workloads, false, HostChoice::Stable);
    let (stores, queue) = (&site.ctx.stores, Queue::new());
    Reconcile::listen(&machines, &queue);
    shown(stores, "h");
    assert_eq!(queue.len(), 0, "nobody waits");
    for number in 0..50 {
        let mut request = request(&format!("m{number}"));
        request.selector = selector::parse(Some(
            &serde_json::from_value(json!({"matchLabels": {"a": "b"}})).unwrap(),
        ))
        .unwrap();
        machines.waiting.choose(stores, &request, None, since(number), 7);
    }
    shown(stores, "other");
    assert_eq!(queue.len(), 1);
    assert_eq!(machines.waiting.of("ns").len(), 50);
}

/// A host that somebody uses.
fn used(stores: &Stores, name: &str, consumer: &str) {
    let mut host = (*free()).clone();
    host.metadata.name = Some(name.to_owned());
    host.metadata.resource_version = Some(consumer.to_owned());
    host.spec.consumer_ref = serde_json::from_value(json!({"kind": "Metal3Machine", "name": consumer,
        "namespace": "ns", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2"}))
    .unwrap();
    stores.hosts.created(host);
}

fn why(waiting: &Waiting, stores: &Stores, request: &HostRequest, seconds: u64) -> String {
    waiting.begin(&request.machine, Duration::from_secs(seconds));
    waiting.choose(stores, request, None, since(1), 7).0.why
}

// OWN 12a: each of a thousand machines that waited judged each of ten thousand hosts, every 30 seconds.
#[test]
fn hosts_are_judged_once_for_all_who_ask_for_the_same() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    used(&stores, "h1", "a");
    let told = why(&waiting, &stores, &request("m1"), 10);
    assert_eq!(told, "0 of 1 hosts: 1 in use by a");
    // What comes within the same second is seen in the next one: the hosts were not judged again.
    used(&stores, "h2", "b");
    assert_eq!(why(&waiting, &stores, &request("m2"), 10), told);
    assert_eq!(
        why(&waiting, &stores, &request("m3"), 11),
        "0 of 2 hosts: 2 in use by a, b"
    );
    // Who asks for something else is told of that, and a machine whose namesake left a host is told so.
    let strict = HostRequest {
        failure_domain: "d".to_owned(),
        is_domain_strict: true,
        ..request("m4")
    };
    used(&stores, "h3", "c");
    assert_eq!(why(&waiting, &stores, &strict, 11), "0 of 3 hosts: 3 in use by a, b, c");
    let mut earlier = (*stores.hosts.get(&key("h3")).unwrap()).clone();
    let reference = earlier.spec.consumer_ref.as_mut().unwrap();
    (reference.name, reference.uid) = ("m5".to_owned(), "u-earlier".to_owned());
    earlier.metadata.resource_version = Some("8".to_owned());
    stores.hosts.created(earlier);
    let told = why(&waiting, &stores, &request("m5"), 11);
    assert!(
        told.contains("1 still in use by an earlier machine of this name"),
        "{told}"
    );
    // Nobody waits any more who could be told later.
    for name in ["m1", "m2", "m3", "m4", "m5"] {
        waiting.forget(&key(name));
    }
    used(&stores, "h4", "d");
    let told = why(&waiting, &stores, &request("m6"), 11);
    assert!(told.starts_with("0 of 4 hosts"), "{told}");
}

// OWN 12b: each change of a number was stored in each machine that waits.
#[test]
fn a_machine_is_told_anew_when_the_reason_changes_and_not_when_a_number_does() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    used(&stores, "h1", "a");
    let first = why(&waiting, &stores, &request("m"), 10);
    assert_eq!(first, "0 of 1 hosts: 1 in use by a");
    used(&stores, "h2", "b");
    assert_eq!(why(&waiting, &stores, &request("m"), 20), first, "a number has changed");
    let mut broken = (*free()).clone();
    broken.metadata.name = Some("h3".to_owned());
    let status = broken.status.get_or_insert_default();
    status.error_message = "x".to_owned();
    stores.hosts.created(broken.clone());
    let words = "0 of 3 hosts: 2 in use by a, b; 1 failed: error";
    assert_eq!(
        why(&waiting, &stores, &request("m"), 30),
        words,
        "there is another reason"
    );
    broken.status.get_or_insert_default().error_message.clear();
    for (version, state, words) in [
        ("8", ProvisioningState::Inspecting, "1 not available: inspecting"),
        // A rack that is inspected goes through them host by host.
        ("9", ProvisioningState::Preparing, "1 not available: inspecting"),
        ("10", ProvisioningState::Provisioned, "1 not available: provisioned"),
    ] {
        broken.metadata.resource_version = Some(version.to_owned());
        broken.status.get_or_insert_default().provisioning.state = state;
        stores.hosts.created(broken.clone());
        let told = why(&waiting, &stores, &request("m"), 30 + version.parse::<u64>().unwrap());
        assert!(told.ends_with(words), "{told}");
    }
    // Who stops waiting in between is told as it is then.
    waiting.forget(&key("m"));
    used(&stores, "h4", "c");
    let told = why(&waiting, &stores, &request("m"), 60);
    assert!(told.starts_with("0 of 4 hosts"), "{told}");
}

/// What nobody was free for is not looked for again by each, and is found as soon as there is one.
#[test]
fn a_host_that_becomes_free_is_found_by_who_comes_then() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    assert_eq!(choose(&waiting, &stores, "m1", 1), None);
    waiting.forget(&key("m1"));
    // Nobody waits: it is offered to nobody.
    let host = shown(&stores, "h");
    assert_eq!(waiting.offer(&host), None);
    assert_eq!(choose(&waiting, &stores, "m2", 2).as_deref(), Some("h"));
    assert_eq!(choose(&waiting, &stores, "m3", 3), None, "it is promised");
    assert_eq!(choose(&waiting, &stores, "m2", 2).as_deref(), Some("h"), "to this one");
    waiting.forget(&key("m2"));
    assert_eq!(waiting.end(&key("m2"), &stores, false), Some(key("m3")));
    waiting.forget(&key("m3"));
    assert_eq!(waiting.end(&key("m3"), &stores, false), None);
    assert_eq!(choose(&waiting, &stores, "m4", 4).as_deref(), Some("h"));
}

// OWN 12c: a deployment scaled far beyond its hosts looked at all of them once per machine.
#[test]
fn what_no_host_would_do_for_is_not_looked_for_by_all_who_ask_the_same() {
    let (stores, waiting) = (Stores::new(""), Waiting::default());
    for number in 0..50 {
        shown(&stores, &format!("h{number}"));
    }
    let selector =
        serde_json::from_value(json!({"matchExpressions": [{"key": "rack", "operator": "exists", "values": []}]}))
            .unwrap();
    let strict = |name: &str| HostRequest {
        selector: selector::parse(Some(&selector)).unwrap(),
        ..request(name)
    };
    let considered = |name: &str| waiting.choose(&stores, &strict(name), None, since(0), 7).0.considered;
    assert_eq!([considered("m1"), considered("m2"), considered("m3")], [50, 0, 0]);
    // Any host that becomes free may be one that will do.
    waiting.offer(&shown(&stores, "h50"));
    assert_eq!([considered("m2"), considered("m1")], [51, 0]);
}

// OWN 31vr: a machine waited for the resync when its cluster was no longer said to have a cloud provider.
#[tokio::test]
async fn a_change_of_the_cloud_provider_wakes_the_machines_of_the_cluster() {
    use metal3_runtime::store::Sink as _;
    let site = Site::new("", |_, _, _| None);
    let workloads = Workloads::new(site.ctx.client.clone(), limits(), CancellationToken::new());
    let machines = Metal3Machines::new(site.ctx.clone(), workloads, false, HostChoice::Stable);
    let (stores, queue) = (&site.ctx.stores, Queue::new());
    let machine = json!({"metadata": {"name": "m", "namespace": "ns", "uid": "m", "resourceVersion": "1",
        "labels": {"cluster.x-k8s.io/cluster-name": "c"}}, "spec": {}});
    stores.metal3_machines.put(serde_json::from_value(machine).unwrap());
    let put = |version: &str, enabled: bool, other: &str| {
        let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c"});
        let cluster = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "c", "resourceVersion": version,
            "ownerReferences": [owner], "annotations": {"a": other}}, "spec": {"cloudProviderEnabled": enabled}});
        stores.metal3_clusters.put(serde_json::from_value(cluster).unwrap());
    };
    put("1", true, "");
    Reconcile::listen(&machines, &queue);
    put("2", true, "other");
    assert_eq!(queue.len(), 0);
    put("3", false, "other");
    assert_eq!(queue.len(), 1);
}
