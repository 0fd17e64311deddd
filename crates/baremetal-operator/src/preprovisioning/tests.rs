//! What is decided for a PreprovisioningImage.

use std::sync::Arc;

use jiff::Timestamp;
use metal3_api::metal3::PreprovisioningImageStatus;
use metal3_runtime::conditions;
use metal3_runtime::controller::{Decision, Next};
use metal3_runtime::events::Severity;
use rstest::rstest;
use serde_json::{Value, json};

use super::decide::{Effect, Read, decide};
use super::images::tests::images;
use super::{NetworkData, Observed};

const FINALIZER: &str = "preprovisioningimage.metal3.io";

fn object(change: &Value) -> Value {
    let mut object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "PreprovisioningImage",
        "metadata": {"name": "h", "namespace": "n", "resourceVersion": "7", "generation": 3, "finalizers": [FINALIZER]},
        "spec": {"architecture": "x86_64", "acceptFormats": ["iso", "initrd"]}});
    json_patch::merge(&mut object, change);
    object
}

fn seen(flags: &[&str], object: Value, network_data: NetworkData) -> Observed {
    Observed {
        image: Arc::new(serde_json::from_value(object).unwrap()),
        images: Arc::new(images(flags, &[]).unwrap()),
        network_data,
    }
}

const ISO: &[&str] = &["--deploy-iso-url=http://a/i"];
const INITRD: &[&str] = &["--deploy-kernel-url=http://a/k", "--deploy-ramdisk-url=http://a/r"];

fn status(seen: &Observed) -> Option<PreprovisioningImageStatus> {
    match decide(seen, Timestamp::UNIX_EPOCH) {
        Decision::Act(plan) => plan.report.status,
        Decision::Fetch(Read::NetworkData) => panic!("the network data are not read"),
    }
}

/// Status and reason of both conditions.
fn told(status: &PreprovisioningImageStatus) -> String {
    let words = ["Ready", "Error"].map(|type_| {
        let condition = conditions::get(&status.conditions, type_).unwrap();
        assert_eq!(condition.observed_generation, Some(3));
        format!("{type_}={} {}", condition.status.as_str(), condition.reason)
    });
    words.join(", ")
}

#[rstest]
#[case::iso(ISO, &["iso", "initrd"], "iso http://a/i  Ready=True ImageSuccess, Error=False ImageSuccess")]
#[case::initrd(INITRD, &["iso", "initrd"], "initrd http://a/r http://a/k Ready=True ImageSuccess, Error=False ImageSuccess")]
#[case::no_format_of_both(ISO, &["initrd"], "-   Ready=False ConfigurationError, Error=True ConfigurationError")]
#[case::nothing_accepted(ISO, &[], "-   Ready=False ConfigurationError, Error=True ConfigurationError")]
fn the_first_accepted_format_counts(#[case] flags: &[&str], #[case] accepted: &[&str], #[case] expected: &str) {
    let seen = seen(
        flags,
        object(&json!({"spec": {"acceptFormats": accepted}})),
        NetworkData::None,
    );
    let status = status(&seen).unwrap();
    let format = status.format.as_ref().map_or("-", |format| format.as_str());
    let found = format!("{format} {} {} {}", status.image_url, status.kernel_url, told(&status));
    assert_eq!(found, expected);
}

#[test]
fn network_data_are_named_in_the_status_with_their_version() {
    let wanted = object(&json!({"spec": {"networkDataName": "net"}}));
    let unread = seen(ISO, wanted.clone(), NetworkData::NotLooked);
    assert_eq!(
        decide(&unread, Timestamp::UNIX_EPOCH),
        Decision::Fetch(Read::NetworkData)
    );
    let missing = status(&seen(ISO, wanted.clone(), NetworkData::Missing)).unwrap();
    assert_eq!(
        told(&missing),
        "Ready=False MissingNetworkData, Error=True MissingNetworkData"
    );
    let version = "12".to_owned();
    let found = status(&seen(ISO, wanted, NetworkData::Found { version })).unwrap();
    let network = &found.network_data;
    assert_eq!((network.name.as_str(), network.version.as_str()), ("net", "12"));
    assert_eq!(found.architecture, "x86_64");
}

#[test]
fn nothing_is_written_twice_and_an_error_takes_the_image_away() {
    let first = status(&seen(ISO, object(&json!({})), NetworkData::None)).unwrap();
    let stored = object(&json!({ "status": first }));
    let again = seen(ISO, stored.clone(), NetworkData::None);
    assert_eq!(
        decide(&again, "2026-01-01T00:00:00Z".parse().unwrap()),
        Decision::idle()
    );
    let mut failed = seen(INITRD, stored, NetworkData::None);
    let image = Arc::make_mut(&mut failed.image);
    image.spec.accept_formats.truncate(1);
    assert_eq!(status(&failed).unwrap().image_url, "");
}

#[rstest]
#[case::new(object(&json!({"metadata": {"finalizers": null}})), Some(1))]
#[case::deleted(object(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), Some(0))]
#[case::deleted_and_held(object(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
    "finalizers": [FINALIZER, "baremetalhost.metal3.io/preprovisioningImage"]}})), None)]
fn it_is_held_until_all_others_have_released_it(#[case] object: Value, #[case] finalizers: Option<usize>) {
    let Decision::Act(plan) = decide(&seen(ISO, object, NetworkData::None), Timestamp::UNIX_EPOCH) else {
        panic!("nothing is read for that");
    };
    let left = plan
        .effects
        .first()
        .map(|Effect::Patch(patch)| patch["metadata"]["finalizers"].as_array().unwrap().len());
    assert_eq!(left, finalizers);
    let goes_on = finalizers == Some(1);
    assert_eq!(plan.next, if goes_on { Next::Decide } else { Next::Change });
}

#[test]
fn a_new_answer_is_an_event_once() {
    let events = |image: Value, network_data: NetworkData| {
        let seen = seen(ISO, image, network_data);
        match decide(&seen, "2026-01-01T00:00:00Z".parse().unwrap()) {
            Decision::Act(plan) => (plan.report.status, plan.report.events),
            Decision::Fetch(read) => panic!("wants {read:?}"),
        }
    };
    let wanted = |status: &Value| object(&json!({"spec": {"networkDataName": "net"}, "status": status}));
    let (missing, told) = events(wanted(&Value::Null), NetworkData::Missing);
    let told: Vec<_> = told.iter().map(|event| (event.reason, event.severity)).collect();
    assert_eq!(told, [("MissingNetworkData", Severity::Warning)]);
    let missing = json!(missing.unwrap());
    assert_eq!(events(wanted(&missing), NetworkData::Missing).1, [], "once");
    let version = "12".to_owned();
    let (_, told) = events(wanted(&missing), NetworkData::Found { version });
    let told: Vec<_> = told.iter().map(|event| (event.reason, event.severity)).collect();
    assert_eq!(told, [("ImageSuccess", Severity::Normal)]);
}
