//! What is known of one pool, its claims and its addresses. Fed by watches and by the answers to our own requests.

mod adopt;
mod known;
mod places;
mod watched;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use metal3_api::ipam::{IPPool, PoolUsage};

use self::known::Known;
use super::note::Told;
use super::promise::Promises;
use super::seen::{Address, AddressId, Claim, ClaimKey, Version};
use super::stuck::Stuck;
use crate::alloc::{Allocator, Plan, Refusal};

/// A Cluster as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSeen {
    /// Its UID, for the owner reference.
    pub uid: String,
    /// Whether it is paused.
    pub is_paused: bool,
}

/// What the controller is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long an address that we made is left alone when its claim cannot be found. Backups restore addresses before
    /// claims; a claim that is deleted in the ordinary way takes its address along at once.
    pub orphan_grace: Duration,
    /// Requests in one round at most.
    pub batch: usize,
    /// Addresses on their way to claims at most, as a limit to the size of the pool's status. Those whose claim fails for
    /// a reason of its own, or rests, do not count.
    pub promises: usize,
    /// How long a settled pool's figures may lag behind, so that many changes are one write.
    pub settle: Duration,
    /// Whether only pools and claims with a certain label are shown: what is not seen may be there, and be another manager's.
    pub is_filtered: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            orphan_grace: Duration::from_secs(60),
            batch: 1000,
            promises: 2000,
            settle: Duration::from_millis(100),
            is_filtered: false,
        }
    }
}

/// One pool by name, whether it exists or not.
#[derive(Debug)]
pub struct Book {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) now: Duration,

    // What the server has.
    pub(super) pool: Option<Arc<IPPool>>,
    pub(super) clusters: HashMap<String, ClusterSeen>,
    pub(super) claims: BTreeMap<ClaimKey, Arc<Claim>>,
    pub(super) addresses: HashMap<AddressId, Arc<Address>>,
    /// The address objects for each claim.
    pub(super) objects: HashMap<ClaimKey, BTreeSet<AddressId>>,
    /// `status.allocating` and `status.indexes`.
    pub(super) promises: Promises,
    pub(super) published: BTreeMap<String, String>,
    /// The version up to which the pool's status is known to be what we think it is, and every address that was given
    /// before it is known.
    pub(super) trusted: Option<Version>,
    /// UIDs of what is gone, until the watch has noticed.
    gone: HashSet<String>,
    /// UIDs of what the watch has shown to be gone while requests were under way.
    departed: Vec<String>,
    /// What was asked about claims and their objects beyond what the watches show.
    known: HashMap<ClaimKey, Known>,

    // Who has which address.
    pub(super) allocator: Allocator<ClaimKey>,
    /// Claims that hold an address which is neither promised to them nor told.
    pub(super) proposed: BTreeSet<ClaimKey>,
    /// Objects for an address, or for a claim, of which there is another one.
    pub(super) rivals: BTreeSet<AddressId>,
    /// Addresses whose name is taken by an object that is none of this pool's.
    pub(super) foreign: HashMap<IpAddr, AddressId>,
    /// Something came that does not fit with who holds what: it has to be found out anew.
    is_displaced: bool,
    /// Entries of `indexes` that may have to change.
    pub(super) unpublished: BTreeSet<String>,

    // What is to be done.
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
    /// Claims whose address object could not be made, and why.
    pub(super) broken: HashMap<ClaimKey, String>,
    /// What fails of the pool's own.
    pub(super) stuck: Stuck,
    /// What claims are told while the pool rests.
    pub(super) told_at_rest: Option<String>,
    /// Not before this time is the pool's status written again.
    pub(super) next_record: Duration,
    /// When something changed that the status tells of.
    pub(super) changed: Duration,
    pub(super) notes: Vec<Told>,
    /// Makes seeds different from each other.
    pub(super) draws: u64,
}

impl Book {
    /// Nothing is known yet.
    pub fn new(namespace: &str, name: &str, policy: Policy) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            policy,
            now: Duration::ZERO,
            pool: None,
            clusters: HashMap::new(),
            claims: BTreeMap::new(),
            addresses: HashMap::new(),
            objects: HashMap::new(),
            promises: Promises::default(),
            published: BTreeMap::new(),
            trusted: None,
            gone: HashSet::new(),
            departed: Vec::new(),
            known: HashMap::new(),
            allocator: Allocator::new(Plan::default()),
            proposed: BTreeSet::new(),
            rivals: BTreeSet::new(),
            foreign: HashMap::new(),
            is_displaced: false,
            unpublished: BTreeSet::new(),
            dirty: BTreeSet::new(),
            queue: BTreeSet::new(),
            refused: HashMap::new(),
            is_freed: false,
            later: BTreeMap::new(),
            failures: HashMap::new(),
            broken: HashMap::new(),
            stuck: Stuck::default(),
            told_at_rest: None,
            next_record: Duration::ZERO,
            changed: Duration::ZERO,
            notes: Vec::new(),
            draws: 0,
        }
    }

    /// Whether there is nothing to remember: no pool, no claim, no address.
    pub fn is_empty(&self) -> bool {
        self.pool.is_none() && self.claims.is_empty() && self.addresses.is_empty()
    }

    /// The claims on this pool.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.claims.values()
    }

    /// The address objects for a claim of this name.
    pub(super) fn objects_of(&self, key: &ClaimKey) -> impl Iterator<Item = &Arc<Address>> {
        let ids = self.objects.get(key).into_iter().flatten();
        ids.filter_map(|id| self.addresses.get(id))
    }

    /// The object that a claim's status names, if it is one for that claim.
    pub(super) fn told_object(&self, claim: &Claim) -> Option<&Arc<Address>> {
        let name = claim.address.as_ref()?;
        let id = AddressId {
            family: claim.key.family,
            name: name.clone(),
        };
        let object = self.addresses.get(&id)?;
        (object.claim == claim.key && object.address.is_some()).then_some(object)
    }

    /// The numbers of the pool; nothing while it does not exist or nothing is known of it.
    pub fn usage(&self) -> Option<PoolUsage> {
        let known = self.pool.is_some() && self.trusted.is_some();
        known.then(|| super::text::usage(self.allocator.usage(), self.waiting()))
    }

    /// The claims that got no address because none is left.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The pool as it was seen last.
    pub fn pool(&self) -> Option<&Arc<IPPool>> {
        self.pool.as_ref()
    }

    /// Objects for an address or a claim that another object is for, by name.
    pub(super) fn rival_names(&self) -> Vec<String> {
        let name = |id: &AddressId| format!("{} IPAddress {}", id.family.api_version(), id.name);
        self.rivals.iter().map(name).collect()
    }

    /// What there is to tell users, and forgets it.
    pub fn take_notes(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.notes)
    }
}
