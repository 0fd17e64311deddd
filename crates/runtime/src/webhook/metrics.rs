//! What is counted.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::Answer;
use super::answer::Verdict;
use crate::metrics::{Build, Catalogue, Kind, Registry, Row};

/// Seconds, as controller-runtime has them.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPath {
    webhook: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    webhook: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVerdict {
    webhook: String,
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

/// Labels are served paths, codes, verdicts and kinds that can be converted; nothing that a caller chooses.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    codes: Family<ByCode, Counter>,
    verdicts: Family<ByVerdict, Counter>,
    seconds: Family<OfPath, Histogram, fn() -> Histogram>,
    converted: Family<OfKind, Counter>,
}

impl Metrics {
    pub fn listed(catalogue: &mut Catalogue<'_>) -> Self {
        catalogue.upstream();
        let seconds = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        let codes = catalogue.add(
            Kind::Counter,
            "controller_runtime_webhook_requests",
            &["webhook", "code"],
            "Reviews by path and HTTP status",
            Family::default(),
        );
        let seconds = catalogue.add(
            Kind::Histogram,
            "controller_runtime_webhook_latency_seconds",
            &["webhook"],
            "Time until a review was answered",
            seconds,
        );
        catalogue.ours();
        let verdicts = catalogue.add(
            Kind::Counter,
            "metal3_webhook_reviews",
            &["webhook", "verdict"],
            "Reviews by path and verdict: done (admitted or converted), refused, or failed (not a review, or not an object of the kind)",
            Family::default(),
        );
        let converted = catalogue.add(
            Kind::Counter,
            "metal3_webhook_converted_objects",
            &["kind"],
            "Objects converted to another version, by kind",
            Family::default(),
        );
        Self {
            codes,
            verdicts,
            seconds,
            converted,
        }
    }

    /// Begins the series of a path that an alert counts: an increase from nothing to the first is none for Prometheus.
    pub fn begin(&self, path: &str) {
        let (webhook, verdict) = (path.to_owned(), Verdict::Failed.as_str());
        drop(self.verdicts.get_or_create(&ByVerdict { webhook, verdict }));
    }

    pub fn observe(&self, path: &str, answer: &Answer, took: Duration) {
        let webhook = path.to_owned();
        let code = answer.status.as_u16();
        let verdict = answer.verdict.as_str();
        let by_code = ByCode {
            webhook: webhook.clone(),
            code,
        };
        self.codes.get_or_create(&by_code).inc();
        let by_verdict = ByVerdict {
            webhook: webhook.clone(),
            verdict,
        };
        self.verdicts.get_or_create(&by_verdict).inc();
        for (kind, count) in &answer.converted {
            let of_kind = OfKind { kind: kind.clone() };
            self.converted.get_or_create(&of_kind).inc_by(*count);
        }
        self.seconds
            .get_or_create(&OfPath { webhook })
            .observe(took.as_secs_f64());
    }
}

/// What is counted, for the reference.
pub fn rows() -> Vec<Row> {
    let registry = Registry::new(Build {
        component: "reference",
        version: "",
    });
    let mut catalogue = Catalogue::new(&registry);
    Metrics::listed(&mut catalogue);
    catalogue.into_rows()
}
