//! The states of hosts, what they wait for, and how they got there.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::{BareMetalHostStatus, ProvisioningState};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::{Clock, conditions};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::upstream::Upstream;
use super::{Catalogue, ClaimMetrics, CompanionMetrics, Kind};
use crate::host::WAITING;
use crate::host::budget::{self, Phase};
use crate::host::plan::{EventReason, WaitReason, error_type, reason_of};
use crate::reference::{ERRORS, WAITS};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Change {
    from: String,
    to: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorKind {
    error_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SlotKind {
    kind: &'static str,
}

/// A host as it was last seen.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    state: String,
    waits: Option<String>,
    /// What takes too long.
    overdue: Option<&'static str>,
    /// Whether what it does last failed, and was not done since.
    is_failing: bool,
    /// When this process saw it enter the state.
    since: Option<Duration>,
}

impl Seen {
    fn of(status: Option<&BareMetalHostStatus>) -> Self {
        let Some(status) = status else { return Self::default() };
        Self {
            state: state_label(&status.provisioning.state).to_owned(),
            waits: conditions::get(&status.conditions, WAITING)
                .filter(|c| c.status == ConditionStatus::True)
                .map(|c| reason_label(&c.reason).to_owned()),
            overdue: Phase::of(status)
                .filter(|_| budget::is_overdue(&status.conditions))
                .map(|phase| phase.name),
            is_failing: status.error_count > 0,
            since: None,
        }
    }
}

/// Replaces a value that this operator does not know: a user may have invented it, and a series stays for as long as
/// the process lives.
const OTHER: &str = "other";

/// The state, as a label.
pub(super) fn state_label(state: &ProvisioningState) -> &str {
    match state {
        ProvisioningState::Other(_) => OTHER,
        known => known.as_str(),
    }
}

fn reason_label(reason: &str) -> &'static str {
    let known = WAITS.iter().map(|known| known.as_str());
    known.into_iter().find(|known| *known == reason).unwrap_or(OTHER)
}

/// Begins all series at 0: an increase from nothing to the first failure is none for Prometheus, and so for the alert.
fn every_error(errors: &Family<ErrorKind, Counter>) {
    for help in ERRORS {
        let error_type = reason_of(&help.name.into()).as_str();
        drop(errors.get_or_create(&ErrorKind { error_type }));
    }
    let error_type = EventReason::DetachError.as_str();
    drop(errors.get_or_create(&ErrorKind { error_type }));
}

/// Figures about hosts.
#[derive(Clone, Debug)]
pub struct HostMetrics {
    /// The metrics that upstream's dashboards use.
    pub upstream: Upstream,
    /// The objects beside hosts.
    pub companions: CompanionMetrics,
    /// The claims of hosts.
    pub claims: ClaimMetrics,
    hosts: Family<State, Gauge>,
    overdue: Family<State, Gauge>,
    failing: Family<State, Gauge>,
    waiting: Family<Reason, Gauge>,
    seconds: Family<State, Histogram, fn() -> Histogram>,
    waits: Family<Reason, Histogram, fn() -> Histogram>,
    transitions: Family<Change, Counter>,
    errors: Family<ErrorKind, Counter>,
    slots: Family<SlotKind, Gauge>,
    clock: Clock,
    seen: Arc<Mutex<HashMap<ObjectKey, Seen>>>,
}

impl HostMetrics {
    /// Registers them; with series for individual hosts if requested.
    pub fn new(catalogue: &mut Catalogue<'_>, clock: Clock, is_per_host: bool) -> Self {
        let seconds: fn() -> Histogram = || {
            Histogram::new([
                1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 86400.0,
            ])
        };
        let state: &[&str] = &["state"];
        let companions = CompanionMetrics::new(catalogue);
        let claims = ClaimMetrics::new(catalogue, &companions, clock.clone());
        Self {
            hosts: catalogue.add(Kind::Gauge, "metal3_hosts", state, "Hosts by provisioning state", Family::default()),
            overdue: catalogue.add(
                Kind::Gauge,
                "metal3_hosts_overdue",
                state,
                "Hosts that are in a state, are serviced, or change their disc for longer than it should take",
                Family::default(),
            ),
            failing: catalogue.add(
                Kind::Gauge,
                "metal3_hosts_failing",
                state,
                "Hosts by provisioning state of which something failed that has not been done since, between its attempts too",
                Family::default(),
            ),
            waiting: catalogue.add(
                Kind::Gauge,
                "metal3_hosts_waiting",
                &["reason"],
                "Hosts that wait, by the reason of their condition Waiting",
                Family::default(),
            ),
            seconds: catalogue.add(
                Kind::Histogram,
                "metal3_state_seconds",
                state,
                "How long hosts were in a state that they have left",
                Family::new_with_constructor(seconds),
            ),
            waits: catalogue.add(
                Kind::Histogram,
                "metal3_wait_seconds",
                &["reason"],
                "How long hosts waited, by the reason of their condition Waiting",
                Family::new_with_constructor(seconds),
            ),
            transitions: catalogue.add(
                Kind::Counter,
                "metal3_transitions",
                &["from", "to"],
                "Changes of the provisioning state",
                Family::default(),
            ),
            slots: catalogue.add(
                Kind::Gauge,
                "metal3_slots",
                &["kind"],
                "Slots for inspection, cleaning and provisioning: how many there are (limit), how many are taken, and how many hosts are queued for one",
                Family::default(),
            ),
            errors: {
                catalogue.upstream();
                let errors = catalogue.add(
                    Kind::Counter,
                    "metal3_host_error",
                    &["error_type"],
                    "Failures recorded on hosts, by the reason of their event",
                    Family::default(),
                );
                every_error(&errors);
                errors
            },
            companions,
            claims,
            upstream: Upstream::new(catalogue, is_per_host),
            clock,
            seen: Arc::default(),
        }
    }

    /// A host's status was stored.
    pub fn status(&self, host: &ObjectKey, before: Option<&BareMetalHostStatus>, after: &BareMetalHostStatus) {
        if let Some(kind) = error_type(after)
            && before.is_none_or(|b| b.error_count < after.error_count)
        {
            let error_type = reason_of(&kind).as_str();
            self.errors.get_or_create(&ErrorKind { error_type }).inc();
        }
        self.upstream.status(host, before, after);
        self.enter(host, Some(after), true);
    }

    /// A host has waited for this.
    pub fn waited(&self, reason: WaitReason, took: Duration) {
        let reason = Reason {
            reason: reason.as_str().to_owned(),
        };
        self.waits.get_or_create(&reason).observe(took.as_secs_f64());
    }

    /// A host was reconciled: idle hosts are counted too, even by a process that never writes them.
    pub fn see(&self, host: &ObjectKey, status: Option<&BareMetalHostStatus>) {
        self.enter(host, status, false);
    }

    /// The number of slots, of slots in use, and of waiting hosts.
    pub fn slots(&self, [limit, taken, queued]: [usize; 3]) {
        for (kind, number) in [("limit", limit), ("taken", taken), ("queued", queued)] {
            let gauge = self.slots.get_or_create(&SlotKind { kind });
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    /// A host is gone.
    pub fn forget(&self, host: &ObjectKey) {
        let known = self.seen.lock().remove(host);
        if let Some(seen) = known {
            self.count(&seen, -1);
        }
        self.upstream.forget(host);
    }

    fn enter(&self, host: &ObjectKey, status: Option<&BareMetalHostStatus>, is_change: bool) {
        let mut new = Seen::of(status);
        let mut all = self.seen.lock();
        let old = all.get(host).cloned();
        let is_move = old.as_ref().is_none_or(|old| old.state != new.state);
        new.since = match &old {
            Some(old) if !is_move => old.since,
            _ => is_change.then(|| self.clock.elapsed()),
        };
        if old.as_ref() == Some(&new) {
            return;
        }
        self.count(&new, 1);
        if let Some(old) = &old {
            self.count(old, -1);
        }
        if is_move && is_change {
            let from = old.as_ref().map(|o| o.state.clone()).unwrap_or_default();
            let to = new.state.clone();
            self.transitions.get_or_create(&Change { from, to }).inc();
        }
        if let Some(old) = old.filter(|_| is_move)
            && let Some(since) = old.since
        {
            let took = self.clock.elapsed().saturating_sub(since);
            let state = State { state: old.state };
            self.seconds.get_or_create(&state).observe(took.as_secs_f64());
        }
        all.insert(host.clone(), new);
    }

    fn count(&self, seen: &Seen, by: i64) {
        let state = State {
            state: seen.state.clone(),
        };
        self.hosts.get_or_create(&state).inc_by(by);
        if seen.is_failing {
            self.failing.get_or_create(&state).inc_by(by);
        }
        if let Some(phase) = seen.overdue {
            let state = phase.to_owned();
            self.overdue.get_or_create(&State { state }).inc_by(by);
        }
        if let Some(reason) = seen.waits.clone() {
            self.waiting.get_or_create(&Reason { reason }).inc_by(by);
        }
    }
}
