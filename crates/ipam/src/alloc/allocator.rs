//! Which claim holds which address of a pool, and which address is next.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;

use metal3_runtime::backoff::mixed;

use super::address::parse;
use super::blocked::Blocked;
use super::entry::{Range, Size};
use super::grant::{Grant, Refusal, Usage};
use super::plan::{Plan, Strategy, Usable};

/// The addresses held by the claims of one pool at one moment. `C` identifies a claim: its family and name.
///
/// A claim holds one address at most, and an address has one holder at most.
#[derive(Clone, Debug)]
pub struct Allocator<'p, C> {
    plan: &'p Plan,
    /// Held, blocked or reserved by the spec.
    blocked: Blocked,
    /// Held (by this claim), or blocked for a reason other than a preallocation.
    taken: HashMap<IpAddr, Option<C>>,
    held: HashMap<C, IpAddr>,
}

impl<'p, C: Eq + Hash + Clone> Allocator<'p, C> {
    /// No address is held yet.
    pub fn new(plan: &'p Plan) -> Self {
        let mut blocked = Blocked::default();
        plan.reserved().for_each(|(_, address)| blocked.insert(address));
        Self {
            plan,
            blocked,
            taken: HashMap::new(),
            held: HashMap::new(),
        }
    }

    /// The address that a claim holds.
    pub fn held_by(&self, claim: &C) -> Option<IpAddr> {
        self.held.get(claim).copied()
    }

    /// The claim that holds an address.
    pub fn holder_of(&self, address: IpAddr) -> Option<&C> {
        self.taken.get(&address)?.as_ref()
    }

    /// Every claim that holds an address, in no particular order.
    pub fn holders(&self) -> impl Iterator<Item = (&C, IpAddr)> {
        self.held.iter().map(|(claim, address)| (claim, *address))
    }

    /// Sorted addresses that are held although they are in no range: the pool was shrunk, or they were created by hand.
    pub fn outside(&self) -> Vec<IpAddr> {
        let held = self.held.values().copied();
        let mut outside: Vec<IpAddr> = held.filter(|address| !self.plan.contains(*address)).collect();
        outside.sort_unstable();
        outside
    }

    /// Records what a claim holds. `false`: the claim holds another address, or another claim holds this one; then nothing
    /// changes.
    pub fn hold(&mut self, claim: C, address: IpAddr) -> bool {
        if let Some(own) = self.held.get(&claim) {
            return *own == address;
        }
        if self.holder_of(address).is_some() {
            return false;
        }
        self.blocked.insert(address);
        self.taken.insert(address, Some(claim.clone()));
        self.held.insert(claim, address);
        true
    }

    /// Blocks an address for the caller's own reason.
    pub fn block(&mut self, address: IpAddr) {
        self.blocked.insert(address);
        self.taken.entry(address).or_insert(None);
    }

    /// Whether an address is held, or blocked for a reason other than a preallocation.
    pub fn is_taken(&self, address: IpAddr) -> bool {
        self.taken.contains_key(&address)
    }

    /// Chooses an address for a claim that holds none.
    ///
    /// `name` is the claim's name, which preallocations refer to; `requested` is the requested address as written (empty for
    /// none); `seed` is the randomness for the random strategy.
    pub fn choose(&self, name: &str, requested: &str, seed: u64) -> Result<Grant, Refusal> {
        let requested = match requested {
            "" => None,
            text => Some(parse(text).map_err(|_| Refusal::InvalidRequest(text.to_owned()))?),
        };
        let exactly = |address: IpAddr, outside: Refusal| {
            let entry = self.plan.entry_of(address).ok_or(outside)?;
            let settings = entry.settings.clone();
            Ok(Grant { address, settings })
        };
        match (self.plan.reserved_for(name), requested) {
            (Some(reserved), Some(requested)) if reserved != requested => {
                Err(Refusal::Conflict { requested, reserved })
            }
            (Some(reserved), _) => {
                let grant = exactly(reserved, Refusal::ReservedOutside(reserved))?;
                if self.is_taken(reserved) {
                    return Err(Refusal::ReservedTaken(reserved));
                }
                Ok(grant)
            }
            (None, Some(requested)) => {
                let grant = exactly(requested, Refusal::RequestedOutside(requested))?;
                if self.blocked.contains(requested) {
                    return Err(Refusal::RequestedTaken(requested));
                }
                Ok(grant)
            }
            (None, None) => self.any(seed).ok_or(Refusal::Exhausted),
        }
    }

    /// The first entry with a free address provides it.
    fn any(&self, seed: u64) -> Option<Grant> {
        self.plan.usable.iter().find_map(|entry| {
            let Range { version, first, last } = entry.range;
            let number = match self.plan.strategy {
                Strategy::Sequential => self.blocked.first_free(version, first, last),
                Strategy::Random => self.drawn(entry, seed),
            };
            let settings = entry.settings.clone();
            number
                .and_then(|number| version.address(number))
                .map(|address| Grant { address, settings })
        })
    }

    /// From a random index on, then wrapping around to the start.
    fn drawn(&self, entry: &Usable, seed: u64) -> Option<u128> {
        let Range { version, first, last } = entry.range;
        let Size::Finite(size) = entry.size else { return None };
        let index = (u128::from(mixed(seed)) * u128::from(size)) >> 64;
        let behind = first
            .checked_add(index)
            .filter(|from| *from <= last)
            .and_then(|from| self.blocked.first_free(version, from, last));
        behind.or_else(|| self.blocked.first_free(version, first, last))
    }

    /// How many addresses are in which state.
    pub fn usage(&self) -> Usage {
        let kept: HashSet<IpAddr> = self.plan.reserved().map(|(_, address)| address).collect();
        let is_inside = |address: &&IpAddr| self.plan.contains(**address);
        let waits = |address: &&IpAddr| self.holder_of(**address).is_none();
        let taken = self.taken.keys().filter(|address| !kept.contains(*address));
        let blocked = taken.chain(&kept).filter(is_inside).count();
        let total = self.plan.total();
        Usage {
            total,
            used: self.held.len() as u128,
            reserved: kept.iter().filter(is_inside).filter(waits).count() as u128,
            free: total.saturating_sub(blocked as u128),
        }
    }
}
