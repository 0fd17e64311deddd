//! What is decided about a Metal3Remediation.

use jiff::Timestamp;
use metal3_api::infra::v1beta2::Metal3RemediationStatus;
use metal3_runtime::events::{Note, Severity};
use serde_json::Value;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The remediation and the host, as they are stored now.
    Fresh,
    /// The Node, as it is stored now.
    FreshNode,
    /// What has not left the Node yet.
    Drain,
    /// Whether the workload cluster knows the out-of-service taint.
    KnowsTaint,
}

/// What to do: one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// A write.
    pub effect: Option<Effect>,
    /// The status from now on, once that is written; nothing if it stays.
    pub status: Option<Metal3RemediationStatus>,
    /// Events.
    pub notes: Vec<Note>,
    /// What is waited for, in the shape of an event that tells it once.
    pub wait: Option<Note>,
    /// When to look again at the latest, if nothing changes before.
    pub until: Option<Timestamp>,
}

/// One write. Patches are merge patches over the version that was judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// From now on we are asked before the remediation goes.
    AddFinalizer,
    /// It may go.
    RemoveFinalizer,
    /// To a host.
    Host {
        /// What it is for.
        what: &'static str,
        /// The host's name.
        host: String,
        /// The patch.
        patch: Value,
    },
    /// To the Node.
    Node {
        /// What it is for.
        what: &'static str,
        /// The Node's name.
        node: String,
        /// The patch.
        patch: Value,
    },
    /// The Node is deleted, if it is still as it was seen.
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
        /// What it is for.
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
}

impl Effect {
    /// What it is, for errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "add the finalizer",
            Self::RemoveFinalizer => "remove the finalizer",
            Self::Host { what, .. } | Self::Node { what, .. } | Self::Keep { what, .. } => what,
            Self::DeleteNode { .. } => "delete the Node",
            Self::Machine { .. } => "ask for a replacement of the Machine",
        }
    }

    /// What is written, where that is not the remediation, for the same.
    pub fn object(&self) -> Option<String> {
        match self {
            Self::Host { host, .. } => Some(format!("BareMetalHost {host}")),
            Self::Node { node, .. } | Self::DeleteNode { node, .. } => Some(format!("Node {node}")),
            Self::Machine { machine, .. } => Some(format!("Machine {machine}")),
            Self::AddFinalizer | Self::RemoveFinalizer | Self::Keep { .. } => None,
        }
    }
}

impl Plan {
    /// Nothing is done: something is waited for.
    pub fn wait(reason: &'static str, message: String, until: Option<Timestamp>) -> Self {
        Self {
            wait: Some(note(Severity::Normal, reason, message)),
            until,
            ..Self::default()
        }
    }

    /// One write.
    pub fn write(effect: Effect) -> Self {
        Self {
            effect: Some(effect),
            ..Self::default()
        }
    }

    /// One write to the annotations of the remediation.
    pub fn keep(what: &'static str, patch: Value) -> Self {
        Self::write(Effect::Keep { what, patch })
    }

    /// And this is told.
    #[must_use]
    pub fn telling(mut self, reason: &'static str, message: String) -> Self {
        self.notes.push(note(Severity::Normal, reason, message));
        self
    }

    /// And this is told to somebody who should look.
    #[must_use]
    pub fn warning(mut self, reason: &'static str, message: String) -> Self {
        self.notes.push(note(Severity::Warning, reason, message));
        self
    }
}

impl From<Plan> for Decision {
    fn from(plan: Plan) -> Self {
        Self::Do(Box::new(plan))
    }
}

fn note(severity: Severity, reason: &'static str, message: String) -> Note {
    Note {
        reason,
        message,
        severity,
    }
}
