//! Machines that wait for a host, and which host is about to be claimed for which machine. Everything that the controller
//! remembers between passes is here, behind one lock.
//!
//! ```text
//!  choose ──▶ reserved until the pass has ended ──▶ claimed, as the store shows
//!         └─▶ none: waits ◀── offer: a host has become free ──▶ reserved for the oldest machine that it suits, which is woken
//! ```
//!
//! Within this process no host is given to two machines, and a machine that comes late takes no host that an older one waits
//! for. A machine whose pass fails loses its reservation until it tries again. A host whose claim is rejected is avoided, by
//! all machines that can have another. Between processes the version decides over which a claim is written.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use metal3_api::infra::names::label;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::secrets::Known;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::provider::{AVOIDED, SURVEYED};
use parking_lot::{Mutex, MutexGuard};

use crate::select::Choice;
use crate::select::Criteria;
use crate::select::HostRequest;
use crate::select::Outcome;
use crate::select::Reserved;
use crate::select::Selection;
use crate::select::consumer::consumer_of;
use crate::select::is_available;
use crate::select::search;
use crate::select::search::search_own;
use crate::select::select;
use crate::select::suits;
use crate::select::summary::Survey;
use crate::stores::Stores;
use crate::stores::host::HostBy;

/// What is remembered of machines and hosts. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Mutex<State>>);

/// So many different requests that no host is free for are remembered.
const MOST_UNMET: usize = 4096;

#[derive(Debug, Default)]
struct State {
    machines: HashMap<ObjectKey, Memory>,
    /// Those that wait, oldest first.
    order: BTreeSet<(Timestamp, ObjectKey)>,
    is_seeded: bool,
    /// Reservations by host.
    reserved: Reserved,
    /// Hosts whose claims were rejected, and when, on the process's clock.
    avoided: HashMap<ObjectKey, Duration>,
    /// What no host was free for when one was last looked for; none has become free since.
    unmet: HashSet<Criteria>,
    /// Why no host will do, and when that was found, on the process's clock.
    surveys: HashMap<Criteria, (Duration, Arc<Survey>)>,
    /// When the last pass began, on the process's clock.
    now: Duration,
}

/// What is remembered of one machine.
#[derive(Debug, Default)]
struct Memory {
    waits: Option<Waits>,
    reservation: Option<Reservation>,
    /// UID and version of the Secret with user data that is known to be no template.
    plain: Option<(String, String)>,
}

/// A machine that waits.
#[derive(Debug)]
struct Waits {
    since: Timestamp,
    request: HostRequest,
    /// The host that is kept for it and not ready yet: it takes none that is not kept for it.
    awaits: Option<ObjectKey>,
    /// Why it waits, as it was reported last.
    reported: Option<Reported>,
}

/// Why a machine waits. Numbers change all the time where there are many hosts, and are not reported again each time.
#[derive(Clone, Debug)]
struct Reported {
    survey: Arc<Survey>,
    outcome: Outcome,
}

/// A host that no other machine gets.
#[derive(Debug)]
struct Reservation {
    host: ObjectKey,
    /// It was offered since the last pass of the machine began, so it is for the next one.
    is_for_next: bool,
}

/// A machine that wants a host: since when, what it asks for, and the host that it has named already.
pub type Waiter = (Timestamp, HostRequest, Option<Arc<BareMetalHost>>);

impl Waiting {
    /// Before the first pass of all: machines that lack a host wait already, and hosts are reserved for them, oldest first,
    /// until their passes have ended. The order of the first passes is not that of age.
    pub fn seed(&self, stores: &Stores, waiters: impl FnOnce() -> Vec<Waiter>, order: impl Fn(&HostRequest) -> u64) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_seeded, true) {
            return;
        }
        let mut waiters = waiters();
        // A machine that has named a host is about to claim it.
        waiters.sort_by_key(|(since, request, named)| (named.is_none(), *since, request.machine.clone()));
        for (since, request, named) in waiters {
            let selection = state.pick(stores, &request, named.as_ref(), order(&request));
            state.enqueue(&request, since, &selection.outcome);
            if let Outcome::Chosen { host, .. } = &selection.outcome {
                state.reserve(ObjectKey::of(&**host), request.machine, false);
            }
        }
    }

    /// A pass of the machine begins: what was offered to it until now is for this one.
    pub fn begin(&self, machine: &ObjectKey, now: Duration) {
        let mut state = self.lock();
        state.now = now;
        state.avoided.retain(|_, since| now.saturating_sub(*since) < AVOIDED);
        let memory = state.machines.get_mut(machine);
        if let Some(reservation) = memory.and_then(|memory| memory.reservation.as_mut()) {
            reservation.is_for_next = false;
        }
    }

    /// Chooses a host among those that the stores shows now, and reserves it for the machine until [`Waiting::end`]. The
    /// machine waits from now on, in the order of `since`, until [`Waiting::forget`]. Second: the machine to wake, because a
    /// host was reserved for this one that it does not take.
    ///
    /// A host that the machine has `named` already is taken if it will do.
    pub fn choose(
        &self,
        stores: &Stores,
        request: &HostRequest,
        named: Option<&Arc<BareMetalHost>>,
        since: Timestamp,
        seed: u64,
    ) -> (Choice, Option<ObjectKey>) {
        let mut state = self.lock();
        // Under the lock: hosts that become free from here on are offered to this machine, too.
        let Selection {
            outcome, considered, ..
        } = state.pick(stores, request, named, seed);
        state.enqueue(request, since, &outcome);
        let before = state.unreserve(&request.machine);
        if let Outcome::Chosen { host, .. } = &outcome {
            state.reserve(ObjectKey::of(&**host), request.machine.clone(), false);
        }
        let left = before.and_then(|host| stores.hosts.get(&host));
        let other = left.and_then(|host| state.offer(&host, None));
        drop(state);
        let why = match &outcome {
            Outcome::None | Outcome::Await(_) => self.explain(stores, request, seed, outcome.clone()),
            Outcome::Own(_) | Outcome::Chosen { .. } => String::new(),
        };
        let choice = Choice {
            outcome,
            considered,
            why,
        };
        (choice, other)
    }

    /// Why the machine gets no host; in the words that were reported before as long as nothing but numbers has changed. All
    /// hosts are judged for that, once for all machines that ask for the same.
    fn explain(&self, stores: &Stores, request: &HostRequest, seed: u64, outcome: Outcome) -> String {
        let namespace = &request.machine.namespace;
        let survey = self.survey(stores, request, seed);
        let report = Reported { survey, outcome };
        let text = |report: &Reported| report.survey.text(namespace, &report.outcome);
        let mut state = self.lock();
        let memory = state.machines.get_mut(&request.machine);
        let Some(waits) = memory.and_then(|memory| memory.waits.as_mut()) else {
            return text(&report);
        };
        let is_new = |before: &Reported| report.survey.differs(&report.outcome, &before.survey, &before.outcome);
        if waits.reported.as_ref().is_none_or(is_new) {
            waits.reported = Some(report);
        }
        waits.reported.as_ref().map(text).unwrap_or_default()
    }

    fn survey(&self, stores: &Stores, request: &HostRequest, seed: u64) -> Arc<Survey> {
        // A host that an earlier machine of this name used is a reason of this machine alone.
        let has_namesake = !stores.hosts.find(&HostBy::Consumer(request.machine.clone())).is_empty();
        let state = self.lock();
        let (now, criteria) = (state.now, request.criteria());
        let is_fresh = |made: Duration| now.saturating_sub(made) < SURVEYED;
        let known = state.surveys.get(&criteria);
        if let Some((_, survey)) = known.filter(|(made, _)| !has_namesake && is_fresh(*made)) {
            return survey.clone();
        }
        let reserved = state.reserved.clone();
        drop(state);
        let all = stores.hosts.find(&HostBy::Namespace(request.machine.namespace.clone()));
        let survey = Arc::new(select(request, &all, &reserved, seed).survey());
        if !has_namesake {
            let mut state = self.lock();
            state.surveys.retain(|_, (made, _)| is_fresh(*made));
            state.surveys.insert(criteria, (now, survey.clone()));
        }
        survey
    }

    /// The API server rejects the claim of the host that is reserved for this machine. What was rejected for one machine
    /// would be for the next: until the host changes, or for some time, they take others if there are any.
    pub fn avoid(&self, machine: &ObjectKey, now: Duration) {
        let mut state = self.lock();
        let memory = state.machines.get(machine);
        let host = memory.and_then(|memory| Some(memory.reservation.as_ref()?.host.clone()));
        if let Some(host) = host {
            state.avoided.insert(host, now);
        }
    }

    /// A host has changed, to this. Returns the machine to wake: the oldest one that it suits, for which it is reserved.
    pub fn offer(&self, host: &BareMetalHost) -> Option<ObjectKey> {
        let mut state = self.lock();
        state.avoided.remove(&ObjectKey::of(host));
        state.offer(host, None)
    }

    /// The machines that wait for just this host, which is kept for them: whatever has changed about it, they may have to
    /// choose again.
    pub fn awaiting(&self, host: &ObjectKey) -> Vec<ObjectKey> {
        let state = self.lock();
        let waits = state.waits().filter(|waits| waits.awaits.as_ref() == Some(host));
        waits.map(|waits| waits.request.machine.clone()).collect()
    }

    /// A pass of the machine has ended, and its reservation with it. Returns the machine to wake if the host is still free.
    /// After a pass that failed that is none, or two machines would wake each other for ever.
    pub fn end(&self, machine: &ObjectKey, stores: &Stores, has_failed: bool) -> Option<ObjectKey> {
        let mut state = self.lock();
        let memory = state.machines.get(machine)?;
        if memory.waits.is_some() && memory.reservation.as_ref().is_some_and(|one| one.is_for_next) {
            return None;
        }
        let host = state.unreserve(machine)?;
        let host = stores.hosts.get(&host).filter(|_| !has_failed)?;
        state.offer(&host, Some(machine))
    }

    /// The machine needs no host any more.
    pub fn forget(&self, machine: &ObjectKey) {
        let mut state = self.lock();
        let memory = state.machines.get_mut(machine);
        if let Some(waits) = memory.and_then(|memory| memory.waits.take()) {
            state.order.remove(&(waits.since, machine.clone()));
            state.tidy(machine);
        }
        if state.order.is_empty() {
            // They would be out of date when a machine waits again.
            state.surveys.clear();
        }
    }

    /// Whether no machine waits.
    pub fn is_empty(&self) -> bool {
        self.lock().order.is_empty()
    }

    /// The machines that wait in a namespace.
    pub fn of(&self, namespace: &str) -> Vec<ObjectKey> {
        let state = self.lock();
        let keys = state.order.iter().map(|(_, key)| key);
        keys.filter(|key| key.namespace == namespace).cloned().collect()
    }

    /// Whether the Secret with the machine's user data, as it is known to be now, was found to hold no template. Most do not,
    /// and need not be read again when the host is told.
    pub fn is_plain(&self, machine: &ObjectKey, secret: &Known) -> bool {
        let state = self.lock();
        let plain = state.machines.get(machine).and_then(|memory| memory.plain.as_ref());
        let plain = plain.map(|(uid, version)| (uid.as_str(), version.as_str()));
        plain.is_some() && plain == secret.version()
    }

    /// The Secret with the machine's user data holds no template.
    pub fn learn_plain(&self, machine: &ObjectKey, secret: &ObjectMeta) {
        let version = secret.uid.clone().zip(secret.resource_version.clone());
        if version.is_some() {
            self.lock().machines.entry(machine.clone()).or_default().plain = version;
        }
    }

    /// The machine's user data is not needed any more.
    pub fn forget_plain(&self, machine: &ObjectKey) {
        let mut state = self.lock();
        if let Some(memory) = state.machines.get_mut(machine) {
            memory.plain = None;
            state.tidy(machine);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    /// Those that wait, oldest first.
    fn waits(&self) -> impl Iterator<Item = &Waits> {
        let memories = self.order.iter().filter_map(|(_, key)| self.machines.get(key));
        memories.filter_map(|memory| memory.waits.as_ref())
    }

    fn enqueue(&mut self, request: &HostRequest, since: Timestamp, outcome: &Outcome) {
        let memory = self.machines.entry(request.machine.clone()).or_default();
        let before = memory.waits.take();
        if let Some(before) = &before {
            self.order.remove(&(before.since, request.machine.clone()));
        }
        memory.waits = Some(Waits {
            since,
            request: request.clone(),
            awaits: match outcome {
                Outcome::Await(host) => Some(ObjectKey::of(&**host)),
                Outcome::Own(_) | Outcome::Chosen { .. } | Outcome::None => None,
            },
            reported: before.and_then(|before| before.reported),
        });
        self.order.insert((since, request.machine.clone()));
    }

    /// The choice: a host that is avoided only if there is no other.
    fn pick(
        &mut self,
        stores: &Stores,
        request: &HostRequest,
        named: Option<&Arc<BareMetalHost>>,
        seed: u64,
    ) -> Selection {
        if !self.avoided.is_empty() {
            let nobody = ObjectKey::new(&request.machine.namespace, "");
            let avoided = self.avoided.keys().map(|host| (host.clone(), nobody.clone()));
            let hidden = self.reserved.clone().into_iter().chain(avoided).collect();
            let selection = self.pick_among(stores, request, named, &hidden, seed);
            if matches!(selection.outcome, Outcome::Own(_) | Outcome::Chosen { .. }) {
                return selection;
            }
        }
        let selection = self.pick_among(stores, request, named, &self.reserved, seed);
        if selection.outcome == Outcome::None
            && !self.has_reservation(&request.machine)
            && self.unmet.len() < MOST_UNMET
        {
            self.unmet.insert(request.criteria());
        }
        selection
    }

    /// The host that is named already if it will do, else the choice among all. Machines that ask for the same do not look
    /// at all free hosts one after the other; a host that is reserved for a machine is free for this one alone.
    fn pick_among(
        &self,
        stores: &Stores,
        request: &HostRequest,
        named: Option<&Arc<BareMetalHost>>,
        reserved: &Reserved,
        seed: u64,
    ) -> Selection {
        match named.filter(|named| suits(request, named, reserved)) {
            Some(named) => select(request, std::slice::from_ref(named), reserved, seed),
            None if !self.has_reservation(&request.machine) && self.unmet.contains(&request.criteria()) => {
                search_own(stores, request, reserved, seed)
            }
            None => search(stores, request, reserved, seed),
        }
    }

    fn has_reservation(&self, machine: &ObjectKey) -> bool {
        self.machines
            .get(machine)
            .is_some_and(|memory| memory.reservation.is_some())
    }

    /// Reserves a free host for the oldest machine that it suits, except one, and returns that.
    fn offer(&mut self, host: &BareMetalHost, except: Option<&ObjectKey>) -> Option<ObjectKey> {
        let key = ObjectKey::of(host);
        if !is_available(host) || consumer_of(host).is_some() {
            return None;
        }
        self.unmet.clear();
        // Machines that try one in vain would wake each other for ever.
        if self.reserved.contains_key(&key) || self.avoided.contains_key(&key) {
            return None;
        }
        let is_kept = host.labels().contains_key(label::NODE_REUSE);
        let is_served = |waits: &&Waits| {
            let machine = &waits.request.machine;
            machine.namespace == key.namespace
                && Some(machine) != except
                && !self.has_reservation(machine)
                && (is_kept || waits.awaits.is_none())
                && suits(&waits.request, host, &self.reserved)
        };
        let machine = self.waits().find(is_served)?.request.machine.clone();
        self.reserve(key, machine.clone(), true);
        Some(machine)
    }

    fn reserve(&mut self, host: ObjectKey, machine: ObjectKey, is_for_next: bool) {
        self.reserved.insert(host.clone(), machine.clone());
        let memory = self.machines.entry(machine).or_default();
        memory.reservation = Some(Reservation { host, is_for_next });
    }

    fn unreserve(&mut self, machine: &ObjectKey) -> Option<ObjectKey> {
        let host = self.machines.get_mut(machine)?.reservation.take()?.host;
        self.reserved.remove(&host);
        self.unmet.clear();
        self.tidy(machine);
        Some(host)
    }

    /// Drops a machine of which nothing is remembered.
    fn tidy(&mut self, machine: &ObjectKey) {
        let is_empty =
            |memory: &Memory| memory.waits.is_none() && memory.reservation.is_none() && memory.plain.is_none();
        if self.machines.get(machine).is_some_and(is_empty) {
            self.machines.remove(machine);
        }
    }
}

/// Since when a machine waits: since it was made.
pub fn since(machine: &impl ResourceExt) -> Timestamp {
    machine.creation_timestamp().map_or(Timestamp::MAX, |time| time.0)
}
