//! Chooses a machine's host. Pure: takes the machine's requirements, the hosts and a seed; returns the choice, and for every
//! unsuitable host the first rule that rejects it.
//!
//! ```text
//!  ours already? ─▶ selector ─▶ kept for others ─▶ in use ─▶ being claimed ─▶ deleted ─▶ error ─▶ paused ─▶ detached
//!                                                                                                            │
//!         kept for us, else free ◀─ has an image ◀─ state ◀─ failure domain, if strict ◀─ unhealthy ◀────────┘
//! ```
//!
//! Hosts reserved for the machine's control plane or deployment come first. If none of them is ready, the machine waits for one
//! instead of taking a free host, which is the purpose of node reuse. Among equal hosts the seed decides: the same machine with
//! the same seed gets the same host, whatever the order of the list.

pub(crate) mod consumer;
pub(crate) mod refusal;
pub(crate) mod search;
pub mod selector;
pub(crate) mod summary;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::infra::names::label;
use metal3_api::metal3::{BareMetalHost, Unfit};
use metal3_runtime::backoff::{hash, mixed};
use metal3_runtime::store::ObjectKey;

pub use self::consumer::{Claimed, claimed, consumer_of, keeper_of};
pub use self::refusal::{Consumer, Refusal};
pub use self::search::{search, search_own};
pub use self::selector::{Requirement, Selector, SelectorError};
pub use self::summary::Survey;

/// A machine's requirements on its host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostRequest {
    /// The Metal3Machine.
    pub machine: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// The label selector.
    pub selector: Selector,
    /// The preferred failure domain; empty for any.
    pub failure_domain: String,
    /// Whether the failure domain is required.
    pub is_domain_strict: bool,
    /// Value of the node-reuse label on hosts reserved for this machine; none if there are none.
    pub reuse: Option<String>,
}

/// The requirements without the requester: equal requirements match the same hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Criteria {
    namespace: String,
    selector: Selector,
    failure_domain: String,
    is_domain_strict: bool,
    reuse: Option<String>,
}

impl HostRequest {
    /// The requirements, without the machine.
    pub fn criteria(&self) -> Criteria {
        Criteria {
            namespace: self.machine.namespace.clone(),
            selector: self.selector.clone(),
            failure_domain: self.failure_domain.clone(),
            is_domain_strict: self.is_domain_strict,
            reuse: self.reuse.clone(),
        }
    }
}

/// The choice for a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It already has this host.
    Own(Arc<BareMetalHost>),
    /// Claim this host.
    Chosen {
        /// The host.
        host: Arc<BareMetalHost>,
        /// Whether it was reserved for this machine.
        is_reuse: bool,
    },
    /// This host is reserved for it but is not ready yet.
    Await(Arc<BareMetalHost>),
    /// No host fits.
    None,
}

/// A choice with its reasons.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The host.
    pub outcome: Outcome,
    /// How many hosts were evaluated.
    pub considered: usize,
    /// The rejected hosts, each with the first rule that rejects it.
    pub refused: Vec<(Arc<BareMetalHost>, Refusal)>,
}

/// What a machine reports about the choice.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The host.
    pub outcome: Outcome,
    /// How many hosts were evaluated.
    pub considered: usize,
    /// If there is no host yet, why none fits.
    pub why: String,
}

/// Hosts about to be claimed, by the claiming machine: the stores do not show this yet.
pub type Reserved = HashMap<ObjectKey, ObjectKey>;

/// Chooses among `hosts`, which are all in the machine's namespace.
pub fn select(request: &HostRequest, hosts: &[Arc<BareMetalHost>], reserved: &Reserved, seed: u64) -> Selection {
    let (mut reuse, mut free, mut coming, mut refused) =
        (Best::default(), Best::default(), Best::default(), Vec::new());
    for host in hosts {
        match judge(request, host, reserved) {
            Verdict::Own => {
                return Selection {
                    outcome: Outcome::Own(host.clone()),
                    considered: hosts.len(),
                    refused: Vec::new(),
                };
            }
            Verdict::Free(in_domain) => free.offer(host, in_domain, seed),
            Verdict::Kept(in_domain) => reuse.offer(host, in_domain, seed),
            Verdict::Coming(refusal) => {
                coming.offer(host, true, seed);
                refused.push((host.clone(), refusal));
            }
            Verdict::Refused(refusal) => refused.push((host.clone(), refusal)),
        }
    }
    let outcome = if let Some(host) = reuse.host() {
        Outcome::Chosen { host, is_reuse: true }
    } else if let Some(host) = coming.host() {
        Outcome::Await(host)
    } else if let Some(host) = free.host() {
        Outcome::Chosen { host, is_reuse: false }
    } else {
        Outcome::None
    };
    Selection {
        outcome,
        considered: hosts.len(),
        refused,
    }
}

/// Whether this host fits a machine now.
pub fn suits(request: &HostRequest, host: &BareMetalHost, reserved: &Reserved) -> bool {
    matches!(judge(request, host, reserved), Verdict::Free(_) | Verdict::Kept(_))
}

enum Verdict {
    Own,
    /// Whether it is in the requested failure domain.
    Free(bool),
    Kept(bool),
    /// Reserved for the machine and suitable, apart from its state.
    Coming(Refusal),
    Refused(Refusal),
}

fn judge(request: &HostRequest, host: &BareMetalHost, reserved: &Reserved) -> Verdict {
    let claimed = claimed(host, &request.machine, &request.uid);
    if claimed == Claimed::ByUs {
        return Verdict::Own;
    }
    let labels = host.labels();
    if let Some(failed) = request.selector.first_unmet(labels) {
        return Verdict::Refused(Refusal::Label(failed.clone()));
    }
    let kept_for = labels.get(label::NODE_REUSE);
    let is_kept = kept_for.is_some() && kept_for == request.reuse.as_ref();
    if let Some(other) = kept_for.filter(|_| !is_kept) {
        return Verdict::Refused(Refusal::KeptFor(other.clone()));
    }
    match claimed {
        Claimed::ByNobody | Claimed::ByUs => {}
        // While a host is reserved for a cluster's machines, its consumer is the Cluster.
        Claimed::ByOther(consumer) if is_kept && consumer.kind == "Cluster" => {}
        Claimed::ByOther(consumer) => return Verdict::Refused(Refusal::InUse(consumer)),
    }
    // Usually there are none, so do not build the host names.
    if !reserved.is_empty()
        && let Some(other) = reserved
            .get(&ObjectKey::of(host))
            .filter(|other| **other != request.machine)
    {
        return Verdict::Refused(Refusal::BeingClaimed(other.clone()));
    }
    if let Some(unfit) = host.unfit() {
        return Verdict::Refused(Refusal::Unfit(unfit));
    }
    let domain = labels.get(label::FAILURE_DOMAIN).map_or("", String::as_str);
    let in_domain = request.failure_domain.is_empty() || domain == request.failure_domain;
    if request.is_domain_strict && !in_domain {
        return Verdict::Refused(Refusal::FailureDomain(domain.to_owned()));
    }
    match (host.unready(), is_kept) {
        (None | Some(Unfit::HasImage), true) => Verdict::Kept(in_domain),
        (None, false) => Verdict::Free(in_domain),
        (Some(unready), true) => Verdict::Coming(Refusal::Unfit(unready)),
        (Some(unready), false) => Verdict::Refused(Refusal::Unfit(unready)),
    }
}

/// The best host so far.
#[derive(Default)]
struct Best<'a>(Option<(bool, u64, &'a Arc<BareMetalHost>)>);

impl<'a> Best<'a> {
    /// A host in the domain beats any outside; then the lowest number, then the first name.
    fn offer(&mut self, host: &'a Arc<BareMetalHost>, in_domain: bool, seed: u64) {
        let number = number(seed, host);
        let is_better = self.0.is_none_or(|(best_in_domain, best_number, best)| {
            let (name, best_name) = (&host.metadata.name, &best.metadata.name);
            (!in_domain, number, name) < (!best_in_domain, best_number, best_name)
        });
        if is_better {
            self.0 = Some((in_domain, number, host));
        }
    }

    fn host(&self) -> Option<Arc<BareMetalHost>> {
        self.0.map(|(_, _, host)| host.clone())
    }
}

/// A number that depends only on the host's name and the seed (FNV-1a, spread over all bits).
fn number(seed: u64, host: &BareMetalHost) -> u64 {
    let name = host.metadata.name.as_deref().unwrap_or_default();
    mixed(hash(name) ^ seed)
}

/// The seed for a machine whose order of hosts must always be the same.
pub fn stable_seed(uid: &str) -> u64 {
    mixed(hash(uid))
}
