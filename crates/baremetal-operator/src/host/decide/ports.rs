//! Ports: by the MAC addresses of a node's ports Ironic recognises the ramdisk that calls in.

use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::{BareMetalHost, ErrorType, HardwareDetails, InspectionMode};
use metal3_ironic::{Node, NodeDetail, Port, ProvisionState};
use metal3_runtime::conditions::{self, Claim};
use serde_json::{Map, Value};

use crate::host::draft::{Draft, Step, Verdict, locked, node_name};
use crate::host::observed::{Lookup, MacOwner};
use crate::host::plan::{Effect, EventReason, Need};

/// Our own condition, there only while it is `False`: another node in Ironic has a port with the MAC address of a NIC of this
/// host. The message names both.
const PORTS_COMPLETE: &str = "PortsComplete";

/// A NIC that should have a port.
struct Wanted {
    /// In lower case, as Ironic keeps it.
    mac: String,
    /// Whether the host boots from it.
    pxe_enabled: bool,
    /// The one of the specification.
    is_boot: bool,
}

/// Stands in `extra` of the ports that this operator has created: the name of the node that they were created for.
const MARK: &str = "metal3_host";

/// What tells our ports from those that Ironic's inspection or somebody by hand has created.
pub fn mark(host: &BareMetalHost) -> Map<String, Value> {
    Map::from_iter([(MARK.to_owned(), node_name(host).into())])
}

/// `Continue` when every NIC that is known has its port.
pub(super) fn ensure(draft: &mut Draft<'_>, node: &Node) -> Step {
    follow(draft, node, None)
}

/// The same after an inspection that has just found this. Where the ramdisk made it, no port of ours is left of a NIC that is gone:
/// a BMC need not know all NICs, nor whoever writes them down by hand, and may know some by other addresses than the system.
/// What others have created is left as it is.
pub(super) fn ensure_found(draft: &mut Draft<'_>, node: &Node, detail: &NodeDetail, found: &HardwareDetails) -> Step {
    let is_by_ramdisk = detail.inspect_interface.as_deref() == Some("agent")
        && draft.spec().inspection_mode != Some(InspectionMode::Fast)
        && !draft.is_inspection_disabled();
    follow(draft, node, is_by_ramdisk.then_some(found))
}

/// `complete`: all NICs that the host has.
fn follow(draft: &mut Draft<'_>, node: &Node, complete: Option<&HardwareDetails>) -> Step {
    let memory = &draft.seen.memory;
    let boot = draft.spec().boot_mac_address.to_ascii_lowercase();
    let mut foreign = memory.foreign_ports.values();
    let is_one_due = foreign.any(|port| !port.is_recent(draft.now));
    if draft.status.hardware.is_none() && memory.ports_with == Some(boot) && !is_one_due {
        return Step::Continue;
    }
    let wanted = match wanted(draft) {
        Ok(wanted) => wanted,
        Err(step) => return step,
    };
    let no_port = Vec::new();
    let ports = match &draft.seen.ports {
        Lookup::NotLooked => return Step::Look(Need::Ports),
        Lookup::NotFound => &no_port,
        Lookup::Found(ports) => ports,
    };
    let mut missing = Vec::new();
    for nic in &wanted {
        let port = ports.iter().find(|port| port.address.eq_ignore_ascii_case(&nic.mac));
        let step = match port {
            Some(port) if nic.pxe_enabled && port.pxe_enabled == Some(false) && may_change(node) => {
                set_boot(draft, node, port, true)
            }
            Some(_) => continue,
            None => match owner_of(draft, nic) {
                Some(owner) => {
                    missing.push(format!("{} of node {owner}", nic.mac));
                    continue;
                }
                None => create(draft, node, nic),
            },
        };
        return step;
    }
    if let Some(step) = complete.and_then(|found| tidy(draft, node, ports, &wanted, found)) {
        return step;
    }
    tell(draft, &missing);
    draft.has_ports = true;
    Step::Continue
}

/// Where Ironic lets a port's role in booting be changed.
fn may_change(node: &Node) -> bool {
    matches!(
        node.provision_state,
        ProvisionState::Enroll | ProvisionState::Manageable
    )
}

/// Takes back what was created for NICs that an inspection did not find again, or that the host does not boot from any more:
/// another server may have the card by now. Only where nothing runs on the host and no ramdisk is waited for, never the one that the
/// specification names, and only where one is left by which Ironic recognises the ramdisk.
fn tidy(
    draft: &mut Draft<'_>,
    node: &Node,
    ports: &[Port],
    wanted: &[Wanted],
    found: &HardwareDetails,
) -> Option<Step> {
    let is_found = |port: &Port| found.nics.iter().any(|nic| nic.mac.eq_ignore_ascii_case(&port.address));
    if node.provision_state != ProvisionState::Manageable || !ports.iter().any(is_found) {
        return None;
    }
    // With virtual media the ramdisk cannot tell what it was booted from.
    let tells_boot = found.nics.iter().any(|nic| nic.pxe);
    let ours = mark(&draft.seen.host);
    for port in ports.iter().filter(|port| port.extra.get(MARK) == ours.get(MARK)) {
        match wanted.iter().find(|nic| nic.mac.eq_ignore_ascii_case(&port.address)) {
            None => return Some(delete(draft, node, port)),
            Some(nic) if tells_boot && !nic.pxe_enabled && port.pxe_enabled == Some(true) => {
                return Some(set_boot(draft, node, port, false));
            }
            Some(_) => {}
        }
    }
    None
}

/// The other node that has the port of this NIC, as far as that was seen since the last inspection, after which the NIC may
/// have a place of its own. The host cannot do without the one that it boots from.
fn owner_of<'a>(draft: &Draft<'a>, nic: &Wanted) -> Option<&'a str> {
    let foreign = draft.seen.memory.foreign_ports.get(&nic.mac).filter(|_| !nic.is_boot)?;
    let inspected = draft.status.operation_history.inspect.start.as_ref();
    let is_known = foreign.is_recent(draft.now) && inspected.is_none_or(|start| start.0 <= foreign.at);
    is_known.then_some(foreign.owner.as_str())
}

/// Says which NICs have no port because another node has it.
fn tell(draft: &mut Draft<'_>, foreign: &[String]) {
    if foreign.is_empty() {
        conditions::remove(&mut draft.status.conditions, PORTS_COMPLETE);
        return;
    }
    let message = format!(
        "NICs of this host have MAC addresses that Ironic has as those of ports of other nodes: {}. The host goes on without \
         these ports. Where the NIC was moved here, have that node's host inspected again by its ramdisk (annotation \
         inspect.metal3.io), which removes a port of the operator's, or remove it by `baremetal port delete`; then have this host inspected again, or edit \
         it an hour later",
        foreign.join(", ")
    );
    let stored = conditions::get(&draft.status.conditions, PORTS_COMPLETE);
    if stored.is_none_or(|stored| stored.message != message) {
        draft.note(EventReason::PortAddressTaken, message.clone());
    }
    let claim = Claim {
        type_: PORTS_COMPLETE,
        status: ConditionStatus::False,
        reason: "AddressTaken",
        message: &message,
    };
    let generation = draft.seen.host.metadata.generation;
    conditions::set(&mut draft.status.conditions, &claim, generation, draft.now);
}

/// The boot NIC, and what inspection found.
fn wanted(draft: &Draft<'_>) -> Result<Vec<Wanted>, Step> {
    let boot = draft.spec().boot_mac_address.to_ascii_lowercase();
    let mut wanted: Vec<Wanted> = Vec::new();
    if !boot.is_empty() {
        wanted.push(Wanted {
            mac: boot,
            pxe_enabled: true,
            is_boot: true,
        });
    }
    let nics = draft.hardware()?.into_iter().flat_map(|hardware| &hardware.nics);
    for nic in nics.filter(|nic| is_mac(&nic.mac)) {
        let mac = nic.mac.to_ascii_lowercase();
        match wanted.iter_mut().find(|known| known.mac == mac) {
            // One NIC is listed once for each kind of address that it has.
            Some(known) => known.pxe_enabled |= nic.pxe,
            None => wanted.push(Wanted {
                mac,
                pxe_enabled: nic.pxe,
                is_boot: false,
            }),
        }
    }
    Ok(wanted)
}

/// Six octets in hexadecimal, as Ironic wants them.
pub(in crate::host::decide) fn is_mac(text: &str) -> bool {
    let mut octets = 0;
    text.split(':').all(|octet| {
        octets += 1;
        octet.len() == 2 && octet.chars().all(|c| c.is_ascii_hexdigit())
    }) && octets == 6
}

fn set_boot(draft: &mut Draft<'_>, node: &Node, port: &Port, pxe_enabled: bool) -> Step {
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    draft.mutate_and_go_on(Effect::SetPortBoot {
        node: node.uuid.clone(),
        port: port.uuid.clone(),
        pxe_enabled,
    })
}

fn delete(draft: &mut Draft<'_>, node: &Node, port: &Port) -> Step {
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    draft.mutate_and_go_on(Effect::DeletePort {
        node: node.uuid.clone(),
        port: port.uuid.clone(),
    })
}

fn create(draft: &mut Draft<'_>, node: &Node, nic: &Wanted) -> Step {
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    if nic.is_boot {
        match &draft.seen.boot_mac_owner {
            Lookup::NotLooked => return Step::Look(Need::BootMacOwner),
            Lookup::Found(owner) if owner.node != node.uuid => return taken(draft, owner),
            Lookup::Found(_) | Lookup::NotFound => {}
        }
    }
    draft.mutate_and_go_on(Effect::CreatePort {
        node: node.uuid.clone(),
        mac: nic.mac.clone(),
        pxe_enabled: nic.pxe_enabled,
        is_needed: nic.is_boot,
    })
}

/// Another node boots from the same address: a mistake of the user, who is told and tried again.
pub(super) fn taken(draft: &mut Draft<'_>, owner: &MacOwner) -> Step {
    let message = format!(
        "spec.bootMACAddress: a port with MAC address {} belongs to node {} in Ironic already; \
         two hosts cannot have the same one: correct the field of the one that has not this NIC, or, where the NIC was moved \
         here, remove the port of that node by `baremetal port delete`",
        draft.spec().boot_mac_address,
        owner.name.as_ref().unwrap_or(&owner.node)
    );
    match draft.failure(&ErrorType::Registration, message.clone()) {
        Verdict::Hold(step) => step,
        // It was looked up just now and is still taken.
        Verdict::Retry => draft.fail(&ErrorType::Registration, message),
    }
}
