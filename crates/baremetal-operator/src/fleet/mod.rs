//! One shared view of Ironic for all hosts.
//!
//! Ironic does not push its changes over REST. Polling each host would cost Ironic thirty times as much as one narrow
//! list of all nodes, and the cost would grow with the fleet even when nothing changes. So one task lists, compares
//! with the last list, and wakes exactly the hosts whose node changed:
//!
//! ```text
//!   GET /v1/nodes?fields=… ──▶ View::replace ──▶ changed nodes ──▶ reconcile(host)
//!        ▲  fast while a host waits, slow at rest      │
//!        └──────────── pause ◀── View::pause ◀─────────┘
//! ```
//!
//! The cost of a list grows with the number of nodes. While hosts wait, the task therefore lists only the most recently
//! changed nodes between two full lists (`sort_key=updated_at`): the nodes that hosts wait for are among them. If every
//! node in such a list has changed, there may be more changes, and a full list follows.

mod node_view;
mod pace;
mod poller;
mod slots;
mod view;

use parking_lot::{Mutex, MutexGuard, RwLock};
use std::sync::Arc;
use std::time::Duration;

use metal3_ironic::{Error, ErrorClass, Feature, Node, Versions};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::operator::DEBOUNCE;
use metal3_runtime::work::Queue;
use tokio::sync::{Notify, mpsc, watch};

pub use self::node_view::{NodeView, Outage, OutageKind};
pub use self::pace::{Pace, Recent};
pub use self::poller::run;
pub use self::slots::{Place, Slot, Slots, Turn};
pub use self::view::View;

/// The shared view and the poller's wake-up signal.
#[derive(Clone, Debug)]
pub struct Fleet(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    view: Mutex<View>,
    /// Lock order: the view first, then the slots.
    slots: Mutex<Slots>,
    /// Notified when the fleet starts to move.
    bell: Notify,
    /// Ironic's capabilities; `None` until it has answered.
    versions: Mutex<Option<Versions>>,
    /// True once the first answer, good or bad, has arrived.
    first: watch::Sender<bool>,
    /// Of controllers that look at what Ironic knows of a host.
    followers: RwLock<Vec<Queue<ObjectKey>>>,
    woken: mpsc::UnboundedSender<ObjectKey>,
}

impl Fleet {
    /// An empty view with this many slots, and the stream of hosts to wake.
    pub fn new(slots: usize) -> (Self, mpsc::UnboundedReceiver<ObjectKey>) {
        let (woken, receiver) = mpsc::unbounded_channel();
        let shared = Shared {
            view: Mutex::default(),
            slots: Mutex::new(Slots::new(slots)),
            bell: Notify::new(),
            versions: Mutex::default(),
            first: watch::Sender::new(false),
            followers: RwLock::default(),
            woken,
        };
        (Self(Arc::new(shared)), receiver)
    }

    /// The host's node as cached, by the UUID in the host's status, or by the name that it is enrolled under.
    pub fn of(&self, id: &str, own: Option<&str>, host: &ObjectKey) -> NodeView {
        let full = format!("{}~{}", host.namespace, host.name);
        let mut view = self.view();
        self.slots().meet(&host.namespace);
        view.claim(id, host);
        let is_listed = |id: &&str| view.has(id);
        let id = Some(id).filter(is_listed).or(own.filter(is_listed)).unwrap_or(id);
        view.of(id, [&full, &host.name])
    }

    /// The trouble with Ironic, if any.
    pub fn outage(&self) -> Option<Outage> {
        self.view().outage().cloned()
    }

    /// Whether the first answer, good or bad, has arrived.
    pub fn is_told(&self) -> bool {
        *self.0.first.borrow()
    }

    /// Records Ironic's capabilities.
    pub fn speak(&self, versions: Versions) {
        *self.0.versions.lock() = Some(versions);
    }

    /// Whether Ironic supports this, or has not reported its capabilities yet.
    pub fn can(&self, feature: Feature) -> bool {
        let versions = self.0.versions.lock();
        versions.is_none_or(|versions| versions.supports(feature))
    }

    /// A reconciliation read or changed this node, with a request sent at `asked`. What is new of it is told to the host's
    /// companions. What is not would wake again and again the companion that has read it.
    pub fn learn(&self, node: &Node, host: &ObjectKey, asked: Duration) {
        let mut view = self.view();
        view.claim(&node.uuid, host);
        let (is_new, affected) = view.learn(node, host, asked);
        drop(view);
        self.wake(affected);
        if is_new {
            self.tell(host);
        }
    }

    /// Enqueues every host whose node changes in this queue, too.
    pub fn follow(&self, queue: Queue<ObjectKey>) {
        self.0.followers.write().push(queue);
    }

    /// Wakes a host whose node in the view changed during its pass.
    pub fn decide_again(&self, host: &ObjectKey) {
        self.wake(vec![host.clone()]);
    }

    /// Whether a host waits for its node or for Ironic.
    pub fn set_waiting(&self, host: &ObjectKey, waits: bool, now: Duration) {
        if self.view().set_waiting(host, waits, now) {
            self.0.bell.notify_one();
        }
    }

    /// A call failed in a way that may affect all hosts: list now.
    pub fn doubt(&self) {
        self.0.bell.notify_one();
    }

    /// The host is gone.
    pub fn forget(&self, host: &ObjectKey) {
        let mut view = self.view();
        view.forget(host);
        self.slots().forget(host);
        self.call(&view, Duration::ZERO);
    }

    /// Requests a slot for the host's node.
    pub fn ask_for_slot(&self, host: &ObjectKey, node: &str, turn: Turn) -> Slot {
        let view = self.view();
        self.slots().ask(host, node, turn, view.busy_now())
    }

    /// This many watches will deliver hosts; no slot is granted before all of them have.
    pub fn expect_lists(&self, watches: usize) {
        self.slots().expect_lists(watches);
    }

    /// One watch has completed its list.
    pub fn hosts_listed(&self) {
        let view = self.view();
        self.slots().hosts_listed();
        self.call(&view, Duration::ZERO);
    }

    /// Restores the queue place of a host that was already waiting for a slot before this process started.
    pub fn remember_in_queue(&self, host: &ObjectKey, turn: Turn) {
        self.slots().remember(host, turn);
    }

    /// Ironic accepted a state change of a node.
    pub fn agreed(&self, node: &str, now: Duration) {
        if self.view().agreed(node, now) {
            self.0.bell.notify_one();
        }
    }

    /// Ironic answered the call that the slot was for, whatever the answer.
    pub fn acted(&self, host: &ObjectKey, now: Duration) {
        self.slots().acted(host, now);
    }

    /// Whether the host has a place in the queue.
    pub fn is_queued(&self, host: &ObjectKey) -> bool {
        self.slots().has(host)
    }

    /// A reconciliation has ended: a slot that it did not use goes to the next host. A host that did not ask keeps its
    /// place if its status still says that it waits for one (`is_told`).
    pub fn reconciled(&self, host: &ObjectKey, is_told: bool, now: Duration) {
        let view = self.view();
        if self.slots().done(host, is_told) {
            self.call(&view, now);
        }
    }

    /// The number of slots, of slots in use, and of waiting hosts.
    pub fn occupancy(&self) -> [usize; 3] {
        let view = self.view();
        let slots = self.slots();
        [
            slots.limit(),
            view.busy().map_or(0, |busy| slots.used(busy)),
            slots.waiting(),
        ]
    }

    /// Wakes the hosts whose turn it is.
    fn call(&self, view: &View, now: Duration) {
        let Some(busy) = view.busy_now() else { return };
        let calls = self.slots().calls(busy, now);
        self.wake(calls);
    }

    fn wake(&self, hosts: Vec<ObjectKey>) {
        for host in hosts {
            self.tell(&host);
            // The receiver lives as long as the controller; without it there is nothing to wake.
            self.0.woken.send(host).ok();
        }
    }

    /// Wakes the companions of a host.
    pub fn tell(&self, host: &ObjectKey) {
        for queue in &*self.0.followers.read() {
            queue.push_in(host.clone(), DEBOUNCE);
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.slots.lock()
    }

    /// Returns once the first list was answered or refused.
    pub async fn first_answer(&self) {
        let mut answered = self.0.first.subscribe();
        // The sender lives in `self`.
        answered.wait_for(|answered| *answered).await.ok();
    }

    /// Ironic returned a list of these nodes.
    #[cfg(test)]
    pub(crate) fn was_listed(&self, nodes: Vec<Node>) {
        self.view().replace(nodes, Duration::ZERO);
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.0.view.lock()
    }
}

/// The outage that an error implies for Ironic as a whole, worded for the hosts of a namespace; `None` if it concerns
/// one node or one request.
pub fn outage_of(error: &Error, namespace: &str) -> Option<Outage> {
    let kind = match error.class() {
        ErrorClass::Absent => OutageKind::Absent,
        ErrorClass::Unreachable | ErrorClass::Timeout => OutageKind::Unreachable,
        ErrorClass::Unauthorized | ErrorClass::Forbidden => OutageKind::Unauthorized,
        ErrorClass::VersionUnsupported | ErrorClass::Server | ErrorClass::Protocol => OutageKind::Failing,
        ErrorClass::NotFound
        | ErrorClass::Locked
        | ErrorClass::Duplicate
        | ErrorClass::InvalidState
        | ErrorClass::Conflict
        | ErrorClass::BadRequest
        | ErrorClass::Busy => return None,
    };
    Some(Outage {
        kind,
        cause: crate::host::text::for_tenant(&error.message(), namespace),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use jiff::Timestamp;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn nobody_gets_a_slot_before_the_hosts_of_all_namespaces_are_listed() {
        // OWN 13c: the first host to ask got the slot of a host in the other namespace that had waited longer.
        let (fleet, mut woken) = Fleet::new(1);
        let key = |namespace: &str| ObjectKey::new(namespace, "h");
        let turn = |at: i64| Turn::Wanted(Timestamp::from_second(at).unwrap());
        let ask = |namespace: &str, at: i64| fleet.ask_for_slot(&key(namespace), namespace, turn(at));
        fleet.expect_lists(2);
        fleet.was_listed(Vec::new());
        fleet.hosts_listed();
        assert_eq!(ask("a", 2), Slot::Unsorted);
        fleet.remember_in_queue(&key("b"), turn(1));
        assert!(woken.try_recv().is_err());
        fleet.hosts_listed();
        assert_eq!(woken.try_recv().unwrap(), key("b"));
        assert!(matches!(ask("a", 2), Slot::Queued(Place { number: 1, .. })));
        assert_eq!(ask("b", 1), Slot::Granted);
    }

    #[test]
    fn an_outage_changes_nobodys_place_in_the_queue() {
        let (fleet, mut woken) = Fleet::new(1);
        let key = |n: i64| ObjectKey {
            namespace: "ns".into(),
            name: format!("h{n}"),
        };
        let ask = |n: i64| fleet.ask_for_slot(&key(n), "node", Turn::Wanted(Timestamp::from_second(n).unwrap()));
        fleet.view().replace(Vec::new(), Duration::ZERO);
        fleet.view().fail(Outage {
            kind: OutageKind::Unreachable,
            cause: "refused".into(),
        });
        for host in [1, 2] {
            assert!(matches!(ask(host), Slot::Queued(_)), "nothing can start");
            fleet.reconciled(&key(host), true, Duration::ZERO);
        }
        assert!(woken.try_recv().is_err(), "nobody is called to what cannot start");
        fleet.view().replace(Vec::new(), Duration::ZERO);
        assert_eq!(
            ask(2),
            Slot::Queued(Place {
                number: 2,
                limit: 1,
                reserved: 0
            })
        );
        assert_eq!(ask(1), Slot::Granted);
    }

    #[test]
    fn what_ironic_can_do_counts_as_soon_as_it_is_known() {
        let (fleet, _woken) = Fleet::new(1);
        let settings = Arc::new(crate::settings::HostSettings::default());
        let can = || {
            let settings = settings.for_ironic(fleet.can(Feature::DisablePowerOff));
            settings.can_disable_power_off
        };
        let versions = |sent| Versions {
            min: metal3_ironic::MINIMUM,
            max: sent,
            sent,
        };
        assert!(can(), "nothing is known yet");
        fleet.speak(versions(metal3_ironic::MINIMUM));
        assert!(!can(), "an old one");
        fleet.speak(versions(Feature::DisablePowerOff.since()));
        assert!(can(), "it was upgraded");
    }

    // OWN 31ud: a companion that read its host's node woke itself by that, again and again, and its back-off did not count.
    #[tokio::test(start_paused = true)]
    async fn a_companion_that_reads_a_node_wakes_itself_only_if_it_is_new() {
        let (fleet, _woken) = Fleet::new(1);
        let (queue, stop, passes) = (Queue::new(), CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        fleet.follow(queue.clone());
        queue.push(ObjectKey::new("n", "h"));
        let (made, state) = (passes.clone(), Arc::new(Mutex::new("active")));
        let (reader, node_state) = (fleet.clone(), state.clone());
        let run = queue.run(1, stop.clone(), move |host: ObjectKey| {
            made.fetch_add(1, Ordering::SeqCst);
            let node = json!({"uuid": "u", "name": "n~h", "provision_state": *node_state.lock()});
            let node: Node = serde_json::from_value(node).unwrap();
            reader.learn(&node, &host, Duration::ZERO);
            std::future::ready(None)
        });
        let user = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(passes.load(Ordering::SeqCst), 2, "one more for the new node");
            *state.lock() = "deleting";
            queue.push(ObjectKey::new("n", "h"));
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(passes.load(Ordering::SeqCst), 4);
            stop.cancel();
        };
        tokio::join!(run, user);
    }
}
