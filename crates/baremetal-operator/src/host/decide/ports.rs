//! Ports: Ironic recognises a ramdisk that calls in by the MAC addresses of its node's ports.

mod lacking;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use metal3_api::metal3::{ErrorType, HardwareDetails, InspectionMode};
use metal3_ironic::{Node, NodeDetail, Port, ProvisionState};

use self::lacking::Lacking;
pub(super) use self::lacking::forget;
use crate::host::builder::{PlanBuilder, Step, Verdict, locked};
use crate::host::identity::PORT_MARK;
use crate::host::observed::{Lookup, MacOwner, is_recent};
use crate::host::plan::{Effect, Read};

/// Maximum ports that the operator creates for a host. A tenant may write any hardware details, and each port reserves its MAC
/// address in an Ironic that other tenants share. Servers have fewer physical NICs; a ramdisk needs the port of only one.
const MOST_PORTS: usize = 128;

/// A NIC that should have a port.
struct Wanted {
    /// In lower case, as Ironic stores it.
    mac: String,
    /// Whether the host boots from it.
    pxe_enabled: bool,
    /// Whether it is the NIC of the specification.
    is_boot: bool,
}

/// Returns `Continue` when every known NIC has its port.
pub(super) fn ensure(plan: &mut PlanBuilder<'_>, node: &Node) -> Step {
    follow(plan, node, Occasion::Other)
}

/// The same after an inspection that has just found this hardware. If a ramdisk made the inspection, our ports of
/// missing NICs are removed. A BMC, or a person who lists NICs by hand, may not know all of them, and may know some by
/// other addresses than the system. Ports created by others are left unchanged.
pub(super) fn ensure_found(
    plan: &mut PlanBuilder<'_>,
    node: &Node,
    detail: &NodeDetail,
    found: &HardwareDetails,
) -> Step {
    let is_by_ramdisk = detail.inspect_interface.as_deref() == Some("agent")
        && plan.spec().inspection_mode != Some(InspectionMode::Fast)
        && !plan.is_inspection_disabled();
    let occasion = if is_by_ramdisk {
        Occasion::Complete(found)
    } else {
        Occasion::Partial
    };
    follow(plan, node, occasion)
}

/// The occasion of a port check.
#[derive(Clone, Copy)]
enum Occasion<'a> {
    /// After an inspection that found all NICs of the host: these.
    Complete(&'a HardwareDetails),
    /// After an inspection that may have missed some.
    Partial,
    /// At any other time.
    Other,
}

fn follow(plan: &mut PlanBuilder<'_>, node: &Node, occasion: Occasion<'_>) -> Step {
    let boot = plan.spec().boot_mac_address.to_ascii_lowercase();
    let memory = &plan.seen.memory;
    if plan.status.hardware.is_none() && memory.ports_with == Some(boot) && !memory.has_due_port(plan.now) {
        return Step::Continue;
    }
    let mut wanted = match wanted(plan) {
        Ok(wanted) => wanted,
        Err(step) => return step,
    };
    let no_port = Vec::new();
    let ports = match &plan.seen.ports {
        Lookup::NotLooked => return Step::Fetch(Read::Ports),
        Lookup::NotFound => &no_port,
        Lookup::Found(ports) => ports,
    };
    let mut lacking = Lacking {
        beyond: wanted.len().saturating_sub(MOST_PORTS),
        ..Lacking::default()
    };
    wanted.truncate(MOST_PORTS);
    let is_full = ours(plan, ports).count() >= MOST_PORTS;
    let by_mac: HashMap<_, _> = ports
        .iter()
        .map(|port| (port.address.to_ascii_lowercase(), port))
        .collect();
    for nic in &wanted {
        let change = match by_mac.get(&nic.mac) {
            Some(port) if nic.pxe_enabled && port.pxe_enabled == Some(false) && may_change(node) => {
                set_boot(node, port, true)
            }
            Some(_) => continue,
            None => match owner_of(plan, nic) {
                Some(owner) => {
                    lacking
                        .taken
                        .push(format!("{} of {}", nic.mac, owner_words(plan, owner)));
                    continue;
                }
                // Ports of earlier hardware details count until an inspection removes them.
                None if is_full && !nic.is_boot => {
                    lacking.beyond += 1;
                    continue;
                }
                None => create(node, nic),
            },
        };
        if let Some(step) = ask(plan, node, change, &mut lacking) {
            return step;
        }
    }
    let surplus = surplus(plan, node, ports, &wanted);
    match occasion {
        Occasion::Complete(found) if may_tidy(node, ports, found) => {
            for change in surplus {
                if let Some(step) = ask(plan, node, change, &mut lacking) {
                    return step;
                }
            }
        }
        Occasion::Complete(_) | Occasion::Other => {
            let refusable = surplus.iter().filter_map(|change| {
                let mac = change.dispensable_port()?;
                Some(refusal(mac, change.label()))
            });
            lacking.undecided = refusable.collect();
        }
        // This kind of inspection removes no ports, whatever was rejected before.
        Occasion::Partial => {}
    }
    lacking.tell(plan);
    plan.has_ports = true;
    Step::Continue
}

/// Whether Ironic allows changing a port's role in booting.
fn may_change(node: &Node) -> bool {
    matches!(
        node.provision_state,
        ProvisionState::Enroll | ProvisionState::Manageable
    )
}

/// Only if nothing runs on the host, no ramdisk is expected, and a port is left by which Ironic recognises it.
fn may_tidy(node: &Node, ports: &[Port], found: &HardwareDetails) -> bool {
    let found: HashSet<_> = found.nics.iter().map(|nic| nic.mac.to_ascii_lowercase()).collect();
    let is_found = |port: &Port| found.contains(&port.address.to_ascii_lowercase());
    node.provision_state == ProvisionState::Manageable && ports.iter().any(is_found)
}

/// The effects that remove ports of NICs that are no longer known, or that the host no longer boots from: another
/// server may have the card by now. The port of the NIC in the specification is never removed.
fn surplus(plan: &PlanBuilder<'_>, node: &Node, ports: &[Port], wanted: &[Wanted]) -> Vec<Effect> {
    // With virtual media the ramdisk cannot tell which NIC it was booted from.
    let known = plan.hardware().ok().flatten();
    let tells_boot = known.is_some_and(|hardware| hardware.nics.iter().any(|nic| nic.pxe));
    let by_mac: HashMap<_, _> = wanted.iter().map(|nic| (nic.mac.as_str(), nic)).collect();
    let change = |port: &Port| match by_mac.get(port.address.to_ascii_lowercase().as_str()) {
        None => Some(delete(node, port)),
        Some(nic) if tells_boot && !nic.pxe_enabled && port.pxe_enabled == Some(true) => {
            Some(set_boot(node, port, false))
        }
        Some(_) => None,
    };
    ours(plan, ports).filter_map(change).collect()
}

/// The ports that the operator created for this host.
fn ours<'p>(plan: &PlanBuilder<'_>, ports: &'p [Port]) -> impl Iterator<Item = &'p Port> {
    let mark = crate::host::identity::port_mark(&plan.seen.host);
    ports
        .iter()
        .filter(move |port| port.extra.get(PORT_MARK) == mark.get(PORT_MARK))
}

/// The other node that has the port of this NIC, as seen since the last inspection; a new inspection may find the port
/// free. The host cannot do without the NIC that it boots from.
fn owner_of<'a>(plan: &PlanBuilder<'a>, nic: &Wanted) -> Option<&'a str> {
    let foreign = plan.seen.memory.foreign_ports.get(&nic.mac).filter(|_| !nic.is_boot)?;
    let inspected = plan.status.operation_history.inspect.start.as_ref();
    let is_known = is_recent(foreign.at, plan.now) && inspected.is_none_or(|start| start.0 <= foreign.at);
    is_known.then_some(foreign.owner.as_str())
}

/// How to refer to a node that has a MAC address: by its name if it is a host of the same namespace. Any other node is
/// not identified: its UUID would let others claim it.
fn owner_words(plan: &PlanBuilder<'_>, owner: &str) -> String {
    match owner.split_once('~') {
        Some((namespace, _)) if namespace == plan.seen.namespace() => format!("node {owner}"),
        Some(_) => "a node of another namespace's host".to_owned(),
        None => "another node".to_owned(),
    }
}

/// The boot NIC, and those that inspection found.
fn wanted(plan: &PlanBuilder<'_>) -> Result<Vec<Wanted>, Step> {
    let boot = plan.spec().boot_mac_address.to_ascii_lowercase();
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut places = HashMap::new();
    if !boot.is_empty() {
        places.insert(boot.clone(), 0);
        wanted.push(Wanted {
            mac: boot,
            pxe_enabled: true,
            is_boot: true,
        });
    }
    let nics = plan.hardware()?.into_iter().flat_map(|hardware| &hardware.nics);
    for nic in nics.filter(|nic| is_mac(&nic.mac)) {
        let mac = nic.mac.to_ascii_lowercase();
        match places.entry(mac) {
            // A NIC is listed once for each kind of address that it has.
            Entry::Occupied(place) => {
                if let Some(known) = wanted.get_mut(*place.get()) {
                    known.pxe_enabled |= nic.pxe;
                }
            }
            Entry::Vacant(place) => {
                wanted.push(Wanted {
                    mac: place.key().clone(),
                    pxe_enabled: nic.pxe,
                    is_boot: false,
                });
                place.insert(wanted.len() - 1);
            }
        }
    }
    Ok(wanted)
}

/// Six octets in hexadecimal, as Ironic requires.
pub(in crate::host::decide) fn is_mac(text: &str) -> bool {
    let mut octets = 0;
    text.split(':').all(|octet| {
        octets += 1;
        octet.len() == 2 && octet.chars().all(|c| c.is_ascii_hexdigit())
    }) && octets == 6
}

fn set_boot(node: &Node, port: &Port, pxe_enabled: bool) -> Effect {
    Effect::SetPortBoot {
        node: node.uuid.clone(),
        port: port.uuid.clone(),
        mac: port.address.to_ascii_lowercase(),
        pxe_enabled,
    }
}

fn delete(node: &Node, port: &Port) -> Effect {
    Effect::DeletePort {
        node: node.uuid.clone(),
        port: port.uuid.clone(),
        mac: port.address.to_ascii_lowercase(),
    }
}

fn create(node: &Node, nic: &Wanted) -> Effect {
    Effect::CreatePort {
        node: node.uuid.clone(),
        mac: nic.mac.clone(),
        pxe_enabled: nic.pxe_enabled,
        is_needed: nic.is_boot,
    }
}

/// The prefix of the message about a rejected change of the port with this MAC address.
fn refusal(mac: &str, label: &str) -> String {
    format!("{mac} (cannot {label}: ")
}

/// `None` for a change that Ironic has rejected and that the host can do without: the host continues and reports it.
fn ask(plan: &mut PlanBuilder<'_>, node: &Node, change: Effect, lacking: &mut Lacking) -> Option<Step> {
    let label = change.label();
    if let Some(mac) = change.dispensable_port()
        && let Some(refused) = plan.seen.memory.refused_ports.get(mac)
        && refused.change == label
        && is_recent(refused.at, plan.now)
    {
        lacking.refused.push(format!("{}{})", refusal(mac, label), refused.why));
        return None;
    }
    if let Some(holder) = &node.reservation {
        return Some(Step::Wait(locked(node, holder)));
    }
    // The port of the boot NIC.
    if change.dispensable_port().is_none() {
        match &plan.seen.boot_mac_owner {
            Lookup::NotLooked => return Some(Step::Fetch(Read::BootMacOwner)),
            Lookup::Found(owner) if owner.node != node.uuid => return Some(taken(plan, owner)),
            Lookup::Found(_) | Lookup::NotFound => {}
        }
        // Without it Ironic cannot recognise the host in any state: the registration is incomplete.
        let refusal = ErrorType::Registration;
        if let Some(step) = plan.held_back(&refusal) {
            return Some(step);
        }
        plan.refusal = Some(refusal);
    }
    Some(plan.mutate_and_go_on(change))
}

/// Another node boots from the same address: a mistake of the user. It is reported and retried.
pub(super) fn taken(plan: &mut PlanBuilder<'_>, owner: &MacOwner) -> Step {
    let own = if owner.name.is_none() && plan.seen.settings.adopts_unnamed_nodes {
        "; where that node is this server's, make its driver_info the BMC and the system of spec.bmc.address"
    } else {
        ""
    };
    let message = format!(
        "spec.bootMACAddress: a port with MAC address {} belongs to {} in Ironic already; \
         two hosts cannot have the same one: correct the field of the one that has not this NIC, or, where the NIC was moved \
         here, remove the port of that node by `baremetal port delete`{own}",
        plan.spec().boot_mac_address,
        owner_words(plan, owner.name.as_ref().unwrap_or(&owner.node))
    );
    match plan.failure(&ErrorType::Registration, message.clone()) {
        Verdict::Hold(step) => step,
        // The lookup has just shown that it is still taken.
        Verdict::Retry => plan.fail(&ErrorType::Registration, message),
    }
}
