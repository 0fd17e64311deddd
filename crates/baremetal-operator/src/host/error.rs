//! Errors of reading and of acting, and how to react to them.

use std::borrow::Cow;

use metal3_ironic::ErrorClass;
use metal3_runtime::error::{Class, Classified};
use metal3_runtime::timing::operator::RECHECK;

/// A read failed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// An error from the Kubernetes API.
    #[error("cannot read from the Kubernetes API")]
    Kube(#[from] kube::Error),
    /// An error from Ironic about this node or request.
    #[error("cannot read from Ironic")]
    Ironic(#[from] metal3_ironic::Error),
}

impl ObserveError {
    /// Whether the error is from Ironic rather than the Kubernetes API.
    pub fn is_of_ironic(&self) -> bool {
        matches!(self, Self::Ironic(_))
    }
}

/// An effect failed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The Kubernetes API rejected or failed an effect.
    #[error("cannot {effect}")]
    Kube {
        /// The effect, with the name of its object if that is not the host's own.
        effect: Cow<'static, str>,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// Ironic rejected or failed an effect.
    #[error("cannot {effect}")]
    Ironic {
        /// The effect.
        effect: &'static str,
        /// The cause.
        #[source]
        source: metal3_ironic::Error,
    },
}

/// What the error of a failed Ironic request means for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No answer, or a meaningless one: the change may have happened all the same.
    Lost,
    /// Ironic is unusable, or rejects this operator.
    Unusable,
    /// The requested object does not exist.
    Gone,
    /// Ironic is busy, or another client holds the node.
    Later,
    /// Rejected in the node's current state.
    InvalidState,
    /// Rejected for its content: a retry would not help.
    Refused,
    /// Rejected because another node has the value.
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

    /// Whether the list of all nodes may be wrong: Ironic has changed, or a node is not as expected. A briefly locked
    /// node, a busy Ironic or a rejected request implies nothing of the kind, and a full list for each of them would
    /// cost a large fleet more than its pace allows.
    fn puts_in_doubt(self) -> bool {
        !matches!(self, Self::Later | Self::Refused)
    }
}

impl ApplyError {
    /// The meaning of the error, if Ironic was called.
    fn reply(&self) -> Option<Reply> {
        match self {
            Self::Ironic { source, .. } => Some(source.class().into()),
            Self::Kube { .. } => None,
        }
    }

    /// Whether Ironic has answered and rejected the request, so that nothing has happened.
    pub fn is_refusal(&self) -> bool {
        self.reply().is_some_and(Reply::is_refusal)
    }

    /// Whether the fleet's list may be wrong.
    pub fn puts_in_doubt(&self) -> bool {
        self.reply().is_some_and(Reply::puts_in_doubt)
    }
}

impl Classified for ObserveError {
    fn class(&self) -> Class {
        match self {
            Self::Kube(error) => error.class(),
            // Not a failure: Ironic is busy.
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

/// An error that fails a whole pass.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A read.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// Writing the status.
    #[error("cannot write the status")]
    Report(#[source] kube::Error),
    /// An effect.
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

    /// Whether nothing has happened, and whether all nodes have to be listed again.
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
