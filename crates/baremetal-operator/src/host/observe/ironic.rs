//! Reads from Ironic, the fleet and name servers.

use std::sync::Arc;

use metal3_bmc::BmcAddress;
use metal3_ironic::{Client, CreateNode, ErrorClass};
use metal3_runtime::conditions::whole_seconds;

use crate::fleet::Turn;
use crate::host::checks::{Access, Answer, Asker};
use crate::host::context::Context;
use crate::host::error::ObserveError;
use crate::host::observed::{Lookup, MacOwner, NodeView, Observed, SecretView};
use crate::host::{firmware, hardware, identity, node_spec, queue};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::operator::PROOF_AGAIN;

/// A slot to act on the node, or a place in the queue.
pub(super) fn slot(ctx: &Context, seen: &mut Observed) {
    let node = match &seen.node {
        NodeView::Live(node) | NodeView::Listed(node) => node.uuid.clone(),
        NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => seen
            .host
            .status
            .as_ref()
            .map(|s| s.provisioning.id.clone())
            .unwrap_or_default(),
    };
    let turn = queue::turn(&seen.host).unwrap_or_else(|| Turn::Wanted(whole_seconds(ctx.clock.now())));
    let slot = ctx.fleet.ask_for_slot(&ObjectKey::of(&*seen.host), &node, turn);
    seen.slot = Lookup::Found(slot);
}

/// The node by UUID, else by name, with its namespace and without. What the last list says of a name is not enough: the node may
/// have been renamed since, and another may have the name.
pub(super) async fn live_node(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let key = ObjectKey::of(&*seen.host);
    let id = identity::stored_uuid(seen.host.status.as_ref())
        .unwrap_or_default()
        .to_owned();
    let listed = match &seen.node {
        NodeView::Listed(node) | NodeView::Live(node) => node.uuid.clone(),
        NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => String::new(),
    };
    let (name, may_adopt) = (identity::node_name(&seen.host), identity::may_adopt(&seen.host));
    // A host may have a name that is the UUID of somebody else's node.
    let bare = key.name.clone();
    let bare = if may_adopt && !identity::is_uuid(&bare) {
        bare
    } else {
        String::new()
    };
    let mut asked: Vec<String> = Vec::new();
    for ident in [listed, id.clone(), name, bare] {
        if ident.is_empty() || asked.contains(&ident) {
            continue;
        }
        let now = ctx.clock.elapsed();
        if let Some(node) = ctx.ironic.client()?.node(&ident).await? {
            ctx.fleet.learn(&node, &key, now);
            let status = seen.host.status.clone().unwrap_or_default();
            let is_found = node.uuid == id || identity::is_named_after(&node, &seen.host);
            if identity::is_own(&node, &seen.host, &status) || (may_adopt && is_found) {
                seen.learn_node(node);
                return Ok(());
            }
        }
        asked.push(ident);
    }
    seen.node = NodeView::Gone;
    seen.memory.ports_with = None;
    Ok(())
}

fn live_uuid(seen: &Observed) -> Option<String> {
    match &seen.node {
        NodeView::Live(node) | NodeView::Listed(node) => Some(node.uuid.clone()),
        NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => None,
    }
}

pub(super) async fn ports(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    seen.ports = match live_uuid(seen) {
        Some(node) => Lookup::Found(ctx.ironic.client()?.ports_of(&node).await?),
        None => Lookup::NotFound,
    };
    Ok(())
}

pub(super) async fn boot_mac_owner(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let ports = ctx
        .ironic
        .client()?
        .ports_with_address(&seen.host.spec.boot_mac_address.to_ascii_lowercase())
        .await?;
    seen.boot_mac_owner = match ports.into_iter().next() {
        None => Lookup::NotFound,
        Some(port) => match ctx.ironic.client()?.node(&port.node_uuid).await? {
            None => Lookup::NotFound,
            Some(node) => Lookup::Found(MacOwner {
                node: node.uuid,
                name: node.name,
                bmc: node.detail.map(|detail| detail.driver_info).unwrap_or_default(),
            }),
        },
    };
    Ok(())
}

pub(super) async fn inventory(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    seen.inventory = match live_uuid(seen) {
        Some(node) => match ctx.ironic.client()?.inventory(&node).await? {
            Some(inventory) => Lookup::Found(Arc::new(hardware::details(&inventory))),
            None => Lookup::NotFound,
        },
        None => Lookup::NotFound,
    };
    Ok(())
}

pub(super) async fn bmc_access(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    seen.bmc_access = match live_uuid(seen) {
        Some(node) => ask_bmc(&ctx.ironic.client()?, &node).await?,
        None => Lookup::NotFound,
    };
    if !matches!(seen.bmc_access, Lookup::Found(Err(_))) {
        seen.memory.is_untried = false;
        seen.reconfigured = false;
    }
    Ok(())
}

/// Only errors about the BMC are an answer; trouble with Ironic itself is reported as such.
async fn ask_bmc(ironic: &Client, node: &str) -> Result<Answer, metal3_ironic::Error> {
    match ironic.ask_bmc(node).await {
        Ok(()) => Ok(Lookup::Found(Ok(()))),
        Err(error) => match error.class() {
            ErrorClass::Server | ErrorClass::Timeout => Ok(Lookup::Found(Err(error.message()))),
            // It cannot be checked this way: nothing is known, as before.
            ErrorClass::NotFound | ErrorClass::BadRequest => Ok(Lookup::NotFound),
            ErrorClass::Absent
            | ErrorClass::Unreachable
            | ErrorClass::Unauthorized
            | ErrorClass::Forbidden
            | ErrorClass::Locked
            | ErrorClass::Duplicate
            | ErrorClass::InvalidState
            | ErrorClass::Conflict
            | ErrorClass::VersionUnsupported
            | ErrorClass::Busy
            | ErrorClass::Protocol => Err(error),
        },
    }
}

/// Whether the BMC accepts the host's credentials, asked through a node that exists only for this question: Ironic has
/// no other way, and the password that it has for the node in question would be lost with the first attempt. The node
/// stays in the state enroll, in which Ironic does nothing with a server.
pub(super) async fn credential_check(ctx: &Context, asker: Asker, seen: &mut Observed) -> Result<(), ObserveError> {
    let (SecretView::Found(found), Ok(address)) = (&seen.secret, BmcAddress::parse(&seen.host.spec.bmc.address)) else {
        seen.credential_check = Lookup::NotFound;
        return Ok(());
    };
    let stored = match (&seen.node, &seen.boot_mac_owner) {
        (NodeView::Live(node), _) => node.detail.as_ref().map(|detail| &detail.driver_info),
        (_, Lookup::Found(owner)) => Some(&owner.bmc),
        (_, Lookup::NotLooked | Lookup::NotFound) => None,
    };
    let probe = node_spec::credential_check(&seen.host, &address, &found.credentials(), stored);
    let access = Access {
        location: node_spec::location(&probe.driver_info),
        is_unverified: seen.host.spec.bmc.disable_certificate_verification,
        digest: found.digest,
    };
    let version = found.version.clone();
    let ironic = ctx.ironic.client()?;
    let checks = ctx
        .memory
        .checks(&ObjectKey::of(&*seen.host), seen.host.metadata.uid.as_deref());
    seen.credential_check = checks
        .answer(access, asker, ctx.clock.elapsed(), ask_through(&ironic, &probe))
        .await?;
    let is_refused = !matches!(seen.credential_check, Lookup::Found(Ok(())));
    seen.memory.refused_secret = is_refused.then_some(version);
    let until = ctx.clock.now().saturating_add(PROOF_AGAIN).ok();
    seen.memory.refused_until = until.filter(|_| is_refused);
    Ok(())
}

/// Asks the BMC through a node that is made for it.
async fn ask_through(ironic: &Client, probe: &CreateNode) -> Result<Answer, metal3_ironic::Error> {
    match ironic.create_node(probe).await {
        // An earlier check was interrupted. It may have had other credentials.
        Err(error) if error.class() == ErrorClass::Duplicate => {
            ironic.delete_node(&probe.name).await?;
            ironic.create_node(probe).await?;
        }
        made => {
            made?;
        }
    }
    let answer = ask_bmc(ironic, &probe.name).await?;
    match ironic.delete_node(&probe.name).await {
        // Ironic still waits for a BMC that is silent. The next check deletes the node.
        Err(error) if error.class() == ErrorClass::Locked => {
            tracing::debug!(node = probe.name, "the node of the check is still locked");
        }
        deleted => deleted?,
    }
    Ok(answer)
}

/// The decision reports an address that cannot be parsed.
pub(super) async fn bmc_name(ctx: &Context, seen: &mut Observed) {
    seen.bmc_name = match BmcAddress::parse(&seen.host.spec.bmc.address) {
        Ok(address) => {
            let now = ctx.clock.elapsed();
            Lookup::Found(ctx.bmc_names.is_ipv6(seen.namespace(), address.host(), now).await)
        }
        Err(_) => Lookup::NotFound,
    };
}

/// A failure of the BMC is reported on the host; trouble with Ironic itself is reported as such.
pub(super) async fn disc(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let Some(node) = live_uuid(seen) else {
        seen.disc = Lookup::NotFound;
        return Ok(());
    };
    seen.disc = match ctx.ironic.client()?.virtual_media(&node).await {
        Ok(drives) => Lookup::Found(Ok(drives.iter().any(|drive| drive.is_disc_drive() && drive.inserted))),
        Err(error) if is_about_bmc(error.class()) || error.class() == ErrorClass::BadRequest => {
            Lookup::Found(Err(error.message()))
        }
        Err(error) => return Err(error.into()),
    };
    Ok(())
}

/// Whether a failed call that contacts the BMC is the BMC's failure.
fn is_about_bmc(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Server | ErrorClass::Timeout)
}

pub(super) async fn validation(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let Some(node) = live_uuid(seen) else {
        seen.validation = Lookup::NotFound;
        return Ok(());
    };
    let found = ctx.ironic.client()?.validate(&node).await?;
    let problems = [("boot", found.boot), ("deploy", found.deploy)];
    seen.validation = Lookup::Found(
        problems
            .into_iter()
            .filter_map(|(what, why)| Some(format!("{what}: {}", why?)))
            .collect(),
    );
    Ok(())
}

pub(super) async fn bios(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    seen.bios = match live_uuid(seen) {
        Some(node) => Lookup::Found(Arc::new(ctx.ironic.client()?.bios_settings(&node).await?)),
        None => Lookup::NotFound,
    };
    Ok(())
}

pub(super) async fn components(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    seen.components = match live_uuid(seen) {
        Some(node) => {
            let found = ctx.ironic.client()?.firmware(&node).await?;
            Lookup::Found(Arc::new(found.into_iter().filter_map(firmware::component).collect()))
        }
        None => Lookup::NotFound,
    };
    Ok(())
}
