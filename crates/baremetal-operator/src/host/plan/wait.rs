//! What follows a pass that cannot continue: a wait that explains itself, and what ends it.

use std::panic::Location;
use std::time::Duration;

use jiff::Timestamp;

use super::reason::WaitReason;

/// A wait that explains itself.
#[derive(Clone, Debug)]
pub struct Wait {
    /// Why, as the reason of the `Waiting` condition.
    pub reason: WaitReason,
    /// For users: which object the host waits for, and what unblocks it.
    pub message: String,
    /// What ends it.
    pub wake: Wake,
    /// The time of day until which the host waits, if the wait has one.
    pub until: Option<Timestamp>,
    /// Whether the condition shows it.
    pub is_shown: bool,
    /// The source line of the decision, for logs.
    pub decided_at: &'static Location<'static>,
}

impl PartialEq for Wait {
    fn eq(&self, other: &Self) -> bool {
        (self.reason, &self.message, &self.wake, self.until) == (other.reason, &other.message, &other.wake, other.until)
    }
}

impl Wait {
    /// A wait that ends when the host's node in Ironic changes.
    #[track_caller]
    pub fn for_node(reason: WaitReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::Node,
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// A wait that ends when the user (or another controller) changes the host or its Secret.
    #[track_caller]
    pub fn for_change(reason: WaitReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::Change,
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// A wait that ends when Ironic is usable again.
    #[track_caller]
    pub fn for_ironic(reason: WaitReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::Ironic,
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// A wait that ends when the Kubernetes API accepts what it rejected or failed.
    #[track_caller]
    pub fn for_kubernetes(message: impl Into<String>) -> Self {
        Self {
            reason: WaitReason::KubernetesFailing,
            message: message.into(),
            wake: Wake::Kubernetes,
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// The same without waiting: the status is stored, and the next pass follows immediately.
    #[must_use]
    pub fn at_once(self) -> Self {
        Self {
            wake: Wake::After(Duration::ZERO),
            ..self
        }
    }

    /// A wait of a known length.
    #[track_caller]
    pub fn for_time(reason: WaitReason, after: Duration, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::After(after),
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// A wait until this time, with this much left. Later passes count from the same start, so that the reported time
    /// does not change.
    #[track_caller]
    pub fn until(reason: WaitReason, at: Timestamp, left: Duration, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::After(left),
            until: Some(at),
            is_shown: true,
            decided_at: Location::caller(),
        }
    }
}

/// What ends a wait. Every wait also has a long resync interval as a safety net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The node changes: the fleet view polls fast while any host waits for this.
    Node,
    /// The node changes, or time passes.
    NodeOr(Duration),
    /// The host or its Secret changes.
    Change,
    /// Ironic answers again.
    Ironic,
    /// The Kubernetes API accepts what it rejected or failed, which only a retry shows.
    Kubernetes,
    /// Time passes.
    After(Duration),
}
