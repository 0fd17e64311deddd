//! Effects on the host's node in Ironic.

use metal3_ironic::{CreateNode, Error, ErrorClass, PatchOp, PowerTarget, ProvisionRequest, Verb};
use metal3_runtime::timing::operator::SOFT_POWER_OFF;
use serde_json::Value;

use crate::host::context::Context;
use crate::host::instance;
use crate::host::named_url::NamedUrl;
use crate::host::observed::{DiscRequest, Lookup, Memory, NodeView, Observed, PowerRequest, PullSecretView};
use metal3_runtime::store::ObjectKey;

const MAINTENANCE_REASON: &str = "set by the baremetal-operator to allow the removal of this node";

pub(super) async fn create(ctx: &Context, seen: &mut Observed, body: &CreateNode) -> Result<(), Error> {
    let asked = ctx.clock.elapsed();
    let node = ctx.ironic.client()?.create_node(body).await?;
    seen.learn_credentials();
    ctx.fleet.learn(&node, &ObjectKey::of(&*seen.host), asked);
    seen.learn_node(node);
    // A node that has just been created has no ports and no inventory.
    seen.ports = Lookup::NotFound;
    seen.memory.ports_with = None;
    seen.memory.foreign_ports.clear();
    seen.memory.refused_ports.clear();
    seen.memory.is_uninspected = true;
    untried(seen);
    Ok(())
}

pub(super) async fn change(ctx: &Context, seen: &mut Observed, node: &str, ops: &[PatchOp]) -> Result<(), Error> {
    let asked = ctx.clock.elapsed();
    let mut node = ctx.ironic.client()?.patch_node(node, ops).await?;
    // The response shows the lock of this call, which ended with it: the next step need not wait for it.
    node.reservation = None;
    if ops.iter().any(|op| op.path == "/driver_info") {
        seen.learn_credentials();
        untried(seen);
    }
    if ops.iter().any(|op| op.path == "/network_data") {
        seen.memory.network_data = seen.network_data.version().map(str::to_owned);
    }
    if instance::sends_pull_secret(ops)
        && let PullSecretView::Ready(secret) = &seen.pull_secret
    {
        seen.memory.sent_pull_secret = Some(secret.digest);
    }
    ctx.fleet.learn(&node, &ObjectKey::of(&*seen.host), asked);
    seen.learn_node(node);
    Ok(())
}

pub(super) async fn set_target_raid(
    ctx: &Context,
    seen: &mut Observed,
    node: &str,
    logical_disks: &[Value],
) -> Result<(), Error> {
    ctx.ironic.client()?.set_target_raid(node, logical_disks).await?;
    look_again(seen);
    Ok(())
}

pub(super) async fn provision(
    ctx: &Context,
    seen: &mut Observed,
    node: &str,
    request: &ProvisionRequest,
) -> Result<(), Error> {
    if request.target == Verb::Inspect {
        seen.memory.refused_ports.clear(); // it may find that they need not change, or Ironic that they may
    }
    let answer = ctx.ironic.client()?.provision(node, request).await;
    // Also after a failure: the request may have succeeded although its response was lost.
    ctx.fleet.acted(&ObjectKey::of(&*seen.host), ctx.clock.elapsed());
    answer?;
    ctx.fleet.agreed(node, ctx.clock.elapsed());
    seen.memory.deployed_with = Some(seen.deployment_secrets.clone());
    seen.memory.deployment_error = None;
    seen.memory.is_untried = false;
    seen.memory.is_uninspected &= request.target != Verb::Inspect;
    if request.target == Verb::Service {
        seen.memory.disc_request = None; // what was asked for is in the drive, and Ironic may eject it
    }
    Ok(())
}

pub(super) async fn power(ctx: &Context, seen: &mut Observed, node: &str, target: PowerTarget) -> Result<(), Error> {
    let is_soft = matches!(target, PowerTarget::SoftOff | PowerTarget::SoftReboot);
    let timeout = is_soft.then_some(SOFT_POWER_OFF);
    let answer = ctx.ironic.client()?.power(node, target, timeout).await;
    if is_soft && answer.as_ref().is_err_and(|e| e.class() == ErrorClass::BadRequest) {
        seen.memory.no_soft_power_off = true; // the next pass switches it off the hard way
    }
    answer?;
    ctx.metrics
        .upstream
        .power(&ObjectKey::of(&*seen.host), target == PowerTarget::On);
    seen.memory.power_request = Some(PowerRequest {
        on: target == PowerTarget::On,
    });
    seen.memory.disc_request = None;
    Ok(())
}

pub(super) async fn attach_disc(ctx: &Context, seen: &mut Observed, node: &str, url: &NamedUrl) -> Result<(), Error> {
    let answer = ctx.ironic.client()?.attach_disc(node, url.as_str()).await;
    disc_changes(seen, DiscRequest::Attach, answer)
}

pub(super) async fn detach_disc(ctx: &Context, seen: &mut Observed, node: &str) -> Result<(), Error> {
    let answer = ctx.ironic.client()?.detach_disc(node).await;
    disc_changes(seen, DiscRequest::Detach, answer)
}

/// The node and its drive have to be read again. A rejection is an observation, because it is reported on the
/// DataImage.
fn disc_changes(seen: &mut Observed, request: DiscRequest, answer: Result<(), Error>) -> Result<(), Error> {
    seen.disc = Lookup::NotLooked;
    look_again(seen);
    match answer {
        Ok(()) => seen.memory.disc_request = Some(request),
        Err(error) if error.class() == ErrorClass::BadRequest => seen.disc_refusal = Some(error.message()),
        Err(error) => return Err(error),
    }
    Ok(())
}

pub(super) async fn set_maintenance(ctx: &Context, seen: &mut Observed, node: &str) -> Result<(), Error> {
    ctx.ironic.client()?.set_maintenance(node, MAINTENANCE_REASON).await?;
    look_again(seen);
    Ok(())
}

pub(super) async fn clear_maintenance(ctx: &Context, seen: &mut Observed, node: &str) -> Result<(), Error> {
    ctx.ironic.client()?.clear_maintenance(node).await?;
    look_again(seen);
    Ok(())
}

pub(super) async fn delete(ctx: &Context, seen: &mut Observed, node: &str) -> Result<(), Error> {
    ctx.ironic.client()?.delete_node(node).await?;
    seen.node = NodeView::Gone;
    // Its ports were deleted with it.
    seen.ports = Lookup::NotFound;
    seen.boot_mac_owner = Lookup::NotLooked;
    // The memory of the deleted node does not apply to another node under this name.
    seen.memory = Memory::default();
    Ok(())
}

/// Remembered until Ironic contacts the BMC, even over a lock or an outage in between.
fn untried(seen: &mut Observed) {
    seen.reconfigured = true;
    seen.memory.is_untried = true;
}

/// The response did not contain the current node.
fn look_again(seen: &mut Observed) {
    if let NodeView::Live(node) = &seen.node {
        seen.node = NodeView::Listed(node.clone());
    }
}
