//! Metrics about events.

use metal3_runtime::events::Recorder;
use metal3_runtime::metrics::{Catalogue, Kind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::left_behind;

/// What an alert tells of: an increase from nothing to the first event is none for Prometheus, so these begin at 0.
const ALERTED: [(&str, &str); 2] = [
    ("DataImage", left_behind::DISC),
    ("BMCEventSubscription", left_behind::SUBSCRIPTION),
];

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
        let events = catalogue.add(
            Kind::Counter,
            "metal3_events",
            &["kind", "reason"],
            "What happened to hosts, and to the discs, firmware, ramdisks, subscriptions, claims and switches beside them, by kind and by the reason of the event that tells of it",
            Family::default(),
        );
        let events = Self(events);
        for (kind, reason) in ALERTED {
            drop(events.of(kind, reason));
        }
        events
    }

    fn of(&self, kind: &str, reason: &'static str) -> Counter {
        let kind = kind.to_owned();
        self.0.get_or_create_owned(&Labels { kind, reason })
    }

    /// A recorder whose events are counted.
    pub fn count(&self, recorder: Recorder) -> Recorder {
        let events = self.clone();
        recorder.counted(move |kind, reason| {
            events.of(kind, reason).inc();
        })
    }
}
