//! What can go wrong while reading and while acting, and what it means.

use std::borrow::Cow;

use metal3_ironic::ErrorClass;
use metal3_runtime::error::{Class, Classified};
use metal3_runtime::timing::operator::RECHECK;

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
        /// Which effect, with the name of what it is about where that is not the host's own.
        effect: Cow<'static, str>,
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

/// What came of a request to Ironic that failed, as far as it matters to what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// None, or none that says anything: it may have happened all the same.
    Lost,
    /// Nothing can be asked of it, or not by this operator.
    Unusable,
    /// What was asked for is not there.
    Gone,
    /// It has no time for it, or somebody else is at the node.
    Later,
    /// Not in the node's present state.
    InvalidState,
    /// Never, as it was put.
    Refused,
    /// Never, because another has it.
    Taken,
}

impl From<ErrorClass> for Reply {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Unreachable | ErrorClass::Timeout | ErrorClass::Server | ErrorClass::Protocol => Self::Lost,
            ErrorClass::Absent | ErrorClass::Unauthorized | ErrorClass::Forbidden | ErrorClass::VersionUnsupported => {
                Self::Unusable
            }
            ErrorClass::NotFound => Self::Gone,
            ErrorClass::Locked | ErrorClass::Busy => Self::Later,
            ErrorClass::InvalidState | ErrorClass::Conflict => Self::InvalidState,
            ErrorClass::BadRequest => Self::Refused,
            ErrorClass::Duplicate => Self::Taken,
        }
    }
}

impl Reply {
    fn is_refusal(self) -> bool {
        self != Self::Lost
    }

    /// The picture of all nodes may be wrong: Ironic is not what it was, or a node is not where it is thought to be. A node
    /// that is locked for a moment, a busy Ironic and a request that it will not take say nothing of the kind, and a list of
    /// all nodes for each of them would cost a large fleet more than its pace allows.
    fn puts_in_doubt(self) -> bool {
        !matches!(self, Self::Later | Self::Refused)
    }
}

impl ApplyError {
    /// What came of it, where it was asked of Ironic.
    fn reply(&self) -> Option<Reply> {
        match self {
            Self::Ironic { source, .. } => Some(source.class().into()),
            Self::Kube { .. } => None,
        }
    }

    /// Ironic has answered, and will not do it: nothing of it happened.
    pub fn is_refusal(&self) -> bool {
        self.reply().is_some_and(Reply::is_refusal)
    }

    /// The fleet's list may be wrong.
    pub fn puts_in_doubt(&self) -> bool {
        self.reply().is_some_and(Reply::puts_in_doubt)
    }
}

impl Classified for ObserveError {
    fn class(&self) -> Class {
        match self {
            Self::Kube(error) => error.class(),
            // Nothing failed: it has no time for us.
            Self::Ironic(busy) if busy.class() == ErrorClass::Busy => {
                Class::Throttled(busy.retry_after().unwrap_or(RECHECK))
            }
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
            Self::Ironic { source, .. } => match source.class().into() {
                Reply::Refused | Reply::Taken => Class::Fault,
                Reply::Gone => Class::Stale,
                Reply::Lost | Reply::Unusable | Reply::Later | Reply::InvalidState => Class::Transient,
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

/// A pass failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Reading.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// Writing the status.
    #[error("cannot write the status")]
    Report(#[source] kube::Error),
    /// Acting.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl Classified for ReconcileError {
    fn class(&self) -> Class {
        match self {
            Self::Observe(error) => error.class(),
            Self::Report(error) => error.class(),
            Self::Apply(error) => error.class(),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Observe(error) => error.label(),
            Self::Report(error) => error.label(),
            Self::Apply(error) => error.label(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Whether nothing of it happened, and whether all nodes have to be listed again.
    #[rstest]
    #[case(Reply::Lost, false, true)]
    #[case(Reply::Unusable, true, true)]
    #[case(Reply::Gone, true, true)]
    #[case(Reply::Later, true, false)]
    #[case(Reply::InvalidState, true, true)]
    #[case(Reply::Refused, true, false)]
    #[case(Reply::Taken, true, true)]
    fn replies(#[case] reply: Reply, #[case] is_refusal: bool, #[case] puts_in_doubt: bool) {
        assert_eq!((reply.is_refusal(), reply.puts_in_doubt()), (is_refusal, puts_in_doubt));
    }
}
