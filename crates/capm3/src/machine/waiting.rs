//! Who waits for a host, and which host is about to be whose.
//!
//! ```text
//!  choose ──▶ reserved until the pass has ended ──▶ claimed, which the store shows
//!         └─▶ none: waits ◀── offer: a host has become free ──▶ reserved for the oldest that it suits, which is woken
//! ```
//!
//! Within this process no host is given to two machines, and a machine that comes late takes no host that an older one
//! waits for. A machine whose pass fails lets its host go until it tries again: in between the host is anybody's. Only a host
//! whose claim is refused stays its own until there is another one for it: others would name it in turn. Between processes the
//! version decides that a claim is written over.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::infra::names::label;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::ObjectKey;

use crate::select::Ask;
use crate::select::Choice;
use crate::select::Outcome;
use crate::select::Reserved;
use crate::select::Selection;
use crate::select::Wish;
use crate::select::consumer::consumer_of;
use crate::select::is_available;
use crate::select::search;
use crate::select::search::search_own;
use crate::select::select;
use crate::select::suits;
use crate::select::summary::Survey;
use crate::world::World;
use crate::world::host::HostBy;

/// Machines without a host, and hosts that are promised. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Mutex<State>>);

/// A host whose claim was refused is avoided for so long. What was refused for one machine would be for the next.
const AVOIDED: Duration = Duration::from_secs(300);

/// What was found about all hosts is told to all who ask for the same within this time.
const SURVEYED: Duration = Duration::from_secs(1);

/// So many different wishes for which no host is free are remembered.
const MOST_UNMET: usize = 4096;

/// Oldest first.
type Place = (Timestamp, ObjectKey);

#[derive(Debug, Default)]
struct State {
    waiters: BTreeMap<Place, Waits>,
    places: HashMap<ObjectKey, Timestamp>,
    is_mustered: bool,
    /// By host.
    reserved: Reserved,
    /// The same by machine: each has at most one.
    promised: HashMap<ObjectKey, Promise>,
    /// Hosts that nobody takes who can have another, each since when on the process's clock.
    avoided: HashMap<ObjectKey, Duration>,
    /// What no host was free for when it was last looked for; none has become free since.
    unmet: HashSet<Ask>,
    /// Why no host will do, and since when that is known on the process's clock.
    surveys: HashMap<Ask, (Duration, Arc<Survey>)>,
    /// When the last pass began on the process's clock.
    now: Duration,
}

/// A machine that waits.
#[derive(Debug)]
struct Waits {
    wish: Wish,
    /// The host that is kept for it and not ready yet: it takes none that is not kept for it.
    awaits: Option<ObjectKey>,
    /// Its last pass had a host and has not taken it: it tries again when its back-off is over. Until then only a host that
    /// has changed is offered to it, or machines whose claims are refused would wake each other for ever.
    tries_again: bool,
    /// Why it waits, as it was told last.
    told: Option<Told>,
}

/// Why a machine waits. Numbers change all the time where there are many hosts, and are not told anew each time.
#[derive(Clone, Debug)]
struct Told {
    survey: Arc<Survey>,
    outcome: Outcome,
}

/// A host that is kept for a machine.
#[derive(Debug)]
struct Promise {
    host: ObjectKey,
    /// It was offered since the last pass of the machine began, so it is for the next one, for which the machine was woken.
    is_for_next: bool,
    /// The API server has refused the claim in the present pass.
    is_refused: bool,
}

/// A machine that wants a host: since when, what it asks for, and the host that it has named already.
pub type Waiter = (Timestamp, Wish, Option<Arc<BareMetalHost>>);

impl Waiting {
    /// Before the first pass of all: those who want a host already wait, and the hosts that there are get kept for them,
    /// oldest first, until their passes have ended. Who is looked at first is not who has waited longest.
    pub fn muster(&self, world: &World, waiters: impl FnOnce() -> Vec<Waiter>, seed: impl Fn(&Wish) -> u64) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_mustered, true) {
            return;
        }
        let mut waiters = waiters();
        // Who has named a host is about to claim it.
        waiters.sort_by_key(|(since, wish, named)| (named.is_none(), *since, wish.machine.clone()));
        for (since, wish, named) in waiters {
            let selection = state.pick(world, &wish, named.as_ref(), seed(&wish));
            state.enlist(&wish, since, &selection.outcome);
            if let Outcome::Chosen { host, .. } = &selection.outcome {
                state.promise(ObjectKey::of(&**host), wish.machine, false);
            }
        }
    }

    /// A pass of the machine begins: what was offered to it until now is for this one.
    pub fn begin(&self, machine: &ObjectKey, now: Duration) {
        let mut state = self.lock();
        state.now = now;
        state.avoided.retain(|_, since| now.saturating_sub(*since) < AVOIDED);
        if let Some(promise) = state.promised.get_mut(machine) {
            promise.is_for_next = false;
            promise.is_refused = false;
        }
        if let Some(waits) = state.waits_of(machine) {
            waits.tries_again = false;
        }
    }

    /// Chooses a host among those that the world shows now, and keeps it for the machine until [`Waiting::done`]. The
    /// machine waits from now on, in the order of `since`, until [`Waiting::forget`]. Second: whom to wake, because a host
    /// was kept for this machine that it does not take.
    ///
    /// A host that the machine has `named` already is taken if it will do.
    pub fn choose(
        &self,
        world: &World,
        wish: &Wish,
        named: Option<&Arc<BareMetalHost>>,
        since: Timestamp,
        seed: u64,
    ) -> (Choice, Option<ObjectKey>) {
        let mut state = self.lock();
        // Under the lock: what becomes free from here on is offered, and the machine is among those who are asked.
        let Selection {
            outcome, considered, ..
        } = state.pick(world, wish, named, seed);
        state.enlist(wish, since, &outcome);
        let before = state.unpromise(&wish.machine);
        if let Outcome::Chosen { host, .. } = &outcome {
            state.promise(ObjectKey::of(&**host), wish.machine.clone(), false);
        }
        let left = before.and_then(|host| world.hosts.get(&host));
        let other = left.and_then(|host| state.offer(&host, false));
        drop(state);
        let why = match &outcome {
            Outcome::None | Outcome::Await(_) => self.explain(world, wish, seed, outcome.clone()),
            Outcome::Own(_) | Outcome::Chosen { .. } => String::new(),
        };
        let choice = Choice {
            outcome,
            considered,
            why,
        };
        (choice, other)
    }

    /// Why the machine gets no host, as long as nothing but numbers has changed in the words in which it was told before. All
    /// hosts are judged for that, which nobody waits for, once for all who ask for the same.
    fn explain(&self, world: &World, wish: &Wish, seed: u64, outcome: Outcome) -> String {
        let namespace = &wish.machine.namespace;
        // One that an earlier machine of this name used is a reason of this machine alone.
        let has_namesake = !world.hosts.find(&HostBy::Consumer(wish.machine.clone())).is_empty();
        let ask = wish.ask();
        let mut state = self.lock();
        let now = state.now;
        let known = state.surveys.get(&ask);
        let known = known.filter(|(made, _)| !has_namesake && now.saturating_sub(*made) < SURVEYED);
        let survey = if let Some((_, survey)) = known {
            survey.clone()
        } else {
            let reserved = state.reserved.clone();
            drop(state);
            let all = world.hosts.find(&HostBy::Namespace(namespace.clone()));
            let survey = Arc::new(select(wish, &all, &reserved, seed).survey());
            state = self.lock();
            if !has_namesake {
                state
                    .surveys
                    .retain(|_, (made, _)| now.saturating_sub(*made) < SURVEYED);
                state.surveys.insert(ask, (now, survey.clone()));
            }
            survey
        };
        let told = Told { survey, outcome };
        let text = |told: &Told| told.survey.text(namespace, &told.outcome);
        let Some(waits) = state.waits_of(&wish.machine) else {
            return text(&told);
        };
        let is_news = |before: &Told| told.survey.differs(&told.outcome, &before.survey, &before.outcome);
        if waits.told.as_ref().is_none_or(is_news) {
            waits.told = Some(told);
        }
        waits.told.as_ref().map(text).unwrap_or_default()
    }

    /// The API server refuses that the machine claims the host that is kept for it. Until it tries again nobody else does, who
    /// would be refused as well and could not take another host then.
    pub fn refused(&self, machine: &ObjectKey) {
        if let Some(promise) = self.lock().promised.get_mut(machine) {
            promise.is_refused = true;
        }
    }

    /// So it does for good, or for long: its machine takes another host as soon as there is one, and so do all others.
    pub fn avoid(&self, machine: &ObjectKey, now: Duration) {
        let mut state = self.lock();
        if let Some(host) = state.promised.get(machine).map(|promise| promise.host.clone()) {
            state.avoided.insert(host, now);
        }
    }

    /// A host is now as it is shown here. Whom to wake: the oldest machine that it suits, for which it is kept.
    pub fn offer(&self, host: &BareMetalHost) -> Option<ObjectKey> {
        self.lock().offer(host, true)
    }

    /// The machines that wait for just this host, which is kept for them: whatever has changed about it, they may have to
    /// choose anew.
    pub fn awaiting(&self, host: &ObjectKey) -> Vec<ObjectKey> {
        let state = self.lock();
        let waits = state.waiters.values();
        let waits = waits.filter(|waits| waits.awaits.as_ref() == Some(host));
        waits.map(|waits| waits.wish.machine.clone()).collect()
    }

    /// A pass of the machine has ended: what was kept for it and is still free is offered to others. Whom to wake: never the
    /// machine itself, which would begin the next attempt at once instead of when it is due.
    pub fn done(&self, machine: &ObjectKey, world: &World) -> Option<ObjectKey> {
        let mut state = self.lock();
        let waits = state.places.contains_key(machine);
        match state.promised.get(machine) {
            Some(promise) if promise.is_for_next && waits => return None,
            Some(promise) if promise.is_refused && waits => {
                if let Some(waits) = state.waits_of(machine) {
                    waits.tries_again = true;
                }
                return None;
            }
            _ => {}
        }
        let host = state.unpromise(machine)?;
        if let Some(waits) = state.waits_of(machine) {
            waits.tries_again = true;
        }
        let host = world.hosts.get(&host)?;
        state.offer(&host, false)
    }

    /// The machine needs no host any more.
    pub fn forget(&self, machine: &ObjectKey) {
        let mut state = self.lock();
        if let Some(since) = state.places.remove(machine) {
            state.waiters.remove(&(since, machine.clone()));
        }
        if state.places.is_empty() {
            // Nobody is told any more when it is out of date.
            state.surveys.clear();
        }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.lock().places.is_empty()
    }

    /// The machines that wait in a namespace.
    pub fn of(&self, namespace: &str) -> Vec<ObjectKey> {
        let state = self.lock();
        let keys = state.places.keys().filter(|key| key.namespace == namespace);
        keys.cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn enlist(&mut self, wish: &Wish, since: Timestamp, outcome: &Outcome) {
        let before = self.places.insert(wish.machine.clone(), since);
        let before = before.and_then(|before| self.waiters.remove(&(before, wish.machine.clone())));
        let waits = Waits {
            wish: wish.clone(),
            awaits: match outcome {
                Outcome::Await(host) => Some(ObjectKey::of(&**host)),
                Outcome::Own(_) | Outcome::Chosen { .. } | Outcome::None => None,
            },
            tries_again: false,
            told: before.and_then(|before| before.told),
        };
        self.waiters.insert((since, wish.machine.clone()), waits);
    }

    fn waits_of(&mut self, machine: &ObjectKey) -> Option<&mut Waits> {
        let since = *self.places.get(machine)?;
        self.waiters.get_mut(&(since, machine.clone()))
    }

    /// The host that is named already if it will do, else the choice among all. One that is avoided only if there is no other.
    fn pick(&mut self, world: &World, wish: &Wish, named: Option<&Arc<BareMetalHost>>, seed: u64) -> Selection {
        let named = named.filter(|named| suits(wish, named, &self.reserved));
        let is_avoided = |host: &Arc<BareMetalHost>| self.avoided.contains_key(&ObjectKey::of(&**host));
        let is_good = named.is_some_and(|named| !is_avoided(named));
        if !is_good && !self.avoided.is_empty() {
            let nobody = ObjectKey::new(&wish.machine.namespace, "");
            let mut reserved = self.reserved.clone();
            reserved.extend(self.avoided.keys().map(|host| (host.clone(), nobody.clone())));
            let selection = if self.is_unmet(wish) {
                search_own(world, wish, &reserved, seed)
            } else {
                search(world, wish, &reserved, seed)
            };
            if matches!(selection.outcome, Outcome::Own(_) | Outcome::Chosen { .. }) {
                return selection;
            }
        }
        match named {
            Some(named) => select(wish, std::slice::from_ref(named), &self.reserved, seed),
            None => self.search(world, wish, seed),
        }
    }

    /// Whether no host was free a moment ago for another that asks for the same. What is promised to a machine is free for
    /// this one alone.
    fn is_unmet(&self, wish: &Wish) -> bool {
        !self.promised.contains_key(&wish.machine) && self.unmet.contains(&wish.ask())
    }

    /// The choice among all. Those who ask for the same do not look at all free hosts one after the other.
    fn search(&mut self, world: &World, wish: &Wish, seed: u64) -> Selection {
        if self.is_unmet(wish) {
            return search_own(world, wish, &self.reserved, seed);
        }
        let selection = search(world, wish, &self.reserved, seed);
        let is_like_all = !self.promised.contains_key(&wish.machine);
        if is_like_all && selection.outcome == Outcome::None && self.unmet.len() < MOST_UNMET {
            self.unmet.insert(wish.ask());
        }
        selection
    }

    /// Whether the machine is promised a host that it would like to keep.
    fn is_content(&self, machine: &ObjectKey) -> bool {
        let promise = self.promised.get(machine);
        promise.is_some_and(|promise| !promise.is_refused || !self.avoided.contains_key(&promise.host))
    }

    /// Keeps a free host for the oldest machine that it suits, and says which that is.
    fn offer(&mut self, host: &BareMetalHost, is_changed: bool) -> Option<ObjectKey> {
        let key = ObjectKey::of(host);
        if !is_available(host) || consumer_of(host).is_some() {
            return None;
        }
        self.unmet.clear();
        if let Some(owner) = self.reserved.get(&key) {
            // As it is now its claim may be allowed.
            let promise = self.promised.get_mut(owner).filter(|promise| promise.is_refused)?;
            if !is_changed || std::mem::replace(&mut promise.is_for_next, true) {
                return None;
            }
            return Some(owner.clone());
        }
        let is_kept = host.labels().contains_key(label::NODE_REUSE);
        let is_asked = |waits: &&Waits| {
            let machine = &waits.wish.machine;
            machine.namespace == key.namespace
                && !self.is_content(machine)
                && (is_kept || waits.awaits.is_none())
                && (is_changed || !waits.tries_again)
        };
        let mut wishes = self.waiters.values().filter(is_asked).map(|waits| &waits.wish);
        let machine = wishes.find(|wish| suits(wish, host, &self.reserved))?.machine.clone();
        self.unpromise(&machine);
        self.promise(key, machine.clone(), true);
        Some(machine)
    }

    fn promise(&mut self, host: ObjectKey, machine: ObjectKey, is_for_next: bool) {
        self.reserved.insert(host.clone(), machine.clone());
        let promise = Promise {
            host,
            is_for_next,
            is_refused: false,
        };
        self.promised.insert(machine, promise);
    }

    fn unpromise(&mut self, machine: &ObjectKey) -> Option<ObjectKey> {
        let host = self.promised.remove(machine)?.host;
        self.reserved.remove(&host);
        self.unmet.clear();
        Some(host)
    }
}

/// Since when a machine waits: since it was made.
pub fn since(machine: &impl ResourceExt) -> Timestamp {
    machine.creation_timestamp().map_or(Timestamp::MAX, |time| time.0)
}
