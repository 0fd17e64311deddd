//! How detachment affects a deletion.

use metal3_api::metal3::DeleteAction;
use metal3_api::metal3::{OperationalStatus, ProvisioningState};

use super::PlanBuilder;
use crate::host::annotations;

/// The effect of a detachment on the deletion of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// There is no detachment.
    Usual,
    /// The host is dropped while it keeps running.
    AtOnce,
    /// The annotation requests that the deletion waits, or it was removed and the host has to come back first. Work in
    /// progress continues until the host is at rest and is detached.
    Delayed,
}

/// How detachment affects the deletion.
pub fn deletion(plan: &PlanBuilder<'_>) -> Deletion {
    if *plan.state() == ProvisioningState::Deleting {
        return Deletion::Usual;
    }
    match annotations::detached(&plan.seen.host) {
        Some(arguments) if arguments.delete_action == DeleteAction::Delay => Deletion::Delayed,
        Some(_) => Deletion::AtOnce,
        None if plan.status.operational_status == OperationalStatus::Detached => Deletion::Delayed,
        None => Deletion::Usual,
    }
}
