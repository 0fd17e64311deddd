//! Whether and how fast leadership changes hands.

use std::time::Duration;

use clap::{Args, builder::ValueParser};

use crate::{args::go_bool, leader::Timing};

/// Whether only one replica works at a time.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub struct LeaderArgs {
    /// Work only while holding the lease, so that several replicas may run
    #[arg(long, env = "ENABLE_LEADER_ELECTION", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub enable_leader_election: bool,

    /// Seconds without renewal after which another replica may take over; empty is 15
    #[arg(long, env = "LEASE_DURATION_SECONDS", default_value = "15", value_parser = seconds(15))]
    pub lease_duration_seconds: u16,

    /// Seconds without a successful renewal after which the leader gives up; empty is 10
    #[arg(long, env = "RENEW_DEADLINE_SECONDS", default_value = "10", value_parser = seconds(10))]
    pub renew_deadline_seconds: u16,

    /// Seconds between two attempts to take or renew the lease; empty is 2
    #[arg(long, env = "RETRY_PERIOD_SECONDS", default_value = "2", value_parser = seconds(2))]
    pub retry_period_seconds: u16,

    /// Namespace of the lease; empty is the namespace of the pod
    #[arg(long, env = "LEADER_ELECTION_NAMESPACE", default_value = "")]
    pub leader_election_namespace: String,
}

/// Times with which two replicas could lead at once.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "leader election needs 0 < retry period < renew deadline < lease duration, \
     but they are {retry} s, {renew} s and {lease} s"
)]
pub struct TimingError {
    retry: u16,
    renew: u16,
    lease: u16,
}

impl LeaderArgs {
    /// The times, if they keep two replicas apart.
    pub fn timing(&self) -> Result<Timing, TimingError> {
        let (retry, renew, lease) = (
            self.retry_period_seconds,
            self.renew_deadline_seconds,
            self.lease_duration_seconds,
        );
        if 0 < retry && retry < renew && renew < lease {
            let seconds = |number: u16| Duration::from_secs(number.into());
            Ok(Timing {
                retry: seconds(retry),
                renew: seconds(renew),
                lease: seconds(lease),
            })
        } else {
            Err(TimingError { retry, renew, lease })
        }
    }
}

/// Seconds as upstream reads them (16 bits, signed); empty is `default`.
fn seconds(default: u16) -> ValueParser {
    ValueParser::new(move |text: &str| {
        if text.is_empty() {
            return Ok(default);
        }
        let number: i16 = text.parse().map_err(|_| "expected a number from 0 to 32767")?;
        u16::try_from(number).map_err(|_| "expected a number from 0 to 32767")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use rstest::rstest;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        leader: LeaderArgs,
    }

    fn timing(lease: &str, renew: &str, retry: &str) -> Result<Timing, TimingError> {
        let flags = [
            ("lease-duration", lease),
            ("renew-deadline", renew),
            ("retry-period", retry),
        ];
        let argv = flags.map(|(name, value)| format!("--{name}-seconds={value}"));
        Only::parse_from(std::iter::once("test".to_owned()).chain(argv))
            .leader
            .timing()
    }

    #[rstest]
    #[case("", "", "", 15)]
    #[case("60", "40", "5", 60)]
    fn empty_is_the_default(#[case] lease: &str, #[case] renew: &str, #[case] retry: &str, #[case] seconds: u64) {
        assert_eq!(timing(lease, renew, retry).unwrap().lease, Duration::from_secs(seconds));
    }

    #[rstest]
    #[case("10", "10", "2")]
    #[case("15", "10", "10")]
    #[case("15", "10", "0")]
    fn times_out_of_order_are_refused(#[case] lease: &str, #[case] renew: &str, #[case] retry: &str) {
        let error = timing(lease, renew, retry).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("{retry} s, {renew} s and {lease} s"))
        );
    }
}
