//! Claims of hosts, the policies that permit them, and how long it took until claims had their hosts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metal3_runtime::Clock;
use metal3_runtime::store::ObjectKey;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use super::companions::{Tally, WAITING};
use super::{Catalogue, CompanionMetrics, Kind};

const OLDEST: &str = "metal3_hostclaims_waiting_seconds";
const OLDEST_HELP: &str =
    "For how long the HostClaim that waits the longest has waited for a host, or for what it asks of it; 0 without one";

/// Figures about HostClaims. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClaimMetrics {
    claims: Tally,
    /// The HostDeployPolicies by state.
    pub policies: Tally,
    seconds: Histogram,
    waiting: Waiting,
}

/// The claims that wait, and since when.
type Waiting = Arc<Mutex<HashMap<ObjectKey, Timestamp>>>;

impl ClaimMetrics {
    /// Registers them.
    pub fn new(catalogue: &mut Catalogue<'_>, companions: &CompanionMetrics, clock: Clock) -> Self {
        let waiting = Waiting::default();
        catalogue.note(Kind::Gauge, OLDEST, &[], OLDEST_HELP);
        catalogue.collect(Oldest {
            waiting: waiting.clone(),
            clock,
        });
        let buckets = [
            1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 86400.0,
        ];
        Self {
            claims: companions.tally("HostClaim"),
            policies: companions.tally("HostDeployPolicy"),
            seconds: catalogue.add(
                Kind::Histogram,
                "metal3_hostclaim_wait_seconds",
                &[],
                "How long HostClaims were without a host, from their creation on",
                Histogram::new(buckets),
            ),
            waiting,
        }
    }

    /// A claim is in this state, in which it would have waited since then.
    pub fn is(&self, claim: &ObjectKey, state: &'static str, since: Timestamp) {
        self.claims.set(claim, Some(state));
        let mut waiting = self.waiting.lock();
        if state == WAITING {
            waiting.insert(claim.clone(), since);
        } else {
            waiting.remove(claim);
        }
    }

    /// A claim is gone.
    pub fn forget(&self, claim: &ObjectKey) {
        self.claims.set(claim, None);
        self.waiting.lock().remove(claim);
    }

    /// A claim of this age has got its host.
    pub fn bound(&self, age: Duration) {
        self.seconds.observe(age.as_secs_f64());
    }
}

/// Computed at each scrape.
#[derive(Debug)]
struct Oldest {
    waiting: Waiting,
    clock: Clock,
}

impl Collector for Oldest {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let now = self.clock.now();
        let oldest = self.waiting.lock().values().min().copied().unwrap_or(now);
        let metric = ConstGauge::new(now.duration_since(oldest).as_secs().max(0));
        let descriptor = encoder.encode_descriptor(OLDEST, OLDEST_HELP, None, metric.metric_type())?;
        metric.encode(descriptor)
    }
}
