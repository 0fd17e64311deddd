//! Claims of hosts, the policies that permit them, and how long it took until claims had their hosts.

use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use super::companions::Tally;
use super::{Catalogue, CompanionMetrics, Kind};

/// Figures about HostClaims. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClaimMetrics {
    /// The HostClaims by state.
    pub claims: Tally,
    /// The HostDeployPolicies by state.
    pub policies: Tally,
    seconds: Histogram,
}

impl ClaimMetrics {
    /// Registers them.
    pub fn new(catalogue: &mut Catalogue<'_>, companions: &CompanionMetrics) -> Self {
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
        }
    }

    /// A claim of this age has got its host.
    pub fn bound(&self, age: Duration) {
        self.seconds.observe(age.as_secs_f64());
    }
}
