//! What triggers the next pass over a waiting host, and when it happens at the latest: one place for the controller,
//! the condition message and the runbook.
//!
//! A moving time would have to be stored in every pass. So the message names the trigger and the longest interval
//! between passes; it names a time of day only if the wait itself has one.

use std::time::Duration;

use jiff::Timestamp;
use metal3_api::metal3::BareMetalHostStatus;
use metal3_runtime::backoff::Backoff;
use metal3_runtime::controller::Next;
use metal3_runtime::timing::operator::{NET, NODE_NET};

use super::budget;
use super::observed::{NodeView, Observed};
use super::plan::{Then, Wait, WaitReason, Wake};

/// What triggers a pass over a waiting host, besides time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The list of nodes shows a change of its node.
    Node,
    /// The host, or an object named in its message, changes.
    Change,
    /// The specification of the host or the content of its Secret changes.
    Edit,
    /// Ironic is usable again.
    Ironic,
    /// The host is granted a slot.
    Turn,
    /// Nothing that can be named.
    None,
}

impl Call {
    /// The trigger for every wait with this reason.
    pub const fn of(reason: WaitReason) -> Self {
        match reason {
            WaitReason::SecretMissing
            | WaitReason::NodeNotOurs
            | WaitReason::InvalidBMCDetails
            | WaitReason::BMCNameUnresolved
            | WaitReason::RamdiskBuilding
            | WaitReason::NetworkDataIncomplete
            | WaitReason::ConfigDriveIncomplete
            | WaitReason::ImageAuthIncomplete
            | WaitReason::InvalidImage
            | WaitReason::FirmwareUnobserved
            | WaitReason::RetryLimitReached
            | WaitReason::Detached
            | WaitReason::InvalidAnnotation
            | WaitReason::RebootAnnotation
            | WaitReason::DataImageFailing
            | WaitReason::Unsupported => Self::Change,
            WaitReason::BackOff | WaitReason::IronicRefusing => Self::Edit,
            WaitReason::IronicNotReady
            | WaitReason::IronicUnreachable
            | WaitReason::IronicUnauthorized
            | WaitReason::IronicFailing => Self::Ironic,
            WaitReason::Queued => Self::Turn,
            WaitReason::NodeLocked
            | WaitReason::Verifying
            | WaitReason::Inspecting
            | WaitReason::Preparing
            | WaitReason::Servicing
            | WaitReason::Cleaning
            | WaitReason::Deploying
            | WaitReason::Adopting
            | WaitReason::TearingDown
            | WaitReason::PowerChanging
            | WaitReason::Removing
            | WaitReason::UnexpectedNodeState
            | WaitReason::Detaching
            | WaitReason::Rebooting
            | WaitReason::PowerUnknown
            | WaitReason::DataImageChanging => Self::Node,
            WaitReason::KubernetesFailing => Self::None,
        }
    }

    /// The trigger for this wait. Ironic as a whole may work while one request for one host fails: then there is no
    /// trigger.
    fn of_wait(wait: &Wait) -> Self {
        match Self::of(wait.reason) {
            Self::Ironic if wait.wake != Wake::Ironic => Self::None,
            call => call,
        }
    }

    /// In words; `None` where there is nothing to say.
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Self::Node => Some("when the node changes in Ironic"),
            Self::Change => Some("when the host or an object named here changes"),
            Self::Edit => Some("when the specification or the Secret is edited"),
            Self::Ironic => Some("when Ironic can be used"),
            Self::Turn => Some("when its turn comes"),
            Self::None => None,
        }
    }
}

/// The longest interval until a host without a trigger is reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latest {
    /// Until the time that the message names.
    Named,
    /// Not worth naming.
    Seconds,
    /// One minute.
    Minute,
    /// Five minutes.
    Minutes,
    /// Half an hour: only a safety net.
    HalfHour,
}

impl Latest {
    /// Rounded up, so that waits that differ by some seconds have the same message.
    fn of(wait: &Wait) -> Self {
        let steps = [(5, Self::Seconds), (60, Self::Minute), (300, Self::Minutes)];
        let is_named = wait.until.is_some();
        // The status stored before the call to Ironic already uses the message for the answer that follows: a different
        // message would have to be stored again.
        let longest = if wait.longest().is_zero() {
            NODE_NET
        } else {
            wait.longest()
        };
        let step = steps.into_iter().find(|(most, _)| longest.as_secs() <= *most);
        match step {
            _ if is_named => Self::Named,
            Some((_, latest)) => latest,
            None => Self::HalfHour,
        }
    }

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Named => "at the time that the message names",
            Self::Seconds => "within 5 s",
            Self::Minute => "at least every 60 s",
            Self::Minutes => "at least every 5 min",
            Self::HalfHour => "at least every 30 min",
        }
    }
}

/// When the host is reconciled if nothing happens. Failures that may persist are retried with growing delays.
pub fn next(then: &Then, status: &BareMetalHostStatus, seen: &Observed, now: Timestamp) -> Next {
    let longest = match then {
        Then::Again => return Next::Decide,
        Then::Gone => return Next::Change,
        Then::Wait(_) if then.is_at_once() => return Next::Decide,
        Then::Wait(_) if then.is_trouble() => Backoff::TRANSIENT.delay(seen.failures, seen.seed),
        Then::Wait(wait) => wait.longest(),
        Then::Idle => match &seen.node {
            NodeView::Live(node) | NodeView::Listed(node) if !seen.has_proven(node) => {
                // The credentials are tried again when this is over.
                seen.refusal_left(now).map_or(NET, |left| left + Duration::from_secs(1))
            }
            NodeView::Live(_)
            | NodeView::Listed(_)
            | NodeView::Unknown { .. }
            | NodeView::Unlisted
            | NodeView::Gone => NET,
        },
    };
    let budget = budget::left(status, &seen.settings.budgets, now);
    // The condition has whole seconds: one moment later it is certainly over.
    Next::After(budget.map_or(longest, |left| longest.min(left + Duration::from_secs(1))))
}

impl Wait {
    /// When the host is reconciled at the latest, from now on.
    pub fn longest(&self) -> Duration {
        match self.wake {
            Wake::After(after) | Wake::NodeOr(after) => after,
            // A slot grant wakes it.
            Wake::Node if self.reason == WaitReason::Queued => NET,
            Wake::Node => NODE_NET,
            Wake::Ironic | Wake::Kubernetes => Backoff::TRANSIENT.max,
            Wake::Change => NET,
        }
    }

    /// The longest interval until the next pass, rounded for the message.
    pub fn latest(&self) -> Latest {
        Latest::of(self)
    }

    /// The condition message: the wait, and what triggers the next pass.
    pub fn told(&self) -> String {
        let call = Call::of_wait(self).words();
        let next = match (self.until, call) {
            (Some(at), Some(call)) => format!("at {at}, or {call}"),
            (Some(at), None) => format!("at {at}"),
            (None, Some(call)) => format!("{call}, {}", self.latest().words()),
            (None, None) => self.latest().words().to_owned(),
        };
        format!("{}; next check: {next}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metal3_api::metal3::{BareMetalHost, BareMetalHostSpec};

    use super::*;

    /// A thousand hosts behind a policy that rejects their Secrets would send hundreds of requests a second.
    #[test]
    fn a_write_that_fails_for_good_is_tried_less_and_less_often() {
        let host = BareMetalHost::new("h", BareMetalHostSpec::default());
        let (mut seen, status) = (Observed::new(host, Arc::default()), BareMetalHostStatus::default());
        let failing = Then::Wait(Wait::for_kubernetes("forbidden"));
        let mut pause = |failures| {
            seen.failures = failures;
            next(&failing, &status, &seen, Timestamp::UNIX_EPOCH)
        };
        assert!(matches!(pause(0), Next::After(pause) if pause <= Duration::from_millis(500)));
        assert!(matches!(pause(9), Next::After(pause) if pause > Duration::from_secs(29)));
    }

    #[test]
    fn a_wait_says_what_calls_the_host_and_how_long_it_is_left_alone() {
        let node = Wait::for_node(WaitReason::Deploying, "Ironic writes");
        assert_eq!(
            node.told(),
            "Ironic writes; next check: when the node changes in Ironic, at least every 60 s"
        );
        let turn = Wait::for_node(WaitReason::Queued, "place 2");
        assert_eq!(
            turn.told(),
            "place 2; next check: when its turn comes, at least every 30 min"
        );
        let at = "2026-01-02T12:00:00Z".parse().unwrap();
        let back_off = Wait::until(WaitReason::BackOff, at, Duration::from_secs(77), "it broke");
        assert_eq!(
            back_off.told(),
            "it broke; next check: at 2026-01-02T12:00:00Z, or when the specification or the Secret is edited"
        );
    }

    #[test]
    fn a_wait_of_another_length_is_told_in_the_same_words() {
        let after = |seconds| Wait::for_time(WaitReason::NodeLocked, Duration::from_secs(seconds), "busy").told();
        assert_eq!(after(3), after(5));
        assert_eq!(after(6), after(60));
        assert_ne!(after(5), after(6));
        let node = Wait::for_node(WaitReason::TearingDown, "Ironic tears down");
        assert_eq!(node.clone().at_once().told(), node.told());
        let question = Wait::for_time(WaitReason::IronicFailing, Duration::from_secs(60), "no");
        assert_eq!(question.told(), "no; next check: at least every 60 s");
        let api = Wait::for_kubernetes("no");
        assert_eq!(api.told(), "no; next check: at least every 60 s");
    }
}
