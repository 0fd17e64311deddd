//! The decision about a Metal3Machine.

use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::infra::v1beta2::{Metal3DataClaim, Metal3MachineStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::controller;
use serde_json::{Map, Value, json};

use crate::machine::node::ProviderIdPatch;
use crate::machine::preview::Payload;
use crate::select::HostRequest;

/// The decision about a machine.
pub type Decision = controller::Decision<Read, Effect, Metal3MachineStatus>;

/// The effects for a machine.
pub type Plan = controller::Plan<Effect, Metal3MachineStatus>;

/// The subject of a rejection by the workload cluster, for errors.
pub const SET_PROVIDER_ID: &str = "set the provider ID of the node";

/// Missing input of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// The choice of a host.
    Host(Box<HostRequest>),
    /// Whether these Secrets of the machine's namespace exist.
    Secrets(Vec<String>),
    /// Result of checking the boot data.
    Preview(Payload),
    /// Whether the host is reserved for the next machine of the same owner.
    Kept,
    /// The referenced host, as it is stored now.
    NamedHost,
    /// Whether the machine with leftovers is gone, as it is stored now.
    Owner,
}

/// One write. Writes to the machine and to a host are merge patches guarded by the observed resource version.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// To the Metal3Machine: finalizer, name of the host, failure domain, provider ID.
    Machine(Value),
    /// To a host.
    Host {
        /// The purpose.
        what: &'static str,
        /// The host's name.
        host: String,
        /// The patch, with the resource version.
        patch: Value,
        /// Whether it claims the host for the machine.
        is_claim: bool,
    },
    /// Labels the host's BMC Secret with the cluster name.
    LabelSecret {
        /// Its name.
        secret: String,
        /// The name of the Cluster.
        cluster: String,
    },
    /// Removes that label if it still names the cluster.
    UnlabelSecret {
        /// Its name.
        secret: String,
        /// The name of the Cluster.
        cluster: String,
    },
    /// Creates a data claim.
    CreateClaim(Box<Metal3DataClaim>),
    /// Removes our finalizer from that claim and deletes it.
    DeleteClaim(Arc<Metal3DataClaim>),
    /// Removes our finalizer from a claim being deleted.
    ReleaseClaim(Arc<Metal3DataClaim>),
    /// Sets the Node's provider ID in the workload cluster.
    ProviderId(ProviderIdPatch),
    /// Removes our finalizer from the machine.
    RemoveFinalizer,
}

impl Effect {
    /// A write to a host, guarded by the observed resource version.
    pub fn host(host: &BareMetalHost, patch: &HostPatch, what: &'static str) -> Self {
        Self::Host {
            what,
            host: host.name_any(),
            patch: patch.over(host.metadata.resource_version.as_deref()),
            is_claim: false,
        }
    }

    /// Whether it claims a host for the machine.
    pub fn is_claim(&self) -> bool {
        matches!(self, Self::Host { is_claim: true, .. })
    }

    /// Describes the effect in errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Machine(_) => "store the choice of a host",
            Self::Host { what, .. } => what,
            Self::LabelSecret { .. } => "label the Secret of the host's BMC",
            Self::UnlabelSecret { .. } => "take the label off the Secret of the host's BMC",
            Self::CreateClaim(_) => "create the Metal3DataClaim",
            Self::DeleteClaim(_) => "delete the Metal3DataClaim",
            Self::ReleaseClaim(_) => "let go of the Metal3DataClaim",
            Self::ProviderId(_) => SET_PROVIDER_ID,
            Self::RemoveFinalizer => "remove the finalizer",
        }
    }

    /// The object that is written, for errors, if it is not the machine.
    pub fn object(&self) -> Option<String> {
        match self {
            Self::Host { host, .. } => Some(format!("BareMetalHost {host}")),
            Self::LabelSecret { secret, .. } | Self::UnlabelSecret { secret, .. } => Some(format!("Secret {secret}")),
            // A data claim has the name of its machine.
            Self::Machine(_)
            | Self::CreateClaim(_)
            | Self::DeleteClaim(_)
            | Self::ReleaseClaim(_)
            | Self::ProviderId(_)
            | Self::RemoveFinalizer => None,
        }
    }
}

/// A merge patch of a host: null removes a field.
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
    /// Whether the patch is empty.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.spec.is_empty()
    }

    /// Sets or removes a label.
    pub fn label(&mut self, key: &str, value: impl Into<Value>) {
        self.labels.insert(key.to_owned(), value.into());
    }

    /// Sets or removes an annotation.
    pub fn annotate(&mut self, key: &str, value: impl Into<Value>) {
        self.annotations.insert(key.to_owned(), value.into());
    }

    /// Sets or removes a field of the spec.
    pub fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.spec.insert(field.to_owned(), value.into());
    }

    /// The patch, guarded by a resource version.
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
