//! Every managed host passes here before its state is asked: is there a node, does it know the right BMC, is it configured?
//!
//! A host at rest whose node is listed, whose Secret has the known version and whose specification was not edited
//! passes without a single call.

mod credentials;
mod media;
mod settings;
mod support;

use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_bmc::BmcAddress;
use metal3_ironic::{CreateNode, Node, NodeDetail, PatchOp, ProvisionRequest, ProvisionState, Verb};

use self::credentials::{Secret, accepted, credentials, is_new, is_tried_only, try_credentials};
pub(super) use self::media::wait_for_name;
use self::media::{is_unknown, media_url, unresolved};
pub(super) use self::settings::follow as follow_settings;
use self::support::unsupported;
use super::network_data;
use super::outage::outage;
use super::ports;
use super::ramdisk;
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::conditions;
use crate::host::identity;
use crate::host::identity::node_name;
use crate::host::node_spec::{self, MediaUrl, Target};
use crate::host::observed::{Lookup, NodeView, SecretView};
use crate::host::plan::{Effect, EventReason, Read, Wait, WaitReason};
use crate::host::ramdisk::Ramdisk;

/// `Continue` when the state may be asked.
pub(super) fn ensure_registered(draft: &mut PlanBuilder<'_>) -> Step {
    draft.is_configured = false;
    match draft.state() {
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
    match network_data::claim(draft) {
        Step::Continue => {}
        step => return step,
    }
    if is_settled(draft) {
        draft.is_configured = true;
        return Step::Continue;
    }
    let address = match BmcAddress::parse(&draft.spec().bmc.address) {
        Ok(address) => address,
        Err(error) if draft.is_deleting() => {
            // Nothing of such a host can be reached; its deletion must not depend on it.
            tracing::debug!(%error, "deleting a host with an unusable BMC address");
            return Step::Continue;
        }
        Err(error) => {
            return draft.refuse(
                ErrorType::Registration,
                WaitReason::InvalidBMCDetails,
                EventReason::BMCCredentialError,
                format!("spec.bmc.address: {error}"),
            );
        }
    };
    let secret = match credentials(draft) {
        Ok(Some(secret)) => secret,
        Ok(None) => return Step::Continue,
        Err(step) => return step,
    };
    if let Some(problem) = unsupported(draft, &address) {
        if draft.is_deleting() {
            return Step::Continue; // what is left to do needs none of it
        }
        return draft.refuse(
            ErrorType::Registration,
            WaitReason::Unsupported,
            EventReason::RegistrationError,
            problem,
        );
    }
    with_node(draft, &address, secret)
}

/// Nothing about the registration can have changed since the status was stored.
fn is_settled(draft: &PlanBuilder<'_>) -> bool {
    if draft.is_edited()
        || conditions::confirmed(&draft.status.conditions) != draft.seen.host.metadata.generation
        || draft.has_new_credentials()
        || !network_data::is_settled(draft)
        || !ramdisk::is_settled(draft, BmcAddress::parse(&draft.spec().bmc.address).ok().as_ref())
        || *draft.state() == ProvisioningState::Registering
        || draft.status.error_type == Some(ErrorType::Registration)
        || draft.status.good_credentials != draft.status.tried_credentials
    {
        return false;
    }
    let version_is_known = match &draft.seen.secret {
        SecretView::NotLooked { version } => {
            version.as_ref() == Some(&draft.status.good_credentials.credentials_version)
        }
        SecretView::Found(found) => found.version == draft.status.good_credentials.credentials_version,
        SecretView::Missing | SecretView::Invalid { .. } => false,
    };
    version_is_known
        && match &draft.seen.node {
            // A host at rest does not need Ironic; the others say themselves that they wait for it.
            NodeView::Unknown { .. } => !draft.status.provisioning.id.is_empty(),
            NodeView::Listed(node) | NodeView::Live(node) => {
                node.uuid == draft.status.provisioning.id
                    && identity::is_own(node, &draft.seen.host, &draft.status)
                    && !matches!(node.provision_state, ProvisionState::Enroll | ProvisionState::Verifying)
            }
            NodeView::Unlisted | NodeView::Gone => false,
        }
}

fn with_node(draft: &mut PlanBuilder<'_>, address: &BmcAddress, secret: Secret<'_>) -> Step {
    match &draft.seen.node {
        NodeView::Unknown { cause } => Step::Wait(outage(cause.as_ref())),
        // Nothing about it can be changed now, and what it is tried with is known.
        NodeView::Listed(node)
            if node.provision_state == ProvisionState::Verifying && node.uuid == draft.status.provisioning.id =>
        {
            Step::Wait(verifying(draft, node))
        }
        NodeView::Listed(node) if node.reservation.is_some() => {
            Step::Wait(locked(node, node.reservation.as_deref().unwrap_or_default()))
        }
        NodeView::Unlisted | NodeView::Listed(_) => Step::Fetch(Read::LiveNode),
        NodeView::Gone => {
            let Some(found) = secret.found else {
                return Step::Fetch(Read::Credentials);
            };
            // One that is built is given to the node when it is there.
            let ramdisk = ramdisk::unbuilt(draft);
            let media = match media_url(draft, address, None) {
                Ok(media) => media,
                Err(step) => return step,
            };
            if let Some(step) = unresolved(draft, address, &secret) {
                return step;
            }
            let body = node_spec::create(&target(draft, address, &ramdisk, media), &found.credentials());
            enrol(draft, address, body, &secret)
        }
        NodeView::Live(node) => {
            let Some(detail) = &node.detail else {
                return Step::Fetch(Read::LiveNode);
            };
            // New credentials wait for no ramdisk. While they were not sent, each look would end the back-off of one that failed.
            let ramdisk = if is_new(draft, &secret) {
                ramdisk::unbuilt(draft)
            } else {
                match ramdisk::wanted(draft, address) {
                    Ok(ramdisk) => ramdisk,
                    Err(step) => return step,
                }
            };
            let media = match media_url(draft, address, Some(node)) {
                Ok(media) => media,
                Err(step) => return step,
            };
            let is_own = identity::is_own(node, &draft.seen.host, &draft.status);
            if !is_own && let Some(step) = not_ours(draft, address, node, detail) {
                return step;
            }
            if is_in_use(draft.state())
                && let Some(difference) = node_spec::another_bmc(address, &detail.driver_info)
            {
                // What is left to do for it is done by the way that is known to lead to its server.
                return if draft.is_deleting() {
                    Step::Continue
                } else {
                    moved_bmc(draft, &difference)
                };
            }
            let target = target(draft, address, &ramdisk, media);
            let is_unproven = *draft.state() == ProvisioningState::Registering
                && node.provision_state == ProvisionState::Enroll
                && !draft.is_deleting();
            // The type in the address was corrected. Nothing hangs on the node yet.
            if is_unproven && node_spec::has_another_driver(&target, detail) {
                if let Some(holder) = &node.reservation {
                    return Step::Wait(locked(node, holder));
                }
                return draft.mutate_and_go_on(Effect::DeleteNode {
                    node: node.uuid.clone(),
                });
            }
            if !draft.is_deleting() && node_spec::has_another_protocol(&target, detail) {
                return draft.refuse(
                    ErrorType::Registration,
                    WaitReason::InvalidBMCDetails,
                    EventReason::RegistrationError,
                    "spec.bmc.address: the host is enrolled in Ironic with another type of BMC. Put the former address back, or \
                     detach the host by annotation baremetalhost.metal3.io/detached, change the address, and let it come back",
                );
            }
            // Masked passwords cannot be compared: BMC access is sent whole when the Secret or a visible key changed.
            let access = match secret.found {
                // Those of a node that is taken over are somebody else's, whatever the status says.
                Some(found) if !is_own || is_new(draft, &secret) || node_spec::access_differs(&target, detail) => {
                    Some(found.credentials())
                }
                None if !is_own || node_spec::access_differs(&target, detail) => return Step::Fetch(Read::Credentials),
                Some(_) | None => None,
            };
            let mut ops = node_spec::configure(&target, access.as_ref(), detail);
            if is_unproven {
                ops.extend(node_spec::boot(&target, node));
            }
            match network_data::configure(draft, detail) {
                Ok(op) => ops.extend(op),
                Err(step) => return step,
            }
            // Found by its identity, or by a name of older times.
            let name = node_name(&draft.seen.host);
            if node.name.as_ref() != Some(&name) {
                ops.push(PatchOp::add("/name", name));
            }
            registered(draft, node, ops, &secret)
        }
    }
}

/// Whether something runs on the server, or is about to: then another address would have the next power action meet another
/// server, while this one runs on.
fn is_in_use(state: &ProvisioningState) -> bool {
    match state {
        ProvisioningState::Provisioning
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete => true,
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => false,
    }
}

fn moved_bmc(draft: &mut PlanBuilder<'_>, difference: &str) -> Step {
    let message = format!(
        "spec.bmc.address leads to another BMC than the one by which the running server was set up: {difference}. Ironic keeps the \
         former one. Put the former address back, and deprovision the host before you change it; or, where the BMC itself has moved, \
         detach the host by annotation baremetalhost.metal3.io/detached, change the address, and let it come back"
    );
    draft.refuse(
        ErrorType::Registration,
        WaitReason::InvalidBMCDetails,
        EventReason::RegistrationError,
        message,
    )
}

/// What keeps a node that was found by its name from being taken over, if anything does.
fn not_ours(draft: &mut PlanBuilder<'_>, address: &BmcAddress, node: &Node, detail: &NodeDetail) -> Option<Step> {
    if draft.is_deleting() {
        return Some(Step::Continue);
    }
    if identity::is_anothers(node, &draft.seen.host) {
        let message = format!(
            "node {}, to which status.provisioning.ID leads, bears the name of another host in Ironic and is left alone. If the ID \
             came with annotation {}, delete this host and create it again without the annotation; if the other host is there no \
             more, delete the node in Ironic",
            node.uuid,
            annotation::STATUS
        );
        return Some(draft.refuse(
            ErrorType::Registration,
            WaitReason::NodeNotOurs,
            EventReason::RegistrationError,
            message,
        ));
    }
    let mac = draft.spec().boot_mac_address.to_ascii_lowercase();
    let difference = match node_spec::another_bmc(address, &detail.driver_info) {
        Some(difference) => Some(difference),
        None if mac.is_empty() => None,
        None => match &draft.seen.ports {
            Lookup::NotLooked => return Some(Step::Fetch(Read::Ports)),
            Lookup::Found(ports)
                if !ports.is_empty() && ports.iter().all(|port| port.address.to_ascii_lowercase() != mac) =>
            {
                Some(format!("none of its ports has the host's boot MAC address {mac}"))
            }
            Lookup::Found(_) | Lookup::NotFound => None,
        },
    }?;
    let name = node.name.as_ref();
    let named = name.map_or(String::new(), |name| format!(" has the name {name}, but"));
    let message = format!(
        "node {} in Ironic{named} was not enrolled for this host: {difference}. It may be that of another cluster, or made by hand, \
         and is left alone: give it another name, or delete it, or correct spec.bmc.address",
        node.uuid
    );
    Some(draft.refuse(
        ErrorType::Registration,
        WaitReason::NodeNotOurs,
        EventReason::RegistrationError,
        message,
    ))
}

fn target<'t>(
    draft: &'t PlanBuilder<'_>,
    address: &'t BmcAddress,
    ramdisk: &'t Ramdisk,
    media: MediaUrl<'t>,
) -> Target<'t> {
    Target {
        host: &draft.seen.host,
        status: &draft.status,
        architecture: draft.architecture(),
        settings: &draft.seen.settings,
        address,
        ramdisk,
        media,
    }
}

fn enrol(draft: &mut PlanBuilder<'_>, address: &BmcAddress, body: CreateNode, secret: &Secret<'_>) -> Step {
    // A node may stand under the boot MAC address already: with another host's name it is a mistake of the user.
    if !draft.spec().boot_mac_address.is_empty() {
        match &draft.seen.boot_mac_owner {
            Lookup::NotLooked => return Step::Fetch(Read::BootMacOwner),
            Lookup::NotFound => {}
            // Nobody's: enrolled by hand or by a discovery. It becomes the host's node by its name.
            Lookup::Found(owner) if owner.name.is_none() && node_spec::another_bmc(address, &owner.bmc).is_none() => {
                let name = PatchOp::add("/name", body.name.clone());
                return draft.mutate_and_go_on(Effect::PatchNode {
                    node: owner.node.clone(),
                    ops: vec![name],
                });
            }
            Lookup::Found(owner) => {
                // Else they would count as new at every look, and end the back-off each time.
                try_credentials(draft, secret);
                return ports::taken(draft, owner);
            }
        }
    }
    if let Some(step) = draft.held_back(&ErrorType::Registration) {
        return step;
    }
    if *draft.state() != ProvisioningState::Registering {
        draft.begin_registration();
    }
    try_credentials(draft, secret);
    ports::forget(draft);
    draft.event(EventReason::Registered, "Registered new host");
    draft.mutate_and_go_on(Effect::CreateNode(Box::new(body)))
}

fn registered(draft: &mut PlanBuilder<'_>, node: &Node, ops: Vec<PatchOp>, secret: &Secret<'_>) -> Step {
    draft.status.provisioning.id.clone_from(&node.uuid);
    if let Some(holder) = &node.reservation
        && (!ops.is_empty() || node.provision_state == ProvisionState::Enroll)
    {
        return Step::Wait(locked(node, holder));
    }
    match &node.provision_state {
        ProvisionState::Enroll => enrolled(draft, node, ops, secret),
        ProvisionState::Verifying => Step::Wait(verifying(draft, node)),
        // The node cannot be patched now, and what it is doing was started with the right data.
        ProvisionState::Cleaning
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
        | ProvisionState::Unrescuing => {
            // Edits and new credentials stay open until it can.
            if !is_new(draft, secret) {
                accepted(draft, secret);
            }
            Step::Continue
        }
        ProvisionState::Manageable
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
        | ProvisionState::Other(_) => {
            if !ops.is_empty() {
                try_credentials(draft, secret);
                return draft.mutate_and_go_on(Effect::PatchNode {
                    node: node.uuid.clone(),
                    ops,
                });
            }
            match ports::ensure(draft, node) {
                Step::Continue => {}
                step => return step,
            }
            if let Some(step) = unproven(draft, secret) {
                return step;
            }
            accepted(draft, secret);
            draft.is_configured = !is_unknown(draft);
            Step::Continue
        }
    }
}

/// Ironic takes another way to the BMC on trust. Before it counts as good, the BMC is asked by it.
fn unproven(draft: &mut PlanBuilder<'_>, secret: &Secret<'_>) -> Option<Step> {
    if !(draft.seen.reconfigured || is_tried_only(draft, secret)) {
        return None;
    }
    if let Some(step) = draft.held_back(&ErrorType::Registration) {
        return Some(step);
    }
    match &draft.seen.bmc_access {
        Lookup::NotLooked => Some(Step::Fetch(Read::BmcAccess)),
        Lookup::NotFound | Lookup::Found(Ok(())) => None,
        Lookup::Found(Err(why)) => {
            let message = format!(
                "The BMC at {} does not answer Ironic with the present address and credentials: {why}",
                draft.spec().bmc.address
            );
            Some(match draft.failure(&ErrorType::Registration, message.clone()) {
                Verdict::Hold(step) => step,
                // It was asked just now.
                Verdict::Retry => draft.fail(&ErrorType::Registration, message),
            })
        }
    }
}

/// A node that Ironic has not verified: the port first (the ramdisk is found by it), then `manage`.
fn enrolled(draft: &mut PlanBuilder<'_>, node: &Node, ops: Vec<PatchOp>, secret: &Secret<'_>) -> Step {
    if !ops.is_empty() {
        try_credentials(draft, secret);
        return draft.mutate_and_go_on(Effect::PatchNode {
            node: node.uuid.clone(),
            ops,
        });
    }
    match ports::ensure(draft, node) {
        Step::Continue => {}
        step => return step,
    }
    let fresh = is_new(draft, secret) || draft.is_edited() || draft.seen.reconfigured;
    if let Some(error) = &node.last_error
        && !fresh
    {
        let message = format!("Failed to verify the BMC at {}: {error}", draft.spec().bmc.address);
        match draft.failure(&ErrorType::Registration, message) {
            Verdict::Hold(step) => return step,
            Verdict::Retry => {}
        }
    } else if !fresh && let Some(step) = draft.held_back(&ErrorType::Registration) {
        return step;
    }
    try_credentials(draft, secret);
    let wait = verifying(draft, node);
    draft.mutate(
        Effect::Provision {
            node: node.uuid.clone(),
            request: Box::new(ProvisionRequest::from(Verb::Manage)),
        },
        wait,
    )
}

fn verifying(draft: &PlanBuilder<'_>, node: &Node) -> Wait {
    Wait::for_node(
        WaitReason::Verifying,
        format!(
            "Ironic verifies node {} with the BMC at {}",
            node.uuid,
            draft.spec().bmc.address
        ),
    )
}
