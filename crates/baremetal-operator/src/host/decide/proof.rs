//! What proves that a node is the host's, before anything of it is changed.
//!
//! A node that was enrolled under the host's own UID needs no proof. Any other has the UUID in the host's status and the host's name,
//! and a user may have written both: the status by its annotation, the name by a namespace and a host called like those of another
//! cluster that shares the Ironic. Such a node is changed only while the host's BMC address is the node's and the host's Secret is
//! there. Who knows all of that of a server could reach its BMC anyway, up to the password.

use jiff::Timestamp;
use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_bmc::BmcAddress;
use metal3_ironic::Node;

use super::{act, delete};
use crate::host::draft::{Draft, Step};
use crate::host::observed::{NodeView, Observed, SecretView};
use crate::host::plan::{Decision, Effect, EventReason, Need, Next, WaitReason};
use crate::host::{identity, node_spec};

/// Whether the node may be changed for the host.
///
/// # Errors
///
/// What must be read to know.
pub(super) fn is_proven(draft: &Draft<'_>, node: &Node) -> Result<bool, Need> {
    if identity::is_enrolled_for(node, &draft.seen.host) {
        return Ok(true);
    }
    let Some(detail) = &node.detail else {
        return Err(Need::LiveNode);
    };
    let is_its_bmc = BmcAddress::parse(&draft.spec().bmc.address)
        .is_ok_and(|address| node_spec::another_bmc(&address, &detail.driver_info).is_none());
    if !is_its_bmc || draft.spec().bmc.credentials_name.is_empty() {
        return Ok(false);
    }
    let known = [&draft.status.good_credentials, &draft.status.tried_credentials];
    match &draft.seen.secret {
        SecretView::Found(_) => Ok(true),
        SecretView::Missing | SecretView::Invalid { .. } => Ok(false),
        // It was read in this version.
        SecretView::NotLooked { version: Some(version) }
            if known.iter().any(|known| known.credentials_version == *version) =>
        {
            Ok(true)
        }
        SecretView::NotLooked { .. } => Err(Need::Credentials),
    }
}

/// Lets a decision through that changes no node, or one that is proven to be the host's.
pub(super) fn judge(seen: &Observed, now: Timestamp, decision: Decision) -> Decision {
    let Decision::Act(plan) = &decision else {
        return decision;
    };
    let (NodeView::Live(node) | NodeView::Listed(node)) = &seen.node else {
        return decision;
    };
    if !plan.effects.iter().any(Effect::is_ironic_mutation) {
        return decision;
    }
    let mut draft = Draft::new(seen, now);
    match is_proven(&draft, node) {
        Ok(true) => decision,
        Err(need) => Decision::Look(need),
        Ok(false) => {
            let step = if draft.is_deleting() {
                draft.enter(ProvisioningState::Deleting);
                delete::leave(&mut draft)
            } else {
                refuse(&mut draft)
            };
            let next = match step {
                Step::Wait(wait) => Next::Wait(wait),
                Step::Look(need) => return Decision::Look(need),
                Step::Gone => Next::Gone,
                Step::Move(_) | Step::Continue | Step::Rest | Step::Again => Next::Again,
            };
            act(draft, next)
        }
    }
}

fn refuse(draft: &mut Draft<'_>) -> Step {
    draft.refuse(
        ErrorType::Registration,
        WaitReason::NodeNotOurs,
        EventReason::RegistrationError,
        "the node to which status.provisioning.ID leads was not enrolled under this host's UID, and its BMC is not the one that \
         spec.bmc.address names, or the host's Secret cannot be used: it is left alone. Where the BMC has moved, put the former address \
         back, detach the host by annotation baremetalhost.metal3.io/detached, change the address, and let it come back",
    )
}

/// Takes the UUID of a node that is not the host's out of what is told: who knows it could claim the node.
pub(super) fn hide_foreign(draft: &mut Draft<'_>, next: &mut Next) {
    let Some(node) = draft.known() else { return };
    if node.uuid.is_empty() || identity::is_own(node, &draft.seen.host, &draft.status) {
        return;
    }
    let hide = |text: &mut String| {
        if text.contains(&node.uuid) {
            let named = format!("node {}", node.uuid);
            *text = text.replace(&named, OTHER).replace(&node.uuid, OTHER);
        }
    };
    if let Next::Wait(wait) = next {
        hide(&mut wait.message);
    }
    draft.notes.iter_mut().for_each(|note| hide(&mut note.message));
    hide(&mut draft.status.error_message);
}

/// What stands for a node that is not the host's.
const OTHER: &str = "another node";
