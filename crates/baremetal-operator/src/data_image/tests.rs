//! What is decided for each state of a DataImage and its host.

use std::sync::Arc;

use jiff::Timestamp;
use metal3_api::metal3::DataImage;
use metal3_runtime::controller::Plan;
use rstest::rstest;
use serde_json::{Value, json};

use super::decide::{Decision, Effect, Read, Status, decide};
use super::{Drive, Observed};
use crate::host::record;
use crate::live::Live;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

const FINALIZER: &str = "dataimage.metal3.io";

fn image(change: &Value) -> Value {
    let mut image = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "DataImage",
        "metadata": {"name": "h", "namespace": "n", "resourceVersion": "7"}, "spec": {"url": "http://images/d.iso"}});
    json_patch::merge(&mut image, change);
    image
}

fn held(change: &Value) -> Value {
    let owner = json!([{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "h", "uid": "u"}]);
    let mut image = image(&json!({"metadata": {"finalizers": [FINALIZER], "ownerReferences": owner}}));
    json_patch::merge(&mut image, change);
    image
}

/// Deleted, with this disc in its record.
fn deleted(url: &str) -> Value {
    held(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"attachedImage": {"url": url}}}))
}

/// Created in another cluster with the annotation and without the status.
fn moved(change: &Value) -> Value {
    let with_disc = held(&json!({"status": {"attachedImage": {"url": "http://images/d.iso"}}}));
    let with_disc: DataImage = serde_json::from_value(with_disc).unwrap();
    let annotations = record::noted(&with_disc).unwrap()["metadata"]["annotations"].take();
    let mut image = held(&json!({"metadata": {"annotations": annotations}}));
    json_patch::merge(&mut image, change);
    image
}

/// The annotation that a DataImage with the disc has.
fn with_record() -> Value {
    moved(&json!({}))["metadata"]["annotations"].take()
}

/// A status in which the host's controller or this one has said this.
fn told(status: &str, message: &str, reason: &str) -> Value {
    json!({"conditions": [{"type": "Attached", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "1970-01-01T00:00:00Z"}]})
}

fn host(change: &Value) -> Value {
    let mut host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h", "namespace": "n", "uid": "u", "resourceVersion": "8"}, "spec": {"online": true},
        "status": {"provisioning": {"state": "provisioned", "ID": "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01"}}});
    json_patch::merge(&mut host, change);
    host
}

fn seen(image: Value, host: Option<Value>, drive: Drive) -> Observed {
    Observed {
        image: Arc::new(serde_json::from_value(image).unwrap()),
        live: host.is_none().then_some(Live::Gone),
        host: host.map(|host| Arc::new(serde_json::from_value(host).unwrap())),
        drive,
        keeps_conditions: true,
    }
}

/// What is done, in one word, and the reasons of the events.
fn outcome(seen: &Observed) -> String {
    let plan: Plan<Effect, Status> = match decide(seen, NOW) {
        Decision::Fetch(Read::Drive) => return "look".to_owned(),
        Decision::Fetch(Read::Host) => return "read the host".to_owned(),
        Decision::Act(plan) => *plan,
    };
    let mut words: Vec<&str> = Vec::new();
    for effect in &plan.effects {
        let patch = match effect {
            Effect::Note(note) => {
                assert_eq!(note["metadata"]["resourceVersion"], "8");
                words.push("note");
                continue;
            }
            Effect::Patch(patch) => patch,
            Effect::Restore(status) => {
                assert_eq!(status.attached_image.url, "http://images/d.iso");
                words.push("restore");
                continue;
            }
        };
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        if patch["metadata"]["annotations"].is_object() {
            words.push("record");
            continue;
        }
        words.push(match patch["metadata"]["finalizers"].as_array().unwrap().len() {
            0 => "release",
            _ => "hold",
        });
    }
    if let Some(status) = &plan.report.status {
        assert!(plan.effects.is_empty(), "one write in a pass");
        words.push(&status.conditions[0].reason);
    }
    words.extend(plan.report.events.iter().map(|event| event.reason));
    words.join(" ")
}

/// Upstream's definition of the kind has no conditions.
#[test]
fn what_the_api_server_drops_is_not_said_at_each_pass() {
    let mut seen = seen(held(&json!({})), Some(host(&json!({}))), Drive::NotLooked);
    seen.keeps_conditions = false;
    assert_eq!(outcome(&seen), "");
}

#[rstest]
// It gets finalizer and owner as soon as its host exists, and not before.
#[case::without_host(image(&json!({})), None, "NoBareMetalHost DataImageWaiting")]
#[case::new(image(&json!({})), Some(host(&json!({}))), "hold")]
#[case::new_for_a_host_without_status(image(&json!({})), Some(host(&json!({"status": null}))), "hold")]
#[case::new_for_a_paused_host(image(&json!({})), Some(host(&json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}))), "HostPaused DataImageWaiting")]
#[case::new_for_a_detached_host(image(&json!({})), Some(host(&detached())), "hold")]
#[case::held(held(&json!({})), Some(host(&json!({}))), "Starting DataImageWaiting")]
#[case::told(held(&json!({"status": told("False", "BareMetalHost n/h attaches it before it is switched on", "Starting")})), Some(host(&json!({}))), "")]
#[case::told_something_else(held(&json!({"status": told("False", "other", "Starting")})), Some(host(&json!({}))), "Starting DataImageWaiting")]
#[case::attached(held(&json!({"status": {"attachedImage": {"url": "http://images/d.iso"}, "conditions": told("True", "", "Inserted")["conditions"]}, "metadata": {"annotations": with_record()}})), Some(host(&json!({}))), "")]
// OWN 31vg: a host that was created anew took over the DataImage of the earlier host of its name, with its record.
#[case::of_an_earlier_host(held(&json!({})), Some(host(&json!({"metadata": {"uid": "v"}}))), "release")]
#[case::of_an_earlier_host_that_is_paused(held(&json!({})), Some(host(&json!({"metadata": {"uid": "v", "annotations": {"baremetalhost.metal3.io/paused": ""}}}))), "release")]
#[case::of_an_earlier_host_with_the_disc(held(&json!({"status": {"attachedImage": {"url": "http://images/d.iso"}}})), Some(host(&json!({"metadata": {"uid": "v"}}))), "release DataImageLeftInDrive")]
#[case::of_an_earlier_host_in_deletion(deleted("http://images/d.iso"), Some(host(&json!({"metadata": {"uid": "v"}}))), "release DataImageLeftInDrive")]
#[case::of_an_earlier_host_and_released(held(&json!({"metadata": {"finalizers": null}})), Some(host(&json!({"metadata": {"uid": "v"}}))), "")]
#[case::restored_from_a_backup(moved(&later()), Some(host(&json!({"metadata": {"uid": "v", "creationTimestamp": "2026-01-01T00:00:00Z"}}))), "hold")]
// DEFECT 2 of upstream's: a DataImage whose host is gone was noticed only by an edit.
#[case::host_gone(held(&json!({})), None, "release")]
// OWN 30fj: nobody was told that a disc stayed in the drive, or why a deletion waited.
#[case::host_gone_with_the_disc(held(&json!({"status": {"attachedImage": {"url": "http://images/d.iso"}}})), None, "release DataImageLeftInDrive")]
// OWN 31ma: clusterctl move creates a DataImage without its status, and with it the record of the inserted disc was lost.
#[case::moved_before_its_host_has_taken_it_up(moved(&json!({"metadata": {"finalizers": null}})), Some(host(&json!({}))), "hold")]
#[case::moved(moved(&json!({})), Some(host(&json!({}))), "restore")]
#[case::moved_with_a_paused_host(moved(&json!({})), Some(host(&json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}))), "")]
#[case::moved_and_restored(moved(&json!({"status": {"attachedImage": {"url": "http://images/d.iso"}}})), Some(host(&json!({}))), "Recorded DataImageWaiting")]
#[case::moved_and_deleted(moved(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), Some(host(&json!({}))), "look")]
#[case::moved_without_its_host(moved(&json!({})), None, "release DataImageLeftInDrive")]
#[case::recorded_by_upstream(held(&json!({"status": {"attachedImage": {"url": "http://images/d.iso"}}})), Some(host(&json!({}))), "record")]
// A deleted one ends, or says what it waits for.
#[case::deleted_without_host(deleted("http://images/d.iso"), None, "release DataImageLeftInDrive")]
#[case::deleted_never_attached(deleted(""), Some(host(&json!({}))), "release")]
#[case::deleted_never_registered(deleted("http://images/d.iso"), Some(host(&json!({"status": {"provisioning": {"ID": ""}}}))), "note release")]
// OWN 31fa: the record of a disc that stayed in the drive of a detached host went with its DataImage.
#[case::deleted_detached(deleted("http://images/d.iso"), Some(host(&detached())), "note release DataImageLeftInDrive")]
#[case::deleted_detached_and_noted(
    deleted("http://images/d.iso"),
    Some(noted(detached())),
    "release DataImageLeftInDrive"
)]
#[case::deleted_detached_without_disc(deleted(""), Some(host(&detached())), "release")]
#[case::deleted_with_its_host(deleted("http://images/d.iso"), Some(host(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))), "")]
#[case::deleted_in_use(deleted("http://images/d.iso"), Some(host(&json!({}))), "look")]
// OWN 31ff: it waited without a word.
#[case::deleted_of_a_paused_host(deleted("http://images/d.iso"), Some(host(&json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}))), "DataImageDetaching")]
#[case::released_of_a_paused_host(image(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), Some(host(&json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}))), "")]
fn data_image(#[case] image: Value, #[case] host: Option<Value>, #[case] expected: &str) {
    assert_eq!(outcome(&seen(image, host, Drive::NotLooked)), expected);
}

/// A host with the note of the disc.
fn noted(mut change: Value) -> Value {
    let note = json!({"attachedImage": {"url": "http://images/d.iso"}}).to_string();
    let annotations = json!({"metadata": {"annotations": {"baremetalhost.metal3.io/left-disc": note}}});
    json_patch::merge(&mut change, &annotations);
    host(&change)
}

fn later() -> Value {
    json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:01Z"}})
}

fn detached() -> Value {
    json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": ""}}})
}

#[rstest]
#[case(Drive::Empty, "note release")]
#[case(Drive::Busy, "DataImageDetaching")]
#[case(Drive::Full, "DataImageDetaching")]
#[case(Drive::NoNode, "DataImageDetaching")]
#[case(Drive::Unproven("no Secret".to_owned()), "DataImageDetaching")]
fn a_deleted_disc_is_looked_for_in_the_drive(#[case] drive: Drive, #[case] expected: &str) {
    let seen = seen(deleted("http://images/d.iso"), Some(host(&json!({}))), drive);
    assert_eq!(outcome(&seen), expected);
}

#[test]
fn a_host_of_another_cluster_is_an_owner_no_more() {
    let seen = seen(
        held(&later()),
        Some(host(
            &json!({"metadata": {"uid": "v", "creationTimestamp": "2026-01-01T00:00:00Z"}}),
        )),
        Drive::NotLooked,
    );
    let Decision::Act(plan) = decide(&seen, NOW) else {
        panic!("nothing to read")
    };
    let Effect::Patch(patch) = &plan.effects[0] else {
        panic!("nothing to note")
    };
    let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(
        (&owners[0]["uid"], &owners[0]["controller"]),
        (&json!("v"), &Value::Null)
    );
    assert_eq!(patch["metadata"]["finalizers"], json!([FINALIZER]));
}

// OWN 31ve: a host that could not be read counted as gone, and its DataImage lost its record and its finalizer.
#[rstest]
#[case::not_read(None, "read the host")]
#[case::gone(Some(Live::Gone), "release DataImageLeftInDrive")]
#[case::there(Some(Live::Exists), "")]
#[case::not_known(Some(Live::Unknown), "")]
fn a_host_that_the_store_does_not_have_may_exist(#[case] live: Option<Live>, #[case] expected: &str) {
    let image = held(&json!({"status": {"attachedImage": {"url": "http://images/d.iso"}}}));
    let mut seen = seen(image, None, Drive::NotLooked);
    seen.live = live;
    assert_eq!(outcome(&seen), expected);
}
