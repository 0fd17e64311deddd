//! Ironic's response times and results.

use std::fmt;

use metal3_ironic::{Exchange, Observer};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::{Catalogue, Kind};
use crate::fleet::{Fleet, OutageKind};

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

const DOWN: &str = "metal3_ironic_down";
const DOWN_HELP: &str = "1 while Ironic cannot be used, by kind of trouble: its resource is not ready (absent), nobody answers (unreachable), it rejects the operator's credentials (unauthorized), or it answers with errors (failing); absent before the first answer, and on replicas that do not lead";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Trouble {
    kind: &'static str,
}

/// Whether Ironic can be used, from what the fleet was last told. Hosts at rest say nothing of it.
#[derive(Debug)]
pub struct IronicDown(Fleet);

impl IronicDown {
    /// Registers it.
    pub fn register(catalogue: &mut Catalogue<'_>, fleet: Fleet) {
        catalogue.ours();
        catalogue.note(Kind::Gauge, DOWN, &["kind"], DOWN_HELP);
        catalogue.collect(Self(fleet));
    }
}

impl Collector for IronicDown {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        if !self.0.is_told() {
            return Ok(());
        }
        let outage = self.0.outage().map(|outage| outage.kind);
        let family = Family::<Trouble, Gauge>::default();
        for kind in OutageKind::ALL {
            let down = family.get_or_create_owned(&Trouble { kind: kind.label() });
            down.set((outage == Some(kind)).into());
        }
        let descriptor = encoder.encode_descriptor(DOWN, DOWN_HELP, None, family.metric_type())?;
        family.encode(descriptor)
    }
}
