//! Chooses among all hosts of a namespace. Searches the free hosts in chunks until one fits, so that the cost is the same among a
//! hundred and among ten thousand.

use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::infra::names::label;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::backoff::mixed;

use super::{HostRequest, Outcome, Reserved, Selection, select};
use crate::stores::Stores;
use crate::stores::host::{HostBy, PARTS};

/// Chunk size. A host alone in its chunk would be chosen far more often than one of many; with chunks of this size that evens
/// out, and a smaller fleet is chosen from uniformly.
const TOGETHER: usize = 48;

/// Chooses like [`select`], except that among equal hosts one in the first matching chunk wins: the seed determines the order of
/// chunks. Nothing is reported about hosts that were not evaluated.
pub fn search(stores: &Stores, request: &HostRequest, reserved: &Reserved, seed: u64) -> Selection {
    let namespace = &request.machine.namespace;
    let mut selection = search_own(stores, request, reserved, seed);
    if selection.outcome != Outcome::None {
        return selection;
    }
    let domain = (label::FAILURE_DOMAIN, request.failure_domain.as_str());
    let of_domain = (!request.failure_domain.is_empty()).then_some(domain);
    let anywhere = (!request.is_domain_strict || of_domain.is_none()).then(|| request.selector.exact().next());
    let stands_in_domain = |host: &BareMetalHost| host.labels().get(domain.0).is_some_and(|value| value == domain.1);
    // Hosts in the domain first, others only if none of them fits.
    let mut parts: Vec<u64> = (0..PARTS).collect();
    parts.sort_unstable_by_key(|part| mixed(seed ^ part));
    let of_domain = of_domain.map(|domain| (Some(domain), false));
    let elsewhere = anywhere.map(|with| (with, of_domain.is_some()));
    for (with, is_elsewhere) in of_domain.into_iter().chain(elsewhere) {
        let mut here = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let of_part = stores.hosts.find(&HostBy::free(namespace, with, *part));
            // Each host is evaluated at most once.
            let others = of_part
                .into_iter()
                .filter(|host| !is_elsewhere || !stands_in_domain(host));
            here.extend(others);
            if here.len() < TOGETHER && number + 1 < parts.len() {
                continue;
            }
            let found = select(request, &here, reserved, seed);
            here.clear();
            selection.outcome = found.outcome;
            selection.considered += found.considered;
            if selection.outcome != Outcome::None {
                return selection;
            }
        }
    }
    selection
}

/// The same without the free hosts: the machine's own, and those reserved for it.
pub fn search_own(stores: &Stores, request: &HostRequest, reserved: &Reserved, seed: u64) -> Selection {
    let own = stores.hosts.find(&HostBy::Consumer(request.machine.clone()));
    let kept = request.reuse.iter();
    let of_namespace = |reuse: &String| HostBy::Kept(request.machine.namespace.clone(), reuse.clone());
    let kept = kept.flat_map(|reuse| stores.hosts.find(&of_namespace(reuse)));
    let hosts: Vec<Arc<BareMetalHost>> = own.into_iter().chain(kept).collect();
    select(request, &hosts, reserved, seed)
}
