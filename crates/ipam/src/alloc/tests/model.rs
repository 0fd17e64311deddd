//! Tests the allocator against a naive model, which iterates over all addresses and keeps plain lists.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use metal3_api::ipam::{IPPoolSpec, PoolEntry};
use proptest::prelude::*;

use super::vectors::allocate;
use crate::alloc::{Allocator, Entry, Plan, Refusal, Size, Version, number, parse};

/// A small range at either end or in the middle, so that addresses collide and arithmetic overflows.
fn an_address() -> impl Strategy<Value = IpAddr> {
    (0_u8..24, 0_u8..5).prop_map(|(at, place)| {
        let at = u32::from(at);
        match place {
            0 => Ipv4Addr::from_bits(0xc0a8_00f8 + at).into(),
            1 => Ipv4Addr::from_bits(u32::MAX - at).into(),
            2 => Ipv4Addr::from_bits(at).into(),
            3 => Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) + 0xffff_fff8 + u128::from(at)).into(),
            _ => Ipv6Addr::from_bits(u128::MAX - u128::from(at)).into(),
        }
    })
}

fn maybe(text: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::option::of(text).prop_map(Option::unwrap_or_default)
}

fn an_entry() -> impl Strategy<Value = PoolEntry> {
    let subnet = (an_address(), 0_u8..6).prop_map(|(address, free)| {
        let bits = Version::of(address).bits();
        format!("{address}/{}", bits - free)
    });
    let near =
        (an_address(), 0_u8..10, any::<bool>(), any::<bool>()).prop_map(|(start, length, has_end, has_subnet)| {
            let version = Version::of(start);
            let end = number(start).saturating_add(length.into()).min(version.max());
            let end = version.address(end).unwrap();
            PoolEntry {
                start: start.to_string(),
                end: if has_end { end.to_string() } else { String::new() },
                subnet: if has_subnet {
                    format!("{start}/{}", version.bits() - 4)
                } else {
                    String::new()
                },
                ..PoolEntry::default()
            }
        });
    let text = || an_address().prop_map(|address| address.to_string());
    let wild = (maybe(text()), maybe(text()), maybe(subnet)).prop_map(|(start, end, subnet)| PoolEntry {
        start,
        end,
        subnet,
        ..PoolEntry::default()
    });
    prop_oneof![3 => near, 1 => wild]
}

fn a_pool() -> impl Strategy<Value = IPPoolSpec> {
    let entries = prop::collection::vec(an_entry(), 0..4);
    let reserved = prop::collection::btree_map("[a-d]", an_address().prop_map(|a| a.to_string()), 0..3);
    (entries, reserved, any::<bool>()).prop_map(|(mut entries, reserved, random)| {
        for (index, entry) in entries.iter_mut().enumerate() {
            entry.prefix = i64::try_from(index).unwrap() + 1;
        }
        IPPoolSpec {
            allocation_strategy: if random { "random".into() } else { "sequential".into() },
            pools: entries,
            pre_allocations: reserved,
            ..IPPoolSpec::default()
        }
    })
}

/// How many addresses of an entry the model enumerates; tests cannot use up more. Addresses beyond are checked individually.
const FAR: u128 = 64;

/// An entry by the documented rules.
struct Walked {
    /// Its addresses one after another, the first of them.
    near: Vec<IpAddr>,
    start: Option<IpAddr>,
    end: Option<IpAddr>,
    subnet: Option<IpNet>,
}

impl Walked {
    fn new(text: &PoolEntry) -> Self {
        let (entry, errors) = Entry::read(text);
        let read = |text: &String| (!text.is_empty()).then(|| parse(text).ok()).flatten();
        let mut this = Self {
            near: Vec::new(),
            start: read(&text.start),
            end: read(&text.end),
            subnet: entry.subnet(),
        };
        let base = this.start.or_else(|| {
            let subnet = this.subnet?;
            Version::of(subnet.addr()).address(number(subnet.addr()).checked_add(1)?)
        });
        if let Some(base) = base.filter(|_| errors.is_empty()) {
            let addresses = (0..FAR).map_while(|index| Version::of(base).address(number(base).checked_add(index)?));
            this.near = addresses.take_while(|address| !this.is_over(*address)).collect();
        }
        this
    }

    fn is_over(&self, address: IpAddr) -> bool {
        let other = |end: IpAddr| address > end || Version::of(end) != Version::of(address);
        self.start.is_some() && self.end.is_some_and(other)
            || self.subnet.is_some_and(|subnet| !subnet.contains(&address))
    }

    fn has(&self, address: IpAddr) -> bool {
        let is_behind = |base: &IpAddr| Version::of(*base) == Version::of(address) && *base <= address;
        self.near.first().is_some_and(is_behind) && !self.is_over(address)
    }

    fn is_whole(&self) -> bool {
        (self.near.len() as u128) < FAR
    }
}

#[derive(Default)]
struct Naive {
    entries: Vec<Walked>,
    reserved: BTreeMap<String, IpAddr>,
    held: BTreeMap<u8, IpAddr>,
    foreign: Vec<IpAddr>,
}

impl Naive {
    fn set_plan(&mut self, text: &IPPoolSpec) {
        let is_usable = |entry: &&PoolEntry| {
            text.allocation_strategy.as_str() != "random" || matches!(Entry::read(entry).0.size(), Size::Finite(_))
        };
        self.entries = text.pools.iter().filter(is_usable).map(Walked::new).collect();
        let reserved = text.pre_allocations.iter();
        self.reserved = reserved
            .map(|(name, address)| (name.clone(), parse(address).unwrap()))
            .collect();
    }

    fn used(&self) -> BTreeSet<IpAddr> {
        self.held
            .values()
            .chain(self.reserved.values())
            .chain(&self.foreign)
            .copied()
            .collect()
    }

    fn has(&self, address: IpAddr) -> bool {
        self.entries.iter().any(|entry| entry.has(address))
    }

    /// What the sequential strategy returns, or what any strategy may return: the free addresses of the first entry that has any.
    fn choices(&self, name: &str, requested: Option<IpAddr>) -> Result<Vec<IpAddr>, Refusal> {
        let is_taken = |address: &IpAddr| self.held.values().chain(&self.foreign).any(|held| held == address);
        match (self.reserved.get(name).copied(), requested) {
            (Some(reserved), Some(requested)) if reserved != requested => {
                Err(Refusal::Conflict { requested, reserved })
            }
            (Some(reserved), _) if !self.has(reserved) => Err(Refusal::ReservedOutside(reserved)),
            (Some(reserved), _) if is_taken(&reserved) => Err(Refusal::ReservedTaken(reserved)),
            (Some(reserved), _) => Ok(vec![reserved]),
            (None, Some(requested)) if !self.has(requested) => Err(Refusal::RequestedOutside(requested)),
            (None, Some(requested)) if self.used().contains(&requested) => Err(Refusal::RequestedTaken(requested)),
            (None, Some(requested)) => Ok(vec![requested]),
            (None, None) => {
                let used = self.used();
                let free = |entry: &Walked| {
                    entry
                        .near
                        .iter()
                        .filter(|a| !used.contains(a))
                        .copied()
                        .collect::<Vec<_>>()
                };
                let first = self.entries.iter().map(free).find(|free| !free.is_empty());
                first.ok_or(Refusal::Exhausted)
            }
        }
    }
}

/// A claim, what it asks for, and randomness.
type Ask = (u8, Option<IpAddr>, u64);

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let ask = (0_u8..20, prop::option::weighted(0.2, an_address()), any::<u64>());
    prop::collection::vec(ask, 1..40)
}

/// The first claims have the names that reservations are for.
fn name(claim: u8) -> String {
    char::from(b'a' + claim).to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn it_does_what_the_naive_one_does(
        text in a_pool(),
        holds in prop::collection::vec((0_u8..20, an_address()), 0..8),
        foreign in prop::collection::vec(an_address(), 0..4),
        asks in asks(),
    ) {
        let mut naive = Naive::default();
        naive.set_plan(&text);
        let plan = Plan::read(&text);
        let mut pool = Allocator::new(&plan);
        for (claim, address) in holds {
            let may = match naive.held.get(&claim) {
                Some(own) => *own == address,
                None => !naive.held.values().any(|held| *held == address),
            };
            prop_assert_eq!(pool.hold(claim, address), may);
            if may { naive.held.insert(claim, address); }
        }
        for address in foreign {
            pool.block(address);
            naive.foreign.push(address);
        }
        for (claim, requested, seed) in asks {
            if naive.held.contains_key(&claim) {
                continue;
            }
            let asked = requested.map(|a| a.to_string()).unwrap_or_default();
            let got = allocate(&mut pool, claim, &name(claim), &asked, seed);
            match (naive.choices(&name(claim), requested), got) {
                (Ok(choices), Ok(grant)) => {
                    if text.allocation_strategy.as_str() == "random" {
                        let entry = naive.entries.iter().find(|entry| entry.has(choices[0])).unwrap();
                        prop_assert!(entry.has(grant.address) && (choices.len() == 1 || !naive.used().contains(&grant.address)));
                        prop_assert!(!entry.is_whole() || choices.contains(&grant.address));
                    } else {
                        prop_assert_eq!(choices[0], grant.address);
                    }
                    prop_assert!(grant.settings.prefix > 0, "an entry's, not the pool's");
                    naive.held.insert(claim, grant.address);
                }
                (expected, got) => prop_assert_eq!(expected.err(), got.err()),
            }
        }
        let holders: BTreeSet<IpAddr> = pool.holders().map(|(_, address)| address).collect();
        prop_assert_eq!(holders.len(), naive.held.len(), "no address has two holders");
        for address in naive.used() {
            let holder = naive.held.iter().find(|(_, held)| **held == address).map(|(claim, _)| claim);
            prop_assert_eq!(pool.holder_of(address), holder);
            prop_assert_eq!(pool.is_taken(address), holder.is_some() || naive.foreign.contains(&address));
        }
        let usage = pool.usage();
        prop_assert_eq!(usage.used, naive.held.len() as u128);
        let kept: BTreeSet<_> = naive.reserved.values().filter(|a| naive.has(**a) && !holders.contains(a)).collect();
        prop_assert_eq!(usage.reserved, kept.len() as u128);
        if naive.entries.iter().all(Walked::is_whole) {
            let all: BTreeSet<IpAddr> = naive.entries.iter().flat_map(|entry| &entry.near).copied().collect();
            prop_assert_eq!(usage.total, all.len() as u128);
            prop_assert_eq!(usage.free, all.difference(&naive.used()).count() as u128);
        }
    }

    /// The random strategy stays in range, reaches the last free address, never repeats one, and reports exhaustion.
    #[test]
    fn random_covers_the_range(entry in an_entry(), seed in any::<u64>()) {
        let walked = Walked::new(&entry);
        prop_assume!(matches!(Entry::read(&entry).0.size(), Size::Finite(_)) && walked.is_whole());
        let addresses = walked.near;
        let text = IPPoolSpec { allocation_strategy: "random".into(), pools: vec![entry], ..IPPoolSpec::default() };
        let plan = Plan::read(&text);
        let mut pool = Allocator::new(&plan);
        let mut got = BTreeSet::new();
        for n in 0..addresses.len() {
            let grant = allocate(&mut pool, n, "", "", seed.wrapping_add(n as u64)).unwrap();
            prop_assert!(addresses.contains(&grant.address));
            prop_assert!(got.insert(grant.address));
        }
        prop_assert_eq!(pool.choose("", "", seed), Err(Refusal::Exhausted));
    }
}

/// Different seeds give different addresses: two managers do not allocate in lockstep.
#[test]
fn random_is_spread() {
    let entry = PoolEntry {
        subnet: "10.0.0.0/16".into(),
        ..PoolEntry::default()
    };
    let text = IPPoolSpec {
        allocation_strategy: "random".into(),
        pools: vec![entry],
        ..IPPoolSpec::default()
    };
    let plan = Plan::read(&text);
    let first = |seed| Allocator::<()>::new(&plan).choose("", "", seed).unwrap().address;
    let distinct: BTreeSet<_> = (0..256).map(first).collect();
    assert!(distinct.len() > 240);
}
