//! Every managed host passes through here before its state's function runs: does its node exist, does it have the right
//! BMC, is it configured?
//!
//! An idle host costs no call if its node is listed, its Secret has the known version and its specification was not
//! edited.

mod changes;
mod credentials;
mod denied;
mod media;
mod settings;
mod support;

use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_bmc::BmcAddress;
use metal3_ironic::{CreateNode, Node, PatchOp, ProvisionRequest, ProvisionState, Verb};

use self::changes::{changes, target};
use self::credentials::{Secret, accepted, credentials, is_new, is_tried_only, try_credentials};
use self::denied::denied;
pub(super) use self::media::wait_for_name;
use self::media::{is_unknown, media_url, unresolved};
pub(super) use self::settings::follow as follow_settings;
use self::support::unsupported;
use super::network_data;
use super::outage::outage;
use super::ports;
use super::proof::check_credentials;
use super::ramdisk;
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::conditions;
use crate::host::identity;
use crate::host::node_spec;
use crate::host::observed::{Lookup, NodeView, SecretView};
use crate::host::plan::{Effect, EventReason, Read, Wait, WaitReason};

/// Returns `Continue` when the state's function may run.
pub(super) fn ensure_registered(plan: &mut PlanBuilder<'_>) -> Step {
    plan.is_configured = false;
    match plan.state() {
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Deleting
        | ProvisioningState::MatchProfile
        | ProvisioningState::Other(_) => return Step::Continue,
        ProvisioningState::Registering
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioning
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete => {}
    }
    match network_data::claim(plan) {
        Step::Continue => {}
        step => return step,
    }
    if is_settled(plan) {
        plan.is_configured = true;
        return Step::Continue;
    }
    let address = match BmcAddress::parse(&plan.spec().bmc.address) {
        Ok(address) => address,
        Err(error) if plan.is_deleting() => {
            // Nothing of such a host is accessible; its deletion must not depend on it.
            tracing::debug!(%error, "deleting a host with an unusable BMC address");
            return Step::Continue;
        }
        Err(error) => {
            return plan.refuse(
                ErrorType::Registration,
                WaitReason::InvalidBMCDetails,
                EventReason::BMCCredentialError,
                format!("spec.bmc.address: {error}"),
            );
        }
    };
    let secret = match credentials(plan) {
        Ok(Some(secret)) => secret,
        Ok(None) => return Step::Continue,
        Err(step) => return step,
    };
    if let Some(problem) = unsupported(plan, &address) {
        if plan.is_deleting() {
            return Step::Continue; // what is left to do needs none of it
        }
        return plan.refuse(
            ErrorType::Registration,
            WaitReason::Unsupported,
            EventReason::RegistrationError,
            problem,
        );
    }
    with_node(plan, &address, secret)
}

/// Whether nothing about the registration can have changed since the status was stored.
fn is_settled(plan: &PlanBuilder<'_>) -> bool {
    if plan.is_edited()
        || conditions::confirmed(&plan.status.conditions) != plan.seen.host.metadata.generation
        || plan.has_new_credentials()
        || !network_data::is_settled(plan)
        || !ramdisk::is_settled(plan, BmcAddress::parse(&plan.spec().bmc.address).ok().as_ref())
        || *plan.state() == ProvisioningState::Registering
        || plan.status.error_type == Some(ErrorType::Registration)
        || plan.status.good_credentials != plan.status.tried_credentials
    {
        return false;
    }
    let version_is_known = match &plan.seen.secret {
        SecretView::NotLooked { version } => {
            version.as_ref() == Some(&plan.status.good_credentials.credentials_version)
        }
        SecretView::Found(found) => found.version == plan.status.good_credentials.credentials_version,
        SecretView::Missing | SecretView::Invalid { .. } => false,
    };
    version_is_known
        && match &plan.seen.node {
            // A host at rest does not need Ironic; other hosts report themselves that they wait for it.
            NodeView::Unknown { .. } => !plan.status.provisioning.id.is_empty(),
            NodeView::Listed(node) | NodeView::Live(node) => {
                node.uuid == plan.status.provisioning.id
                    && identity::is_own(node, &plan.seen.host, &plan.status)
                    && is_judged(plan, node)
                    && !matches!(node.provision_state, ProvisionState::Enroll | ProvisionState::Verifying)
            }
            NodeView::Unlisted | NodeView::Gone => false,
        }
}

/// Whether the node is known to be proven the host's, or not to be for now.
fn is_judged(plan: &PlanBuilder<'_>, node: &Node) -> bool {
    plan.seen.has_proven(node) || plan.seen.refusal_left(plan.now).is_some()
}

fn with_node(plan: &mut PlanBuilder<'_>, address: &BmcAddress, secret: Secret<'_>) -> Step {
    match &plan.seen.node {
        NodeView::Unknown { cause } => Step::Wait(outage(cause.as_ref())),
        // The node cannot be changed now, and the credentials being tried are known.
        NodeView::Listed(node)
            if node.provision_state == ProvisionState::Verifying && node.uuid == plan.status.provisioning.id =>
        {
            Step::Wait(verifying(plan, node))
        }
        NodeView::Listed(node) if node.reservation.is_some() => {
            Step::Wait(locked(node, node.reservation.as_deref().unwrap_or_default()))
        }
        NodeView::Unlisted | NodeView::Listed(_) => Step::Fetch(Read::LiveNode),
        NodeView::Gone => without_node(plan, address, &secret).unwrap_or_else(|step| step),
        NodeView::Live(node) => match &node.detail {
            None => Step::Fetch(Read::LiveNode),
            Some(detail) => match changes(plan, address, node, detail, &secret) {
                Ok(ops) => registered(plan, node, ops, &secret),
                Err(step) => step,
            },
        },
    }
}

fn without_node(plan: &mut PlanBuilder<'_>, address: &BmcAddress, secret: &Secret<'_>) -> Result<Step, Step> {
    if let Some(step) = denied(plan, address, None) {
        return Err(step);
    }
    let Some(found) = secret.found else {
        return Err(Step::Fetch(Read::Credentials));
    };
    // A built ramdisk is set on the node once it exists.
    let ramdisk = ramdisk::unbuilt(plan);
    let media = media_url(plan, address, None)?;
    if let Some(step) = unresolved(plan, address, secret) {
        return Err(step);
    }
    let body = node_spec::create(&target(plan, address, &ramdisk, media), &found.credentials());
    Ok(enrol(plan, address, body, secret))
}

fn enrol(plan: &mut PlanBuilder<'_>, address: &BmcAddress, body: CreateNode, secret: &Secret<'_>) -> Step {
    // A node with the boot MAC address may exist already: if it has another host's name, that is a user error.
    if !plan.spec().boot_mac_address.is_empty() {
        match &plan.seen.boot_mac_owner {
            Lookup::NotLooked => return Step::Fetch(Read::BootMacOwner),
            Lookup::NotFound => {}
            // Not owned by any host: enrolled by hand or by a discovery. Its name will make it the host's node.
            Lookup::Found(owner)
                if owner.name.is_none()
                    && plan.seen.settings.adopts_unnamed_nodes
                    && node_spec::can_be_proven(address, &owner.bmc) =>
            {
                if let Err(step) = check_credentials(plan, true) {
                    return step;
                }
                let name = PatchOp::add("/name", body.name.clone());
                return plan.mutate_and_go_on(Effect::PatchNode {
                    node: owner.node.clone(),
                    ops: vec![name],
                });
            }
            Lookup::Found(owner) => {
                // Otherwise they would count as new in every pass, and end the back-off each time.
                try_credentials(plan, secret);
                return ports::taken(plan, owner);
            }
        }
    }
    if let Some(step) = plan.held_back(&ErrorType::Registration) {
        return step;
    }
    if *plan.state() != ProvisioningState::Registering {
        plan.begin_registration();
    }
    try_credentials(plan, secret);
    ports::forget(plan);
    plan.event(EventReason::Registered, "Registered new host");
    plan.mutate_and_go_on(Effect::CreateNode(Box::new(body)))
}

fn registered(plan: &mut PlanBuilder<'_>, node: &Node, ops: Vec<PatchOp>, secret: &Secret<'_>) -> Step {
    plan.status.provisioning.id.clone_from(&node.uuid);
    if let Some(holder) = &node.reservation
        && (!ops.is_empty() || node.provision_state == ProvisionState::Enroll)
    {
        return Step::Wait(locked(node, holder));
    }
    match &node.provision_state {
        ProvisionState::Enroll => enrolled(plan, node, ops, secret),
        ProvisionState::Verifying => Step::Wait(verifying(plan, node)),
        // Its current operation was started with the right data.
        state if !can_patch(state) => {
            // Edits and new credentials stay pending until the node can be patched.
            if !is_new(plan, secret) {
                accepted(plan, secret);
            }
            Step::Continue
        }
        _ => {
            match configure(plan, node, ops, secret) {
                Step::Continue => {}
                step => return step,
            }
            if let Some(step) = unproven(plan, secret) {
                return step;
            }
            accepted(plan, secret);
            plan.is_configured = !is_unknown(plan);
            Step::Continue
        }
    }
}

/// The changes of the node, then its ports.
fn configure(plan: &mut PlanBuilder<'_>, node: &Node, ops: Vec<PatchOp>, secret: &Secret<'_>) -> Step {
    if ops.is_empty() {
        return ports::ensure(plan, node);
    }
    try_credentials(plan, secret);
    plan.mutate_and_go_on(Effect::PatchNode {
        node: node.uuid.clone(),
        ops,
    })
}

/// Whether Ironic accepts changes of a node in this state.
fn can_patch(state: &ProvisionState) -> bool {
    match state {
        ProvisionState::Verifying
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::Deploying
        | ProvisionState::DeployWait
        | ProvisionState::Inspecting
        | ProvisionState::InspectWait
        | ProvisionState::Deleting
        | ProvisionState::Adopting
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::Rescuing
        | ProvisionState::RescueWait
        | ProvisionState::Unrescuing => false,
        ProvisionState::Enroll
        | ProvisionState::Manageable
        | ProvisionState::Available
        | ProvisionState::Active
        | ProvisionState::DeployFailed
        | ProvisionState::DeployHold
        | ProvisionState::CleanFailed
        | ProvisionState::CleanHold
        | ProvisionState::Error
        | ProvisionState::InspectFailed
        | ProvisionState::AdoptFailed
        | ProvisionState::Rescue
        | ProvisionState::RescueFailed
        | ProvisionState::UnrescueFailed
        | ProvisionState::ServiceFailed
        | ProvisionState::ServiceHold
        | ProvisionState::Other(_) => true,
    }
}

/// Ironic accepts new BMC access data without a check. Before the data counts as good, Ironic is asked to contact the
/// BMC with it.
fn unproven(plan: &mut PlanBuilder<'_>, secret: &Secret<'_>) -> Option<Step> {
    if !(plan.seen.reconfigured || is_tried_only(plan, secret)) {
        return None;
    }
    if let Some(step) = plan.held_back(&ErrorType::Registration) {
        return Some(step);
    }
    match &plan.seen.bmc_access {
        Lookup::NotLooked => Some(Step::Fetch(Read::BmcAccess)),
        Lookup::NotFound | Lookup::Found(Ok(())) => None,
        Lookup::Found(Err(why)) => {
            let message = format!(
                "The BMC at {} does not answer Ironic with the present address and credentials: {why}",
                plan.spec().bmc.address
            );
            Some(match plan.failure(&ErrorType::Registration, message.clone()) {
                Verdict::Hold(step) => step,
                // The check has just been made.
                Verdict::Retry => plan.fail(&ErrorType::Registration, message),
            })
        }
    }
}

/// A node that Ironic has not verified: first the port (by which the ramdisk is recognised), then `manage`.
fn enrolled(plan: &mut PlanBuilder<'_>, node: &Node, ops: Vec<PatchOp>, secret: &Secret<'_>) -> Step {
    match configure(plan, node, ops, secret) {
        Step::Continue => {}
        step => return step,
    }
    let fresh = is_new(plan, secret) || plan.is_edited() || plan.seen.reconfigured;
    if let Some(error) = &node.last_error
        && !fresh
    {
        let message = format!("Failed to verify the BMC at {}: {error}", plan.spec().bmc.address);
        match plan.failure(&ErrorType::Registration, message) {
            Verdict::Hold(step) => return step,
            Verdict::Retry => {}
        }
    } else if !fresh && let Some(step) = plan.held_back(&ErrorType::Registration) {
        return step;
    }
    try_credentials(plan, secret);
    let wait = verifying(plan, node);
    plan.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(Verb::Manage)),
        },
        wait,
    )
}

#[track_caller]
fn verifying(plan: &PlanBuilder<'_>, node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::Verifying,
        format!(
            "Ironic verifies node {} with the BMC at {}",
            node.uuid,
            plan.spec().bmc.address
        ),
    )
}
