//! What the status of a HostFirmwareComponents says: the components as Ironic read them, and whether updates are wanted
//! and possible. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use metal3_api::metal3::names::condition::firmware::{INVALID_COMPONENT, OK};
use metal3_api::metal3::{
    FirmwareComponentStatus, FirmwareUpdate, HostFirmwareComponents, HostFirmwareComponentsStatus,
};
use metal3_runtime::conditions::whole_seconds;

use super::{Judgement, Made, judge, shortened, was_not_applied};
use crate::host::named_url::{DeniedRanges, NamedUrl, UrlField};
use crate::host::record;

/// The reason of `Valid` for an update whose URL cannot be used.
pub const INVALID_URL: &str = "InvalidURL";

/// Whether Ironic's component is one that users may update. Others have no meaning for users of the kind.
pub fn is_known(component: &str) -> bool {
    matches!(component, "bios" | "bmc") || component.starts_with("nic:")
}

/// Why updates cannot be made: the reason of the first problem, and one message for each, with the field's name.
pub fn problems(updates: &[FirmwareUpdate], denied: &DeniedRanges) -> Vec<(&'static str, String)> {
    let of = |(index, update): (usize, &FirmwareUpdate)| {
        let component = (!is_known(&update.component)).then(|| {
            let name = shortened(&update.component);
            let why =
                format!("spec.updates[{index}].component: {name:?} is not \"bios\", \"bmc\" or \"nic:\" and a name");
            (INVALID_COMPONENT, why)
        });
        let url = NamedUrl::problem(UrlField::Firmware, &update.url, denied)
            .map(|why| (INVALID_URL, format!("spec.updates[{index}].url: {why}")));
        [component, url]
    };
    updates.iter().enumerate().flat_map(of).flatten().collect()
}

/// What a user does about an update that was made and has not changed the version.
const MAKE_AGAIN: &str = "The update counts as made. Unless the file has just this version, read the BMC's own log. To have it made again, \
    take the update out of the spec and add it again";

/// The most components that [`unchanged`] names.
const MOST_NAMED: usize = 5;

/// What updates have left as it was, for people. A component that is not reported says nothing.
pub fn unchanged(
    made: &[FirmwareUpdate],
    before: &[FirmwareComponentStatus],
    after: &[FirmwareComponentStatus],
) -> Option<String> {
    let version = |all: &[FirmwareComponentStatus], component: &str| {
        let found = all.iter().find(|found| found.component == component)?;
        Some(found.current_version.clone()).filter(|version| !version.is_empty())
    };
    let names: BTreeSet<_> = made.iter().map(|update| update.component.as_str()).collect();
    let same = names.into_iter().filter_map(|component| {
        let version = version(after, component).filter(|now| version(before, component).as_ref() == Some(now))?;
        Some(format!(
            "{} has version {:?}",
            shortened(component),
            shortened(&version)
        ))
    });
    let same: Vec<_> = same.take(MOST_NAMED).collect();
    (!same.is_empty()).then(|| {
        format!(
            "the BMC accepted firmware updates, and the versions are as before: {}",
            same.join("; ")
        )
    })
}

fn versions(components: &[FirmwareComponentStatus]) -> Vec<(&str, &str)> {
    let versions = components.iter();
    versions
        .map(|one| (one.component.as_str(), one.current_version.as_str()))
        .collect()
}

/// The status after a look at the components.
///
/// An update is known by its URL. Once all wanted updates were made, `status.updates` becomes `spec.updates`, so that an
/// update that is removed and added again is made again.
pub fn status(
    object: &HostFirmwareComponents,
    components: Vec<FirmwareComponentStatus>,
    denied: &DeniedRanges,
    made: Made<'_>,
    now: Timestamp,
) -> HostFirmwareComponentsStatus {
    let mut status = record::status_of(object).unwrap_or_default();
    let wanted = &object.spec.updates;
    let is_changed = wanted.iter().any(|update| !status.updates.contains(update));
    if !is_changed {
        status.updates.clone_from(wanted);
    }
    let is_same = versions(&status.components) == versions(&components);
    status.components = components;
    let problems = if is_changed {
        problems(wanted, denied)
    } else {
        Vec::new()
    };
    let told = match made {
        // A BMC may tell the new version only after its next start.
        Made::No(_) if !is_same => None,
        Made::No(_) => was_not_applied(&status.conditions, object.metadata.generation).map(str::to_owned),
        Made::Unchanged(unchanged) => Some(format!("{unchanged}. {MAKE_AGAIN}")),
        Made::NotApplied => None,
    };
    let (pending, not_applied) = match made {
        Made::No(pending) if is_changed => (pending, None),
        _ => ("", told.as_deref()),
    };
    let messages: Vec<_> = problems.iter().map(|(_, message)| message.as_str()).collect();
    let message = messages.join("; ");
    let judgement = Judgement {
        is_changed,
        fine: OK,
        problem: problems.first().map(|(reason, _)| (*reason, message.as_str())),
        pending,
        not_applied,
    };
    judge(&mut status.conditions, &judgement, object.metadata.generation, now);
    if Some(&status) != object.status.as_ref() {
        status.last_updated = Some(Time(whole_seconds(now)));
    }
    status
}

/// The status to store; `None` if it is the stored one.
pub fn changed(
    object: &HostFirmwareComponents,
    components: Vec<FirmwareComponentStatus>,
    denied: &DeniedRanges,
    made: Made<'_>,
    now: Timestamp,
) -> Option<HostFirmwareComponentsStatus> {
    let status = status(object, components, denied, made, now);
    (Some(&status) != object.status.as_ref()).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::firmware::pending::INVALID;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn object(wanted: &[(&str, &str)], made: &[(&str, &str)]) -> HostFirmwareComponents {
        let list = |updates: &[(&str, &str)]| {
            let update = |(component, url): &(&str, &str)| json!({"component": component, "url": url});
            Value::Array(updates.iter().map(update).collect())
        };
        serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareComponents",
            "metadata": {"name": "h", "generation": 3}, "spec": {"updates": list(wanted)}, "status": {"updates": list(made)}}))
        .unwrap()
    }

    const A: (&str, &str) = ("bios", "http://f/a");
    const B: (&str, &str) = ("bmc", "http://f/b");

    #[rstest]
    #[case::nothing(&[], &[], "False", "True", "OK")]
    #[case::wanted(&[A], &[], "True", "True", "OK")]
    #[case::made(&[A], &[A], "False", "True", "OK")]
    #[case::another(&[A, B], &[A], "True", "True", "OK")]
    #[case::removed(&[A], &[B, A], "False", "True", "OK")]
    // As upstream: Ironic gives the BMC the file alone, which says what it is for. Some BMCs report a NIC only while a system runs.
    #[case::not_reported(&[("nic:N9", "http://f/a")], &[], "True", "True", "OK")]
    // As upstream: Ironic makes one after the other, as a BIOS with a version in between needs it.
    #[case::one_in_two_steps(&[A, ("bios", "http://f/c")], &[], "True", "True", "OK")]
    #[case::nic(&[("nic:N1", "http://f/a")], &[], "True", "True", "OK")]
    #[case::unknown(&[("cpld", "http://f/a")], &[], "True", "False", "InvalidComponent")]
    #[case::scheme(&[("bios", "file:///etc/passwd")], &[], "True", "False", "InvalidURL")]
    fn updates_are_judged(
        #[case] wanted: &[(&str, &str)],
        #[case] made: &[(&str, &str)],
        #[case] is_changed: &str,
        #[case] is_valid: &str,
        #[case] reason: &str,
    ) {
        let now = Timestamp::UNIX_EPOCH;
        let mut object = object(wanted, made);
        let status = changed(&object, Vec::new(), &DeniedRanges::default(), Made::No("soon"), now).unwrap();
        let found: Vec<_> = status
            .conditions
            .iter()
            .map(|c| (c.type_.as_str(), c.status.as_str(), c.observed_generation))
            .collect();
        assert_eq!(
            found,
            [("ChangeDetected", is_changed, Some(3)), ("Valid", is_valid, Some(3))]
        );
        assert_eq!(status.conditions[1].reason, reason);
        let told = match (is_changed, is_valid) {
            ("True", "True") => "soon",
            ("True", _) => INVALID,
            _ => "",
        };
        assert_eq!(status.conditions[0].message, told);
        let kept = if is_changed == "True" {
            &object.status.as_ref().unwrap().updates
        } else {
            &object.spec.updates
        };
        assert_eq!(status.updates, *kept);
        object.status = Some(status);
        assert_eq!(
            changed(&object, Vec::new(), &DeniedRanges::default(), Made::No("soon"), now),
            None,
            "nothing is written without a change"
        );
    }

    fn reported(versions: &[(&str, &str)]) -> Vec<FirmwareComponentStatus> {
        let of = |(component, version): &(&str, &str)| FirmwareComponentStatus {
            component: (*component).to_owned(),
            current_version: (*version).to_owned(),
            ..FirmwareComponentStatus::default()
        };
        versions.iter().map(of).collect()
    }

    #[rstest]
    #[case::written(&[A], &[("bios", "1")], &[("bios", "2")], None)]
    #[case::as_before(&[A], &[("bios", "1")], &[("bios", "1")], Some("bios has version \"1\""))]
    #[case::one_of_two(&[A, B], &[("bios", "1"), ("bmc", "7")], &[("bios", "2"), ("bmc", "7")], Some("bmc has version \"7\""))]
    #[case::in_two_steps(&[A, ("bios", "http://f/c")], &[("bios", "1")], &[("bios", "1")], Some("bios has version \"1\""))]
    #[case::another_component(&[B], &[("bios", "1"), ("bmc", "7")], &[("bios", "1"), ("bmc", "8")], None)]
    #[case::not_known_before(&[A], &[], &[("bios", "1")], None)]
    #[case::not_reported_after(&[A], &[("bios", "1")], &[], None)]
    #[case::reported_without_a_version(&[A], &[("bios", "")], &[("bios", "")], None)]
    fn an_update_that_changes_no_version_is_named(
        #[case] made: &[(&str, &str)],
        #[case] before: &[(&str, &str)],
        #[case] after: &[(&str, &str)],
        #[case] expected: Option<&str>,
    ) {
        let made = object(made, &[]).spec.updates;
        let told = unchanged(&made, &reported(before), &reported(after));
        let prefix = "the BMC accepted firmware updates, and the versions are as before: ";
        assert_eq!(told.as_deref().map(|told| told.strip_prefix(prefix).unwrap()), expected);
    }

    /// It counts as made, as upstream's does: what was recorded stays told until the object is edited.
    #[test]
    fn an_update_that_changed_no_version_is_made_and_told() {
        let mut object = object(&[A], &[]);
        object.status.as_mut().unwrap().updates.clone_from(&object.spec.updates);
        let no_denied = DeniedRanges::default();
        let judged = |object: &HostFirmwareComponents, made: Made<'_>| {
            status(
                object,
                reported(&[("bios", "1")]),
                &no_denied,
                made,
                Timestamp::UNIX_EPOCH,
            )
        };
        let told = |status: &HostFirmwareComponentsStatus| {
            let change = &status.conditions[0];
            (
                change.status.as_str().to_owned(),
                change.reason.clone(),
                change.message.clone(),
            )
        };
        let recorded = judged(&object, Made::Unchanged("bios has version 1"));
        let message = format!("bios has version 1. {MAKE_AGAIN}");
        assert_eq!(told(&recorded), ("False".to_owned(), "NotApplied".to_owned(), message));
        assert_eq!(recorded.updates, object.spec.updates);
        object.status = Some(recorded.clone());
        assert_eq!(told(&judged(&object, Made::No("soon"))), told(&recorded));
        // A BMC may tell the new version later.
        let later = status(
            &object,
            reported(&[("bios", "2")]),
            &no_denied,
            Made::No("soon"),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(told(&later), ("False".to_owned(), OK.to_owned(), String::new()));
        object.metadata.generation = Some(4);
        assert_eq!(
            told(&judged(&object, Made::No("soon"))),
            ("False".to_owned(), OK.to_owned(), String::new())
        );
    }

    // OWN 31mb: clusterctl move creates the object without its status, and the firmware was written again.
    #[test]
    fn made_updates_count_after_a_move() {
        let made = object(&[A], &[A]);
        let mut moved = object(&[A], &[]);
        moved.status = None;
        moved.metadata.annotations =
            serde_json::from_value(record::noted(&made).unwrap()["metadata"]["annotations"].take()).unwrap();
        let status = status(
            &moved,
            Vec::new(),
            &DeniedRanges::default(),
            Made::No("soon"),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(status.updates, moved.spec.updates);
        assert_eq!(status.conditions[0].status.as_str(), "False", "{:?}", status.conditions);
    }

    // OWN 30fb: a URL that cannot be used is refused by the name of its field, before a host is cleaned for it.
    #[test]
    fn every_problem_names_its_field() {
        let object = object(&[A, ("cpld", "file:///a")], &[]);
        let found: Vec<_> = problems(&object.spec.updates, &DeniedRanges::default());
        assert!(
            found[0].1.starts_with("spec.updates[1].component: \"cpld\" is not"),
            "{found:?}"
        );
        assert!(
            found[1].1.starts_with("spec.updates[1].url: scheme \"file\""),
            "{found:?}"
        );
        assert_eq!(found.len(), 2);
    }
}
