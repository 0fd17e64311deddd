//! Who holds which address of a pool, and who gets the next one.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::net::IpAddr;

use metal3_runtime::backoff::mixed;

use super::address::parse;
use super::blocked::Blocked;
use super::entry::{Range, Size};
use super::grant::{Grant, Refusal, Usage};
use super::plan::{Plan, Strategy, Usable};

/// Who holds what, in one pool. `C` names a claim: its family and name.
///
/// One claim has one address at most; one address has one holder at most, and whatever says otherwise is refused.
#[derive(Clone, Debug)]
pub struct Allocator<C> {
    plan: Plan,
    blocked: Blocked,
    held: HashMap<C, IpAddr>,
    holders: HashMap<IpAddr, C>,
    /// Blocked addresses in the ranges.
    blocked_inside: u128,
    /// Addresses that are kept for claims, and for how many.
    reserved: HashMap<IpAddr, u32>,
    /// Those of them that are in the ranges and that nobody holds.
    reserved_unheld: u128,
    /// Addresses that are held and in no range.
    outside: BTreeSet<IpAddr>,
}

impl<C: Eq + Hash + Clone> Allocator<C> {
    /// Nobody holds anything yet.
    pub fn new(plan: Plan) -> Self {
        let mut this = Self {
            plan: Plan::default(),
            blocked: Blocked::default(),
            held: HashMap::new(),
            holders: HashMap::new(),
            blocked_inside: 0,
            reserved: HashMap::new(),
            reserved_unheld: 0,
            outside: BTreeSet::new(),
        };
        this.set_plan(plan);
        this
    }

    /// What the pool says now. Who holds what stays as it is, whether it still fits or not.
    pub fn set_plan(&mut self, plan: Plan) {
        for (_, address) in self.plan.reserved() {
            self.blocked.unblock(address);
        }
        self.plan = plan;
        self.reserved.clear();
        for (_, address) in self.plan.reserved() {
            self.blocked.block(address);
            *self.reserved.entry(address).or_insert(0) += 1;
        }
        let waits = |address: &&IpAddr| self.is_kept_inside(**address) && !self.holders.contains_key(*address);
        self.reserved_unheld = self.reserved.keys().filter(waits).count() as u128;
        let inside = self.blocked.iter().filter(|address| self.plan.contains(*address));
        self.blocked_inside = inside.count() as u128;
        let outside = self.holders.keys().filter(|address| !self.plan.contains(**address));
        self.outside = outside.copied().collect();
    }

    /// Whether an address of the ranges is kept for a claim. One outside of them can be given to nobody.
    fn is_kept_inside(&self, address: IpAddr) -> bool {
        self.reserved.contains_key(&address) && self.plan.contains(address)
    }

    /// What the pool says.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The address that a claim holds.
    pub fn held_by(&self, claim: &C) -> Option<IpAddr> {
        self.held.get(claim).copied()
    }

    /// The claim that holds an address.
    pub fn holder_of(&self, address: IpAddr) -> Option<&C> {
        self.holders.get(&address)
    }

    /// Everybody who holds an address, in no particular order.
    pub fn holders(&self) -> impl Iterator<Item = (&C, IpAddr)> {
        self.held.iter().map(|(claim, address)| (claim, *address))
    }

    /// Addresses that are held although they are in no range, in order: the pool was made smaller, or they were given by hand.
    pub fn outside(&self) -> impl ExactSizeIterator<Item = IpAddr> {
        self.outside.iter().copied()
    }

    /// The number of claims that hold an address.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether nobody holds an address.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Records what is so already. `false`: the claim holds another address, or another claim holds this one; nothing
    /// has changed then.
    pub fn hold(&mut self, claim: C, address: IpAddr) -> bool {
        match (self.held.get(&claim), self.holders.get(&address)) {
            (Some(own), _) => *own == address,
            (None, Some(_)) => false,
            (None, None) => {
                self.block(address);
                if self.is_kept_inside(address) {
                    self.reserved_unheld -= 1;
                }
                if !self.plan.contains(address) {
                    self.outside.insert(address);
                }
                self.holders.insert(address, claim.clone());
                self.held.insert(claim, address);
                true
            }
        }
    }

    /// A claim no longer holds its address, which it returns.
    pub fn release(&mut self, claim: &C) -> Option<IpAddr> {
        let address = self.held.remove(claim)?;
        self.holders.remove(&address);
        self.outside.remove(&address);
        if self.is_kept_inside(address) {
            self.reserved_unheld += 1;
        }
        self.unblock(address);
        Some(address)
    }

    /// Keeps an address from being given, for a reason of the caller's; see [`Blocked::block`].
    pub fn block(&mut self, address: IpAddr) {
        if self.blocked.block(address) && self.plan.contains(address) {
            self.blocked_inside += 1;
        }
    }

    /// Takes a reason of [`Allocator::block`] away.
    pub fn unblock(&mut self, address: IpAddr) {
        if self.blocked.unblock(address) && self.plan.contains(address) {
            self.blocked_inside -= 1;
        }
    }

    /// Whether an address cannot be given to just anybody.
    pub fn is_blocked(&self, address: IpAddr) -> bool {
        self.blocked.contains(address)
    }

    /// Whether an address is held, or blocked for another reason than that it is kept for a claim.
    pub fn is_taken(&self, address: IpAddr) -> bool {
        self.blocked.reasons(address) > self.kept(address)
    }

    /// Gives a claim an address and records it. A claim that holds one gets that one again.
    ///
    /// `name` is the claim's, by which addresses are kept for it; `requested` the address that it asks for, as it wrote it
    /// (empty is not asking); `seed` the randomness for the random strategy.
    pub fn allocate(&mut self, claim: C, name: &str, requested: &str, seed: u64) -> Result<Grant, Refusal> {
        if let Some(address) = self.held_by(&claim) {
            let settings = self.plan.settings(address);
            return Ok(Grant { address, settings });
        }
        let grant = self.choose(name, requested, seed)?;
        self.hold(claim, grant.address);
        Ok(grant)
    }

    fn choose(&self, name: &str, requested: &str, seed: u64) -> Result<Grant, Refusal> {
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
                if self.is_blocked(requested) {
                    return Err(Refusal::RequestedTaken(requested));
                }
                Ok(grant)
            }
            (None, None) => self.any(seed).ok_or(Refusal::Exhausted),
        }
    }

    /// How many reservations an address has.
    fn kept(&self, address: IpAddr) -> u32 {
        self.reserved.get(&address).copied().unwrap_or_default()
    }

    /// The first entry with a free address gives it.
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

    /// From a random index on, and from the start again.
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
        let total = self.plan.total();
        Usage {
            total,
            used: self.held.len() as u128,
            reserved: self.reserved_unheld,
            free: total.saturating_sub(self.blocked_inside),
        }
    }

    /// Whether any free address is left.
    pub fn has_free(&self) -> bool {
        self.any(0).is_some()
    }
}
