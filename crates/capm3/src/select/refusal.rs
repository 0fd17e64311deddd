//! Why a host cannot be chosen.

use std::sync::Arc;

use metal3_api::metal3::ProvisioningState;
use metal3_runtime::store::ObjectKey;

use super::Requirement;

/// The first rule that refuses a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its labels do not meet this.
    Label(Arc<Requirement>),
    /// It is kept for the machines of another control plane or deployment: the value of its node-reuse label.
    KeptFor(String),
    /// Somebody else uses it.
    InUse(Consumer),
    /// Another machine is about to claim it.
    BeingClaimed(ObjectKey),
    /// It is being deleted.
    Deleting,
    /// Its last operation failed, of this type.
    Error(String),
    /// It is paused.
    Paused,
    /// It is detached: nothing is provisioned on it.
    Detached,
    /// It was marked as unhealthy.
    Unhealthy,
    /// It does not stand in the failure domain that is insisted on, but in this one; empty for none.
    FailureDomain(String),
    /// It has an image that no machine has asked for.
    HasImage,
    /// It is not available, but in this state.
    State(ProvisioningState),
}

/// Who uses a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Consumer {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is an earlier machine of the name of the one that asks.
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
            Self::Deleting => "deleting",
            Self::Error(_) => "error",
            Self::Paused => "paused",
            Self::Detached => "detached",
            Self::Unhealthy => "unhealthy",
            Self::FailureDomain(_) => "failure_domain",
            Self::HasImage => "has_image",
            Self::State(_) => "state",
        }
    }
}
