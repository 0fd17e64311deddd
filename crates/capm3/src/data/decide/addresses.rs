//! The addresses to render, and the claims they come from.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_render::{Addresses, Pool};
use metal3_runtime::timing::provider::{POOL_PATIENCE, UNWATCHED};

use super::origin::is_made;
use super::{Sources, Step, wait_unwatched};
use crate::data::address::{AddressClaim, Family};
use crate::data::effect::{AddressRead, Effect, Read};
use crate::data::observed::{Answers, View};

/// The address from each pool, or the next step to get them.
pub(super) fn addresses(
    seen: &View,
    read: &Answers,
    sources: &Sources<'_>,
    pools: &[Pool],
    now: Timestamp,
) -> Result<Addresses, Step> {
    let missing = pools
        .iter()
        .filter(|pool| matches!(claim_on(seen, read, sources, pool), Ok(None)));
    let claims: Vec<_> = missing
        .map(|pool| Effect::Claim {
            pool: pool.clone(),
            name: names(seen, sources, pool).0,
        })
        .collect();
    if !claims.is_empty() {
        return Err(Step::Write(claims));
    }
    let (mut addresses, mut waits, mut unread) = (Addresses::new(), Vec::new(), Vec::new());
    for pool in pools {
        let Some(claim) = claim_on(seen, read, sources, pool)? else {
            continue;
        };
        let Some(address) = &claim.address else {
            waits.push((pool, claim));
            continue;
        };
        let (family, of) = (Family::of(pool), claim.name().to_owned());
        match read.addresses.get(&(family, of.clone())) {
            None => unread.push(AddressRead {
                family,
                name: address.clone(),
                claim: of,
            }),
            Some(Some(given)) => {
                addresses.insert(pool.clone(), given.clone());
            }
            Some(None) => waits.push((pool, claim)),
        }
    }
    if !unread.is_empty() {
        return Err(Step::Fetch(Read::Addresses(unread)));
    }
    if waits.is_empty() {
        return Ok(addresses);
    }
    Err(wait_for(read, &waits, now))
}

/// Reports the pending claims. The first seconds are not reported, because pools usually answer sooner.
fn wait_for(read: &Answers, waits: &[(&Pool, &AddressClaim)], now: Timestamp) -> Step {
    let mut words = Vec::new();
    let mut again: Option<Duration> = None;
    for (pool, claim) in waits {
        let kind = claim.family.claim_kind();
        let name = claim.name();
        let age = claim.created().map_or(Duration::ZERO, |created| {
            now.duration_since(created).try_into().unwrap_or_default()
        });
        if let Some(problem) = &claim.problem {
            words.push(format!("{kind} {name} has no address from {pool}: {problem}"));
        } else if claim.address.is_some() {
            words.push(format!("{kind} {name} names an address that does not exist"));
            again = Some(UNWATCHED);
        } else if age < POOL_PATIENCE {
            again = Some(again.map_or(POOL_PATIENCE, |before| before.min(POOL_PATIENCE)));
        } else {
            again.get_or_insert(UNWATCHED);
            words.push(match read.pools.get(&pool.name) {
                None if claim.family == Family::Metal3 => return Step::Fetch(Read::Pool(pool.name.clone())),
                Some(false) => format!("{kind} {name} waits for {pool}, which does not exist in this namespace: create it"),
                Some(true) | None => format!(
                    "{kind} {name} waits for {pool}, and nobody has answered it: see that the pool exists and that what \
                     gives out its addresses runs"
                ),
            });
        }
    }
    Step::Wait {
        why: (!words.is_empty()).then(|| words.join("; ")),
        again,
    }
}

/// The names of a pool's claim: the one in use, and the one under the other naming scheme.
fn names(seen: &View, sources: &Sources<'_>, pool: &Pool) -> (String, String) {
    let of_data = format!("{}-{}", seen.data.name_any(), pool.name);
    let host = crate::stores::host_of(sources.metal3_machine).map(|host| host.name);
    let of_host = format!("{}-{}", host.unwrap_or_default(), pool.name);
    // Only Metal3 pools know preallocations by claim name.
    if seen.by_host && pool.is_metal3() {
        (of_host, of_data)
    } else {
        (of_data, of_host)
    }
}

/// The claim for a pool, if it exists.
fn claim_on<'a>(
    seen: &'a View,
    read: &'a Answers,
    sources: &Sources<'_>,
    pool: &Pool,
) -> Result<Option<&'a AddressClaim>, Step> {
    let (name, other_name) = names(seen, sources, pool);
    let of_family = |claim: &&AddressClaim| claim.family == Family::of(pool);
    let named = |name: &str| {
        seen.address_claims
            .iter()
            .filter(of_family)
            .find(|claim| claim.name() == name)
    };
    let own = |name: &str| named(name).filter(|claim| seen.owns(&claim.meta));
    // A claim created under the other naming scheme is just as valid.
    let there = || read.named.get(&(Family::of(pool), name.clone()));
    let found = own(&name).or_else(|| own(&other_name)).or_else(|| named(&name));
    let Some(claim) = found.or_else(there) else {
        return Ok(None);
    };
    let is_own = seen.owns(&claim.meta);
    // A claim in deletion keeps its address while we hold it, and the host may have been told that.
    let is_in_use = claim.is_held() && is_made(seen);
    if is_own && (!claim.is_deleting() || is_in_use) {
        return Ok(Some(claim));
    }
    // It belongs to an earlier Metal3Data of this name, or a user deleted it before it was used.
    let is_left_over = is_own || claim.owner().is_some_and(|(owner, _)| owner == seen.data.name_any());
    let uid = claim.meta.uid.clone().unwrap_or_default();
    if is_left_over {
        let is_left = !read.gone.contains(&uid) && (claim.is_held() || !claim.is_deleting());
        return Err(if is_left {
            Step::Write(vec![Effect::Release(Box::new(claim.clone()))])
        } else {
            Step::Idle
        });
    }
    let (kind, owner) = (claim.family.claim_kind(), claim.owner().map(|(owner, _)| owner));
    let owner = owner.map_or_else(|| "nobody".to_owned(), |owner| format!("Metal3Data {owner}"));
    let why = format!(
        "{kind} {name}, which is to be made, exists already and belongs to {owner}: delete it if nobody needs it"
    );
    Err(wait_unwatched(why, POOL_PATIENCE))
}
