//! Machines waiting for a host, and which host is reserved for which machine. The controller keeps all its state between passes
//! here, behind one lock.
//!
//! ```text
//!  choose ──▶ reserved until the pass has ended ──▶ claimed, as the store shows
//!         └─▶ none: waits ◀── offer: a host has become free ──▶ reserved for the oldest machine that it suits, which is woken
//! ```
//!
//! Within this process no host is given to two machines, and a newer machine takes no host that an older one waits for. A machine
//! whose pass fails loses its reservation until it retries. A host whose claim was rejected is used only if no other fits.
//! Between processes, the resource version that guards each claim decides.

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
use crate::select::search;
use crate::select::search::search_own;
use crate::select::select;
use crate::select::suits;
use crate::select::summary::Survey;
use crate::stores::Stores;
use crate::stores::host::HostBy;

/// The state of waiting machines and hosts. Cheap to clone; clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Mutex<State>>);

/// Maximum number of cached requests that no host is free for.
const MOST_UNMET: usize = 4096;

#[derive(Debug, Default)]
struct State {
    machines: HashMap<ObjectKey, Memory>,
    /// Waiting machines, oldest first.
    order: BTreeSet<(Timestamp, ObjectKey)>,
    is_seeded: bool,
    /// Reservations by host.
    reserved: Reserved,
    /// Hosts whose claims were rejected, with the process-clock time.
    avoided: HashMap<ObjectKey, Duration>,
    /// Requests for which the last search found no free host; none has become free since.
    unmet: HashSet<Criteria>,
    /// Why no host fits a request, with the process-clock time.
    surveys: HashMap<Criteria, (Duration, Arc<Survey>)>,
    /// When the last pass began (process clock).
    now: Duration,
}

/// The state of one machine.
#[derive(Debug, Default)]
struct Memory {
    waits: Option<Waits>,
    reservation: Option<Reservation>,
    /// UID and version of a user-data Secret known not to be a template.
    plain: Option<(String, String)>,
}

/// A waiting machine.
#[derive(Debug)]
struct Waits {
    since: Timestamp,
    request: HostRequest,
    /// A reserved host (node reuse) that is not ready yet: the machine takes only reserved hosts.
    awaits: Option<ObjectKey>,
    /// Why it waits, as last reported.
    reported: Option<Reported>,
}

/// Why a machine waits. Numbers change constantly in a large fleet; a change of numbers alone is not reported.
#[derive(Clone, Debug)]
struct Reported {
    survey: Arc<Survey>,
    outcome: Outcome,
}

/// A host reserved for one machine.
#[derive(Debug)]
struct Reservation {
    host: ObjectKey,
    /// It was offered after the machine's last pass began, so it is for the next pass.
    is_for_next: bool,
}

/// A machine that wants a host: its age, its requirements, and the host it already references.
pub type Waiter = (Timestamp, HostRequest, Option<Arc<BareMetalHost>>);

impl Waiting {
    /// Called before the first pass: seeds the machines without a host, and reserves hosts for them, oldest first, until their
    /// passes end. The first passes do not run in order of age.
    pub fn seed(&self, stores: &Stores, waiters: impl FnOnce() -> Vec<Waiter>, order: impl Fn(&HostRequest) -> u64) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_seeded, true) {
            return;
        }
        let mut waiters = waiters();
        // A machine that references a host is about to claim it.
        waiters.sort_by_key(|(since, request, named)| (named.is_none(), *since, request.machine.clone()));
        for (since, request, named) in waiters {
            let selection = state.pick(stores, &request, named.as_ref(), order(&request));
            state.enqueue(&request, since, &selection.outcome);
            if let Outcome::Chosen { host, .. } = &selection.outcome {
                state.reserve(ObjectKey::of(&**host), request.machine, false);
            }
        }
    }

    /// Marks the start of a machine's pass: hosts offered so far are for this pass.
    pub fn begin(&self, machine: &ObjectKey, now: Duration) {
        let mut state = self.lock();
        state.now = now;
        state.avoided.retain(|_, since| now.saturating_sub(*since) < AVOIDED);
        let memory = state.machines.get_mut(machine);
        if let Some(reservation) = memory.and_then(|memory| memory.reservation.as_mut()) {
            reservation.is_for_next = false;
        }
    }

    /// Chooses among the hosts now in the stores, and reserves the host for the machine until [`Waiting::end`]. The machine waits
    /// from now on, ordered by `since`, until [`Waiting::forget`]. The second value is the machine to trigger, because this one
    /// does not take the host that was reserved for it.
    ///
    /// A host that the machine already references (`named`) is taken if it fits.
    pub fn choose(
        &self,
        stores: &Stores,
        request: &HostRequest,
        named: Option<&Arc<BareMetalHost>>,
        since: Timestamp,
        seed: u64,
    ) -> (Choice, Option<ObjectKey>) {
        let mut state = self.lock();
        // Under the lock, so that hosts that become free from here on are offered to this machine too.
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

    /// Why the machine gets no host. Keeps the previously reported text while only numbers change. All hosts are evaluated once
    /// for all machines with the same requirements.
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
        // A host used by an earlier machine of this name affects only this machine.
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

    /// The API server rejected the claim of the host reserved for this machine. The next machine would probably be rejected too:
    /// until the host changes, or for some time, machines prefer other hosts.
    pub fn avoid(&self, machine: &ObjectKey, now: Duration) {
        let mut state = self.lock();
        let memory = state.machines.get(machine);
        let host = memory.and_then(|memory| Some(memory.reservation.as_ref()?.host.clone()));
        if let Some(host) = host {
            state.avoided.insert(host, now);
        }
    }

    /// A host has changed. Returns the machine to trigger: the oldest one it fits, for which it is reserved.
    pub fn offer(&self, host: &BareMetalHost) -> Option<ObjectKey> {
        let mut state = self.lock();
        state.avoided.remove(&ObjectKey::of(host));
        state.offer(host, None)
    }

    /// The machines that wait for exactly this reserved host: any change to it may require a new choice.
    pub fn awaiting(&self, host: &ObjectKey) -> Vec<ObjectKey> {
        let state = self.lock();
        let waits = state.waits().filter(|waits| waits.awaits.as_ref() == Some(host));
        waits.map(|waits| waits.request.machine.clone()).collect()
    }

    /// Ends a machine's pass and its reservation. Returns the machine to trigger if the host is still free. After a failed pass
    /// it returns none; otherwise two machines would trigger each other for ever.
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
            // They would be stale when a machine waits again.
            state.surveys.clear();
        }
    }

    /// Whether no machine waits.
    pub fn is_empty(&self) -> bool {
        self.lock().order.is_empty()
    }

    /// The waiting machines in a namespace.
    pub fn of(&self, namespace: &str) -> Vec<ObjectKey> {
        let state = self.lock();
        let keys = state.order.iter().map(|(_, key)| key);
        keys.filter(|key| key.namespace == namespace).cloned().collect()
    }

    /// Whether this version of the user-data Secret is known not to be a template. Most are not, and need not be read again when
    /// the host is provisioned.
    pub fn is_plain(&self, machine: &ObjectKey, secret: &Known) -> bool {
        let state = self.lock();
        let plain = state.machines.get(machine).and_then(|memory| memory.plain.as_ref());
        let plain = plain.map(|(uid, version)| (uid.as_str(), version.as_str()));
        plain.is_some() && plain == secret.version()
    }

    /// The user-data Secret is not a template.
    pub fn learn_plain(&self, machine: &ObjectKey, secret: &ObjectMeta) {
        let version = secret.uid.clone().zip(secret.resource_version.clone());
        if version.is_some() {
            self.lock().machines.entry(machine.clone()).or_default().plain = version;
        }
    }

    /// The machine's user data is no longer needed.
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
    /// Waiting machines, oldest first.
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

    /// The choice: an avoided host only if there is no other.
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

    /// The referenced host if it fits, otherwise a choice among all hosts. Machines with the same requirements do not each search
    /// all free hosts. A host reserved for a machine is free only for that machine.
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

    /// Reserves a free host for the oldest machine it fits, except one, and returns that machine.
    fn offer(&mut self, host: &BareMetalHost, except: Option<&ObjectKey>) -> Option<ObjectKey> {
        let key = ObjectKey::of(host);
        if !host.is_available() || consumer_of(host).is_some() {
            return None;
        }
        self.unmet.clear();
        // Machines that try a host in vain would trigger each other for ever.
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

    /// Drops a machine's entry if it is empty.
    fn tidy(&mut self, machine: &ObjectKey) {
        let is_empty =
            |memory: &Memory| memory.waits.is_none() && memory.reservation.is_none() && memory.plain.is_none();
        if self.machines.get(machine).is_some_and(is_empty) {
            self.machines.remove(machine);
        }
    }
}

/// When a machine started waiting: at its creation.
pub fn since(machine: &impl ResourceExt) -> Timestamp {
    machine.creation_timestamp().map_or(Timestamp::MAX, |time| time.0)
}
