//! What is known of one pool, its claims and its addresses. Fed by watches and by the answers to our own requests.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use metal3_api::ipam::{IPPool, PoolUsage};

use super::effect::Adopted;
use super::note::Told;
use super::seen::{Address, AddressId, Claim, ClaimKey, Family, Version, version};
use super::text::plan_of;
use crate::alloc::{Allocator, Plan, Refusal, parse_as_held};

/// How far an address is on its way to a claim. An address whose object exists has no stage any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Chosen here, and nowhere else known.
    Proposed,
    /// In the pool's status: no other writer can give it to anybody else.
    Recorded,
}

/// A Cluster as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSeen {
    /// Its UID, for the owner reference.
    pub uid: String,
    /// Whether it is paused.
    pub is_paused: bool,
}

/// What the controller is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long an address that we made is left alone when its claim cannot be found. Backups restore addresses before
    /// claims; a claim that is deleted in the ordinary way takes its address along at once.
    pub orphan_grace: Duration,
    /// Requests in one round at most.
    pub batch: usize,
    /// How long a settled pool's figures may lag behind, so that many changes are one write.
    pub settle: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            orphan_grace: Duration::from_secs(60),
            batch: 1000,
            settle: Duration::from_millis(100),
        }
    }
}

/// One pool by name, whether it exists or not.
#[derive(Debug)]
pub struct Book {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) pool: Option<Arc<IPPool>>,
    pub(super) clusters: HashMap<String, ClusterSeen>,
    pub(super) claims: BTreeMap<ClaimKey, Arc<Claim>>,
    pub(super) addresses: HashMap<AddressId, Arc<Address>>,
    pub(super) objects: HashMap<ClaimKey, BTreeSet<AddressId>>,
    pub(super) allocator: Allocator<ClaimKey>,
    pub(super) stages: BTreeMap<ClaimKey, Stage>,
    /// Objects for an address, or for a claim, of which there is another one.
    pub(super) rivals: BTreeSet<AddressId>,
    /// Addresses whose name is taken by an object that is none of this pool's.
    pub(super) foreign: HashMap<IpAddr, AddressId>,
    /// `status.allocating` and `status.indexes` on the server.
    pub(super) recorded: BTreeMap<ClaimKey, IpAddr>,
    pub(super) published: BTreeMap<String, String>,
    /// Entries of `indexes` that may have to change.
    pub(super) unpublished: BTreeSet<String>,
    /// The version up to which the status is known to be what we think it is.
    pub(super) trusted: Option<Version>,
    pub(super) dirty: BTreeSet<ClaimKey>,
    /// Claims that any free address would serve, oldest first.
    pub(super) queue: BTreeSet<(i64, ClaimKey)>,
    /// Claims that were refused, and why.
    pub(super) refused: HashMap<ClaimKey, Refusal>,
    /// Something was freed, or the pool says something else.
    pub(super) is_freed: bool,
    /// Claims to be looked at again at a time, and how often they have failed.
    pub(super) later: BTreeMap<ClaimKey, Duration>,
    pub(super) failures: HashMap<ClaimKey, u32>,
    /// Claims that the server does not have, and claims whose address object it does not have.
    pub(super) absent: HashSet<ClaimKey>,
    pub(super) looked: HashSet<ClaimKey>,
    /// UIDs of what is gone, until the watch has noticed.
    pub(super) gone: HashSet<String>,
    pub(super) notes: Vec<Told>,
    /// Not before this time is the pool's status written again.
    pub(super) next_record: Duration,
    pub(super) changed: Duration,
    pub(super) now: Duration,
    pub(super) pool_failures: u32,
    pub(super) pool_later: Duration,
    /// Claims whose address object could not be made, and why.
    pub(super) broken: HashMap<ClaimKey, String>,
    pub(super) draws: u64,
}

impl Book {
    /// Nothing is known yet.
    pub fn new(namespace: &str, name: &str, policy: Policy) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            policy,
            pool: None,
            clusters: HashMap::new(),
            claims: BTreeMap::new(),
            addresses: HashMap::new(),
            objects: HashMap::new(),
            allocator: Allocator::new(Plan::default()),
            stages: BTreeMap::new(),
            rivals: BTreeSet::new(),
            foreign: HashMap::new(),
            recorded: BTreeMap::new(),
            published: BTreeMap::new(),
            unpublished: BTreeSet::new(),
            trusted: None,
            dirty: BTreeSet::new(),
            queue: BTreeSet::new(),
            refused: HashMap::new(),
            is_freed: false,
            later: BTreeMap::new(),
            failures: HashMap::new(),
            absent: HashSet::new(),
            looked: HashSet::new(),
            gone: HashSet::new(),
            notes: Vec::new(),
            next_record: Duration::ZERO,
            changed: Duration::ZERO,
            now: Duration::ZERO,
            pool_failures: 0,
            pool_later: Duration::ZERO,
            broken: HashMap::new(),
            draws: 0,
        }
    }

    /// Whether there is nothing to remember: no pool, no claim, no address.
    pub fn is_empty(&self) -> bool {
        self.pool.is_none() && self.claims.is_empty() && self.addresses.is_empty()
    }

    /// Whether a claim exists that has, or should get, an address.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.claims.values()
    }

    /// A view of the pool. Older ones than the newest are ignored.
    pub fn see_pool(&mut self, pool: Arc<IPPool>) {
        if let Some(uid) = &pool.metadata.uid
            && self.gone.contains(uid)
        {
            return;
        }
        let before = self.pool.as_ref();
        let is_same = before.is_some_and(|before| before.metadata.uid == pool.metadata.uid);
        if is_same && before.is_some_and(|before| version(&before.metadata) >= version(&pool.metadata)) {
            return;
        }
        let is_other_spec = before.is_none_or(|before| before.spec != pool.spec);
        if !is_same {
            self.trusted = None;
            self.dirty.extend(self.claims.keys().cloned());
        }
        if self.trusted != Some(version(&pool.metadata)) {
            // Somebody else has written: perhaps another manager, perhaps somebody who emptied the status. That the status
            // looks the same proves nothing, because addresses may have come and gone.
            self.trusted = None;
        }
        self.pool = Some(pool);
        if is_other_spec {
            self.read_spec();
        }
        self.changed = self.now;
    }

    fn read_spec(&mut self) {
        let Some(pool) = &self.pool else { return };
        self.allocator.set_plan(plan_of(&pool.spec));
        self.is_freed = true;
        // A request that was out of range may be in range now.
        self.dirty.extend(self.refused.keys().cloned());
    }

    /// The pool is gone.
    pub fn lose_pool(&mut self, uid: &str) {
        if self
            .pool
            .as_ref()
            .is_some_and(|pool| pool.metadata.uid.as_deref() == Some(uid))
        {
            self.pool = None;
            self.trusted = None;
            self.recorded.clear();
            self.published.clear();
            self.dirty.extend(self.claims.keys().cloned());
        }
    }

    /// What is known of the Clusters of the namespace has changed.
    /// Returns whether it concerns this pool or a claim on it.
    pub fn see_cluster(&mut self, name: &str, cluster: Option<&ClusterSeen>) -> bool {
        let changed = match cluster {
            Some(cluster) => self.clusters.insert(name.to_owned(), cluster.clone()).as_ref() != Some(cluster),
            None => self.clusters.remove(name).is_some(),
        };
        let concerned = self.claims.values().filter(|claim| claim.cluster == name);
        let concerned: Vec<ClaimKey> = concerned.filter(|_| changed).map(|claim| claim.key.clone()).collect();
        let is_ours = self.pool.as_ref().is_some_and(|pool| pool.spec.cluster_name == name);
        let wakes = changed && is_ours || !concerned.is_empty();
        self.dirty.extend(concerned);
        wakes
    }

    /// A view of a claim. Older ones than the newest are ignored, and so are those of a claim that is gone.
    pub fn see_claim(&mut self, claim: Arc<Claim>) {
        let key = claim.key.clone();
        if self.gone.contains(&claim.uid) {
            return;
        }
        if let Some(before) = self.claims.get(&key) {
            if before.uid == claim.uid && before.version >= claim.version {
                return;
            }
            self.queue.remove(&before.order());
        }
        self.absent.remove(&key);
        self.looked.remove(&key);
        if !self.failures.contains_key(&key) {
            self.later.remove(&key);
        }
        if self.refused.contains_key(&key) {
            // It may ask for something else now.
            self.refused.remove(&key);
        }
        self.claims.insert(key.clone(), claim);
        self.dirty.insert(key);
    }

    /// A claim is gone.
    pub fn lose_claim(&mut self, key: &ClaimKey, uid: &str) {
        let Some(claim) = self.claims.get(key).filter(|claim| claim.uid == uid) else {
            return;
        };
        self.queue.remove(&claim.order());
        self.claims.remove(key);
        self.gone.insert(uid.to_owned());
        self.refused.remove(key);
        self.failures.remove(key);
        self.broken.remove(key);
        self.later.remove(key);
        self.looked.remove(key);
        self.dirty.insert(key.clone());
        self.changed = self.now;
    }

    /// The watch has noticed that an object is gone, too: no older view of it will come any more.
    pub fn forget(&mut self, uid: &str) {
        self.gone.remove(uid);
    }

    /// A view of an address. Older ones than the newest are ignored, and so are those of one that is gone.
    pub fn see_address(&mut self, address: Arc<Address>) {
        let id = address.id.clone();
        if self.gone.contains(&address.uid) {
            return;
        }
        if let Some(before) = self.addresses.get(&id) {
            if before.uid == address.uid && before.version >= address.version {
                return;
            }
            if before.uid != address.uid || before.address != address.address || before.claim != address.claim {
                let before = before.clone();
                self.drop_address(&before);
            }
        }
        self.dirty.insert(address.claim.clone());
        self.looked.remove(&address.claim);
        self.objects
            .entry(address.claim.clone())
            .or_default()
            .insert(id.clone());
        let is_new = self.addresses.insert(id.clone(), address).is_none();
        if is_new {
            self.changed = self.now;
            self.settle(&id);
        }
    }

    /// An address object is gone.
    pub fn lose_address(&mut self, id: &AddressId, uid: &str) {
        let Some(address) = self.addresses.get(id).filter(|address| address.uid == uid).cloned() else {
            return;
        };
        self.gone.insert(uid.to_owned());
        self.drop_address(&address);
    }

    fn drop_address(&mut self, address: &Address) {
        let (id, key) = (&address.id, &address.claim);
        self.addresses.remove(id);
        if let Some(ids) = self.objects.get_mut(key) {
            ids.remove(id);
            if ids.is_empty() {
                self.objects.remove(key);
            }
        }
        self.dirty.insert(key.clone());
        self.changed = self.now;
        let Some(ip) = address.address else { return };
        if self.rivals.remove(id) {
            self.allocator.unblock(ip);
        } else if self.allocator.held_by(key) == Some(ip) && !self.stages.contains_key(key) {
            if self.claims.get(key).is_some_and(|claim| !claim.is_deleting) {
                // Somebody took the object away by force; the claim still has the address. It is made anew.
                self.stages.insert(key.clone(), Stage::Proposed);
            } else {
                self.vacate(key);
            }
        }
        self.is_freed = true;
        // What stood back for it may come forward now.
        for rival in std::mem::take(&mut self.rivals) {
            if let Some(ip) = self.addresses.get(&rival).and_then(|address| address.address) {
                self.allocator.unblock(ip);
                self.settle(&rival);
            }
        }
    }

    /// Finds the place of an object among those who hold addresses.
    fn settle(&mut self, id: &AddressId) {
        let Some(address) = self.addresses.get(id).cloned() else {
            return;
        };
        let (Some(ip), key) = (address.address, &address.claim) else {
            return;
        };
        // What is only intended gives way to an object. What is recorded does not: the object may be a late one, of a claim
        // that is gone.
        let is_intended = |this: &Self, key: &ClaimKey| this.stages.get(key) == Some(&Stage::Proposed);
        if let Some(own) = self.allocator.held_by(key)
            && own != ip
            && is_intended(self, key)
        {
            self.vacate(key);
        }
        if let Some(holder) = self.allocator.holder_of(ip).cloned()
            && holder != *key
            && is_intended(self, &holder)
        {
            self.vacate(&holder);
            self.dirty.insert(holder);
        }
        let has_other = |id: &AddressId| self.addresses.get(id).is_some_and(|other| other.address == Some(ip));
        let is_second = self.objects.get(key).is_some_and(|ids| {
            ids.iter()
                .any(|other| other != id && !self.rivals.contains(other) && has_other(other))
        });
        if !is_second && self.allocator.hold(key.clone(), ip) {
            self.stages.remove(key);
            self.unpublished.insert(key.name.clone());
        } else {
            self.allocator.block(ip);
            self.rivals.insert(id.clone());
        }
    }

    /// A claim no longer has an address.
    pub(super) fn vacate(&mut self, key: &ClaimKey) {
        self.stages.remove(key);
        if self.allocator.release(key).is_some() {
            self.unpublished.insert(key.name.clone());
            self.is_freed = true;
            self.changed = self.now;
        }
    }

    /// An object that took a name which this pool wanted is gone.
    /// Returns whether that is so.
    pub fn lose_foreign(&mut self, id: &AddressId) -> bool {
        let free: Vec<IpAddr> = self
            .foreign
            .iter()
            .filter(|(_, by)| *by == id)
            .map(|(ip, _)| *ip)
            .collect();
        for ip in &free {
            self.foreign.remove(ip);
            self.allocator.unblock(*ip);
            self.is_freed = true;
        }
        !free.is_empty()
    }

    /// Looks at everything again, as if all of it had just changed.
    pub fn resync(&mut self) {
        self.dirty.extend(self.claims.keys().cloned());
        self.dirty.extend(self.objects.keys().cloned());
        for (ip, _) in std::mem::take(&mut self.foreign) {
            self.allocator.unblock(ip);
        }
        self.is_freed = true;
    }

    /// Begins again from what the server has.
    pub(super) fn adopt(&mut self, adopted: Adopted) {
        // That it is gone, the watch will tell; by now there may be another one.
        let Some(pool) = adopted.pool else { return };
        self.trusted = None;
        self.see_pool(pool.clone());
        let known: HashSet<&AddressId> = adopted.addresses.iter().map(|address| &address.id).collect();
        let as_of = |family| match family {
            Family::Metal3 => adopted.as_of[0],
            Family::ClusterApi => adopted.as_of[1],
        };
        self.addresses
            .retain(|id, address| known.contains(id) || address.version > as_of(id.family));
        for address in adopted.addresses.iter().filter(|address| address.pool == self.name) {
            let is_newer = |before: &Arc<Address>| before.uid == address.uid && before.version >= address.version;
            if !self.gone.contains(&address.uid) && !self.addresses.get(&address.id).is_some_and(is_newer) {
                self.addresses.insert(address.id.clone(), address.clone());
            }
        }
        // What was read may be older than what the watch has shown meanwhile.
        let newest = self.pool.clone().unwrap_or_else(|| pool.clone());
        self.allocator = Allocator::new(plan_of(&newest.spec));
        for ip in self.foreign.keys() {
            self.allocator.block(*ip);
        }
        self.stages.clear();
        self.rivals.clear();
        self.objects.clear();
        self.recorded = super::text::allocating(&pool);
        self.published = pool
            .status
            .as_ref()
            .map(|status| status.allocations.clone())
            .unwrap_or_default();
        for (key, ip) in self.recorded.clone() {
            if self.allocator.held_by(&key).is_none() && self.allocator.hold(key.clone(), ip) {
                self.stages.insert(key, Stage::Recorded);
            }
        }
        // In an order that does not depend on chance: the oldest object has the address.
        let mut ids: Vec<(i64, AddressId)> = self.addresses.values().map(|a| (a.created, a.id.clone())).collect();
        ids.sort();
        for (_, id) in ids {
            if let Some(address) = self.addresses.get(&id) {
                self.objects
                    .entry(address.claim.clone())
                    .or_default()
                    .insert(id.clone());
                self.settle(&id);
            }
        }
        self.unpublished = self.published.keys().cloned().collect();
        self.unpublished
            .extend(self.allocator.holders().map(|(key, _)| key.name.clone()));
        self.trusted = Some(version(&pool.metadata));
        if newest.metadata.uid != pool.metadata.uid || self.trusted != Some(version(&newest.metadata)) {
            self.trusted = None;
        }
        self.looked.clear();
        self.dirty.extend(self.claims.keys().cloned());
        self.dirty.extend(self.objects.keys().cloned());
        self.dirty.extend(self.recorded.keys().cloned());
        self.is_freed = true;
    }

    /// What `indexes` should say for a name: of two claims of one name, the Metal3 one's address.
    pub(super) fn index(&self, name: &str) -> Option<IpAddr> {
        Family::ALL.into_iter().find_map(|family| {
            self.allocator.held_by(&ClaimKey {
                family,
                name: name.to_owned(),
            })
        })
    }

    /// The address that the pool's status has for a claim whose object is gone.
    pub(super) fn remembered(&self, claim: &Claim) -> Option<IpAddr> {
        let ip = parse_as_held(self.published.get(&claim.key.name)?)?;
        let prefix = &self.pool.as_ref()?.spec.name_prefix;
        (claim.address.as_ref() == Some(&super::seen::address_name(prefix, ip))).then_some(ip)
    }

    /// The numbers of the pool; nothing while it does not exist or nothing is known of it.
    pub fn usage(&self) -> Option<PoolUsage> {
        let known = self.pool.is_some() && self.trusted.is_some();
        known.then(|| super::text::usage(self.allocator.usage(), self.waiting()))
    }

    /// The pool as it was seen last.
    pub fn pool(&self) -> Option<&Arc<IPPool>> {
        self.pool.as_ref()
    }

    /// What there is to tell users, and forgets it.
    pub fn take_notes(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.notes)
    }
}
