//! The fleet as Ironic last listed it. Pure: a list goes in, the hosts whose node changed come out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use metal3_ironic::Node;
use metal3_runtime::store::ObjectKey;

use super::node_view::{NodeView, Outage};
use super::pace::{self, Pace, Recent};
use super::slots::Busy;

/// The most nodes that one host claims: that of its status, and one that was read live. A user may write any number one after another.
const MOST_CLAIMS: usize = 2;

/// All cached nodes, and which hosts wait for one.
#[derive(Debug, Default)]
pub struct View {
    nodes: HashMap<String, Arc<Node>>,
    by_name: HashMap<String, String>,
    /// The hosts that claim a node, by the UUID in their status, because names can be legacy ones. A claim proves
    /// nothing, as a user can write it: all claiming hosts are woken, and so is the host that the node is named after.
    claimed: HashMap<String, Vec<ObjectKey>>,
    /// What each host claims, the latest last.
    claims: HashMap<ObjectKey, Vec<String>>,
    waiting: HashSet<ObjectKey>,
    /// Nodes that take a slot.
    busy: Busy,
    /// When a node was last read individually, since the last list was requested.
    learned: HashMap<String, Duration>,
    /// Nodes that were asked to change state, and when Ironic accepted, until a list that was requested later.
    asked_to_change: HashMap<String, Duration>,
    outage: Option<Outage>,
    is_complete: bool,
    /// How long Ironic takes for a list, smoothed.
    answer: Duration,
    /// When a node last changed or was asked to, or a host began to wait.
    moved: Duration,
}

impl View {
    /// Takes a complete list that was requested at this moment, and returns the affected hosts. A list takes time: a
    /// node read in the meantime is newer than its record in the list, unless the list shows a later change.
    pub fn replace(&mut self, list: Vec<Node>, asked: Duration) -> Vec<ObjectKey> {
        self.learned.retain(|_, at| *at >= asked);
        let mut woken = HashSet::new();
        let recovered = self.outage.take().is_some() || !self.is_complete;
        let mut nodes = HashMap::with_capacity(list.len());
        let mut by_name = HashMap::with_capacity(list.len());
        for node in list {
            let node = self.judge(node, asked, &mut woken);
            insert(&mut nodes, &mut by_name, node);
        }
        // Enrolled in the meantime.
        for uuid in self.learned.keys() {
            if let Some(node) = self.nodes.remove(uuid) {
                insert(&mut nodes, &mut by_name, node);
            }
        }
        // The remaining nodes were listed before and are gone.
        let gone: Vec<_> = self.nodes.values().flat_map(|node| self.hosts_of(node)).collect();
        woken.extend(gone);
        self.claimed.retain(|uuid, _| nodes.contains_key(uuid));
        self.claims.retain(|_, uuids| {
            uuids.retain(|uuid| nodes.contains_key(uuid));
            !uuids.is_empty()
        });
        if recovered {
            woken.extend(self.waiting.iter().cloned());
        }
        self.busy = Busy::default();
        for node in nodes.values() {
            self.busy.note(node);
        }
        self.asked_to_change.retain(|uuid, _| nodes.contains_key(uuid));
        self.nodes = nodes;
        self.by_name = by_name;
        self.is_complete = true;
        woken.into_iter().collect()
    }

    /// Takes the most recently changed nodes, listed at this moment, and returns the affected hosts. It implies nothing
    /// about other nodes.
    pub fn update(&mut self, list: Vec<Node>, asked: Duration) -> Vec<ObjectKey> {
        let mut woken = HashSet::new();
        for node in list {
            let node = self.judge(node, asked, &mut woken);
            self.busy.note(&node);
            insert(&mut self.nodes, &mut self.by_name, node);
        }
        woken.into_iter().collect()
    }

    /// Judges one record of a list that was requested at this moment: whether it is the newer one, and which hosts it
    /// wakes.
    fn judge(&mut self, node: Node, asked: Duration, woken: &mut HashSet<ObjectKey>) -> Arc<Node> {
        let known = self.take(&node.uuid);
        let is_old = self.learned.get(&node.uuid).is_some_and(|at| *at >= asked)
            && known
                .as_ref()
                .is_some_and(|known| known.provision_updated_at >= node.provision_updated_at);
        let is_same = known.as_ref().is_some_and(|known| **known == node);
        let agreed = self.asked_to_change.get(&node.uuid).copied();
        if agreed.is_some_and(|agreed| agreed <= asked) {
            self.asked_to_change.remove(&node.uuid);
            // Ironic changes the state before it accepts the request. So an unchanged record means that the change is
            // already over: an inspection that takes less than a second ends in the state that it began in.
            woken.extend(self.hosts_of(&node).filter(|_| is_same));
        }
        match known {
            Some(known) if is_same || is_old => known,
            known => {
                self.moved = self.moved.max(asked);
                woken.extend(self.hosts_of(&node));
                // Also the host that a renamed node was named after.
                woken.extend(known.iter().flat_map(|known| self.hosts_of(known)));
                Arc::new(node)
            }
        }
    }

    /// Ironic did not answer. Returns the waiting hosts, once per cause.
    pub fn fail(&mut self, outage: Outage) -> Vec<ObjectKey> {
        if self.outage.as_ref() == Some(&outage) {
            return Vec::new();
        }
        self.outage = Some(outage);
        self.waiting.iter().cloned().collect()
    }

    /// A newer record of one node, read for this host at this moment: the next list is compared with it. Returns whether it
    /// differs from what was known, and the other hosts that the change affects: the next list no longer shows it as a change.
    pub fn learn(&mut self, node: &Node, host: &ObjectKey, now: Duration) -> (bool, Vec<ObjectKey>) {
        self.learned.insert(node.uuid.clone(), now);
        let summary = Node {
            detail: None,
            ..node.clone()
        };
        let known = self.take(&summary.uuid);
        let is_same = known.as_ref().is_some_and(|known| **known == summary);
        if !is_same {
            self.moved = self.moved.max(now);
        }
        let states = known.iter().map(|known| &**known).chain([&summary]);
        let affected: HashSet<_> = states
            .filter(|_| !is_same)
            .flat_map(|node| self.hosts_of(node))
            .collect();
        self.busy.note(&summary);
        insert(&mut self.nodes, &mut self.by_name, Arc::new(summary));
        (!is_same, affected.into_iter().filter(|other| other != host).collect())
    }

    /// Removes a node, and its name unless another node has it by now.
    fn take(&mut self, uuid: &str) -> Option<Arc<Node>> {
        let known = self.nodes.remove(uuid)?;
        if let Some(name) = &known.name
            && self.by_name.get(name).is_some_and(|named| named == uuid)
        {
            self.by_name.remove(name);
        }
        Some(known)
    }

    /// Ironic accepted a state change of a node at this moment. Returns true if nothing had moved for long.
    pub fn agreed(&mut self, node: &str, now: Duration) -> bool {
        self.asked_to_change.insert(node.to_owned(), now);
        self.moves(now)
    }

    /// Something changes, or is about to. Returns true if nothing had for long, so that nodes are listed rarely.
    fn moves(&mut self, now: Duration) -> bool {
        let was_quiet = pace::is_patient(self.quiet(now));
        self.moved = self.moved.max(now);
        was_quiet
    }

    /// How long nothing has moved.
    fn quiet(&self, now: Duration) -> Duration {
        now.saturating_sub(self.moved)
    }

    /// The nodes that take a slot; `None` before the first list.
    pub fn busy(&self) -> Option<&Busy> {
        self.is_complete.then_some(&self.busy)
    }

    /// Like [`Self::busy`], but `None` while Ironic does not answer, because no host can start anything.
    pub fn busy_now(&self) -> Option<&Busy> {
        self.busy().filter(|_| self.outage.is_none())
    }

    /// The node of a host: by the UUID in its status, else by name.
    pub fn of(&self, id: &str, names: [&str; 2]) -> NodeView {
        let known = self
            .nodes
            .get(id)
            .or_else(|| names.iter().find_map(|n| self.nodes.get(self.by_name.get(*n)?)));
        match known {
            Some(node) => NodeView::Listed(node.clone()),
            None if self.is_complete && self.outage.is_none() => NodeView::Unlisted,
            None => NodeView::Unknown {
                cause: self.outage.clone(),
            },
        }
    }

    /// Whether a node with this UUID is cached.
    pub fn has(&self, id: &str) -> bool {
        self.nodes.contains_key(id)
    }

    /// Records that a host claims this node.
    pub fn claim(&mut self, id: &str, host: &ObjectKey) {
        let known = self.claimed.get(id);
        if id.is_empty() || known.is_some_and(|hosts| hosts.contains(host)) {
            return;
        }
        self.claimed.entry(id.to_owned()).or_default().push(host.clone());
        let ids = self.claims.entry(host.clone()).or_default();
        ids.push(id.to_owned());
        if ids.len() > MOST_CLAIMS {
            let former = ids.remove(0);
            self.unclaim(&former, host);
        }
    }

    fn unclaim(&mut self, id: &str, host: &ObjectKey) {
        if let Some(hosts) = self.claimed.get_mut(id) {
            hosts.retain(|other| other != host);
            if hosts.is_empty() {
                self.claimed.remove(id);
            }
        }
    }

    /// The host no longer exists here.
    pub fn forget(&mut self, host: &ObjectKey) {
        for id in self.claims.remove(host).unwrap_or_default() {
            self.unclaim(&id, host);
        }
        self.waiting.remove(host);
    }

    /// Sets whether a host waits for its node, or for Ironic. Returns true if this made the fleet move.
    pub fn set_waiting(&mut self, host: &ObjectKey, waits: bool, now: Duration) -> bool {
        if waits {
            let was_at_rest = self.waiting.is_empty();
            self.waiting.insert(host.clone()) && (self.moves(now) || was_at_rest)
        } else {
            self.waiting.remove(host);
            false
        }
    }

    /// The trouble with Ironic, if any.
    pub fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// Records how long Ironic took for a list.
    pub fn answered(&mut self, took: Duration) {
        self.answer = if self.answer.is_zero() {
            took
        } else {
            (self.answer * 3 + took) / 4
        };
    }

    /// Whether this record equals the cached one.
    pub fn knows(&self, node: &Node) -> bool {
        self.nodes.get(&node.uuid).is_some_and(|known| **known == *node)
    }

    /// The pause before the next full list, after one that took `took`: never shorter than that, so that lists do not
    /// queue up.
    pub fn pause(&self, pace: &Pace, took: Duration, now: Duration) -> Duration {
        let nodes = self.nodes.len();
        let (pause, least) = if self.waiting.is_empty() {
            (pace.cost(nodes, pace.slow_factor), pace.slow)
        } else if self.recent(pace, now).is_some() {
            (pace.cost(nodes, 2 * pace.fast_factor), pace.full)
        } else {
            (pace.while_waiting(nodes, self.answer, self.quiet(now)), pace.fast)
        };
        pause.max(took).clamp(least, pace.longest.max(least))
    }

    /// The incremental lists between two full lists: how many nodes, and how long before. `None` if no host waits, or
    /// if it would cover most nodes.
    pub fn recent(&self, pace: &Pace, now: Duration) -> Option<Recent> {
        let nodes = pace.recent + self.waiting.len().div_ceil(2);
        let is_worth_it = !self.waiting.is_empty() && self.is_complete && 4 * nodes <= 3 * self.nodes.len();
        is_worth_it.then(|| Recent {
            nodes,
            pause: pace.while_waiting(nodes, self.answer, self.quiet(now)),
        })
    }

    /// The hosts that a change of this node affects.
    fn hosts_of(&self, node: &Node) -> impl Iterator<Item = ObjectKey> {
        let named = node.name.as_deref().and_then(|name| name.split_once('~'));
        let named = named.map(|(namespace, name)| ObjectKey::new(namespace, name));
        let claimed = self.claimed.get(&node.uuid).into_iter().flatten();
        claimed.cloned().chain(named)
    }
}

fn insert(nodes: &mut HashMap<String, Arc<Node>>, by_name: &mut HashMap<String, String>, node: Arc<Node>) {
    if let Some(name) = &node.name {
        by_name.insert(name.clone(), node.uuid.clone());
    }
    nodes.insert(node.uuid.clone(), node);
}

#[cfg(test)]
mod tests;
