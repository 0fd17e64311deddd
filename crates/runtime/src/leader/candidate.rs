//! The decisions of leader election. No I/O, no clock: time comes in as an argument.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::core::ObjectMeta;

use super::Lost;
use crate::backoff::unit;

/// The three times of the election; `retry < renew < lease`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease stays valid without being renewed.
    pub lease: Duration,
    /// How long the leader continues without a successful renewal.
    pub renew: Duration,
    /// The pause between two attempts.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// What a lease means for one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody holds it.
    Free,
    /// This candidate holds it.
    Mine,
    /// Its holder has not renewed it for its whole duration.
    Expired,
    /// Another candidate holds it, for at least this much longer.
    Held(Duration),
}

/// Reads a lease as `me`. `first_seen` is when this version of it was first seen and `now` the present, both on our own
/// monotonic clock; the times in the lease are informative and ignored.
pub fn evaluate(lease: Option<&LeaseSpec>, me: &str, first_seen: Duration, now: Duration) -> Verdict {
    let Some(spec) = lease else { return Verdict::Free };
    match spec.holder_identity.as_deref() {
        None | Some("") => Verdict::Free,
        Some(holder) if holder == me => Verdict::Mine,
        Some(_) => {
            let promised = spec
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok());
            let duration = promised.map_or(Timing::default().lease, Duration::from_secs);
            match (first_seen + duration).checked_sub(now) {
                Some(left) if !left.is_zero() => Verdict::Held(left),
                _ => Verdict::Expired,
            }
        }
    }
}

/// What a candidate wants to happen next.
#[derive(Debug)]
pub enum Step {
    /// Read the lease and pass it to [`Candidate::on_read`].
    Read,
    /// Write this lease (create it if it has no resourceVersion) and pass the result to [`Candidate::on_written`].
    Write(Box<Lease>),
    /// Wait for this time.
    Sleep(Duration),
    /// Leadership is over.
    Lost(Lost),
}

/// One replica in the election.
#[derive(Debug)]
pub struct Candidate {
    identity: String,
    timing: Timing,
    seed: u64,
    /// The lease as last seen (`None`: it does not exist), and since when.
    seen: Option<Lease>,
    seen_at: Duration,
    /// While leading: when leadership ends unless a renewal succeeds.
    until: Option<Duration>,
    taken_by: Option<String>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Read,
    Decide,
    /// Wait, then read (a follower, or after a failure) or decide on what we wrote last (a leader).
    Wait {
        until: Duration,
        read: bool,
    },
    /// A write is under way since.
    Writing(Duration),
}

impl Candidate {
    /// A replica with a name that no other process has, not even an earlier one on the same machine
    /// (see [`super::identity`]). The seed spreads the followers' attempts in time.
    pub fn new(identity: String, timing: Timing, seed: u64) -> Self {
        Self {
            identity,
            timing,
            seed,
            seen: None,
            seen_at: Duration::ZERO,
            until: None,
            taken_by: None,
            phase: Phase::Read,
        }
    }

    /// The name under which it holds the lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Whether it leads at `now`.
    pub fn leads(&self, now: Duration) -> bool {
        self.taken_by.is_none() && self.until.is_some_and(|until| now < until)
    }

    /// Time limit of a request started `now`: a fair share of the deadline, and never beyond it.
    pub fn patience(&self, now: Duration) -> Duration {
        let share = self.timing.renew / 2;
        self.until.map_or(share, |until| until.saturating_sub(now).min(share))
    }

    /// What to do next.
    pub fn step(&mut self, now: Duration, wall: Timestamp) -> Step {
        if let Some(holder) = self.taken_by.take() {
            self.until = None;
            return Step::Lost(Lost::TakenBy(holder));
        }
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            return Step::Lost(Lost::NotRenewed(self.timing.renew));
        }
        if let Phase::Wait { until, read } = self.phase {
            if now < until {
                let wake = self.until.map_or(until, |end| end.min(until));
                return Step::Sleep(wake.saturating_sub(now));
            }
            self.phase = if read { Phase::Read } else { Phase::Decide };
        }
        if matches!(self.phase, Phase::Read | Phase::Writing(_)) {
            return Step::Read;
        }
        let spec = self.seen.as_ref().and_then(|lease| lease.spec.as_ref());
        match evaluate(spec, &self.identity, self.seen_at, now) {
            Verdict::Held(_) if self.until.is_some() => {
                self.taken_by = spec.and_then(|spec| spec.holder_identity.clone());
                self.step(now, wall)
            }
            Verdict::Held(left) => {
                self.wait(now, left.min(self.timing.retry), true);
                self.step(now, wall)
            }
            Verdict::Free | Verdict::Mine | Verdict::Expired => {
                self.phase = Phase::Writing(now);
                Step::Write(Box::new(self.claimed(wall)))
            }
        }
    }

    /// The answer to [`Step::Read`]: the lease, or `Some(None)` if there is none, or `None` if the read failed.
    pub fn on_read(&mut self, now: Duration, answer: Option<Option<Lease>>) {
        match answer {
            None => self.wait(now, self.timing.retry, true),
            Some(lease) => {
                self.saw(now, lease);
                self.phase = Phase::Decide;
            }
        }
    }

    /// The answer to [`Step::Write`]: the lease as stored, or `None` if the write failed, lost a race or was not
    /// answered (it may have happened all the same).
    pub fn on_written(&mut self, now: Duration, answer: Option<Lease>) {
        let Phase::Writing(sent) = self.phase else { return };
        let Some(lease) = answer else {
            // What is stored now is unknown. A leader reads immediately, because it has no time to lose.
            let pause = if self.until.is_some() {
                self.timing.retry / 4
            } else {
                self.timing.retry
            };
            return self.wait(now, pause, true);
        };
        self.saw(now, Some(lease));
        let until = sent + self.timing.renew;
        if self.until.is_some() || now < until {
            self.until = Some(until);
            self.phase = Phase::Wait {
                until: now + self.timing.retry,
                read: false,
            };
        } else {
            // The answer took so long that leadership would have ended already: renew first.
            self.phase = Phase::Decide;
        }
    }

    /// The lease to write when giving leadership back, if this candidate has it.
    pub fn released(&self, now: Duration, wall: Timestamp) -> Option<Lease> {
        let mut lease = self.seen.clone().filter(|_| self.leads(now))?;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(wall));
        Some(lease)
    }

    fn saw(&mut self, now: Duration, lease: Option<Lease>) {
        let version = |lease: &Option<Lease>| lease.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
        // Any write counts as a renewal, even one that only set a label: taking over too late is safe, too early is
        // not.
        if version(&self.seen) != version(&lease) || lease.is_none() {
            self.seen_at = now;
        }
        self.seen = lease;
    }

    fn wait(&mut self, now: Duration, pause: Duration, read: bool) {
        self.seed = self.seed.wrapping_add(1);
        // Followers drift apart, so that they do not all write at the moment when a lease expires.
        let pause = pause.mul_f64(1.0 + 0.2 * unit(self.seed));
        self.phase = Phase::Wait {
            until: now + pause,
            read,
        };
    }

    /// The lease as it looks when this candidate holds it.
    fn claimed(&self, wall: Timestamp) -> Lease {
        let before = self.seen.clone();
        let (metadata, before) = before.map_or((ObjectMeta::default(), None), |lease| (lease.metadata, lease.spec));
        let mut spec = before.unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            if spec.acquire_time.is_some() {
                spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
            }
            spec.holder_identity = Some(self.identity.clone());
            spec.acquire_time = Some(MicroTime(wall));
        }
        spec.lease_transitions.get_or_insert(0);
        spec.renew_time = Some(MicroTime(wall));
        spec.lease_duration_seconds = Some(i32::try_from(self.timing.lease.as_secs()).unwrap_or(i32::MAX));
        Lease {
            metadata,
            spec: Some(spec),
        }
    }
}

#[cfg(test)]
mod tests;
