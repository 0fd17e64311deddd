//! The simulator's full state: nodes, ports and servers, with their scheduled events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Map, Value};
use url::Url;

use crate::agenda::{Agenda, Item};
use crate::clock::Clock;
use crate::config::Config;
use crate::node::Node;
use crate::port::Port;
use crate::refusal::Refusal;
use crate::rules::Rules;
use crate::server::{Counters, Faults, Machine, Server};
use crate::words::State;

/// The state behind the API.
#[derive(Debug)]
pub(crate) struct World {
    pub config: Config,
    pub clock: Clock,
    /// The moment at which everything happens that happens now.
    pub now: Duration,
    pub random: fastrand::Rng,
    /// By number, which is also the order of lists.
    pub nodes: BTreeMap<u32, Node>,
    by_uuid: HashMap<String, u32>,
    by_name: HashMap<String, u32>,
    by_instance: HashMap<String, u32>,
    pub ports: BTreeMap<u32, Port>,
    port_by_uuid: HashMap<String, u32>,
    port_by_mac: HashMap<String, u32>,
    node_ports: BTreeSet<(u32, u32)>,
    machine_nodes: BTreeSet<(u32, u32)>,
    /// Those that anything happened to.
    machines: HashMap<u32, Machine>,
    /// How many nodes are in each state.
    populations: HashMap<State, usize>,
    pub agenda: Agenda,
    pub rules: Rules,
    /// Requests by method and kind of path.
    pub requests: BTreeMap<String, u64>,
    /// What happened to nodes without a server.
    pub strangers: Counters,
    /// How long nodes that had come to rest waited for the next change.
    pub reactions: Vec<Duration>,
    last_number: u32,
}

impl World {
    pub fn new(config: Config, clock: Clock) -> Self {
        Self {
            random: fastrand::Rng::with_seed(config.seed),
            rules: Rules::new(config.seed),
            config,
            clock,
            now: Duration::ZERO,
            nodes: BTreeMap::new(),
            by_uuid: HashMap::new(),
            by_name: HashMap::new(),
            by_instance: HashMap::new(),
            ports: BTreeMap::new(),
            port_by_uuid: HashMap::new(),
            port_by_mac: HashMap::new(),
            node_ports: BTreeSet::new(),
            machine_nodes: BTreeSet::new(),
            machines: HashMap::new(),
            populations: HashMap::new(),
            agenda: Agenda::default(),
            requests: BTreeMap::new(),
            strangers: Counters::default(),
            reactions: Vec::new(),
            last_number: 0,
        }
    }

    // --- time ---

    /// Lets everything happen that is due by a moment.
    pub fn run_until(&mut self, moment: Duration) {
        while let Some((at, item)) = self.agenda.take(moment) {
            self.now = self.now.max(at);
            match item {
                Item::Task { node, epoch } => {
                    if self.nodes.get(&node).is_some_and(|n| n.epoch == epoch) {
                        self.go_on(node);
                    }
                }
                Item::PowerSync { machine, failures } => self.sync_power(machine, failures),
                Item::PowerRecovery { machine } => self.recover_power(machine),
            }
        }
        self.now = self.now.max(moment);
    }

    /// The first multiple of an interval that is not before a moment.
    pub fn boundary(moment: Duration, interval: Duration) -> Duration {
        let (moment_ns, interval_ns) = (moment.as_nanos(), interval.as_nanos().max(1));
        let count = moment_ns.div_ceil(interval_ns);
        u64::try_from(count * interval_ns).map_or(Duration::MAX, Duration::from_nanos)
    }

    // --- nodes ---

    /// The number of a node by uuid or name.
    pub fn find(&self, ident: &str) -> Result<u32, Refusal> {
        let found = self.by_uuid.get(ident).or_else(|| self.by_name.get(ident));
        found.copied().ok_or_else(|| Refusal::node_not_found(ident))
    }

    /// A node that is there.
    pub fn node(&mut self, number: u32) -> Result<&mut Node, Refusal> {
        let missing = || Refusal::node_not_found(&number.to_string());
        self.nodes.get_mut(&number).ok_or_else(missing)
    }

    pub fn new_uuid(&mut self) -> String {
        let bytes = self.random.u128(..).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// The number of a node of this name, other than this one.
    pub fn has_name(&self, name: &str, except: Option<u32>) -> bool {
        self.by_name.get(name).is_some_and(|number| Some(*number) != except)
    }

    pub fn has_uuid(&self, uuid: &str) -> bool {
        self.by_uuid.contains_key(uuid)
    }

    /// Whether another node has this instance.
    pub fn has_instance(&self, instance: &str, except: u32) -> bool {
        self.by_instance.get(instance).is_some_and(|number| *number != except)
    }

    /// Changes a node on behalf of a client.
    pub fn reacted(&mut self, number: u32) {
        let now = self.now;
        if let Some(rested) = self.nodes.get_mut(&number).and_then(|node| node.rested.take()) {
            self.reactions.push(now.saturating_sub(rested));
        }
    }

    /// Takes in a new node.
    pub fn insert(&mut self, mut node: Node) -> u32 {
        self.last_number += 1;
        let number = self.last_number;
        node.machine = self.machine_behind(&node.driver_info);
        self.index(number, &node);
        *self.populations.entry(node.state).or_default() += 1;
        self.nodes.insert(number, node);
        self.count(number, |counters| counters.creates += 1);
        number
    }

    /// Replaces what the record says after a patch.
    pub fn reindex(&mut self, number: u32, change: impl FnOnce(&mut Node)) {
        let Some(mut node) = self.nodes.remove(&number) else {
            return;
        };
        self.unindex(number, &node);
        change(&mut node);
        node.machine = self.machine_behind(&node.driver_info);
        self.index(number, &node);
        self.nodes.insert(number, node);
    }

    /// Takes a node out, with its ports.
    pub fn remove(&mut self, number: u32) {
        self.count(number, |counters| counters.deletes += 1);
        if let Some(node) = self.nodes.remove(&number) {
            self.unindex(number, &node);
            self.leave(node.state);
        }
        let ports: Vec<u32> = self.ports_of(number).collect();
        for port in ports {
            self.take_port(port);
        }
    }

    fn index(&mut self, number: u32, node: &Node) {
        self.by_uuid.insert(node.uuid.clone(), number);
        self.by_name.extend(node.name.clone().map(|name| (name, number)));
        self.by_instance
            .extend(node.instance_uuid.clone().map(|instance| (instance, number)));
        self.machine_nodes.extend(node.machine.map(|machine| (machine, number)));
    }

    fn unindex(&mut self, number: u32, node: &Node) {
        self.by_uuid.remove(&node.uuid);
        node.name.as_ref().map(|name| self.by_name.remove(name));
        node.instance_uuid
            .as_ref()
            .map(|instance| self.by_instance.remove(instance));
        node.machine
            .map(|machine| self.machine_nodes.remove(&(machine, number)));
    }

    /// Moves a node to a state. The target follows from it unless `target` says otherwise.
    pub fn enter(&mut self, number: u32, state: State, target: Option<State>) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        let before = node.state;
        node.state = state;
        node.target = state.target().map(|usual| target.unwrap_or(usual));
        node.provision_updated = Some(now);
        node.updated = Some(now);
        match (before, state) {
            (_, State::Inspecting) => (node.inspection_started, node.inspection_finished) = (Some(now), None),
            (State::Inspecting | State::InspectWait, State::Manageable) => {
                (node.inspection_started, node.inspection_finished) = (None, Some(now));
            }
            (State::Inspecting | State::InspectWait, State::InspectFailed) => node.inspection_started = None,
            _ => {}
        }
        self.leave(before);
        *self.populations.entry(state).or_default() += 1;
    }

    fn leave(&mut self, state: State) {
        if let Some(count) = self.populations.get_mut(&state) {
            *count = count.saturating_sub(1);
        }
    }

    /// How many nodes are in states like these.
    pub fn population(&self, is_counted: impl Fn(State) -> bool) -> usize {
        let counted = self.populations.iter().filter(|(state, _)| is_counted(**state));
        counted.map(|(_, count)| count).sum()
    }

    // --- ports ---

    pub fn find_port(&self, uuid: &str) -> Option<u32> {
        self.port_by_uuid.get(uuid).copied()
    }

    pub fn port_with(&self, mac: &str) -> Option<u32> {
        self.port_by_mac.get(&mac.to_ascii_lowercase()).copied()
    }

    /// The ports of a node, in the order of their creation.
    pub fn ports_of(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.node_ports
            .range((node, 0)..=(node, u32::MAX))
            .map(|(_, port)| *port)
    }

    pub fn insert_port(&mut self, port: Port) -> u32 {
        self.last_number += 1;
        self.put_port(self.last_number, port);
        self.last_number
    }

    /// Puts a port under a number that is free.
    pub fn put_port(&mut self, number: u32, port: Port) {
        self.port_by_uuid.insert(port.uuid.clone(), number);
        self.port_by_mac.insert(port.address.clone(), number);
        self.node_ports.insert((port.node, number));
        self.ports.insert(number, port);
    }

    /// Takes a port out.
    pub fn take_port(&mut self, number: u32) -> Option<Port> {
        let port = self.ports.remove(&number)?;
        self.port_by_uuid.remove(&port.uuid);
        self.port_by_mac.remove(&port.address);
        self.node_ports.remove(&(port.node, number));
        Some(port)
    }

    // --- servers ---

    /// The server behind a node's BMC address.
    fn machine_behind(&self, driver_info: &Map<String, Value>) -> Option<u32> {
        let text = |key: &str| driver_info.get(key).and_then(Value::as_str);
        let host = match text("redfish_address") {
            Some(address) => Url::parse(address).ok()?.host_str()?.to_owned(),
            None => text("ipmi_address")?.to_owned(),
        };
        let number = Server::number_at(host.parse::<Ipv4Addr>().ok()?)?;
        (number < self.config.servers).then_some(number)
    }

    pub fn machine(&mut self, number: u32) -> &mut Machine {
        self.machines.entry(number).or_default()
    }

    /// The server of a node.
    pub fn machine_of(&mut self, node: u32) -> Option<&mut Machine> {
        let number = self.nodes.get(&node)?.machine?;
        Some(self.machine(number))
    }

    pub fn faults_of(&self, node: u32) -> Option<&Faults> {
        let number = self.nodes.get(&node)?.machine?;
        self.machines.get(&number)?.faults.as_deref()
    }

    pub fn counters(&self, machine: u32) -> Counters {
        self.machines
            .get(&machine)
            .map(|machine| machine.counters)
            .unwrap_or_default()
    }

    pub fn all_counters(&self) -> impl Iterator<Item = (u32, Counters)> + '_ {
        self.machines
            .iter()
            .map(|(number, machine)| (*number, machine.counters))
    }

    pub fn count(&mut self, node: u32, one_more: impl FnOnce(&mut Counters)) {
        match self.machine_of(node) {
            Some(machine) => one_more(&mut machine.counters),
            None => one_more(&mut self.strangers),
        }
    }

    /// The nodes of a server: one, unless it was enrolled twice.
    pub fn nodes_of(&self, machine: u32) -> Vec<u32> {
        let of_it = self.machine_nodes.range((machine, 0)..=(machine, u32::MAX));
        of_it.map(|(_, node)| *node).collect()
    }

    // --- catastrophes ---

    /// Forgets every node and port. Servers stay as they are.
    pub fn wipe(&mut self) {
        self.nodes.clear();
        self.by_uuid.clear();
        self.by_name.clear();
        self.by_instance.clear();
        self.ports.clear();
        self.port_by_uuid.clear();
        self.port_by_mac.clear();
        self.node_ports.clear();
        self.machine_nodes.clear();
        self.populations.clear();
    }

    /// What a conductor does when it starts after a crash: what was under way has failed, locks are gone. What waits for
    /// a ramdisk goes on waiting.
    pub fn crash(&mut self) {
        let held: Vec<u32> = self
            .nodes
            .iter()
            .filter(|(_, n)| n.is_locked)
            .map(|(number, _)| *number)
            .collect();
        for number in held {
            let Some(node) = self.nodes.get_mut(&number) else {
                continue;
            };
            node.is_locked = false;
            node.target_power = None;
            node.epoch += 1;
            node.task = None;
            let target = node.target;
            if let Some(failed) = node.state.after_crash() {
                node.last_error = Some("Operation was aborted due to conductor take over".to_owned());
                self.enter(number, failed, target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_multiples() {
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        assert_eq!(World::boundary(s(61), s(30)), s(90));
        assert_eq!(World::boundary(s(60), s(30)), s(60));
        assert_eq!(World::boundary(ms(1), ms(200)), ms(200));
    }
}
