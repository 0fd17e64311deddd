//! Hardware details that somebody brings along instead of an inspection: a HardwareData of the host's name, or an
//! annotation.

use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{HardwareDetails, ProvisioningState};

use crate::host::annotations;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::observed::Lookup;
use crate::host::plan::{EventReason, Read, Wait, WaitReason};

/// `Continue` where there is no annotation to be looked at, or none that can be read.
pub(super) fn import(draft: &mut PlanBuilder<'_>) -> Step {
    let Some(text) = annotations::value(&draft.seen.host, annotation::HARDWARE_DETAILS) else {
        return Step::Continue;
    };
    if draft.is_deleting() {
        return Step::Continue;
    }
    let given = annotations::hardware_details(text);
    let stored = match draft.hardware() {
        Ok(stored) => stored,
        Err(step) => return step,
    };
    if given.as_ref().is_ok_and(|details| Some(details) == stored) {
        draft.remove_annotation(annotation::HARDWARE_DETAILS);
        return Step::Again;
    }
    if stored.is_some() && !draft.is_inspection_disabled() {
        return not_used(draft, "inspection is enabled, and has found the hardware");
    }
    match (&draft.seen.hardware_data, given) {
        (Lookup::NotLooked, _) => Step::Fetch(Read::HardwareData),
        (Lookup::Found(details), _) => {
            if stored != Some(details.as_ref()) {
                return take(draft, HardwareDetails::clone(details), "taken over from HardwareData");
            }
            not_used(draft, "a HardwareData of the host's name says more")
        }
        (Lookup::NotFound, Ok(details)) => take(draft, details, "taken over from the annotation"),
        // The user is told by a condition, and the annotation stays until it is mended.
        (Lookup::NotFound, Err(_)) => Step::Continue,
    }
}

/// A HardwareData that somebody else wrote is what is known of a host that is not inspected, also when it is edited later.
/// `Continue` when it is taken over, or there is none.
pub(super) fn follow(draft: &mut PlanBuilder<'_>) -> Step {
    let edit = draft.seen.hardware_data_edit;
    let is_managed = !matches!(draft.state(), ProvisioningState::None | ProvisioningState::Unmanaged);
    if edit.is_none()
        || edit == draft.seen.memory.hardware_data
        || !is_managed
        || !draft.is_inspection_disabled()
        || draft.is_deleting()
    {
        return Step::Continue;
    }
    let details = match &draft.seen.hardware_data {
        Lookup::NotLooked => return Step::Fetch(Read::HardwareData),
        Lookup::NotFound => return Step::Continue,
        Lookup::Found(details) => details,
    };
    let stored = match draft.hardware() {
        Ok(stored) => stored,
        Err(step) => return step,
    };
    if stored != Some(details.as_ref()) {
        draft.status.hardware = Some(Box::new(HardwareDetails::clone(details)));
        draft.event(
            EventReason::UpdateHardwareDetails,
            "Hardware details taken over from HardwareData",
        );
    }
    Step::Continue
}

/// The hardware of a host that is not inspected, where it comes from a HardwareData that was there before the host.
/// `Continue` when it is known as well as it can be.
pub(super) fn without_inspection(draft: &mut PlanBuilder<'_>) -> Step {
    if !draft.has_hardware() && !draft.is_deleting() {
        match &draft.seen.hardware_data {
            Lookup::NotLooked => return Step::Fetch(Read::HardwareData),
            Lookup::Found(details) => {
                draft.status.hardware = Some(Box::new(HardwareDetails::clone(details)));
                draft.event(
                    EventReason::UpdateHardwareDetails,
                    "Hardware details taken over from HardwareData",
                );
            }
            Lookup::NotFound => {}
        }
    }
    match annotations::value(&draft.seen.host, annotation::HARDWARE_DETAILS).map(annotations::hardware_details) {
        Some(Err(error)) if !draft.is_deleting() => Step::Wait(Wait::for_change(
            WaitReason::InvalidAnnotation,
            format!(
                "annotation {}: {error}; mend or remove it",
                annotation::HARDWARE_DETAILS
            ),
        )),
        _ => Step::Continue,
    }
}

/// Stored before the annotation goes: that is all there is until then.
fn take(draft: &mut PlanBuilder<'_>, details: HardwareDetails, how: &str) -> Step {
    draft.status.hardware = Some(Box::new(details));
    draft.event(EventReason::UpdateHardwareDetails, format!("Hardware details {how}"));
    let wait = Wait::for_change(WaitReason::InvalidAnnotation, "the hardware details are taken over").at_once();
    Step::Wait(Wait {
        is_shown: false,
        ..wait
    })
}

fn not_used(draft: &mut PlanBuilder<'_>, why: &str) -> Step {
    draft.event(
        EventReason::RemoveAnnotation,
        format!("Annotation {} removed unused: {why}", annotation::HARDWARE_DETAILS),
    );
    draft.remove_annotation(annotation::HARDWARE_DETAILS);
    Step::Again
}
