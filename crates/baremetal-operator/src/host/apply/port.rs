//! Effects on the ports of the host's node in Ironic.

use metal3_ironic::{CreatePort, Error, ErrorClass, PatchOp, Port};

use crate::host::context::Context;
use crate::host::identity::port_mark;
use crate::host::observed::{ForeignPort, Lookup, Observed};

/// Creates a port for this MAC address. If the host can do without it and another node has it, that node is remembered.
pub(super) async fn create(
    ctx: &Context,
    seen: &mut Observed,
    node: &str,
    mac: &str,
    pxe_enabled: bool,
    is_needed: bool,
) -> Result<(), Error> {
    let body = CreatePort {
        node_uuid: node.to_owned(),
        address: mac.to_owned(),
        pxe_enabled,
        extra: port_mark(&seen.host),
    };
    match ctx.ironic.client()?.create_port(&body).await {
        Ok(port) => now_there(seen, port),
        Err(error) if !is_needed && error.class() == ErrorClass::Duplicate => {
            learn_owner(ctx, seen, node, mac).await?;
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

pub(super) async fn set_boot(
    ctx: &Context,
    seen: &mut Observed,
    node: &str,
    port: &str,
    pxe_enabled: bool,
) -> Result<(), Error> {
    let ops = [PatchOp::add("/pxe_enabled", pxe_enabled)];
    let port = ctx.ironic.client()?.patch_port(port, node, &ops).await?;
    now_there(seen, port);
    Ok(())
}

pub(super) async fn delete(ctx: &Context, seen: &mut Observed, node: &str, port: &str) -> Result<(), Error> {
    ctx.ironic.client()?.delete_port(port, node).await?;
    if let Lookup::Found(ports) = &mut seen.ports {
        ports.retain(|known| known.uuid != *port);
    }
    Ok(())
}

/// Looks up the node whose port blocks this one. If it has been freed in the meantime, the next pass creates the port.
async fn learn_owner(ctx: &Context, seen: &mut Observed, node: &str, mac: &str) -> Result<(), Error> {
    let Some(port) = ctx.ironic.client()?.ports_with_address(mac).await?.into_iter().next() else {
        return Ok(());
    };
    if port.node_uuid == node {
        now_there(seen, port);
        return Ok(());
    }
    let name = ctx
        .ironic
        .client()?
        .node(&port.node_uuid)
        .await?
        .and_then(|owner| owner.name);
    let foreign = ForeignPort {
        owner: name.unwrap_or(port.node_uuid),
        at: ctx.clock.now(),
    };
    seen.memory.foreign_ports.insert(mac.to_owned(), foreign);
    Ok(())
}

/// A port as Ironic returned it.
fn now_there(seen: &mut Observed, port: Port) {
    seen.memory.foreign_ports.remove(&port.address.to_ascii_lowercase());
    if let Lookup::Found(ports) = &mut seen.ports {
        ports.retain(|known| known.uuid != port.uuid);
        ports.push(port);
    } else {
        seen.ports = Lookup::Found(vec![port]);
    }
}
