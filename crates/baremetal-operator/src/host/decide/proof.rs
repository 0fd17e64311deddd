//! The proof that a node is the host's, required before the node is changed.
//!
//! A node enrolled under the host's own UID needs no proof. Any other node is linked by the UUID in the host's status
//! or by the host's name, and a user may have written both. The annotation sets the status, and the UUID stands in the
//! server's metadata. The name matches if the user creates a namespace and a host with the names used in another cluster
//! that shares the Ironic. Such a node is changed only once its BMC, which must be the one that the host names, has
//! accepted the credentials of the host's Secret. A mark in the node records that ([`identity::PROVEN_FOR`]).

use jiff::Timestamp;
use metal3_api::metal3::names::annotation::{self, DETACHED};
use metal3_api::metal3::{BareMetalHost, ErrorType, ProvisioningState};
use metal3_bmc::BmcAddress;
use metal3_ironic::Node;
use metal3_runtime::store::ObjectKey;

use super::delete;
use super::finish::finish;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::next_check::Call;
use crate::host::observed::{Lookup, NodeView, Observed, SecretView};
use crate::host::plan::{Decision, Effect, EventReason, Plan, Read, Then, Wait, WaitReason};
use crate::host::{annotations, identity, node_spec};

/// Whether the node may be changed for the host.
///
/// # Errors
///
/// The read that is required to answer.
pub(super) fn is_proven(plan: &PlanBuilder<'_>, node: &Node) -> Result<bool, Read> {
    Ok(missing_proof(plan, node)?.is_none())
}

/// Whether it is known that the node is the host's: from its mark, or from the check of this pass.
pub(super) fn is_known(plan: &PlanBuilder<'_>, node: &Node) -> bool {
    plan.seen.has_proven(node) || is_proven(plan, node) == Ok(true)
}

/// The proof before something is done or told that depends on what only Ironic knows.
///
/// # Errors
///
/// The step that gets the proof, or says what is missing.
pub(super) fn require(plan: &mut PlanBuilder<'_>, node: &Node) -> Result<(), Step> {
    match missing_proof(plan, node) {
        Ok(None) => Ok(()),
        Ok(Some(missing)) => Err(refuse(plan, node, missing)),
        Err(read) => Err(Step::Fetch(read)),
    }
}

/// What is missing for the proof that a node is the host's.
#[derive(Clone, Copy)]
enum Missing {
    Address,
    Secret,
    Consent,
}

fn missing_proof(plan: &PlanBuilder<'_>, node: &Node) -> Result<Option<Missing>, Read> {
    if identity::is_proven_for(node, &plan.seen.host) {
        return Ok(None);
    }
    let Some(detail) = &node.detail else {
        return Err(Read::LiveNode);
    };
    let is_its_bmc = BmcAddress::parse(&plan.spec().bmc.address)
        .is_ok_and(|address| node_spec::can_be_proven(&address, &detail.driver_info));
    if !is_its_bmc {
        return Ok(Some(Missing::Address));
    }
    if plan.spec().bmc.credentials_name.is_empty() {
        return Ok(Some(Missing::Secret));
    }
    let found = match &plan.seen.secret {
        SecretView::Found(found) => found,
        SecretView::Missing | SecretView::Invalid { .. } => return Ok(Some(Missing::Secret)),
        SecretView::NotLooked { .. } => return Err(Read::Credentials),
    };
    let was_refused = plan.seen.memory.refused_secret.as_ref() == Some(&found.version);
    match &plan.seen.credential_check {
        Lookup::NotLooked if was_refused && plan.held_back(&ErrorType::Registration).is_some() => {
            Ok(Some(Missing::Consent))
        }
        Lookup::NotLooked => Err(Read::CredentialCheck),
        Lookup::Found(Ok(())) => Ok(None),
        Lookup::Found(Err(_)) | Lookup::NotFound => Ok(Some(Missing::Consent)),
    }
}

/// The node of a host, for calls outside of the host's own passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnNode {
    /// Ironic has none for the host, or the host is detached.
    None,
    /// The host's status and name lead to a node that is not proven to be the host's. The text says what is missing.
    Unproven(String),
    /// The node's UUID.
    Own(String),
}

/// The host's node, if it is proven to be its own.
///
/// # Errors
///
/// The read that is required to answer.
pub fn own_node(seen: &Observed) -> Result<OwnNode, Read> {
    let status = seen.host.status.as_ref();
    if annotations::detached(&seen.host).is_some() || identity::stored_uuid(status).is_none() {
        return Ok(OwnNode::None);
    }
    match &seen.node {
        NodeView::Live(node) | NodeView::Listed(node) if identity::is_enrolled_for(node, &seen.host) => {
            Ok(OwnNode::Own(node.uuid.clone()))
        }
        NodeView::Live(node) if !status.is_some_and(|status| identity::is_own(node, &seen.host, status)) => {
            Ok(OwnNode::None)
        }
        NodeView::Live(node) => {
            let missing = missing_proof(&PlanBuilder::new(seen, Timestamp::UNIX_EPOCH), node)?;
            Ok(match missing {
                None => OwnNode::Own(node.uuid.clone()),
                Some(missing) => OwnNode::Unproven(unproven(&seen.host, missing)),
            })
        }
        NodeView::Gone => Ok(OwnNode::None),
        NodeView::Listed(_) | NodeView::Unlisted | NodeView::Unknown { .. } => Err(Read::LiveNode),
    }
}

fn unproven(host: &BareMetalHost, missing: Missing) -> String {
    let key = ObjectKey::of(host);
    let secret = &host.spec.bmc.credentials_name;
    let what = match missing {
        Missing::Address => {
            "its spec.bmc.address does not name the node's BMC and system: put the former address back".to_owned()
        }
        Missing::Secret if secret.is_empty() => {
            "its spec.bmc.credentialsName is empty: name the Secret of its BMC".to_owned()
        }
        Missing::Secret => format!(
            "Secret {}/{secret} (spec.bmc.credentialsName) is missing or cannot be used: create or correct it",
            key.namespace
        ),
        Missing::Consent => format!(
            "its BMC does not accept the credentials of Secret {}/{secret}, or does not answer: correct the Secret, or see why",
            key.namespace
        ),
    };
    format!("it is not proven that the node in Ironic is that of BareMetalHost {key}: {what}")
}

/// Accepts a decision that neither changes a node nor tells anything of it, or only of a node that is proven to be the
/// host's.
pub(super) fn judge(seen: &Observed, now: Timestamp, decision: Decision) -> Decision {
    let (NodeView::Live(node) | NodeView::Listed(node)) = &seen.node else {
        return decision;
    };
    let needs_proof = match &decision {
        // It asks the node's BMC.
        Decision::Fetch(read) => *read == Read::Disc && !seen.has_proven(node),
        Decision::Act(decided) => {
            decided.effects.iter().any(Effect::is_ironic_mutation)
                || (!seen.has_proven(node) && (tells_of_node(seen, decided) || is_stuck_deletion(seen, decided)))
        }
    };
    if !needs_proof {
        return decision;
    }
    let mut plan = PlanBuilder::new(seen, now);
    match missing_proof(&plan, node) {
        Ok(None) => decision,
        Err(read) => Decision::Fetch(read),
        Ok(Some(missing)) => {
            let step = if plan.is_deleting() {
                plan.enter(ProvisioningState::Deleting);
                delete::leave(&mut plan)
            } else {
                refuse(&mut plan, node, missing)
            };
            let then = match step {
                Step::Wait(wait) => Then::Wait(wait),
                Step::Fetch(read) => return Decision::Fetch(read),
                Step::Gone => Then::Gone,
                Step::Move(_) | Step::Continue | Step::Idle | Step::Again => Then::Again,
            };
            finish(plan, then)
        }
    }
}

/// Whether a decision tells what only Ironic knows: the hardware, the power, the disc, or an error. A wait for the node does not need
/// the proof, because [neutral words](hide_foreign) take the place of what it says: the BMC of a moved host may be away for as long as
/// Ironic is busy with the node.
fn tells_of_node(seen: &Observed, decided: &Plan) -> bool {
    if let Lookup::Found(_) = seen.inventory {
        return true;
    }
    if let Lookup::Found(_) = seen.disc {
        return true;
    }
    let stored = seen.host.status.clone().unwrap_or_default();
    // Told by the user. Before the status is restored, its node must not be looked for: it would not be found.
    let is_restored = stored.last_updated.is_none()
        && annotations::value(&seen.host, annotation::STATUS).is_some_and(|text| annotations::status(text).is_ok());
    let told = decided.report.status.as_ref();
    !is_restored
        && told.is_some_and(|report| {
            let told = &report.status;
            let has_new_error = !told.error_message.is_empty() && told.error_message != stored.error_message;
            let wait = report.then.wait();
            told.powered_on != stored.powered_on || (has_new_error && !wait.is_some_and(|wait| is_of_host(wait.reason)))
        })
}

/// Whether what is refused for this reason is refused for what the host's own objects say.
fn is_of_host(reason: WaitReason) -> bool {
    matches!(
        reason,
        WaitReason::SecretMissing
            | WaitReason::InvalidBMCDetails
            | WaitReason::BMCNameUnresolved
            | WaitReason::NetworkDataIncomplete
            | WaitReason::ConfigDriveIncomplete
            | WaitReason::ImageAuthIncomplete
            | WaitReason::InvalidImage
            | WaitReason::InvalidAnnotation
            | WaitReason::NodeNotOurs
            | WaitReason::Unsupported
    )
}

/// Whether a host that is to go waits for its node to come to another state. If the node is somebody else's, it never will.
fn is_stuck_deletion(seen: &Observed, decided: &Plan) -> bool {
    let wait = decided.report.status.as_ref().and_then(|report| report.then.wait());
    wait.is_some_and(|wait| is_stuck(seen, wait))
}

fn is_stuck(seen: &Observed, wait: &Wait) -> bool {
    seen.host.metadata.deletion_timestamp.is_some() && wait.reason == WaitReason::UnexpectedNodeState
}

/// The proof that the host's owner has access to the BMC, without which a node that was not enrolled for this host is
/// neither adopted nor given other credentials: a user of another cluster may have given their host the same name.
pub(super) fn check_credentials(plan: &mut PlanBuilder<'_>, is_adoption: bool) -> Result<(), Step> {
    if let Some(step) = plan.held_back(&ErrorType::Registration) {
        return Err(step);
    }
    let why = match &plan.seen.credential_check {
        Lookup::NotLooked => return Err(Step::Fetch(Read::CredentialCheck)),
        Lookup::Found(Ok(())) => return Ok(()),
        Lookup::Found(Err(why)) => why.clone(),
        Lookup::NotFound => "Ironic cannot ask this type of BMC".to_owned(),
    };
    let what = if is_adoption {
        "a node in Ironic that leads to this host was not enrolled for it, and is adopted"
    } else {
        "the node of this host was not enrolled under its UID, and is given new credentials"
    };
    let message = format!(
        "{what} once the BMC at {} accepts the credentials of Secret {}: {why}",
        plan.spec().bmc.address,
        plan.spec().bmc.credentials_name
    );
    Err(plan.fail(&ErrorType::Registration, message))
}

/// What a user does for a host that is to have another node than this one, as its BMC is another.
pub(super) fn for_a_new_node(host: &BareMetalHost, node: &Node) -> String {
    let detach = format!("detach the host by annotation {DETACHED}, change the address, and let it come back");
    if identity::is_proven_for(node, host) {
        return detach;
    }
    // Detachment asks the BMC before it deletes such a node.
    format!(
        "{detach}. Where the BMC no longer answers at the former address, the node stays in Ironic: have it deleted there, by \
         `baremetal node maintenance set {name}` and `baremetal node delete {name}`",
        name = identity::node_name(host)
    )
}

fn refuse(plan: &mut PlanBuilder<'_>, node: &Node, missing: Missing) -> Step {
    if let Missing::Consent = missing
        && let Err(step) = check_credentials(plan, false)
    {
        return step;
    }
    let message = format!(
        "the node to which status.provisioning.ID leads was not enrolled under this host's UID, and its BMC is not the one that \
         spec.bmc.address names, or the host's Secret cannot be used: it is left alone. Where the BMC has moved, put the former address \
         back, {}",
        for_a_new_node(&plan.seen.host, node)
    );
    plan.refuse(
        ErrorType::Registration,
        WaitReason::NodeNotOurs,
        EventReason::RegistrationError,
        message,
    )
}

/// Removes the UUID of a node that is not the host's from all messages: with it, a user could claim the node. Of one that is not
/// known to be the host's, nobody is told what it does or who has locked it.
pub(super) fn hide_foreign(plan: &mut PlanBuilder<'_>, then: &mut Then) {
    let Some(node) = plan.known() else { return };
    if let Then::Wait(wait) = then
        && !is_known(plan, node)
    {
        if wait.reason == WaitReason::NodeLocked {
            LOCKED.clone_into(&mut wait.message);
        } else if Call::of(wait.reason) == Call::Node && !is_stuck(plan.seen, wait) {
            // Woken by what it was to wait for.
            wait.reason = WaitReason::Verifying;
            UNPROVEN.clone_into(&mut wait.message);
        }
    }
    if node.uuid.is_empty() || identity::is_own(node, &plan.seen.host, &plan.status) {
        return;
    }
    let hide = |text: &mut String| {
        if text.contains(&node.uuid) {
            let named = format!("node {}", node.uuid);
            *text = text.replace(&named, OTHER).replace(&node.uuid, OTHER);
        }
    };
    if let Then::Wait(wait) = then {
        hide(&mut wait.message);
    }
    plan.events.iter_mut().for_each(|event| hide(&mut event.message));
    hide(&mut plan.status.error_message);
}

/// The wait for the lock of a node that may not be the host's.
const LOCKED: &str = "the node is locked in Ironic; the host goes on when the lock is gone";

/// The wait for what such a node does.
const UNPROVEN: &str = "the node in Ironic is not proven to be this host's yet, so nothing is told of it; the host goes on when Ironic \
    has finished with the node, and its BMC accepts the credentials of the host's Secret";

/// The placeholder for a node that is not the host's.
const OTHER: &str = "another node";
