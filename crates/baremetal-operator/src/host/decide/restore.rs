//! The status of a host moved from another cluster: it is in an annotation, because the object was created without a
//! status here. It is restored as it is, so that a running server is adopted and not set up again.

use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{ErrorType, HardwareDetails};

use crate::host::annotations;
use crate::host::builder::{PlanBuilder, Step, seconds};
use crate::host::conditions::WAITING;
use crate::host::identity;
use crate::host::observed::Lookup;
use crate::host::plan::{EventReason, Read, Wait, WaitReason};

/// Returns `Continue` if there is nothing to restore.
pub(super) fn restore(plan: &mut PlanBuilder<'_>) -> Step {
    let Some(text) = annotations::value(&plan.seen.host, annotation::STATUS) else {
        return Step::Continue;
    };
    if plan.status.last_updated.is_some() {
        // Already restored, or of no use: the host has a status.
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
            // Not a UUID, so it cannot refer to this host's node in Ironic.
            if !identity::is_uuid(&plan.status.provisioning.id) {
                plan.status.provisioning.id.clear();
            }
            // Only the writer of the annotation claims this. The host's own Secret has to prove it.
            plan.status.good_credentials.credentials_version.clear();
            plan.status.tried_credentials.credentials_version.clear();
            if hardware.is_some() {
                plan.status.hardware = hardware;
            }
            plan.status.last_updated.get_or_insert_with(|| seconds(plan.now));
            // They refer to another object's generations and to its waits there.
            plan.status.conditions.retain(|condition| condition.type_ != WAITING);
            for condition in &mut plan.status.conditions {
                condition.observed_generation = None;
            }
            // Stored before the annotation is removed, which is the only copy until then.
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
        // It is not known what such a host runs: a deletion only removes it from Ironic.
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

/// Whether the host still waits for a readable status. Its `lastUpdated` stays empty until then, which marks that
/// nothing was restored yet.
pub(in crate::host) fn is_pending(host: &metal3_api::metal3::BareMetalHost) -> bool {
    host.status.as_ref().is_none_or(|status| status.last_updated.is_none())
        && annotations::value(host, annotation::STATUS).is_some_and(|text| annotations::status(text).is_err())
}
