//! What can go wrong while reading and while acting, and what it means.

use metal3_ironic::ErrorClass;
use metal3_runtime::error::{Class, Classified};

/// Reading failed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The Kubernetes API.
    #[error("cannot read from the Kubernetes API")]
    Kube(#[from] kube::Error),
    /// Ironic, about this node or request.
    #[error("cannot read from Ironic")]
    Ironic(#[from] metal3_ironic::Error),
}

impl ObserveError {
    /// Whether Ironic said it, and not the Kubernetes API.
    pub fn is_of_ironic(&self) -> bool {
        matches!(self, Self::Ironic(_))
    }
}

/// Acting failed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The Kubernetes API refused or failed an effect.
    #[error("cannot {effect}")]
    Kube {
        /// Which effect.
        effect: &'static str,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// Ironic refused or failed an effect.
    #[error("cannot {effect}")]
    Ironic {
        /// Which effect.
        effect: &'static str,
        /// The cause.
        #[source]
        source: metal3_ironic::Error,
    },
}

impl ApplyError {
    /// Ironic has answered, and will not do it: nothing of it happened.
    pub fn is_refusal(&self) -> bool {
        let Self::Ironic { source, .. } = self else {
            return false;
        };
        match source.class() {
            ErrorClass::Unauthorized
            | ErrorClass::Forbidden
            | ErrorClass::NotFound
            | ErrorClass::Locked
            | ErrorClass::Duplicate
            | ErrorClass::InvalidState
            | ErrorClass::Conflict
            | ErrorClass::BadRequest
            | ErrorClass::VersionUnsupported
            | ErrorClass::Busy
            | ErrorClass::Absent => true,
            ErrorClass::Unreachable | ErrorClass::Timeout | ErrorClass::Server | ErrorClass::Protocol => false,
        }
    }
}

impl ApplyError {
    /// The picture of all nodes may be wrong: Ironic is not what it was, or a node is not where it is thought to be. A node
    /// that is locked for a moment, a busy Ironic and a request that it will not take say nothing of the kind, and a list of
    /// all nodes for each of them would cost a large fleet more than its pace allows.
    pub fn puts_in_doubt(&self) -> bool {
        let Self::Ironic { source, .. } = self else {
            return false;
        };
        match source.class() {
            ErrorClass::Locked | ErrorClass::Busy | ErrorClass::BadRequest => false,
            ErrorClass::Absent
            | ErrorClass::Unreachable
            | ErrorClass::Timeout
            | ErrorClass::Unauthorized
            | ErrorClass::Forbidden
            | ErrorClass::NotFound
            | ErrorClass::Duplicate
            | ErrorClass::InvalidState
            | ErrorClass::Conflict
            | ErrorClass::VersionUnsupported
            | ErrorClass::Server
            | ErrorClass::Protocol => true,
        }
    }
}

impl Classified for ObserveError {
    fn class(&self) -> Class {
        match self {
            Self::Kube(error) => error.class(),
            Self::Ironic(_) => Class::Transient,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Kube(error) => error.label(),
            Self::Ironic(error) => error.label(),
        }
    }
}

impl Classified for ApplyError {
    fn class(&self) -> Class {
        match self {
            Self::Kube { source, .. } => source.class(),
            Self::Ironic { source, .. } => match source.class() {
                ErrorClass::BadRequest | ErrorClass::Duplicate => Class::Fault,
                ErrorClass::NotFound => Class::Stale,
                ErrorClass::Absent
                | ErrorClass::Unreachable
                | ErrorClass::Timeout
                | ErrorClass::Unauthorized
                | ErrorClass::Forbidden
                | ErrorClass::Locked
                | ErrorClass::InvalidState
                | ErrorClass::Conflict
                | ErrorClass::VersionUnsupported
                | ErrorClass::Busy
                | ErrorClass::Server
                | ErrorClass::Protocol => Class::Transient,
            },
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Kube { source, .. } => source.label(),
            Self::Ironic { source, .. } => source.label(),
        }
    }
}

/// A reconciliation failed as a whole; the status says nothing of it, or could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Reading.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// Writing the status.
    #[error("cannot write the status")]
    Report(#[source] kube::Error),
    /// The decision asked again and again.
    #[error("the decision did not come to an end after {0} looks; this is a fault of the operator")]
    Endless(usize),
}

impl Classified for ReconcileError {
    fn class(&self) -> Class {
        match self {
            Self::Observe(error) => error.class(),
            Self::Report(error) => error.class(),
            Self::Endless(_) => Class::Bug,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Observe(error) => error.label(),
            Self::Report(error) => error.label(),
            Self::Endless(_) => "endless",
        }
    }
}
