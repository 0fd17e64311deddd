//! Ironic's response times and results.

use metal3_ironic::{Exchange, Observer};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::{Catalogue, Kind};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    op: &'static str,
    code: String,
}

/// Counts and times every exchange with Ironic.
#[derive(Clone, Debug)]
pub struct IronicMetrics(Family<Call, Histogram, fn() -> Histogram>);

impl IronicMetrics {
    /// Registers them.
    pub fn new(catalogue: &mut Catalogue<'_>) -> Self {
        // From a cached read on a fast Ironic to a call that waits for a BMC.
        let buckets: fn() -> Histogram =
            || Histogram::new([0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]);
        catalogue.ours();
        Self(catalogue.add(
            Kind::Histogram,
            "metal3_ironic_seconds",
            &["op", "code"],
            "Duration of exchanges with Ironic, by call and answer",
            Family::new_with_constructor(buckets),
        ))
    }
}

impl Observer for IronicMetrics {
    fn observe(&self, exchange: &Exchange) {
        let call = Call {
            op: exchange.operation.label(),
            code: exchange.outcome.to_string(),
        };
        self.0.get_or_create(&call).observe(exchange.duration.as_secs_f64());
    }
}
