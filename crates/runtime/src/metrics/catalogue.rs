//! What is registered, remembered as it is registered: the reference is made from it.

use prometheus_client::{collector::Collector, registry::Metric};

use super::Registry;

/// What a metric is.
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
    /// As it stands in the exposition.
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
    /// The name, with the ending that counters have.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
    /// Whether upstream has it by this name.
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

    /// What follows has upstream's names.
    pub fn upstream(&mut self) {
        self.is_upstreams = true;
    }

    /// What follows has names of our own.
    pub fn ours(&mut self) {
        self.is_upstreams = false;
    }

    /// Registers a metric. The name of a counter comes without `_total`.
    pub fn add<M: Metric + Clone>(
        &mut self,
        kind: Kind,
        name: &str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        self.note(kind, name, labels, help);
        // The encoder ends the help with a full stop of its own.
        self.registry.register(name, help, metric)
    }

    /// Registers what is computed at each scrape; its metrics are to be noted one by one.
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
