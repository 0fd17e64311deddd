//! What is decided about a Metal3Machine.

use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::infra::v1beta2::{Metal3DataClaim, Metal3MachineStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::controller;
use serde_json::{Map, Value, json};

use crate::machine::node::ProviderIdPatch;
use crate::machine::preview::Payload;
use crate::select::HostRequest;

/// The outcome of a decision about a machine.
pub type Decision = controller::Decision<Read, Effect, Metal3MachineStatus>;

/// What to do for a machine.
pub type Plan = controller::Plan<Effect, Metal3MachineStatus>;

/// What a rejection by the workload cluster is about, in errors.
pub const SET_PROVIDER_ID: &str = "set the provider ID of the node";

/// What a decision depends on that is not at hand.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// The choice of a host.
    Host(Box<HostRequest>),
    /// Whether these Secrets of the machine's namespace exist.
    Secrets(Vec<String>),
    /// What a host would boot with.
    Preview(Payload),
    /// Whether the host is kept for the next machine of the same kind.
    Kept,
    /// The host that the machine names, as it is stored now.
    NamedHost,
    /// Whether the machine that left something behind is gone, as it is stored now.
    Owner,
}

/// One write. Those to the machine and to a host are merge patches over the version that was judged.
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
    /// A claim on rendered data.
    CreateClaim(Box<Metal3DataClaim>),
    /// That claim loses our finalizer and is deleted.
    DeleteClaim(Arc<Metal3DataClaim>),
    /// A claim that is being deleted loses our finalizer.
    ReleaseClaim(Arc<Metal3DataClaim>),
    /// The Node in the workload cluster gets its provider ID.
    ProviderId(ProviderIdPatch),
    /// The machine loses our finalizer.
    RemoveFinalizer,
}

impl Effect {
    /// A write to a host over the version that was judged.
    pub fn host(host: &BareMetalHost, patch: &HostPatch, what: &'static str) -> Self {
        Self::Host {
            what,
            host: host.name_any(),
            patch: patch.over(host.metadata.resource_version.as_deref()),
            is_claim: false,
        }
    }

    /// Whether it makes a host the machine's.
    pub fn is_claim(&self) -> bool {
        matches!(self, Self::Host { is_claim: true, .. })
    }

    /// What it is, for errors.
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

    /// The object that is written if that is not the machine, for errors.
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
