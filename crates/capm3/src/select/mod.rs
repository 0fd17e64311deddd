//! Chooses a machine's host. Pure: takes the machine's requirements, the hosts and a seed; returns the choice, and for every
//! unsuitable host the first rule that rejects it. A host that the machine has already is its own; the rules for all others, and
//! their order, are those of [`choice`].
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

use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::choice::{self, Rank, Rejection, Wanted};
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

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            selector: &self.selector,
            failure_domain: &self.failure_domain,
            is_domain_strict: self.is_domain_strict,
            reuse: self.reuse.as_deref(),
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
    let wanted = request.wanted();
    // For one of those the machine waits, wherever it is.
    let anywhere = Wanted {
        failure_domain: "",
        ..wanted
    };
    let rank = |host| wanted.rank(host, number(seed, host));
    for host in hosts {
        match judge(request, host, reserved) {
            Verdict::Own => {
                return Selection {
                    outcome: Outcome::Own(host.clone()),
                    considered: hosts.len(),
                    refused: Vec::new(),
                };
            }
            Verdict::Free => free.offer(host, rank(host)),
            Verdict::Kept => reuse.offer(host, rank(host)),
            Verdict::Coming(refusal) => {
                coming.offer(host, anywhere.rank(host, number(seed, host)));
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
    matches!(judge(request, host, reserved), Verdict::Free | Verdict::Kept)
}

enum Verdict {
    Own,
    Free,
    Kept,
    /// Reserved for the machine and suitable, apart from its state.
    Coming(Refusal),
    Refused(Refusal),
}

fn judge(request: &HostRequest, host: &BareMetalHost, reserved: &Reserved) -> Verdict {
    let claimed = claimed(host, &request.machine, &request.uid);
    if claimed == Claimed::ByUs {
        return Verdict::Own;
    }
    let mut other = None;
    let is_reserved = || {
        // Usually there are none, so do not build the host names.
        if !reserved.is_empty() {
            let holder = reserved.get(&ObjectKey::of(host));
            other = holder.filter(|holder| **holder != request.machine);
        }
        other.is_some()
    };
    match host.judge(&request.wanted(), is_reserved) {
        choice::Verdict::Free => Verdict::Free,
        choice::Verdict::Kept => Verdict::Kept,
        choice::Verdict::Coming(unfit) => Verdict::Coming(Refusal::Unfit(unfit)),
        choice::Verdict::Rejected(why) => Verdict::Refused(refusal(why, claimed, other)),
    }
}

/// The refusal with what the machine's user may know of it.
fn refusal(why: Rejection<'_>, claimed: Claimed, other: Option<&ObjectKey>) -> Refusal {
    match why {
        Rejection::Label(unmet) => Refusal::Label(unmet),
        Rejection::KeptFor(other) => Refusal::KeptFor(other.to_owned()),
        Rejection::InUse(_) | Rejection::Reserved => match (claimed, other) {
            (Claimed::ByOther(consumer), None) => Refusal::InUse(consumer),
            (_, other) => Refusal::BeingClaimed(other.cloned().unwrap_or_default()),
        },
        Rejection::FailureDomain(domain) => Refusal::FailureDomain(domain.to_owned()),
        Rejection::Unfit(unfit) => Refusal::Unfit(unfit),
    }
}

/// The best host so far.
#[derive(Default)]
struct Best<'a>(Option<(Rank<'a>, &'a Arc<BareMetalHost>)>);

impl<'a> Best<'a> {
    fn offer(&mut self, host: &'a Arc<BareMetalHost>, rank: Rank<'a>) {
        if self.0.is_none_or(|(best, _)| rank < best) {
            self.0 = Some((rank, host));
        }
    }

    fn host(&self) -> Option<Arc<BareMetalHost>> {
        self.0.map(|(_, host)| host.clone())
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
