//! The condition `Attached` of a DataImage: whether its disc is in the drive, and if not, what it waits for.
//!
//! The passes of its host set it while they change the disc. Until then, and after an edit, the DataImage's own controller says
//! what the host waits for. Each keeps off what the other has said of the current generation, so that they never write in turns.

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::names::annotation::{PAUSED, REBOOT};
use metal3_api::metal3::names::condition::data_image as reason;
use metal3_api::metal3::{BareMetalHost, DataImage, DataImageStatus, ProvisioningState};
use metal3_runtime::conditions::{self, Claim};
use metal3_runtime::store::ObjectKey;

use super::restarts::awaited;
use super::{annotations, is_paused};

/// What is said of a disc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
}

impl Finding {
    /// Ironic has seen it in the drive.
    pub fn inserted() -> Self {
        Self {
            status: ConditionStatus::True,
            reason: reason::INSERTED,
            message: String::new(),
        }
    }

    /// It is not in the drive.
    pub fn not_yet(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: ConditionStatus::False,
            reason,
            message: message.into(),
        }
    }

    /// What it waits for.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Sets the condition in a status of the object.
    pub fn set(&self, status: &mut DataImageStatus, image: &DataImage, now: Timestamp) {
        let claim = Claim {
            type_: reason::ATTACHED,
            status: self.status.clone(),
            reason: self.reason,
            message: &self.message,
        };
        conditions::set(&mut status.conditions, &claim, image.metadata.generation, now);
    }
}

/// Removes the condition: the disc that it was about is out of the drive.
pub fn forget(status: &mut DataImageStatus) {
    conditions::remove(&mut status.conditions, reason::ATTACHED);
}

/// Whether the object has the condition, whatever it says.
pub fn has_condition(image: &DataImage) -> bool {
    let found = image.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions::get(found, reason::ATTACHED).is_some()
}

/// Whether the stored condition says that the disc of the current URL was seen in the drive.
pub fn is_seen(image: &DataImage) -> bool {
    let found = image.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions::get(found, reason::ATTACHED).is_some_and(|said| {
        said.status == ConditionStatus::True && said.observed_generation == image.metadata.generation
    })
}

/// What is to be said of a disc that its host has not begun to attach; `None` where the host has said how far it is.
pub fn waiting(image: &DataImage, host: Option<&BareMetalHost>) -> Option<Finding> {
    let status = image.status.clone().unwrap_or_default();
    let (wanted, attached) = (&image.spec.url, &status.attached_image.url);
    let said = conditions::get(&status.conditions, reason::ATTACHED);
    let is_current = said.is_some_and(|said| said.observed_generation == image.metadata.generation);
    let is_begun = !wanted.is_empty() && wanted == attached;
    let key = ObjectKey::of(image);
    if is_current && status.error.count > 0 {
        let resting = host.and_then(|host| at_rest(host, &key, wanted));
        // Otherwise the host has said what failed, and tries it again.
        let is_of_host = said.is_some_and(|said| OF_HOST.contains(&said.reason.as_str()));
        if resting.is_some() || is_of_host {
            return resting;
        }
    } else if is_current && is_begun {
        return None;
    }
    Some(match host {
        None => Finding::not_yet(
            reason::NO_HOST,
            format!(
                "there is no BareMetalHost {key} that can be read: the disc is attached once that exists and is provisioned"
            ),
        ),
        Some(_) if is_begun => Finding {
            status: ConditionStatus::Unknown,
            reason: reason::RECORDED,
            message: format!(
                "Ironic was asked earlier to attach it to BareMetalHost {key}; whether it is in the drive is seen when the host \
                 is started next"
            ),
        },
        Some(_) if wanted.is_empty() && attached.is_empty() => {
            Finding::not_yet(reason::NO_URL, "spec.url is empty: there is nothing to attach")
        }
        Some(host) => at_rest(host, &key, wanted).unwrap_or_else(|| until_start(host, &key, wanted)),
    })
}

/// What the host's own passes say.
const OF_HOST: [&str; 4] = [
    reason::INSERTED,
    reason::ATTACHING,
    reason::ATTACH_FAILED,
    reason::DETACH_FAILED,
];

/// What becomes of the disc in the drive: where none is wanted, the former one goes.
fn verb(wanted: &str) -> &'static str {
    if wanted.is_empty() { "detaches" } else { "attaches" }
}

/// What keeps the host from changing the disc; `None` if it is about to, or runs.
fn at_rest(host: &BareMetalHost, key: &ObjectKey, wanted: &str) -> Option<Finding> {
    let status = host.status.clone().unwrap_or_default();
    let is_in_use = matches!(
        status.provisioning.state,
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned
    );
    let verb = verb(wanted);
    let (reason, message) = if is_paused(host) {
        let pauses = [PAUSED, DELETE_FOR_MOVE].into_iter();
        let pause = pauses.into_iter().find(|key| host.annotations().contains_key(*key));
        let pause = pause.unwrap_or(PAUSED);
        let message = format!("BareMetalHost {key} is paused: it does nothing until annotation {pause} is removed");
        (reason::HOST_PAUSED, message)
    } else if host.metadata.deletion_timestamp.is_some() {
        let message = format!("BareMetalHost {key} is being deleted, and attaches no disc any more");
        (reason::HOST_DELETING, message)
    } else if annotations::detached(host).is_some() {
        let message =
            format!("BareMetalHost {key} is detached: it {verb} no disc until it is attached again, and restarted");
        (reason::HOST_DETACHED, message)
    } else if !is_in_use {
        let message =
            format!("BareMetalHost {key} is not provisioned: it {verb} the disc at the first restart after that");
        (reason::HOST_NOT_PROVISIONED, message)
    } else if !host.spec.online {
        let message = format!("BareMetalHost {key} is off: it {verb} the disc when spec.online is set");
        (reason::HOST_OFF, message)
    } else {
        return None;
    };
    Some(Finding::not_yet(reason, message))
}

/// What a host that may change the disc has to do for that.
fn until_start(host: &BareMetalHost, key: &ObjectKey, wanted: &str) -> Finding {
    let is_on = host.status.as_ref().is_some_and(|status| status.powered_on);
    let verb = verb(wanted);
    let (reason, message) = if let Some(holders) = restarts(host) {
        let message = format!("BareMetalHost {key} {verb} it as it restarts for annotation {holders}");
        (reason::STARTING, message)
    } else if is_on {
        let message = format!("BareMetalHost {key} {verb} it at its next restart: annotate it with {REBOOT}");
        (reason::RESTART_NEEDED, message)
    } else {
        let message = format!("BareMetalHost {key} {verb} it before it is switched on");
        (reason::STARTING, message)
    };
    Finding::not_yet(reason, message)
}

/// The annotations for which the host is still to be restarted.
fn restarts(host: &BareMetalHost) -> Option<String> {
    let keys = awaited(host);
    (!keys.is_empty()).then(|| keys.join(", "))
}

/// What the condition depends on in a host: a change of it is a reason to look again.
pub fn read_of(host: &BareMetalHost) -> impl PartialEq + use<> {
    let is_on = host.status.as_ref().is_some_and(|status| status.powered_on);
    (host.spec.online, is_on, restarts(host))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const D: &str = "http://images/d.iso";

    fn image(change: &Value) -> DataImage {
        let mut image = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "DataImage",
            "metadata": {"name": "h", "namespace": "n", "generation": 2}, "spec": {"url": D}});
        json_patch::merge(&mut image, change);
        serde_json::from_value(image).unwrap()
    }

    fn host(change: &Value) -> BareMetalHost {
        let mut host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h", "namespace": "n"}, "spec": {"online": true},
            "status": {"provisioning": {"state": "provisioned", "ID": "u"}, "poweredOn": true}});
        json_patch::merge(&mut host, change);
        serde_json::from_value(host).unwrap()
    }

    fn annotated(key: &str) -> Value {
        json!({"metadata": {"annotations": {key: ""}}})
    }

    /// A server that is never powered off, with the restart for `reboot.metal3.io/mine` pending or made.
    fn never_off(is_restarted: &str) -> Value {
        let record = json!({"type": "Rebooted", "status": is_restarted, "reason": "Any", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "message": "asked for by reboot.metal3.io/mine#811c9dc5"});
        let mut host = annotated("reboot.metal3.io/mine");
        host["spec"] = json!({"disablePowerOff": true});
        host["status"] = json!({"conditions": [record]});
        host
    }

    fn said(status: &str, generation: i64) -> Value {
        json!([{"type": "Attached", "status": status, "reason": "Any", "message": "", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    }

    // OWN 31xp: a DataImage whose disc was not in the drive yet said nothing, and nothing said that a restart was missing.
    #[rstest]
    #[case::runs(json!({}), "RestartNeeded", "annotate it with reboot.metal3.io")]
    #[case::external(json!({"status": {"provisioning": {"state": "externally provisioned"}}}), "RestartNeeded", "at its next restart")]
    #[case::restarts(annotated("reboot.metal3.io"), "Starting", "for annotation reboot.metal3.io")]
    #[case::held_off(
        annotated("reboot.metal3.io/mine"),
        "Starting",
        "for annotation reboot.metal3.io/mine"
    )]
    #[case::never_off(never_off("False"), "Starting", "for annotation reboot.metal3.io/mine")]
    // An annotation that is left after its restart promised another one.
    #[case::never_off_and_restarted(never_off("True"), "RestartNeeded", "annotate it with reboot.metal3.io")]
    #[case::starts(json!({"status": {"poweredOn": false}}), "Starting", "before it is switched on")]
    #[case::off(json!({"spec": {"online": false}, "status": {"poweredOn": false}}), "HostOff", "when spec.online is set")]
    #[case::free(json!({"status": {"provisioning": {"state": "available"}}}), "HostNotProvisioned", "first restart after that")]
    #[case::new(json!({"status": null}), "HostNotProvisioned", "is not provisioned")]
    #[case::detached(annotated("baremetalhost.metal3.io/detached"), "HostDetached", "attached again")]
    #[case::paused(
        annotated("baremetalhost.metal3.io/paused"),
        "HostPaused",
        "annotation baremetalhost.metal3.io/paused"
    )]
    #[case::going(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "HostDeleting", "being deleted")]
    fn a_disc_says_what_its_host_waits_for(#[case] change: Value, #[case] reason: &str, #[case] words: &str) {
        let found = waiting(&image(&json!({})), Some(&host(&change))).unwrap();
        assert_eq!((found.status.as_str(), found.reason), ("False", reason));
        assert!(
            found.message.contains("BareMetalHost n/h") && found.message.contains(words),
            "{found:?}"
        );
    }

    #[rstest]
    #[case::without_a_word(json!({"attachedImage": {"url": D}}), Some("Recorded"))]
    #[case::told_by_the_host(json!({"attachedImage": {"url": D}, "conditions": said("True", 2)}), None)]
    #[case::being_attached(json!({"attachedImage": {"url": D}, "conditions": said("False", 2)}), None)]
    #[case::edited_to_and_fro(json!({"attachedImage": {"url": D}, "conditions": said("False", 1)}), Some("Recorded"))]
    #[case::another_is_in_the_drive(json!({"attachedImage": {"url": "http://e"}, "conditions": said("True", 1)}), Some("RestartNeeded"))]
    #[case::failed_by_the_host(json!({"error": {"count": 1, "message": "no"}, "conditions": of_host("AttachFailed")}), None)]
    #[case::failed_and_edited(json!({"error": {"count": 1, "message": "no"}, "conditions": said("False", 1)}), Some("RestartNeeded"))]
    #[case::failed_before_it_had_conditions(json!({"error": {"count": 1, "message": "no"}}), Some("RestartNeeded"))]
    fn what_the_host_has_said_stays(#[case] status: Value, #[case] expected: Option<&str>) {
        let found = waiting(&image(&json!({ "status": status })), Some(&host(&json!({}))));
        assert_eq!(found.map(|found| found.reason), expected);
    }

    /// The host's own words.
    fn of_host(reason: &str) -> Value {
        let mut said = said("False", 2);
        said[0]["reason"] = json!(reason);
        said
    }

    #[rstest]
    #[case::off(json!({"spec": {"online": false}}), Some("HostOff"))]
    #[case::paused(annotated("baremetalhost.metal3.io/paused"), Some("HostPaused"))]
    #[case::free(json!({"status": {"provisioning": {"state": "available"}}}), Some("HostNotProvisioned"))]
    #[case::tried_again(json!({}), None)]
    fn a_failure_that_is_not_tried_again_says_what_it_waits_for(#[case] change: Value, #[case] expected: Option<&str>) {
        let status = json!({"error": {"count": 2, "message": "no"}, "conditions": of_host("AttachFailed")});
        let image = |status: &Value| image(&json!({ "status": status }));
        let found = waiting(&image(&status), Some(&host(&change)));
        assert_eq!(found.as_ref().map(|found| found.reason), expected);
        // Once that is over, the host is about to try it again.
        let status = json!({"error": {"count": 2, "message": "no"}, "conditions": of_host("HostOff")});
        let found = waiting(&image(&status), Some(&host(&json!({}))));
        assert_eq!(found.map(|found| found.reason), Some("RestartNeeded"));
    }

    #[test]
    fn a_disc_that_is_wanted_no_more_is_detached() {
        let status = json!({"attachedImage": {"url": D}, "conditions": said("True", 1)});
        let image = image(&json!({"spec": {"url": ""}, "status": status}));
        let found = waiting(&image, Some(&host(&json!({})))).unwrap();
        assert!(found.message.contains("detaches it at its next restart"), "{found:?}");
    }

    #[test]
    fn a_move_that_is_under_way_is_named() {
        let going = annotated("clusterctl.cluster.x-k8s.io/delete-for-move");
        let found = waiting(&image(&json!({})), Some(&host(&going))).unwrap();
        assert!(
            found.message.contains("clusterctl.cluster.x-k8s.io/delete-for-move"),
            "{found:?}"
        );
    }

    #[test]
    fn without_a_host_or_a_url_nothing_is_attached() {
        let reason = |url: &str, host| waiting(&image(&json!({"spec": {"url": url}})), host).map(|found| found.reason);
        assert_eq!(reason(D, None), Some("NoBareMetalHost"));
        assert_eq!(reason("", Some(&host(&json!({})))), Some("NoURL"));
    }

    #[test]
    fn a_disc_that_was_seen_counts_until_the_next_edit() {
        let mut image = image(&json!({}));
        let mut status = DataImageStatus::default();
        Finding::inserted().set(&mut status, &image, Timestamp::UNIX_EPOCH);
        image.status = Some(status.clone());
        assert!(is_seen(&image));
        image.metadata.generation = Some(3);
        assert!(!is_seen(&image));
        forget(&mut status);
        assert!(status.conditions.is_empty());
    }
}
