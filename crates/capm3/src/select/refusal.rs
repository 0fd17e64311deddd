//! Why a host is rejected.

use std::sync::Arc;

use metal3_api::metal3::Unfit;
use metal3_runtime::store::ObjectKey;

use super::Requirement;

/// The first rule that rejects a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its labels do not meet this requirement.
    Label(Arc<Requirement>),
    /// It is reserved for another control plane or deployment: the value of its node-reuse label.
    KeptFor(String),
    /// Another consumer uses it.
    InUse(Consumer),
    /// Another machine is about to claim it.
    BeingClaimed(ObjectKey),
    /// It is in this failure domain instead of the required one; empty for none.
    FailureDomain(String),
    /// Nobody may take it.
    Unfit(Unfit),
}

/// The consumer of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Consumer {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is an earlier machine with the requester's name.
    pub is_predecessor: bool,
}

impl Refusal {
    /// A bounded name for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Label(_) => "label",
            Self::KeptFor(_) => "kept",
            Self::InUse(_) => "in_use",
            Self::BeingClaimed(_) => "being_claimed",
            Self::FailureDomain(_) => "failure_domain",
            Self::Unfit(unfit) => unfit.label(),
        }
    }
}
