//! What is known of a host's node, or why nothing is known.

use std::sync::Arc;

use metal3_ironic::Node;

/// The host's node as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeView {
    /// Ironic was never listed, or does not answer.
    Unknown {
        /// Why, for the user; `None` before the first list.
        cause: Option<Outage>,
    },
    /// Not in the fleet's last list.
    Unlisted,
    /// As in the fleet's last list: sufficient for waiting and idling, not for acting.
    Listed(Arc<Node>),
    /// Read by this pass, or returned by its own change.
    Live(Arc<Node>),
    /// Read by this pass: the node does not exist.
    Gone,
}

/// Why Ironic cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// What kind of trouble.
    pub kind: OutageKind,
    /// The real cause in one line.
    pub cause: String,
}

/// Kinds of trouble with Ironic as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// The Ironic resource that holds the endpoint (`IRONIC_NAME`) is not ready.
    Absent,
    /// No connection, or no answer in time.
    Unreachable,
    /// Ironic rejects the operator's own credentials or certificate.
    Unauthorized,
    /// It answers with errors, is too old, or has no drivers yet.
    Failing,
}

impl OutageKind {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Absent, Self::Unreachable, Self::Unauthorized, Self::Failing];

    /// A word for it, as a label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unreachable => "unreachable",
            Self::Unauthorized => "unauthorized",
            Self::Failing => "failing",
        }
    }
}
