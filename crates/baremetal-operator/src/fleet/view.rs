//! The fleet as Ironic last listed it. Pure: a list goes in, the hosts whose node changed come out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use metal3_ironic::Node;

use super::slots::is_counted;
use crate::host::observed::{NodeView, Outage};

/// A host by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostKey {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

/// How often Ironic is listed. The interval follows what a list costs Ironic, which grows with the number of nodes, so that
/// listing never takes more than a fixed share of it. Ironic's answer time alone would mislead: on a busy Ironic it is mostly
/// queueing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Between lists while somebody waits for a node.
    pub fast: Duration,
    /// Between lists while nobody does.
    pub slow: Duration,
    /// The longest pause, whatever a list costs.
    pub longest: Duration,
    /// Ironic's CPU time for one node of a list: measured, 0.17 s for 500.
    pub per_node: Duration,
    /// A pause is at least this many times a list's CPU time while somebody waits: a tenth of one core.
    pub fast_factor: u32,
    /// The same while nobody does.
    pub slow_factor: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            fast: Duration::from_millis(150),
            slow: Duration::from_secs(5),
            longest: Duration::from_secs(60),
            per_node: Duration::from_micros(350),
            fast_factor: 10,
            slow_factor: 50,
        }
    }
}

/// What is known of all nodes, and who waits for one.
#[derive(Debug, Default)]
pub struct View {
    nodes: HashMap<String, Arc<Node>>,
    by_name: HashMap<String, String>,
    /// The host of a node by the identity in its status: names can be legacy ones.
    owners: HashMap<String, HostKey>,
    waiting: HashSet<HostKey>,
    /// Nodes that take a slot.
    busy: HashSet<String>,
    /// When a node was last read by itself, since the last list was asked for.
    learned: HashMap<String, Duration>,
    /// Nodes that were asked to change their state, and when Ironic agreed, until a list that was asked for later.
    asked_to_change: HashMap<String, Duration>,
    /// Hosts whose node may have changed its state and come back to where it was.
    returned: HashSet<HostKey>,
    outage: Option<Outage>,
    is_complete: bool,
}

impl View {
    /// Takes a complete list that was asked for at this moment, and tells whom it concerns. A list takes its time: what was
    /// read of a node meanwhile is newer than what the list says, unless the list knows of a later change.
    pub fn replace(&mut self, list: Vec<Node>, asked: Duration) -> Vec<HostKey> {
        self.learned.retain(|_, at| *at >= asked);
        let mut woken = HashSet::new();
        let recovered = self.outage.take().is_some() || !self.is_complete;
        let mut nodes = HashMap::with_capacity(list.len());
        let mut by_name = HashMap::with_capacity(list.len());
        for node in list {
            let is_old = self.learned.contains_key(&node.uuid)
                && self
                    .nodes
                    .get(&node.uuid)
                    .is_some_and(|known| known.provision_updated_at >= node.provision_updated_at);
            let is_same = self.nodes.get(&node.uuid).is_some_and(|known| **known == node);
            let agreed = self.asked_to_change.get(&node.uuid).copied();
            if agreed.is_some_and(|agreed| agreed <= asked) {
                self.asked_to_change.remove(&node.uuid);
                // Ironic changes the state before it agrees. So a record as it was before tells of a change that is over
                // already: an inspection within one second ends in the state that it began in.
                if let Some(host) = self.host_of(&node).filter(|_| is_same) {
                    self.returned.insert(host.clone());
                    woken.insert(host);
                }
            }
            let node = match self.nodes.remove(&node.uuid) {
                Some(known) if is_same || is_old => known,
                _ => {
                    woken.extend(self.host_of(&node));
                    Arc::new(node)
                }
            };
            insert(&mut nodes, &mut by_name, node);
        }
        // Enrolled meanwhile.
        for uuid in self.learned.keys() {
            if let Some(node) = self.nodes.remove(uuid) {
                insert(&mut nodes, &mut by_name, node);
            }
        }
        // What is left was listed before and is gone.
        let gone: Vec<_> = self.nodes.values().filter_map(|node| self.host_of(node)).collect();
        woken.extend(gone);
        if recovered {
            woken.extend(self.waiting.iter().cloned());
        }
        self.busy = nodes
            .values()
            .filter(|n| is_counted(n))
            .map(|n| n.uuid.clone())
            .collect();
        self.asked_to_change.retain(|uuid, _| nodes.contains_key(uuid));
        self.nodes = nodes;
        self.by_name = by_name;
        self.is_complete = true;
        woken.into_iter().collect()
    }

    /// Ironic did not answer. Those who wait for it are told, once per cause.
    pub fn fail(&mut self, outage: Outage) -> Vec<HostKey> {
        if self.outage.as_ref() == Some(&outage) {
            return Vec::new();
        }
        self.outage = Some(outage);
        self.waiting.iter().cloned().collect()
    }

    /// A newer record of one node, read at this moment: the next list is compared with it.
    pub fn learn(&mut self, node: &Node, now: Duration) {
        self.learned.insert(node.uuid.clone(), now);
        let summary = Node {
            detail: None,
            ..node.clone()
        };
        if let Some(name) = &summary.name {
            self.by_name.insert(name.clone(), summary.uuid.clone());
        }
        if is_counted(&summary) {
            self.busy.insert(summary.uuid.clone());
        } else {
            self.busy.remove(&summary.uuid);
        }
        self.nodes.insert(summary.uuid.clone(), Arc::new(summary));
    }

    /// Ironic agreed at this moment to change the state of a node.
    pub fn agreed(&mut self, node: &str, now: Duration) {
        self.asked_to_change.insert(node.to_owned(), now);
    }

    /// Whether a host was woken although its node looks as before: it has to look closer. Tells it once.
    pub fn has_returned(&mut self, host: &HostKey) -> bool {
        self.returned.remove(host)
    }

    /// The nodes that take a slot; `None` before the first list.
    pub fn busy(&self) -> Option<&HashSet<String>> {
        self.is_complete.then_some(&self.busy)
    }

    /// The same, where Ironic answers: while it does not, nobody can start anything.
    pub fn busy_now(&self) -> Option<&HashSet<String>> {
        self.busy().filter(|_| self.outage.is_none())
    }

    /// The node of a host: by the identity in its status, else by name.
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

    /// Remembers whose node this is.
    pub fn own(&mut self, id: &str, host: &HostKey) {
        if !id.is_empty() && self.owners.get(id) != Some(host) {
            self.owners.insert(id.to_owned(), host.clone());
        }
    }

    /// The host no longer exists here.
    pub fn forget(&mut self, host: &HostKey) {
        self.owners.retain(|_, owner| owner != host);
        self.waiting.remove(host);
        self.returned.remove(host);
    }

    /// Whether a host waits for its node, or for Ironic. True when this made the fleet move.
    pub fn set_waiting(&mut self, host: &HostKey, waits: bool) -> bool {
        if waits {
            let was_at_rest = self.waiting.is_empty();
            self.waiting.insert(host.clone()) && was_at_rest
        } else {
            self.waiting.remove(host);
            false
        }
    }

    /// The trouble with Ironic, if any.
    pub fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// The pause before the next list, after one that took `took`: never shorter than that, so that lists do not queue up.
    pub fn pause(&self, pace: &Pace, took: Duration) -> Duration {
        let (least, factor) = if self.waiting.is_empty() {
            (pace.slow, pace.slow_factor)
        } else {
            (pace.fast, pace.fast_factor)
        };
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let cost = pace.per_node.saturating_mul(nodes).saturating_mul(factor);
        cost.max(took).clamp(least, pace.longest)
    }

    fn host_of(&self, node: &Node) -> Option<HostKey> {
        self.owners.get(&node.uuid).cloned().or_else(|| {
            let (namespace, name) = node.name.as_deref()?.split_once('~')?;
            Some(HostKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        })
    }
}

fn insert(nodes: &mut HashMap<String, Arc<Node>>, by_name: &mut HashMap<String, String>, node: Arc<Node>) {
    if let Some(name) = &node.name {
        by_name.insert(name.clone(), node.uuid.clone());
    }
    nodes.insert(node.uuid.clone(), node);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::observed::OutageKind;
    use serde_json::json;

    const NOW: Duration = Duration::from_secs(1);

    fn node(n: u32, state: &str) -> Node {
        let record = json!({"uuid": format!("u{n}"), "name": format!("ns~h{n}"), "provision_state": state});
        serde_json::from_value(record).unwrap()
    }

    fn key(n: u32) -> HostKey {
        HostKey {
            namespace: "ns".into(),
            name: format!("h{n}"),
        }
    }

    fn sorted(mut keys: Vec<HostKey>) -> Vec<HostKey> {
        keys.sort();
        keys
    }

    fn down(cause: &str) -> Outage {
        Outage {
            kind: OutageKind::Unreachable,
            cause: cause.into(),
        }
    }

    #[test]
    fn only_changes_wake() {
        let mut view = View::default();
        assert_eq!(
            sorted(view.replace(vec![node(1, "enroll"), node(2, "active")], NOW)),
            [key(1), key(2)]
        );
        assert_eq!(view.replace(vec![node(1, "enroll"), node(2, "active")], NOW), []);
        assert_eq!(
            view.replace(vec![node(1, "verifying"), node(2, "active")], NOW),
            [key(1)]
        );
        assert_eq!(view.replace(vec![node(1, "verifying")], NOW), [key(2)]);
        assert!(matches!(view.of("u2", ["ns~h2", "h2"]), NodeView::Unlisted));
        assert!(matches!(view.of("", ["ns~h1", "h1"]), NodeView::Listed(_)));
    }

    /// A list of many nodes is seconds old when it has arrived. What a host has done or read meanwhile would look undone, and
    /// the host be woken for it.
    #[test]
    fn a_list_does_not_undo_what_was_read_since_it_was_asked_for() {
        let state = |view: &View, n: u32| match view.of(&format!("u{n}"), ["", ""]) {
            NodeView::Listed(node) => node.provision_state.as_str().to_owned(),
            other => panic!("{other:?}"),
        };
        let second = Duration::from_secs;
        let mut view = View::default();
        view.replace(vec![node(1, "enroll")], second(1));
        view.learn(&node(1, "manageable"), second(3));
        view.learn(&node(2, "enroll"), second(3));
        assert_eq!(view.replace(vec![node(1, "enroll")], second(2)), []);
        assert_eq!(
            (state(&view, 1), state(&view, 2)),
            ("manageable".into(), "enroll".into())
        );
        // A list that knows of a later change does count.
        let mut later = node(1, "cleaning");
        later.provision_updated_at = Some("2026-01-01T00:00:09Z".into());
        view.learn(&node(1, "manageable"), second(5));
        assert_eq!(view.replace(vec![later, node(2, "enroll")], second(4)), [key(1)]);
        // So does one that was asked for afterwards.
        assert_eq!(
            sorted(view.replace(vec![node(1, "active")], second(6))),
            [key(1), key(2)]
        );
        assert!(matches!(view.of("u2", ["", ""]), NodeView::Unlisted));
    }

    /// Times of Ironic's records have whole seconds.
    #[test]
    fn a_change_that_came_and_went_between_two_lists_wakes() {
        let second = Duration::from_secs;
        let mut view = View::default();
        let list = || vec![node(1, "manageable")];
        view.replace(list(), second(1));
        view.agreed("u1", second(3));
        assert_eq!(view.replace(list(), second(2)), [], "asked for before");
        assert!(!view.has_returned(&key(1)));
        assert_eq!(view.replace(list(), second(3)), [key(1)]);
        assert!(view.has_returned(&key(1)));
        assert!(!view.has_returned(&key(1)), "told once");
        assert_eq!(view.replace(list(), second(4)), []);
        // A change that is seen is enough.
        view.agreed("u1", second(5));
        assert_eq!(view.replace(vec![node(1, "inspecting")], second(6)), [key(1)]);
        assert!(!view.has_returned(&key(1)));
        assert_eq!(view.replace(vec![node(1, "inspecting")], second(7)), []);
    }

    #[test]
    fn an_outage_is_told_once_and_its_end_wakes_those_who_wait() {
        let mut view = View::default();
        view.replace(vec![node(1, "active"), node(2, "cleaning")], NOW);
        assert!(view.set_waiting(&key(2), true));
        assert_eq!(view.fail(down("refused")), [key(2)]);
        assert_eq!(view.fail(down("refused")), []);
        // What was known stays known: a host at rest is not disturbed.
        assert!(matches!(view.of("u1", ["ns~h1", "h1"]), NodeView::Listed(_)));
        assert!(matches!(
            view.of("u9", ["ns~h9", "h9"]),
            NodeView::Unknown { cause: Some(_) }
        ));
        assert_eq!(
            view.replace(vec![node(1, "active"), node(2, "cleaning")], NOW),
            [key(2)]
        );
        assert_eq!(view.outage(), None);
    }

    #[test]
    fn an_emptied_ironic_wakes_every_host_that_had_a_node() {
        let mut view = View::default();
        view.replace(vec![node(1, "active"), node(2, "manageable")], NOW);
        view.own(
            "u1",
            &HostKey {
                namespace: "other".into(),
                name: "legacy".into(),
            },
        );
        let woken = sorted(view.replace(Vec::new(), NOW));
        assert_eq!(
            woken,
            [
                key(2),
                HostKey {
                    namespace: "other".into(),
                    name: "legacy".into()
                }
            ]
        );
    }

    #[test]
    fn the_pause_follows_the_cost_of_a_list() {
        let (mut view, pace) = (View::default(), Pace::default());
        let quick = Duration::from_millis(20);
        assert_eq!(view.pause(&pace, quick), Duration::from_secs(5));
        view.set_waiting(&key(1), true);
        assert_eq!(view.pause(&pace, quick), Duration::from_millis(150));
        assert_eq!(
            view.pause(&pace, Duration::from_secs(2)),
            Duration::from_secs(2),
            "a busy Ironic"
        );
        view.replace((0..1000).map(|n| node(n, "active")).collect(), NOW);
        assert_eq!(view.pause(&pace, quick), Duration::from_millis(3500));
        view.set_waiting(&key(1), false);
        assert_eq!(view.pause(&pace, quick), Duration::from_millis(17_500));
    }
}
