//! The decision about a Metal3Remediation.

use std::time::Duration;

use jiff::Timestamp;
use metal3_api::infra::v1beta2::Metal3RemediationStatus;
use metal3_runtime::controller::{self, Next};
use metal3_runtime::events::Event;
use metal3_runtime::timing::provider::FOLLOW_UP;
use serde_json::Value;

/// The next step.
pub type Plan = controller::Plan<Effect, Metal3RemediationStatus>;

/// A decision.
pub type Decision = controller::Decision<Read, Effect, Metal3RemediationStatus>;

/// Missing input of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The remediation and the host, as they are stored now.
    Fresh,
    /// The Node, as it is stored now.
    FreshNode,
    /// What has not left the Node yet.
    Drain,
    /// Whether the workload cluster knows the out-of-service taint.
    KnowsTaint,
}

/// One write. Patches are merge patches guarded by the observed resource version.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Adds the finalizer.
    AddFinalizer,
    /// Removes the finalizer.
    RemoveFinalizer,
    /// To a host.
    Host {
        /// The purpose.
        what: &'static str,
        /// The host's name.
        host: String,
        /// The patch.
        patch: Value,
    },
    /// To the Node.
    Node {
        /// The purpose.
        what: &'static str,
        /// The Node's name.
        node: String,
        /// The patch.
        patch: Value,
    },
    /// Deletes the Node, if it is unchanged.
    DeleteNode {
        /// Its name.
        node: String,
        /// Its UID.
        uid: Option<String>,
        /// Its version.
        version: Option<String>,
    },
    /// To the annotations of the remediation.
    Keep {
        /// The purpose.
        what: &'static str,
        /// The patch.
        patch: Value,
    },
    /// To the status of the Machine.
    Machine {
        /// The Machine's name.
        machine: String,
        /// The patch.
        patch: Value,
    },
    /// Reports what it waits for.
    ReportWait(Event),
}

impl Effect {
    /// Describes the effect in errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "add the finalizer",
            Self::RemoveFinalizer => "remove the finalizer",
            Self::Host { what, .. } | Self::Node { what, .. } | Self::Keep { what, .. } => what,
            Self::DeleteNode { .. } => "delete the Node",
            Self::Machine { .. } => "ask for a replacement of the Machine",
            Self::ReportWait(_) => "report what is waited for",
        }
    }

    /// The object that is written, for errors, if it is not the remediation.
    pub fn object(&self) -> Option<String> {
        match self {
            Self::Host { host, .. } => Some(format!("BareMetalHost {host}")),
            Self::Node { node, .. } | Self::DeleteNode { node, .. } => Some(format!("Node {node}")),
            Self::Machine { machine, .. } => Some(format!("Machine {machine}")),
            Self::AddFinalizer | Self::RemoveFinalizer | Self::Keep { .. } | Self::ReportWait(_) => None,
        }
    }
}

/// Does nothing: waits for something, for at most this long.
pub fn wait(reason: &'static str, message: impl Into<String>, left: Option<Duration>) -> Plan {
    Plan {
        afterwards: vec![Effect::ReportWait(Event::normal(reason, message))],
        next: left.map_or(Next::Change, |left| Next::After(left.max(FOLLOW_UP))),
        ..Plan::default()
    }
}

/// One write to the annotations of the remediation.
pub fn keep(what: &'static str, patch: Value) -> Plan {
    Plan::of(Effect::Keep { what, patch })
}

/// The time until then; zero if it has passed.
pub fn left(now: Timestamp, until: Timestamp) -> Duration {
    until.duration_since(now).try_into().unwrap_or_default()
}
