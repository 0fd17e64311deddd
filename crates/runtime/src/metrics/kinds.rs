//! Whether a program waits for the kinds that it works on.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::probes::Check;

/// Read at each scrape from the `/readyz` check `kinds`, whose note names them.
#[derive(Debug)]
pub(crate) struct KindsMissing(pub(crate) Check);

impl Collector for KindsMissing {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let metric = ConstGauge::new(i64::from(self.0.has_note()));
        let descriptor = encoder.encode_descriptor(
            "metal3_kinds_missing",
            "1 while this replica waits for kinds that are not served or may not be listed",
            None,
            metric.metric_type(),
        )?;
        metric.encode(descriptor)
    }
}
