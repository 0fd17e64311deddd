//! The status of a host that came from another cluster: it is in an annotation there, because the object was created
//! without one here. Taken over as it is, so that a server at work is adopted and not set up anew.

use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{ErrorType, HardwareDetails};

use crate::host::annotations;
use crate::host::builder::{PlanBuilder, Step, seconds};
use crate::host::conditions::WAITING;
use crate::host::identity;
use crate::host::observed::Lookup;
use crate::host::plan::{EventReason, Read, Wait, WaitReason};

/// `Continue` where nothing is to be restored.
pub(super) fn restore(plan: &mut PlanBuilder<'_>) -> Step {
    let Some(text) = annotations::value(&plan.seen.host, annotation::STATUS) else {
        return Step::Continue;
    };
    if plan.status.last_updated.is_some() {
        // Restored by now, or of no use: there is a status.
        plan.remove_annotation(annotation::STATUS);
        return Step::Again;
    }
    match annotations::status(text) {
        Ok(Some(restored)) => {
            let hardware = match &plan.seen.hardware_data {
                Lookup::NotLooked => return Step::Fetch(Read::HardwareData),
                Lookup::NotFound => None,
                Lookup::Found(details) => Some(Box::new(HardwareDetails::clone(details))),
            };
            plan.status = restored;
            // Not a UUID: no node that Ironic knows by it is this host's.
            if !identity::is_uuid(&plan.status.provisioning.id) {
                plan.status.provisioning.id.clear();
            }
            // Whoever has written the annotation says so. The host's own Secret has to prove it.
            plan.status.good_credentials.credentials_version.clear();
            plan.status.tried_credentials.credentials_version.clear();
            if hardware.is_some() {
                plan.status.hardware = hardware;
            }
            plan.status.last_updated.get_or_insert_with(|| seconds(plan.now));
            // They speak of another object's generations and of what kept the host there.
            plan.status.conditions.retain(|condition| condition.type_ != WAITING);
            for condition in &mut plan.status.conditions {
                condition.observed_generation = None;
            }
            // Stored before the annotation goes: it is all there is until then.
            let wait = Wait::for_change(WaitReason::InvalidAnnotation, "the status is taken over").at_once();
            Step::Wait(Wait {
                is_shown: false,
                ..wait
            })
        }
        Ok(None) => {
            plan.remove_annotation(annotation::STATUS);
            Step::Again
        }
        // What such a host runs is not known: a deletion only takes it out of Ironic.
        Err(_) if plan.is_deleting() => Step::Continue,
        Err(error) => plan.refuse(
            ErrorType::Registration,
            WaitReason::InvalidAnnotation,
            EventReason::RegistrationError,
            format!(
                "annotation {}: {error}; nothing is done with this host, because it may be at work: mend the annotation, \
                 or remove it to have the host set up as a new one",
                annotation::STATUS
            ),
        ),
    }
}

/// The host still waits for a status that can be read. Its `lastUpdated` stays empty until then, because that is what
/// says that nothing was restored yet.
pub(in crate::host) fn is_pending(host: &metal3_api::metal3::BareMetalHost) -> bool {
    host.status.as_ref().is_none_or(|status| status.last_updated.is_none())
        && annotations::value(host, annotation::STATUS).is_some_and(|text| annotations::status(text).is_err())
}
