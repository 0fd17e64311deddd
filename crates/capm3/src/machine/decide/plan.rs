//! What is decided about a Metal3Machine.

use std::sync::Arc;
use std::time::Duration;

use metal3_api::infra::v1beta2::{Metal3DataClaim, Metal3MachineStatus};
use metal3_runtime::events::Note;
use serde_json::{Map, Value, json};

use crate::machine::node::Gift;
use crate::machine::preview::Payload;
use crate::machine::untold::Claim;
use crate::select::Wish;

/// The outcome of a decision.
#[derive(Clone, Debug)]
pub enum Decision {
    /// There is nothing to do.
    Nothing,
    /// Look at this first, and decide again.
    Look(Need),
    /// Do this.
    Do(Box<Plan>),
}

/// What a decision depends on that is not at hand.
#[derive(Clone, Debug)]
pub enum Need {
    /// The choice of a host.
    Host(Box<Wish>),
    /// Whether these Secrets of the machine's namespace exist.
    Secrets(Vec<String>),
    /// What a host would boot with.
    Preview(Payload),
    /// Whether the host is kept for the next machine of the same kind.
    Kept,
    /// The host that the machine names, as it is stored now.
    FreshHost,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Writes, in order.
    pub effects: Vec<Effect>,
    /// How the host came to be the machine's, if a write claims it.
    pub claim: Option<Claim>,
    /// What the Node is to carry, once the status is stored: another cluster must not hold that up.
    pub gift: Option<Gift>,
    /// The status is only stored if it is still the same after so long.
    pub patience: Option<Duration>,
    /// The status from now on; nothing if it does not matter any more.
    pub status: Option<Metal3MachineStatus>,
    /// Events.
    pub notes: Vec<Note>,
    /// Whether the next step follows at once.
    pub is_again: bool,
}

/// One write. Those to the machine and to the host are merge patches over the version that was judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// To the Metal3Machine: finalizer, name of the host, failure domain, provider ID.
    Machine(Value),
    /// To a host.
    Host {
        /// What it is for.
        what: &'static str,
        /// The host's name.
        host: String,
        /// The patch, with the version.
        patch: Value,
        /// Whether it makes the host the machine's.
        is_claim: bool,
    },
    /// The Secret with the credentials of the host's BMC gets the label of the cluster.
    LabelSecret {
        /// Its name.
        secret: String,
        /// The name of the Cluster.
        cluster: String,
    },
    /// That label is taken away if it still names the cluster.
    UnlabelSecret {
        /// Its name.
        secret: String,
        /// The name of the Cluster.
        cluster: String,
    },
    /// A wish for rendered data.
    CreateClaim(Box<Metal3DataClaim>),
    /// The wish is taken back: it may go, and is deleted.
    DeleteClaim(Arc<Metal3DataClaim>),
    /// The machine may go.
    RemoveFinalizer,
}

impl Effect {
    /// What it is, for errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Machine(_) => "store the choice of a host",
            Self::Host { what, .. } => what,
            Self::LabelSecret { .. } => "label the Secret of the host's BMC",
            Self::UnlabelSecret { .. } => "take the label off the Secret of the host's BMC",
            Self::CreateClaim(_) => "create the Metal3DataClaim",
            Self::DeleteClaim(_) => "delete the Metal3DataClaim",
            Self::RemoveFinalizer => "remove the finalizer",
        }
    }

    /// If it claims a host, the version of the host over which it does.
    pub fn claimed_over(&self) -> Option<&str> {
        match self {
            Self::Host {
                patch, is_claim: true, ..
            } => Some(patch["metadata"]["resourceVersion"].as_str().unwrap_or_default()),
            _ => None,
        }
    }

    /// What is written, where that is not the machine, for the same.
    pub fn object(&self) -> Option<String> {
        match self {
            Self::Host { host, .. } => Some(format!("BareMetalHost {host}")),
            Self::LabelSecret { secret, .. } | Self::UnlabelSecret { secret, .. } => Some(format!("Secret {secret}")),
            // A claim has the name of its machine.
            Self::Machine(_) | Self::CreateClaim(_) | Self::DeleteClaim(_) | Self::RemoveFinalizer => None,
        }
    }
}

/// A merge patch of a host: null takes a field away.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostPatch {
    /// Of metadata.labels.
    pub labels: Map<String, Value>,
    /// Of metadata.annotations.
    pub annotations: Map<String, Value>,
    /// Of spec.
    pub spec: Map<String, Value>,
}

impl HostPatch {
    /// Whether nothing would be changed.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.spec.is_empty()
    }

    /// Sets a label, or takes it away.
    pub fn label(&mut self, key: &str, value: impl Into<Value>) {
        self.labels.insert(key.to_owned(), value.into());
    }

    /// Sets an annotation, or takes it away.
    pub fn annotate(&mut self, key: &str, value: impl Into<Value>) {
        self.annotations.insert(key.to_owned(), value.into());
    }

    /// Sets a field of the spec, or takes it away.
    pub fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.spec.insert(field.to_owned(), value.into());
    }

    /// The patch over a version.
    pub fn over(&self, version: Option<&str>) -> Value {
        let mut metadata = json!({"resourceVersion": version});
        for (field, changes) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !changes.is_empty() {
                metadata[field] = Value::Object(changes.clone());
            }
        }
        let mut patch = json!({"metadata": metadata});
        if !self.spec.is_empty() {
            patch["spec"] = Value::Object(self.spec.clone());
        }
        patch
    }
}
