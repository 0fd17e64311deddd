//! Metrics: the registry and the server.

mod access;
mod catalogue;
mod kinds;
mod process;
mod server;
mod upstream;

use std::{fmt::Debug, hash::Hash, sync::Arc, time::Duration};

use parking_lot::RwLock;

use prometheus_client::{
    collector::Collector,
    encoding::{EncodeLabelSet, text},
    metrics::{family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Metric, Registry as Metrics},
};

use crate::work::{Queue, Tenanted};

pub(crate) use self::kinds::KindsMissing;
pub(crate) use self::upstream::{Load, Loaded, QueueTimes};
pub use self::{
    access::{Access, Decision, KubeAccess},
    catalogue::{Catalogue, Kind, Row},
    server::{Endpoint, EndpointError},
    upstream::{PassEnd, Requests, upstream_rows},
};

/// All metrics of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry(Arc<RwLock<Metrics>>);

/// The content of `metal3_build_info`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Build {
    /// The binary, such as `baremetal-operator`.
    pub component: &'static str,
    /// Its version.
    pub version: &'static str,
}

impl Registry {
    /// The process's own metrics (memory, CPU, files) and the build.
    pub fn new(build: Build) -> Self {
        let mut metrics = Metrics::default();
        metrics.register_collector(Box::new(process::Process));
        metrics.register("metal3_build", "The program that is running", Info::new(build));
        Self(Arc::new(RwLock::new(metrics)))
    }

    /// Adds a metric and returns it. The name is complete, except that counters get the suffix `_total`.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        let mut metrics = self.0.write();
        metrics.register(name, help, metric.clone());
        metric
    }

    /// Adds a collector that is computed at each scrape.
    pub fn collect(&self, collector: impl Collector) {
        let mut metrics = self.0.write();
        metrics.register_collector(Box::new(collector));
    }

    /// All metrics in the OpenMetrics text format.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.0.read())?;
        Ok(out)
    }
}

/// What every controller reports: how long its passes take and how they end, and whether this replica leads.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    passes: Family<PassLabels, Histogram, fn() -> Histogram>,
    upstreams: upstream::Reconciles,
    leader: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    controller: &'static str,
    outcome: &'static str,
}

/// Seconds. A pass with nothing to do takes milliseconds; one that waits for a BMC behind Ironic may take a minute.
const PASS_BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

impl ControllerMetrics {
    /// Registers them; once for each process.
    pub fn new(registry: &Registry) -> Self {
        let passes = Family::new_with_constructor((|| Histogram::new(PASS_BUCKETS)) as fn() -> Histogram);
        let passes = registry.register(
            "metal3_reconcile_seconds",
            "Duration of passes by their outcome",
            passes,
        );
        let leader = Gauge::default();
        Self {
            passes,
            upstreams: upstream::Reconciles::new(registry),
            leader: registry.register("metal3_leader", "1 while this replica leads", leader),
        }
    }

    /// A pass has ended.
    pub fn observe(&self, controller: &'static str, end: PassEnd, took: Duration) {
        let outcome = end.outcome;
        self.passes
            .get_or_create(&PassLabels { controller, outcome })
            .observe(took.as_secs_f64());
        self.upstreams.observe(controller, end, took);
    }

    /// Measures the queue of a controller from now on.
    pub fn measure<K: Tenanted + Clone + Ord + Hash + Debug + Send + 'static>(
        &self,
        controller: &'static str,
        queue: &Queue<K>,
    ) {
        queue.measure(self.upstreams.follow(controller, queue.loaded()));
    }

    /// Whether this replica leads; without leader election every replica does.
    pub fn set_leading(&self, leading: bool) {
        self.leader.set(leading.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;

    #[test]
    fn the_text_has_upstreams_names() {
        let registry = Registry::new(Build {
            component: "test",
            version: "1.2.3",
        });
        let delayed: Counter = registry.register("metal3_delayed__provisioning", "Delayed", Counter::default());
        delayed.inc();
        let controllers = ControllerMetrics::new(&registry);
        let end = PassEnd {
            outcome: "wait",
            is_requeued: true,
        };
        controllers.observe("host", end, Duration::from_millis(30));
        controllers.set_leading(true);
        let text = registry.text().unwrap();
        for line in [
            "metal3_build_info{component=\"test\",version=\"1.2.3\"} 1",
            "metal3_delayed__provisioning_total 1",
            "metal3_reconcile_seconds_bucket{le=\"0.05\",controller=\"host\",outcome=\"wait\"} 1",
            "metal3_leader 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        for name in [
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
            "process_open_fds ",
            "process_start_time_seconds ",
        ] {
            let line = text
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap_or_else(|| panic!("{name} in\n{text}"));
            let value: f64 = line.split(' ').nth(1).unwrap().parse().unwrap();
            assert!(value >= 0.0);
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
