//! The choice among all hosts of a namespace. The free ones are looked at a part after the other until one will do, so that
//! it costs the same among a hundred and among ten thousand.

use std::sync::Arc;

use metal3_api::infra::names::label;
use metal3_api::metal3::BareMetalHost;

use super::{Outcome, Reserved, Selection, Wish, select};
use crate::world::{HostBy, PARTS, World};

/// Chooses as [`select`] would, except that among equal hosts one of the first part wins that has any: the seed says where
/// to begin. Of hosts that were not looked at nothing is said.
pub fn search(world: &World, wish: &Wish, reserved: &Reserved, seed: u64) -> Selection {
    let namespace = &wish.machine.namespace;
    let own = world.hosts.find(&HostBy::Consumer(wish.machine.clone()));
    let kept = wish.reuse.iter();
    let kept = kept.flat_map(|reuse| world.hosts.find(&HostBy::Kept(namespace.clone(), reuse.clone())));
    let hosts: Vec<Arc<BareMetalHost>> = own.into_iter().chain(kept).collect();
    let mut selection = select(wish, &hosts, reserved, seed);
    let domain = (label::FAILURE_DOMAIN, wish.failure_domain.as_str());
    let of_domain = (!wish.failure_domain.is_empty()).then_some(domain);
    let anywhere = (!wish.is_domain_strict || of_domain.is_none()).then(|| wish.selector.exact().next());
    // Those in the domain first: only if none of them will do, any other.
    for with in of_domain.map(Some).into_iter().chain(anywhere) {
        for number in 0..PARTS {
            if selection.outcome != Outcome::None {
                return selection;
            }
            let part = seed.wrapping_add(number) % PARTS;
            let hosts = world.hosts.find(&HostBy::free(namespace, with, part));
            let here = select(wish, &hosts, reserved, seed);
            selection.outcome = here.outcome;
            selection.considered += here.considered;
        }
    }
    selection
}
