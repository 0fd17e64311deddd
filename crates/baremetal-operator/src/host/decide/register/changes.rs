//! The differences between an existing node and the specification, or what keeps the node from being changed.

use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_bmc::BmcAddress;
use metal3_ironic::{Node, NodeDetail, PatchOp, ProvisionState};

use super::can_patch;
use super::credentials::{Secret, is_new};
use super::denied::denied;
use super::media::media_url;
use crate::host::builder::{PlanBuilder, Step, locked};
use crate::host::decide::proof::{self, check_credentials};
use crate::host::decide::{network_data, ramdisk};
use crate::host::identity::{self, node_name};
use crate::host::node_spec::{self, MediaUrl, Target};
use crate::host::observed::Lookup;
use crate::host::plan::{Effect, EventReason, Read, WaitReason};
use crate::host::ramdisk::Ramdisk;

/// The changes of this node, or the step that comes first.
pub(super) fn changes(
    plan: &mut PlanBuilder<'_>,
    address: &BmcAddress,
    node: &Node,
    detail: &NodeDetail,
    secret: &Secret<'_>,
) -> Result<Vec<PatchOp>, Step> {
    // New credentials do not wait for a ramdisk. Until they are sent, each pass would end the back-off of a failed
    // ramdisk.
    let ramdisk = if is_new(plan, secret) {
        ramdisk::unbuilt(plan)
    } else {
        ramdisk::wanted(plan, address)?
    };
    let media = media_url(plan, address, Some(node))?;
    let is_own = identity::is_own(node, &plan.seen.host, &plan.status);
    if !is_own && let Some(step) = not_ours(plan, address, node, detail) {
        return Err(step);
    }
    if is_in_use(plan.state())
        && let Some(difference) = node_spec::another_bmc(address, &detail.driver_info)
    {
        // A deletion uses the BMC access that is known to lead to the host's server.
        return Err(if plan.is_deleting() {
            Step::Continue
        } else {
            moved_bmc(plan, node, &difference)
        });
    }
    if let Some(step) = denied(plan, address, Some(detail)) {
        return Err(step);
    }
    let target = target(plan, address, &ramdisk, media);
    let is_unproven = *plan.state() == ProvisioningState::Registering
        && node.provision_state == ProvisionState::Enroll
        && !plan.is_deleting();
    // The type in the address was corrected. Nothing depends on the node yet.
    if is_unproven && node_spec::has_another_driver(&target, detail) {
        return Err(enrol_anew(plan, node));
    }
    if !plan.is_deleting() && node_spec::has_another_protocol(&target, detail) {
        return Err(another_type(plan, node));
    }
    // Masked passwords cannot be compared: BMC access data is sent completely when the Secret or a visible key changed.
    let access = match secret.found {
        // The credentials of a node that is being adopted are not ours, whatever the status says. If it is marked, they are: the
        // status, with the UUID, could not be stored after the adoption.
        Some(found)
            if !(is_own || identity::is_proven_for(node, &plan.seen.host))
                || is_new(plan, secret)
                || node_spec::access_differs(&target, detail) =>
        {
            Some(found.credentials())
        }
        None if !is_own || node_spec::access_differs(&target, detail) => return Err(Step::Fetch(Read::Credentials)),
        Some(_) | None => None,
    };
    let mut ops = node_spec::configure(&target, access.as_ref(), detail);
    if is_unproven {
        ops.extend(node_spec::boot(&target, node));
    }
    if let Some(mark) = proof_mark(plan, address, node, detail, secret, access.is_some(), is_own)? {
        ops.push(mark);
    }
    ops.extend(network_data::configure(plan, detail)?);
    // Found by its UUID, or by a legacy name.
    let name = node_name(&plan.seen.host);
    if node.name.as_ref() != Some(&name) {
        ops.push(PatchOp::add("/name", name));
    }
    Ok(ops)
}

/// What marks a node that was not enrolled for the host as the host's, once its BMC has accepted the credentials. Without it
/// the node is neither adopted nor given other credentials. A host that only rests keeps its node without the mark.
fn proof_mark(
    plan: &mut PlanBuilder<'_>,
    address: &BmcAddress,
    node: &Node,
    detail: &NodeDetail,
    secret: &Secret<'_>,
    is_needed: bool,
    is_own: bool,
) -> Result<Option<PatchOp>, Step> {
    let is_proven = identity::is_proven_for(node, &plan.seen.host);
    // Where the BMC is another, or its system may be, the node is refused as a whole.
    if is_proven
        || !node_spec::can_be_proven(address, &detail.driver_info)
        || (is_own && !can_patch(&node.provision_state))
    {
        return Ok(None);
    }
    if is_needed {
        check_credentials(plan, !is_own)?;
    } else {
        let was_refused = plan.seen.memory.refused_secret.as_deref() == Some(secret.version)
            && plan.seen.refusal_left(plan.now).is_some();
        match &plan.seen.credential_check {
            Lookup::Found(Ok(())) => {}
            Lookup::NotLooked if plan.is_deleting() || was_refused => return Ok(None),
            Lookup::NotLooked if secret.found.is_none() => return Err(Step::Fetch(Read::Credentials)),
            Lookup::NotLooked => return Err(Step::Fetch(Read::CredentialCheck)),
            Lookup::Found(Err(_)) | Lookup::NotFound => return Ok(None),
        }
    }
    let uid = plan.seen.host.metadata.uid.clone().unwrap_or_default();
    Ok(Some(PatchOp::add(format!("/extra/{}", identity::PROVEN_FOR), uid)))
}

fn enrol_anew(plan: &mut PlanBuilder<'_>, node: &Node) -> Step {
    match &node.reservation {
        Some(holder) => Step::Wait(locked(node, holder)),
        None => plan.mutate_and_go_on(Effect::DeleteNode {
            node: node.uuid.clone(),
        }),
    }
}

fn another_type(plan: &mut PlanBuilder<'_>, node: &Node) -> Step {
    let message = format!(
        "spec.bmc.address: the host is enrolled in Ironic with another type of BMC. Put the former address back, or {}",
        proof::for_a_new_node(&plan.seen.host, node)
    );
    plan.refuse(
        ErrorType::Registration,
        WaitReason::InvalidBMCDetails,
        EventReason::RegistrationError,
        message,
    )
}

/// Whether the server runs something, or is about to: with a new address the next power action would affect another
/// server, while this one keeps running.
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

fn moved_bmc(plan: &mut PlanBuilder<'_>, node: &Node, difference: &str) -> Step {
    // A status written by a user may refer to the node of another cluster: do not reveal its BMC.
    let difference = if identity::is_enrolled_for(node, &plan.seen.host) {
        format!(": {difference}")
    } else {
        String::new()
    };
    let message = format!(
        "spec.bmc.address leads to another BMC than the one by which the running server was set up{difference}. Ironic keeps the \
         former one. Put the former address back, and deprovision the host before you change it; or, where the BMC itself has moved, {}",
        proof::for_a_new_node(&plan.seen.host, node)
    );
    plan.refuse(
        ErrorType::Registration,
        WaitReason::InvalidBMCDetails,
        EventReason::RegistrationError,
        message,
    )
}

/// What keeps a node that was found by its name from being adopted, if anything does.
fn not_ours(plan: &mut PlanBuilder<'_>, address: &BmcAddress, node: &Node, detail: &NodeDetail) -> Option<Step> {
    if plan.is_deleting() {
        return Some(Step::Continue);
    }
    if identity::is_anothers(node, &plan.seen.host) {
        let message = format!(
            "the node to which status.provisioning.ID leads bears the name of another host in Ironic and is left alone. If the ID \
             came with annotation {}, delete this host and create it again without the annotation; if the other host is there no \
             more, delete the node in Ironic",
            annotation::STATUS
        );
        return Some(refuse_node(plan, message));
    }
    let has_own_name = node.name.as_ref() == Some(&node_name(&plan.seen.host));
    if !has_own_name && !plan.seen.settings.adopts_unnamed_nodes {
        return Some(refuse_node(plan, unnamed(node)));
    }
    let mac = plan.spec().boot_mac_address.to_ascii_lowercase();
    let difference = if !node_spec::can_be_proven(address, &detail.driver_info) {
        // It may be another tenant's BMC.
        Some(
            "its BMC or its system is not the one that spec.bmc.address names (a node without redfish_system_id is taken by an address \
             without a path only)"
                .to_owned(),
        )
    } else if mac.is_empty() {
        (!has_own_name).then(|| "spec.bootMACAddress, which would show that it is the same server, is empty".to_owned())
    } else {
        match &plan.seen.ports {
            Lookup::NotLooked => return Some(Step::Fetch(Read::Ports)),
            Lookup::Found(ports) if ports.iter().any(|port| port.address.eq_ignore_ascii_case(&mac)) => None,
            // It has no ports yet.
            Lookup::Found(ports) if ports.is_empty() && has_own_name => None,
            Lookup::NotFound if has_own_name => None,
            Lookup::Found(_) | Lookup::NotFound => {
                Some(format!("none of its ports has the host's boot MAC address {mac}"))
            }
        }
    }?;
    let message = format!(
        "a node in Ironic that leads to this host was not enrolled for it: {difference}. It may be that of another cluster, or made \
         by hand, and is left alone: give it another name, or delete it, or correct spec.bmc.address",
    );
    Some(refuse_node(plan, message))
}

fn refuse_node(plan: &mut PlanBuilder<'_>, message: String) -> Step {
    plan.refuse(
        ErrorType::Registration,
        WaitReason::NodeNotOurs,
        EventReason::RegistrationError,
        message,
    )
}

/// What was found if a node does not have the host's own name, and what to do. It does not identify the node: a node
/// without a tenant's name may be an administrator's.
fn unnamed(node: &Node) -> String {
    let what = match node.name {
        Some(_) => "a node in Ironic whose name has no namespace",
        None => "a node in Ironic without a name",
    };
    format!(
        "{what} leads to this host and is left alone: somebody may have enrolled it by hand. If it is this host's, delete it in Ironic \
         to have the host enrolled as a new one, or have the operator started with --adopt-unnamed-nodes; if it is not, give it \
         another name"
    )
}

pub(super) fn target<'t>(
    plan: &'t PlanBuilder<'_>,
    address: &'t BmcAddress,
    ramdisk: &'t Ramdisk,
    media: MediaUrl<'t>,
) -> Target<'t> {
    Target {
        host: &plan.seen.host,
        status: &plan.status,
        architecture: plan.architecture(),
        settings: &plan.seen.settings,
        address,
        ramdisk,
        media,
    }
}
