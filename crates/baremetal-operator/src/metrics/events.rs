//! Metrics about events.

use metal3_runtime::events::Recorder;
use metal3_runtime::metrics::{Catalogue, Kind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// What happened to hosts and to the objects beside them. Cheap to clone.
#[derive(Clone)]
pub struct EventMetrics(Family<Labels, Counter>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: String,
    reason: &'static str,
}

impl EventMetrics {
    /// Registers them.
    pub fn new(catalogue: &mut Catalogue<'_>) -> Self {
        Self(catalogue.add(
            Kind::Counter,
            "metal3_events",
            &["kind", "reason"],
            "What happened to hosts, and to the discs, firmware, ramdisks, subscriptions, claims and switches beside them, by kind and by the reason of the event that tells of it",
            Family::default(),
        ))
    }

    /// A recorder whose events are counted.
    pub fn count(&self, recorder: Recorder) -> Recorder {
        let events = self.0.clone();
        recorder.counted(move |kind, reason| {
            let kind = kind.to_owned();
            events.get_or_create(&Labels { kind, reason }).inc();
        })
    }
}
