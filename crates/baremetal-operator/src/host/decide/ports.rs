//! Ports: by the MAC addresses of a node's ports Ironic recognises the ramdisk that calls in.

use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::ErrorType;
use metal3_ironic::{Node, Port};
use metal3_runtime::conditions::{self, Claim};

use crate::host::draft::{Draft, Step, Verdict, locked};
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

/// `Continue` when every NIC that is known has its port. What Ironic has besides is left as it is, and a port that may be
/// booted from stays one: an inspection through the BMC does not say what the host boots from.
pub(super) fn ensure(draft: &mut Draft<'_>, node: &Node) -> Step {
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
    for nic in &wanted {
        let port = ports.iter().find(|port| port.address.eq_ignore_ascii_case(&nic.mac));
        let step = match port {
            Some(port) if nic.pxe_enabled && port.pxe_enabled == Some(false) => enable(draft, node, port),
            Some(_) => continue,
            None if owner_of(draft, nic).is_some() => continue,
            None => create(draft, node, nic),
        };
        return step;
    }
    tell(draft, &wanted);
    draft.has_ports = true;
    Step::Continue
}

/// The other node that has the port of this NIC. The host cannot do without the one that it boots from.
fn owner_of<'a>(draft: &Draft<'a>, nic: &Wanted) -> Option<&'a str> {
    let foreign = draft.seen.memory.foreign_ports.get(&nic.mac).filter(|_| !nic.is_boot)?;
    foreign.is_recent(draft.now).then_some(foreign.owner.as_str())
}

/// Says which NICs have no port because another node has it.
fn tell(draft: &mut Draft<'_>, wanted: &[Wanted]) {
    let foreign: Vec<String> = wanted
        .iter()
        .filter_map(|nic| Some(format!("{} of node {}", nic.mac, owner_of(draft, nic)?)))
        .collect();
    if foreign.is_empty() {
        conditions::remove(&mut draft.status.conditions, PORTS_COMPLETE);
        return;
    }
    let message = format!(
        "NICs of this host have MAC addresses that Ironic has as those of ports of other nodes: {}. The host goes on without \
         these ports; where they are this host's, delete them in Ironic (baremetal port delete): when the host is edited an \
         hour later or more, they are created here",
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

fn enable(draft: &mut Draft<'_>, node: &Node, port: &Port) -> Step {
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    draft.mutate_and_go_on(Effect::EnablePort {
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
         two hosts cannot have the same one",
        draft.spec().boot_mac_address,
        owner.name.as_ref().unwrap_or(&owner.node)
    );
    match draft.failure(&ErrorType::Registration, message.clone()) {
        Verdict::Hold(step) => step,
        // It was looked up just now and is still taken.
        Verdict::Retry => draft.fail(&ErrorType::Registration, message),
    }
}
