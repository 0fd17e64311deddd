//! Hardware details supplied instead of an inspection: in a HardwareData of the host's name, or in an annotation.

use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{HardwareDetails, ProvisioningState};

use crate::host::annotations;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::observed::Lookup;
use crate::host::plan::{EventReason, Read, Wait, WaitReason};

/// Returns `Continue` if there is no annotation to handle, or none that can be read.
pub(super) fn import(plan: &mut PlanBuilder<'_>) -> Step {
    let Some(text) = annotations::value(&plan.seen.host, annotation::HARDWARE_DETAILS) else {
        return Step::Continue;
    };
    if plan.is_deleting() {
        return Step::Continue;
    }
    let given = annotations::hardware_details(text);
    let stored = match plan.hardware() {
        Ok(stored) => stored,
        Err(step) => return step,
    };
    if given.as_ref().is_ok_and(|details| Some(details) == stored) {
        plan.remove_annotation(annotation::HARDWARE_DETAILS);
        return Step::Again;
    }
    if stored.is_some() && !plan.is_inspection_disabled() {
        return not_used(plan, "inspection is enabled, and has found the hardware");
    }
    match (&plan.seen.hardware_data, given) {
        (Lookup::NotLooked, _) => Step::Fetch(Read::HardwareData),
        (Lookup::Found(details), _) => {
            if stored != Some(details.as_ref()) {
                return take(plan, HardwareDetails::clone(details), "taken over from HardwareData");
            }
            not_used(plan, "a HardwareData of the host's name says more")
        }
        (Lookup::NotFound, Ok(details)) => take(plan, details, "taken over from the annotation"),
        // A condition reports this to the user, and the annotation stays until it is fixed.
        (Lookup::NotFound, Err(_)) => Step::Continue,
    }
}

/// For a host that is not inspected, a HardwareData written by another client is authoritative, including later edits. A host that was
/// provisioned externally takes the first one over. Returns `Continue` once it is applied, or if there is none.
pub(super) fn follow(plan: &mut PlanBuilder<'_>) -> Step {
    let edit = plan.seen.hardware_data_edit;
    let is_managed = !matches!(plan.state(), ProvisioningState::None | ProvisioningState::Unmanaged);
    if edit.is_none()
        || edit == plan.seen.memory.hardware_data
        || !is_managed
        || !(plan.is_inspection_disabled() || plan.spec().externally_provisioned && !plan.has_hardware())
        || plan.is_deleting()
    {
        return Step::Continue;
    }
    let details = match &plan.seen.hardware_data {
        Lookup::NotLooked => return Step::Fetch(Read::HardwareData),
        Lookup::NotFound => return Step::Continue,
        Lookup::Found(details) => details,
    };
    let stored = match plan.hardware() {
        Ok(stored) => stored,
        Err(step) => return step,
    };
    if stored != Some(details.as_ref()) {
        plan.status.hardware = Some(Box::new(HardwareDetails::clone(details)));
        plan.event(
            EventReason::UpdateHardwareDetails,
            "Hardware details taken over from HardwareData",
        );
    }
    Step::Continue
}

/// The hardware of a host that is not inspected, from a HardwareData that existed before the host. Returns `Continue`
/// once everything available is known.
pub(super) fn without_inspection(plan: &mut PlanBuilder<'_>) -> Step {
    if !plan.has_hardware() && !plan.is_deleting() {
        match &plan.seen.hardware_data {
            Lookup::NotLooked => return Step::Fetch(Read::HardwareData),
            Lookup::Found(details) => {
                plan.status.hardware = Some(Box::new(HardwareDetails::clone(details)));
                plan.event(
                    EventReason::UpdateHardwareDetails,
                    "Hardware details taken over from HardwareData",
                );
            }
            Lookup::NotFound => {}
        }
    }
    let details = annotations::value(&plan.seen.host, annotation::HARDWARE_DETAILS).map(annotations::hardware_details);
    let Some(Err(error)) = details.filter(|_| !plan.is_deleting()) else {
        return Step::Continue;
    };
    Step::Wait(Wait::for_change(
        WaitReason::InvalidAnnotation,
        format!(
            "annotation {}: {error}; mend or remove it",
            annotation::HARDWARE_DETAILS
        ),
    ))
}

/// Stored before the annotation is removed, which is the only copy until then.
fn take(plan: &mut PlanBuilder<'_>, details: HardwareDetails, how: &str) -> Step {
    plan.status.hardware = Some(Box::new(details));
    plan.event(EventReason::UpdateHardwareDetails, format!("Hardware details {how}"));
    let wait = Wait::for_change(WaitReason::InvalidAnnotation, "the hardware details are taken over").at_once();
    Step::Wait(Wait {
        is_shown: false,
        ..wait
    })
}

fn not_used(plan: &mut PlanBuilder<'_>, why: &str) -> Step {
    plan.event(
        EventReason::RemoveAnnotation,
        format!("Annotation {} removed unused: {why}", annotation::HARDWARE_DETAILS),
    );
    plan.remove_annotation(annotation::HARDWARE_DETAILS);
    Step::Again
}
