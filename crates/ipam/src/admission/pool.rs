//! IPPool.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::net::IpAddr;

use metal3_api::ipam::{AllocationStrategy, IPPool, IPPoolSpec, PoolEntry};

use super::FieldError;
use crate::alloc::{Bounds, Entry, Plan, Problem, Size, parse, parse_as_held};

/// Sets defaults. Returns whether anything changed.
pub fn defaults(pool: &mut IPPool) -> bool {
    let is_empty = pool.spec.allocation_strategy.as_str().is_empty();
    if is_empty {
        pool.spec.allocation_strategy = AllocationStrategy::Sequential;
    }
    is_empty
}

/// A new pool.
pub fn create(pool: &IPPool) -> Vec<FieldError> {
    let mut errors = shape(&pool.spec);
    errors.extend(reservations_in_bounds(&pool.spec));
    errors
}

/// Warnings about a pool that is accepted although it may be a mistake: a gateway outside of the subnet, for example. The
/// condition `SpecValid` lists the same.
pub fn warnings(pool: &IPPool) -> Vec<FieldError> {
    let plan = Plan::read(&pool.spec);
    let warning = |problem: &Problem| FieldError::new(&problem.field, &problem.message);
    plan.problems().iter().map(warning).collect()
}

/// A changed pool.
pub fn update(old: &IPPool, new: &IPPool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.spec.name_prefix != new.spec.name_prefix {
        errors.push(FieldError::new("spec.namePrefix", "cannot be modified"));
    }
    if strategy(&old.spec) != strategy(&new.spec) {
        errors.push(FieldError::new(
            "spec.allocationStrategy",
            "cannot be modified after creation",
        ));
    }
    errors.extend(create(new));
    let bounds = bounds(&new.spec);
    for (claim, text) in old.status.iter().flat_map(|status| &status.allocations) {
        let is_out = parse_as_held(text).is_none_or(|address| !bounds.contain(address));
        if is_out {
            let message = format!("{text} of the claim {claim} is in use but out of bounds of the pools given");
            errors.push(FieldError::new("spec.pools", message));
        }
    }
    errors
}

/// Empty means sequential, as the default sets it.
fn strategy(spec: &IPPoolSpec) -> &str {
    let text = spec.allocation_strategy.as_str();
    if text.is_empty() { "sequential" } else { text }
}

fn shape(spec: &IPPoolSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    addresses("spec", &spec.gateway, &spec.dns_servers, &mut errors);
    let mut held: HashMap<IpAddr, &str> = HashMap::new();
    for (claim, text) in &spec.pre_allocations {
        let field = format!("spec.preAllocations.{claim}");
        match parse(text) {
            Err(error) => errors.push(FieldError::new(field, error.to_string())),
            // Compared as addresses: 2001:db8::1 and 2001:DB8:0::1 are equal.
            Ok(address) => match held.entry(address) {
                Slot::Vacant(free) => _ = free.insert(claim),
                Slot::Occupied(other) => {
                    let message = format!("{address} is already pre-allocated to the claim {}", other.get());
                    errors.push(FieldError::new(field, message));
                }
            },
        }
    }
    for (index, entry) in spec.pools.iter().enumerate() {
        entry_shape(
            &format!("spec.pools[{index}]"),
            entry,
            strategy(spec) == "random",
            &mut errors,
        );
    }
    errors
}

fn entry_shape(field: &str, entry: &PoolEntry, is_random: bool, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    let (read, wrong) = Entry::read(entry);
    errors.extend(wrong.into_iter().map(|(_, message)| FieldError::new(field, message)));
    addresses(field, &entry.gateway, &entry.dns_servers, errors);
    if is_random && errors.len() == before && !matches!(read.size(), Size::Finite(_) | Size::Empty) {
        let message =
            "cannot be used with allocationStrategy \"random\": it needs a number of addresses of at most 63 bits";
        errors.push(FieldError::new(field, message));
    }
}

fn addresses(field: &str, gateway: &str, dns_servers: &[String], errors: &mut Vec<FieldError>) {
    if !gateway.is_empty()
        && let Err(error) = parse(gateway)
    {
        errors.push(FieldError::new(format!("{field}.gateway"), error.to_string()));
    }
    for (index, server) in dns_servers.iter().enumerate() {
        if let Err(error) = parse(server) {
            errors.push(FieldError::new(
                format!("{field}.dnsServers[{index}]"),
                error.to_string(),
            ));
        }
    }
}

fn reservations_in_bounds(spec: &IPPoolSpec) -> Vec<FieldError> {
    let bounds = bounds(spec);
    let out = |text: &&String| parse(text).is_ok_and(|address| !bounds.contain(address));
    let texts = spec.pre_allocations.values().filter(out);
    texts
        .map(|text| {
            FieldError::new(
                "spec.preAllocations",
                format!("{text} is out of bounds of the pools given"),
            )
        })
        .collect()
}

/// Those of the valid entries; invalid ones are ignored.
fn bounds(spec: &IPPoolSpec) -> Bounds {
    let read = spec.pools.iter().map(Entry::read);
    let is_readable = |wrong: &[(&str, String)]| !wrong.iter().any(|(field, _)| !field.is_empty());
    let valid = read.filter(|(_, wrong)| is_readable(wrong)).map(|(entry, _)| entry);
    Bounds::of(valid)
}
