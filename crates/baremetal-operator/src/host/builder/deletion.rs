//! How a deletion goes on as far as detachment decides it.

use metal3_api::metal3::DeleteAction;
use metal3_api::metal3::{OperationalStatus, ProvisioningState};

use super::PlanBuilder;
use crate::host::annotations;

/// What a detachment does to the deletion of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// There is no detachment.
    Usual,
    /// The host is forgotten as it runs.
    AtOnce,
    /// The annotation asks for the deletion to wait, or it was removed and the host has to come back first. What is under way
    /// goes on to where the host rests and is detached.
    Delayed,
}

/// How a deletion goes on as far as detachment decides it.
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
