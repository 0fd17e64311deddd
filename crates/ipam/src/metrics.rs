//! Metrics of pools and claims.

use std::time::Duration;

use metal3_api::ipam::PoolUsage;
use metal3_runtime::metrics::{Build, Catalogue, Kind, Registry, Row};
use metal3_runtime::store::ObjectKey;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::pool::Answer;
use crate::pool::effect::{Effect, Outcome};

/// A site has few pools, so each has its own series.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pool {
    namespace: String,
    pool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Addresses {
    namespace: String,
    pool: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    effect: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    reason: &'static str,
}

/// The metrics of pools.
#[derive(Clone, Debug)]
pub struct PoolMetrics {
    addresses: Family<Addresses, Gauge>,
    waiting: Family<Pool, Gauge>,
    requests: Family<Request, Histogram, fn() -> Histogram>,
    events: Family<Event, Counter>,
}

/// Every metric of this crate, for the reference.
pub fn rows() -> Vec<Row> {
    let registry = Registry::new(Build {
        component: "ip-address-manager",
        version: env!("CARGO_PKG_VERSION"),
    });
    let mut catalogue = Catalogue::new(&registry);
    PoolMetrics::new(&mut catalogue);
    catalogue.into_rows()
}

impl PoolMetrics {
    /// Registers them.
    pub fn new(catalogue: &mut Catalogue<'_>) -> Self {
        // Ranges from an idle server on the same machine to an overloaded one.
        let buckets: fn() -> Histogram = || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0]);
        Self {
            addresses: catalogue.add(
                Kind::Gauge,
                "metal3_ippool_addresses",
                &["namespace", "pool", "state"],
                "Addresses of a pool: in its ranges (size), given out (used), kept for a claim (reserved), for anybody (free)",
                Family::default(),
            ),
            waiting: catalogue.add(
                Kind::Gauge,
                "metal3_ippool_claims_waiting",
                &["namespace", "pool"],
                "Claims that wait because no address is left",
                Family::default(),
            ),
            requests: catalogue.add(
                Kind::Histogram,
                "metal3_ipam_request_seconds",
                &["effect", "outcome"],
                "Duration of requests to the API server by what they are for and how they end",
                Family::new_with_constructor(buckets),
            ),
            events: catalogue.add(
                Kind::Counter,
                "metal3_ipam_claims",
                &["reason"],
                "What happened to claims, by the reason of the event that tells of it",
                Family::default(),
            ),
        }
    }

    /// Records a reconciled or deleted pool.
    pub fn pool(&self, key: &ObjectKey, usage: Option<PoolUsage>) {
        let (namespace, pool) = (key.namespace.clone(), key.name.clone());
        let states = |usage: PoolUsage| {
            [
                ("size", usage.size),
                ("used", usage.used),
                ("reserved", usage.reserved),
                ("free", usage.free),
            ]
        };
        for (state, value) in states(usage.unwrap_or_default()) {
            let (namespace, pool) = (namespace.clone(), pool.clone());
            let labels = Addresses { namespace, pool, state };
            if usage.is_some() {
                self.addresses.get_or_create(&labels).set(value);
            } else {
                self.addresses.remove(&labels);
            }
        }
        let labels = Pool { namespace, pool };
        match usage {
            Some(usage) => {
                self.waiting.get_or_create(&labels).set(usage.waiting);
            }
            None => {
                self.waiting.remove(&labels);
            }
        }
    }

    /// Records the response to a request.
    pub fn effect(&self, effect: &Effect, answer: &Answer, took: Duration) {
        let outcome = match answer {
            Answer::Failed(_) | Answer::Dropped(_) => "failed",
            Answer::Seen(Outcome::Stale(_)) => "stale",
            Answer::Seen(Outcome::Absent) => "absent",
            Answer::Seen(_) => "ok",
        };
        let effect = effect.label();
        self.requests
            .get_or_create(&Request { effect, outcome })
            .observe(took.as_secs_f64());
    }

    /// Records an event of a claim.
    pub fn event(&self, reason: &'static str) {
        self.events.get_or_create(&Event { reason }).inc();
    }
}
