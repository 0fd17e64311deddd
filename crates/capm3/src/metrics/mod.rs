//! Metrics of machines, free hosts, data and workload clusters. They are computed from the stores: none costs a request, and no
//! series outlives its object.

mod gauges;
mod phase;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Unit;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::Clock;
use metal3_runtime::metrics::{Kind, Registry, Row};
use metal3_runtime::store::Change;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use self::gauges::Gauges;
use self::phase::Phase;
use crate::stores::Stores;
use crate::workload::Workloads;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InPhase {
    phase: &'static str,
}

const SECONDS: &str = "metal3_machine_phase_seconds";
const SECONDS_HELP: &str =
    "How long Metal3Machines were without a host (waiting), provisioning, or deleting, when that was over";

/// Ranges from a host that boots from memory to a rack whose disks are cleaned one by one.
const BUCKETS: [f64; 11] = [
    1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 86400.0,
];

/// The provider's metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Figures {
    seconds: Family<InPhase, Histogram, fn() -> Histogram>,
    leads: Arc<AtomicBool>,
    clock: Clock,
}

/// Every metric of this crate, for the reference.
pub fn rows() -> Vec<Row> {
    let mut rows = gauges::rows();
    rows.push(Row {
        name: SECONDS.to_owned(),
        kind: Kind::Histogram,
        labels: &["phase"],
        help: SECONDS_HELP,
        is_upstreams: false,
    });
    rows
}

impl Figures {
    /// Registers the metrics. Call this before the watches start: it subscribes to them.
    pub fn new(registry: &Registry, stores: &Stores, workloads: &Workloads, clock: Clock) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(BUCKETS);
        let seconds = registry.register(SECONDS, SECONDS_HELP, Family::new_with_constructor(seconds));
        let leads = Arc::new(AtomicBool::new(false));
        registry.collect(Gauges {
            stores: stores.clone(),
            workloads: workloads.clone(),
            leads: leads.clone(),
            clock: clock.clone(),
        });
        let figures = Self { seconds, leads, clock };
        let own = figures.clone();
        stores.metal3_machines.listen(move |change| own.see(change));
        figures
    }

    /// This replica is the leader from now on. Until then it exposes nothing.
    pub fn lead(&self) {
        self.leads.store(true, Ordering::Relaxed);
    }

    /// Records the time in the previous phase when a machine changes phase.
    fn see(&self, change: &Change<Metal3Machine>) {
        let Some(before) = change.before.as_deref().filter(|_| self.leads.load(Ordering::Relaxed)) else {
            return;
        };
        let phase = Phase::of(before);
        if change.after.as_deref().map(Phase::of) == Some(phase) {
            return;
        }
        let took = phase
            .since(before)
            .and_then(|since| self.clock.now().since(since).ok()?.total(Unit::Second).ok());
        // If our clock is behind the server's, the duration is unknown.
        if let Some(took) = took.filter(|took| *took >= 0.0) {
            let phase = phase.as_str();
            self.seconds.get_or_create(&InPhase { phase }).observe(took);
        }
    }
}
