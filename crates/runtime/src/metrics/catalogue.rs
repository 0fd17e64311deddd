//! The list of registered metrics, from which the reference is generated.

use prometheus_client::{collector::Collector, registry::Metric};

use super::Registry;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl Kind {
    /// The type as written in the exposition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric as its readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name, including the suffix of counters.
    pub name: String,
    /// The type.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// The help text.
    pub help: &'static str,
    /// Whether upstream has a metric of this name.
    pub is_upstreams: bool,
}

/// Registers metrics and keeps the list.
#[derive(Debug)]
pub struct Catalogue<'r> {
    registry: &'r Registry,
    is_upstreams: bool,
    rows: Vec<Row>,
}

impl<'r> Catalogue<'r> {
    /// An empty list for this registry.
    pub fn new(registry: &'r Registry) -> Self {
        Self {
            registry,
            is_upstreams: false,
            rows: Vec::new(),
        }
    }

    /// The following metrics have upstream's names.
    pub fn upstream(&mut self) {
        self.is_upstreams = true;
    }

    /// The following metrics have names of our own.
    pub fn ours(&mut self) {
        self.is_upstreams = false;
    }

    /// Registers a metric. The name of a counter is given without `_total`.
    pub fn add<M: Metric + Clone>(
        &mut self,
        kind: Kind,
        name: &str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        self.note(kind, name, labels, help);
        // The encoder adds a full stop to the help text.
        self.registry.register(name, help, metric)
    }

    /// Registers a collector that is computed at each scrape; its metrics have to be listed with `note`.
    pub fn collect(&self, collector: impl Collector) {
        self.registry.collect(collector);
    }

    /// Lists a metric that a collector computes.
    pub fn note(&mut self, kind: Kind, name: &str, labels: &'static [&'static str], help: &'static str) {
        let ending = if kind == Kind::Counter { "_total" } else { "" };
        self.rows.push(Row {
            name: format!("{name}{ending}"),
            kind,
            labels,
            help,
            is_upstreams: self.is_upstreams,
        });
    }

    /// Everything that was registered, in order.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}
