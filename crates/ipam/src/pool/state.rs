//! The state of one pool: the objects as last observed, by watches and by responses to our own requests. Only
//! [`PoolState::absorb`] and [`PoolState::absorb_answer`] change it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use metal3_api::capi::names::label::WATCH_FILTER;
use metal3_api::ipam::IPPool;

use super::answer::Answer;
use super::effect::{Effect, NewAddress, Outcome, Snapshot};
use super::event::{ClusterSeen, Event, Removal, Tombstone};
use super::failures::{Failure, Failures};
use super::objects::{Address, AddressId, Claim, ClaimKey, Family, Version, address_named, version};
use super::reservation::{Reservation, Reservations};
use crate::alloc::Plan;

/// The controller's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long an address that we made is left alone when its claim cannot be found. Backups restore addresses before
    /// claims; a claim that is deleted in the ordinary way takes its address along at once.
    pub orphan_grace: Duration,
    /// Maximum requests in one round.
    pub batch: usize,
    /// Addresses on their way to claims at most, as a limit to the size of the pool's status. Those whose claim fails for
    /// a reason of its own, or is paused, do not count.
    pub reservations: usize,
    /// How long the figures of an idle pool may lag behind, so that many changes are one write.
    pub settle: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            orphan_grace: Duration::from_secs(60),
            batch: 1000,
            reservations: 2000,
            settle: Duration::from_millis(100),
        }
    }
}

/// The state of a claim that owns an address or a reservation, and is not among the pool's claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// It is gone. UIDs never come back.
    Gone,
    /// It is there, but not this pool's or not this manager's.
    Elsewhere,
}

/// The view of everything that was given was complete at this version of the pool, if no doubt has come up since.
type Complete = (Version, u64);

/// How long the pool's status is left alone after a write: so many times as long as that took. It keeps the share of time
/// spent in writing a big status small.
const PAUSE: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// One pool by name, whether it exists or not.
#[derive(Debug, Default)]
pub struct PoolState {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) policy: Policy,
    /// Label value that pools and claims must carry; empty for none.
    pub(super) filter: String,

    pub(super) pool: Option<Arc<IPPool>>,
    /// What its specification means.
    pub(super) plan: Arc<Plan>,
    /// What its status reserves.
    pub(super) reservations: Reservations,
    pub(super) clusters: HashMap<String, ClusterSeen>,
    pub(super) claims: BTreeMap<ClaimKey, Arc<Claim>>,
    pub(super) addresses: BTreeMap<AddressId, Arc<Address>>,
    /// Objects that occupy the name of one of this pool's addresses but belong elsewhere.
    pub(super) foreign: BTreeMap<AddressId, IpAddr>,
    /// Owners and holders of reservations that are not among the claims, by UID.
    pub(super) absent: HashMap<String, Absent>,
    /// UIDs of objects that are gone, and whether the watch has noticed: older views still under way are ignored.
    ended: HashMap<String, bool>,

    complete: Option<Complete>,
    /// How often something arrived that the known objects do not explain.
    doubts: u64,
    pub(super) failures: Failures,
    /// Earliest time of the next write to the pool's status.
    pub(super) next_record: Duration,
    /// When something changed that the status reports.
    pub(super) changed: Duration,
}

impl PoolState {
    /// Nothing is known yet. `filter` is the value of the watch-filter label; empty takes everything.
    pub fn new(namespace: &str, name: &str, policy: Policy, filter: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            policy,
            filter: filter.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the state is empty: no pool, no claim, no address.
    pub fn is_empty(&self) -> bool {
        self.pool.is_none() && self.claims.is_empty() && self.addresses.is_empty()
    }

    /// What users call it.
    pub(super) fn title(&self) -> String {
        format!("IPPool {}/{}", self.namespace, self.name)
    }

    /// The pool as it was seen last.
    pub fn pool(&self) -> Option<&Arc<IPPool>> {
        self.pool.as_ref()
    }

    /// Takes in news from a watch. Views come in any order; older ones than the newest are ignored. Returns whether it is
    /// news.
    pub fn absorb(&mut self, event: Event, now: Duration) -> bool {
        let is_news = match event {
            Event::Pool(pool, plan) => self.see_pool(pool, plan),
            Event::Claim(claim) => self.see_claim(claim),
            Event::Address(address) => self.see_address(address),
            Event::Removed(tombstone, removal) => self.lose(&tombstone, removal),
            Event::NameFreed(id) => self.foreign.remove(&id).is_some(),
            Event::Cluster(name, cluster) => return self.see_cluster(&name, cluster.as_ref()),
            Event::Resync => {
                self.doubts += 1;
                true
            }
        };
        if is_news {
            self.changed = now;
        }
        is_news
    }

    /// Takes in the answer to an effect. `took` is how long it was under way.
    pub fn absorb_answer(&mut self, effect: &Effect, answer: &Answer, now: Duration, took: Duration) {
        if matches!(effect, Effect::Record(_)) {
            self.next_record = now + (took * PAUSE).min(LONGEST_PAUSE);
        }
        let outcome = match answer {
            Answer::Failed(why) => return self.failures.failed(effect, why, now),
            Answer::Dropped(why) => return self.failures.failed(effect, why, now),
            Answer::Seen(outcome) => outcome.clone(),
        };
        match (effect, outcome) {
            // That it is gone, the watch will tell; by now there may be another one.
            (Effect::Refresh(_), Outcome::Snapshot(snapshot)) if self.pool.is_some() && !self.shows_pool(&snapshot) => {
                self.failures.failed(effect, "the pool is gone", now);
            }
            (Effect::Create(new), Outcome::Stale(there)) => {
                self.collide(new, *there);
                self.failures.collided(effect, now);
            }
            (effect, outcome) => {
                self.take(effect, outcome, now);
                self.failures.succeeded(effect);
            }
        }
    }

    /// No request is under way: the views that could still come of an object are those that its watch shows.
    pub fn round_over(&mut self) {
        self.ended.retain(|_, is_noticed| !*is_noticed);
    }

    /// Whether every allocated address is known.
    pub(super) fn is_complete(&self) -> bool {
        self.complete == Some((self.pool_version(), self.doubts))
    }

    /// Requests a full read.
    pub(super) fn refresh(&self) -> Effect {
        Effect::Refresh(self.doubts)
    }

    /// The version of the pool; 0 if there is none.
    fn pool_version(&self) -> Version {
        self.pool.as_ref().map_or(0, |pool| version(&pool.metadata))
    }

    /// Whether a claim is certainly gone.
    pub(super) fn is_gone(&self, uid: &str) -> bool {
        self.absent.get(uid) == Some(&Absent::Gone)
    }

    /// The object that a claim's status names, if it is one for that claim.
    pub(super) fn named_object(&self, claim: &Claim) -> Option<&Arc<Address>> {
        let object = self.addresses.get(&claim.named()?)?;
        (object.claim == claim.key && object.address.is_some()).then_some(object)
    }

    fn is_shown(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        self.filter.is_empty() || labels.and_then(|labels| labels.get(WATCH_FILTER)) == Some(&self.filter)
    }

    fn shows_pool(&self, snapshot: &Snapshot) -> bool {
        let pool = snapshot.pool.as_ref();
        pool.is_some_and(|pool| self.is_shown(pool.metadata.labels.as_ref()))
    }

    fn see_pool(&mut self, pool: Arc<IPPool>, plan: Option<Arc<Plan>>) -> bool {
        let is_ended = pool
            .metadata
            .uid
            .as_ref()
            .is_some_and(|uid| self.ended.contains_key(uid));
        let is_shown = self.is_shown(pool.metadata.labels.as_ref());
        if is_ended || !is_shown || self.pool_version() >= version(&pool.metadata) {
            return false;
        }
        if self.pool.as_ref().is_none_or(|before| before.spec != pool.spec) {
            self.plan = plan.unwrap_or_else(|| Arc::new(Plan::read(&pool.spec)));
        }
        self.reservations = Reservation::all(&pool);
        self.pool = Some(pool);
        true
    }

    fn see_claim(&mut self, claim: Arc<Claim>) -> bool {
        if self.ended.contains_key(&claim.meta.uid) || !self.is_shown(Some(&claim.labels)) {
            return false;
        }
        let before = self.claims.get(&claim.key).cloned();
        if before
            .as_ref()
            .is_some_and(|before| before.meta.version >= claim.meta.version)
        {
            return false;
        }
        let before = before.filter(|before| {
            let is_same = before.meta.uid == claim.meta.uid;
            if !is_same {
                self.lose_claim(&before.key, &before.meta.uid, Absent::Gone);
            }
            is_same
        });
        let is_named_news = before.and_then(|before| before.named()) != claim.named();
        if is_named_news && claim.address.is_some() && self.named_object(&claim).is_none() {
            self.doubts += 1;
        }
        self.absent.remove(&claim.meta.uid);
        self.claims.insert(claim.key.clone(), claim);
        true
    }

    fn see_address(&mut self, address: Arc<Address>) -> bool {
        let owner = address.owner.clone();
        let key = address.claim.clone();
        let is_news = self.put_address(address);
        let is_claim = |uid: &String| self.claims.get(&key).is_some_and(|claim| claim.meta.uid == *uid);
        if is_news && owner.is_some_and(|uid| !is_claim(&uid) && !self.absent.contains_key(&uid)) {
            self.doubts += 1;
        }
        is_news
    }

    fn put_address(&mut self, address: Arc<Address>) -> bool {
        let before = self.addresses.get(&address.id);
        let is_old = before.is_some_and(|before| before.meta.version >= address.meta.version);
        if is_old || self.ended.contains_key(&address.meta.uid) {
            return false;
        }
        self.addresses.insert(address.id.clone(), address);
        true
    }

    /// Returns whether it concerns this pool or a claim on it.
    fn see_cluster(&mut self, name: &str, cluster: Option<&ClusterSeen>) -> bool {
        let is_of_pool = self.pool.as_ref().is_some_and(|pool| pool.spec.cluster_name == name);
        let is_concerned = is_of_pool || self.claims.values().any(|claim| claim.cluster == name);
        let before = match cluster {
            Some(cluster) => self.clusters.insert(name.to_owned(), cluster.clone()),
            None => self.clusters.remove(name),
        };
        is_concerned && before.as_ref() != cluster
    }

    fn lose(&mut self, tombstone: &Tombstone, removal: Removal) -> bool {
        let is_known = match tombstone {
            Tombstone::Pool { uid } => self.lose_pool(uid),
            Tombstone::Claim { key, uid } => {
                let absent = match removal {
                    Removal::Deleted => Absent::Gone,
                    Removal::Hidden => Absent::Elsewhere,
                };
                self.lose_claim(key, uid, absent)
            }
            Tombstone::Address { id, uid } => self.lose_address(id, uid),
        };
        match removal {
            Removal::Deleted => self.ended.insert(tombstone.uid().to_owned(), true),
            Removal::Hidden => self.ended.remove(tombstone.uid()),
        };
        is_known
    }

    fn lose_pool(&mut self, uid: &str) -> bool {
        let is_ours = |pool: &Arc<IPPool>| pool.metadata.uid.as_deref() == Some(uid);
        let is_known = self.pool.as_ref().is_some_and(is_ours);
        if is_known {
            self.pool = None;
            self.reservations = Reservations::default();
            self.failures.pool = Failure::default();
        }
        is_known
    }

    fn lose_claim(&mut self, key: &ClaimKey, uid: &str, absent: Absent) -> bool {
        self.absent.insert(uid.to_owned(), absent);
        let is_known = self.claims.get(key).is_some_and(|claim| claim.meta.uid == uid);
        if is_known {
            self.claims.remove(key);
            self.failures.claims.remove(key);
        }
        is_known
    }

    fn lose_address(&mut self, id: &AddressId, uid: &str) -> bool {
        let known = self.addresses.get(id).filter(|address| address.meta.uid == uid);
        if let Some(claim) = known.and_then(|address| self.claims.get(&address.claim))
            && claim.named().as_ref() == Some(id)
            && !claim.meta.is_deleting
        {
            // Another manager may have made it again.
            self.doubts += 1;
        }
        let is_known = known.is_some();
        if is_known {
            self.addresses.remove(id);
        }
        self.foreign.remove(id).is_some() || is_known
    }

    fn take(&mut self, effect: &Effect, outcome: Outcome, now: Duration) {
        match (effect, outcome) {
            (Effect::Refresh(doubts), Outcome::Snapshot(snapshot)) => self.restart(&snapshot, *doubts),
            (effect, Outcome::Pool(pool)) => {
                // Nothing else has written the pool since it was seen, so what was known is still all.
                if let Some((complete, _)) = &mut self.complete
                    && effect.pool_version() == Some(*complete)
                {
                    *complete = version(&pool.metadata);
                }
                self.see_pool(pool, None);
            }
            (_, Outcome::Stale(there)) if *there == Outcome::Absent => self.vanish(effect),
            (_, Outcome::Absent) => self.vanish(effect),
            (_, Outcome::Stale(there)) => self.see(*there),
            (_, outcome) => self.see(outcome),
        }
        if effect.claim().is_some() {
            self.changed = now;
        }
    }

    fn see(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Pool(pool) => {
                self.see_pool(pool, None);
            }
            Outcome::Claim(claim) if claim.meta.is_gone() => self.end_claim(&claim),
            Outcome::Claim(claim) if claim.pool == self.name => {
                self.see_claim(claim);
            }
            Outcome::Address(address) if address.meta.is_gone() => self.end_address(&address),
            Outcome::Address(address) if address.pool == self.name => {
                self.see_address(address);
            }
            _ => {}
        }
    }

    /// The object of an effect is gone.
    fn vanish(&mut self, effect: &Effect) {
        match effect {
            Effect::AddFinalizer(claim) | Effect::Report(claim, _) | Effect::Release(claim) => self.end_claim(claim),
            Effect::Own(address, _) | Effect::Unlock(address) | Effect::Delete(address) => self.end_address(address),
            Effect::Refresh(_) | Effect::Pool(_) | Effect::Record(_) | Effect::Create(_) => {}
        }
    }

    fn end_claim(&mut self, claim: &Claim) {
        self.lose_claim(&claim.key, &claim.meta.uid, Absent::Gone);
        self.ended.entry(claim.meta.uid.clone()).or_insert(false);
    }

    fn end_address(&mut self, address: &Address) {
        self.lose_address(&address.id, &address.meta.uid);
        self.ended.entry(address.meta.uid.clone()).or_insert(false);
    }

    /// There is an object of the name that we wanted to give to a new one.
    fn collide(&mut self, new: &NewAddress, there: Outcome) {
        let Outcome::Address(there) = there else { return };
        if self.is_object_of(&there, new.address) {
            self.see_address(there);
        } else {
            self.foreign.insert(there.id.clone(), new.address);
            // There are more of them probably. All are found at once by reading the addresses.
            self.doubts += 1;
        }
    }

    /// Whether an object is this pool's for an address.
    fn is_object_of(&self, object: &Address, address: IpAddr) -> bool {
        object.pool == self.name && object.address == Some(address)
    }

    /// Begins again from what the API server has.
    fn restart(&mut self, snapshot: &Snapshot, doubts: u64) {
        let objects = &snapshot.objects;
        self.complete = Some((snapshot.pool.as_ref().map_or(0, |pool| version(&pool.metadata)), doubts));
        if let Some(pool) = &snapshot.pool {
            self.see_pool(pool.clone(), None);
        }
        let of = |family: Family, versions: [Version; 2]| versions[family as usize];
        let listed: HashSet<&str> = objects
            .addresses
            .iter()
            .map(|address| address.meta.uid.as_str())
            .collect();
        self.addresses.retain(|id, address| {
            listed.contains(address.meta.uid.as_str()) || address.meta.version > of(id.family, objects.addresses_as_of)
        });
        let ours = objects.addresses.iter().filter(|address| address.pool == self.name);
        for address in ours.cloned().collect::<Vec<_>>() {
            self.put_address(address);
        }
        let alive: HashSet<&str> = objects.claims.iter().map(|claim| claim.meta.uid.as_str()).collect();
        self.claims.retain(|key, claim| {
            alive.contains(claim.meta.uid.as_str()) || claim.meta.version > of(key.family, objects.claims_as_of)
        });
        for claim in objects
            .claims
            .iter()
            .filter(|claim| claim.pool == self.name)
            .cloned()
            .collect::<Vec<_>>()
        {
            self.see_claim(claim);
        }
        self.absent = self.absent_among(&alive);
        self.foreign = self.foreign_among(&objects.addresses);
    }

    /// Owners and holders of reservations that are not among the claims.
    fn absent_among(&self, alive: &HashSet<&str>) -> HashMap<String, Absent> {
        let known: HashSet<&str> = self.claims.values().map(|claim| claim.meta.uid.as_str()).collect();
        let owners = self.addresses.values().filter_map(|address| address.owner.as_ref());
        let uids = owners.chain(self.reservations.iter().map(|reservation| &reservation.uid));
        let absent = uids.filter(|uid| !known.contains(uid.as_str()));
        let what = |uid: &String| {
            let is_alive = alive.contains(uid.as_str());
            if is_alive { Absent::Elsewhere } else { Absent::Gone }
        };
        absent.map(|uid| (uid.clone(), what(uid))).collect()
    }

    /// Objects with the name of one of this pool's addresses: of another pool with the same prefix, or for another address.
    fn foreign_among(&self, addresses: &[Arc<Address>]) -> BTreeMap<AddressId, IpAddr> {
        let Some(pool) = &self.pool else {
            return BTreeMap::new();
        };
        let named = |object: &Arc<Address>| {
            let ip = address_named(&pool.spec.name_prefix, &object.id.name)?;
            (!self.is_object_of(object, ip)).then(|| (object.id.clone(), ip))
        };
        addresses.iter().filter_map(named).collect()
    }
}
