//! The metrics that dashboards and alerts for controller-runtime use, under its names: passes, queues, and requests to
//! the API server.

use parking_lot::Mutex;
use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Request, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use tower::{Layer, Service};

use super::{Build, Catalogue, Kind, PASS_BUCKETS, Registry, catalogue};

/// Seconds, as client-go's queues have them: from 10 ns to a quarter of an hour.
const QUEUE_BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfController {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Passes {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQueue {
    name: &'static str,
    controller: &'static str,
}

/// The metrics of every process under the names of controller-runtime and client-go, for the reference.
pub fn upstream_rows() -> Vec<catalogue::Row> {
    let registry = Registry::new(Build {
        component: "reference",
        version: "",
    });
    let mut catalogue = Catalogue::new(&registry);
    catalogue.upstream();
    Reconciles::listed(&mut catalogue);
    Requests::listed(&mut catalogue);
    catalogue.into_rows()
}

/// How a pass over an object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassEnd {
    /// `ok` or the class of the error.
    pub outcome: &'static str,
    /// Whether the pass requested another one after a time.
    pub is_requeued: bool,
}

impl PassEnd {
    fn is_error(self) -> bool {
        self.outcome != "ok"
    }

    /// controller-runtime's label for the result.
    fn result(self) -> &'static str {
        match (self.is_error(), self.is_requeued) {
            (true, _) => "error",
            (false, true) => "requeue_after",
            (false, false) => "success",
        }
    }
}

/// Passes and queues.
#[derive(Clone, Debug)]
pub(super) struct Reconciles {
    total: Family<Passes, Counter>,
    errors: Family<OfController, Counter>,
    retries: Family<OfQueue, Counter>,
    seconds: Histograms<OfController>,
    waited: Histograms<OfQueue>,
    worked: Histograms<OfQueue>,
    queues: Queues,
}

impl Reconciles {
    pub(super) fn new(registry: &Registry) -> Self {
        Self::listed(&mut Catalogue::new(registry))
    }

    fn listed(catalogue: &mut Catalogue<'_>) -> Self {
        const CONTROLLER: &[&str] = &["controller"];
        const QUEUE: &[&str] = &["name", "controller"];
        let of_queue = || Histograms::new_with_constructor((|| Histogram::new(QUEUE_BUCKETS)) as fn() -> Histogram);
        let seconds = Family::new_with_constructor((|| Histogram::new(PASS_BUCKETS)) as fn() -> Histogram);
        let queues = Queues::default();
        catalogue.collect(queues.clone());
        for row in &ROWS {
            let labels = if row.is_of_queue { QUEUE } else { CONTROLLER };
            catalogue.note(row.kind, row.name, labels, row.help);
        }
        Self {
            total: catalogue.add(
                Kind::Counter,
                "controller_runtime_reconcile",
                &["controller", "result"],
                "Passes by their result: success, requeue_after or error",
                Family::default(),
            ),
            errors: catalogue.add(
                Kind::Counter,
                "controller_runtime_reconcile_errors",
                CONTROLLER,
                "Passes that failed",
                Family::default(),
            ),
            seconds: catalogue.add(
                Kind::Histogram,
                "controller_runtime_reconcile_time_seconds",
                CONTROLLER,
                "Duration of passes",
                seconds,
            ),
            retries: catalogue.add(
                Kind::Counter,
                "workqueue_retries",
                QUEUE,
                "Keys queued again after an error",
                Family::default(),
            ),
            waited: catalogue.add(
                Kind::Histogram,
                "workqueue_queue_duration_seconds",
                QUEUE,
                "How long keys that were due waited for a worker",
                of_queue(),
            ),
            worked: catalogue.add(
                Kind::Histogram,
                "workqueue_work_duration_seconds",
                QUEUE,
                "How long work on a key took",
                of_queue(),
            ),
            queues,
        }
    }

    pub(super) fn observe(&self, controller: &'static str, end: PassEnd, took: Duration) {
        let of = OfController { controller };
        let result = end.result();
        self.total.get_or_create(&Passes { controller, result }).inc();
        // Created with the first pass, not with the first error: an alert on a rate needs the zero before.
        let errors = self.errors.get_or_create_owned(&of);
        let name = controller;
        let retries = self.retries.get_or_create_owned(&OfQueue { name, controller });
        if end.is_error() {
            errors.inc();
            retries.inc();
        }
        self.seconds.get_or_create(&of).observe(took.as_secs_f64());
    }

    /// Follows a queue; several queues of one controller are added up.
    pub(super) fn follow(&self, controller: &'static str, queue: Weak<dyn Loaded>) -> QueueTimes {
        let mut queues = self.queues.0.lock();
        queues.retain(|(_, queue)| queue.strong_count() > 0);
        queues.push((controller, queue));
        let name = controller;
        let labels = OfQueue { name, controller };
        QueueTimes {
            waited: self.waited.get_or_create_owned(&labels),
            worked: self.worked.get_or_create_owned(&labels),
        }
    }
}

/// Records queue times.
#[derive(Clone, Debug)]
pub(crate) struct QueueTimes {
    /// From when a key was due until work on it started.
    pub(crate) waited: Histogram,
    /// From the beginning of work to its end.
    pub(crate) worked: Histogram,
}

/// The load of a queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// Keys that are due and wait for a worker.
    pub(crate) ready: u64,
    /// Keys that workers have taken since the start.
    pub(crate) taken: u64,
    /// Passes that panicked since the start.
    pub(crate) broken: u64,
    /// Keys in progress.
    pub(crate) running: u64,
    /// The maximum number of keys in progress.
    pub(crate) workers: u64,
    /// The total time so far of the work in progress.
    pub(crate) unfinished: Duration,
    /// The longest of it.
    pub(crate) longest: Duration,
}

/// A source of load figures.
pub(crate) trait Loaded: Debug + Send + Sync {
    fn load(&self) -> Load;
}

/// The queues of the process, read at each scrape.
#[derive(Clone, Debug, Default)]
struct Queues(Arc<Mutex<Vec<Followed>>>);

/// A controller's name and its queue.
type Followed = (&'static str, Weak<dyn Loaded>);

impl Queues {
    fn loads(&self) -> Vec<(&'static str, Load)> {
        let queues = self.0.lock().clone();
        let mut sums: Vec<(&'static str, Load)> = Vec::new();
        for (controller, queue) in queues {
            let Some(load) = queue.upgrade().map(|queue| queue.load()) else {
                continue;
            };
            let found = sums.iter().position(|(of, _)| *of == controller);
            let place = found.unwrap_or_else(|| {
                sums.push((controller, Load::default()));
                sums.len() - 1
            });
            let sum = &mut sums[place].1;
            sum.ready += load.ready;
            sum.taken += load.taken;
            sum.broken += load.broken;
            sum.running += load.running;
            // Queues of one controller share their workers.
            sum.workers = sum.workers.max(load.workers);
            sum.unfinished += load.unfinished;
            sum.longest = sum.longest.max(load.longest);
        }
        sums
    }
}

/// A metric of [`Queues`]: its name and how it is read from a load.
struct Row {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    is_of_queue: bool,
    read: fn(&Load) -> f64,
}

#[expect(clippy::cast_precision_loss, reason = "a queue is never that long")]
const ROWS: [Row; 7] = [
    Row {
        name: "workqueue_depth",
        help: "Keys that are due and wait for a worker",
        kind: Kind::Gauge,
        is_of_queue: true,
        read: |load| load.ready as f64,
    },
    Row {
        name: "workqueue_adds",
        help: "Keys that became due",
        kind: Kind::Counter,
        is_of_queue: true,
        read: |load| (load.taken + load.ready) as f64,
    },
    Row {
        name: "workqueue_unfinished_work_seconds",
        help: "How long the work under way has taken so far, added up",
        kind: Kind::Gauge,
        is_of_queue: true,
        read: |load| load.unfinished.as_secs_f64(),
    },
    Row {
        name: "workqueue_longest_running_processor_seconds",
        help: "How long the longest work under way has taken so far",
        kind: Kind::Gauge,
        is_of_queue: true,
        read: |load| load.longest.as_secs_f64(),
    },
    Row {
        name: "controller_runtime_active_workers",
        help: "Passes under way",
        kind: Kind::Gauge,
        is_of_queue: false,
        read: |load| load.running as f64,
    },
    Row {
        name: "controller_runtime_max_concurrent_reconciles",
        help: "Passes that may be under way at once",
        kind: Kind::Gauge,
        is_of_queue: false,
        read: |load| load.workers as f64,
    },
    Row {
        name: "controller_runtime_reconcile_panics",
        help: "Passes that broke down",
        kind: Kind::Counter,
        is_of_queue: false,
        read: |load| load.broken as f64,
    },
];

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let loads = self.loads();
        for row in &ROWS {
            let is_counter = row.kind == Kind::Counter;
            let kind = if is_counter {
                MetricType::Counter
            } else {
                MetricType::Gauge
            };
            let mut metric = encoder.encode_descriptor(row.name, row.help, None, kind)?;
            for (controller, load) in &loads {
                let value = (row.read)(load);
                let (name, controller) = (*controller, *controller);
                if row.is_of_queue {
                    let labels = OfQueue { name, controller };
                    encode(is_counter, value, metric.encode_family(&labels)?)?;
                } else {
                    let labels = OfController { controller };
                    encode(is_counter, value, metric.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

fn encode(is_counter: bool, value: f64, encoder: MetricEncoder<'_>) -> fmt::Result {
    if is_counter {
        ConstCounter::new(value).encode(encoder)
    } else {
        ConstGauge::new(value).encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    code: String,
    host: String,
    method: String,
}

/// Requests to the API server by method and status code, as client-go counts them. A layer of the client.
#[derive(Clone, Debug, Default)]
pub struct Requests(Family<Call, Counter>);

impl Requests {
    /// Registers the counter; once for each process.
    pub fn new(registry: &Registry) -> Self {
        Self::listed(&mut Catalogue::new(registry))
    }

    fn listed(catalogue: &mut Catalogue<'_>) -> Self {
        Self(catalogue.add(
            Kind::Counter,
            "rest_client_requests",
            &["code", "host", "method"],
            "Requests to the API server by method and status code",
            Family::default(),
        ))
    }
}

impl<S> Layer<S> for Requests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            requests: self.clone(),
        }
    }
}

/// A client whose requests are counted.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    requests: Requests,
}

/// client-go's code label for a request without a response.
const NO_ANSWER: &str = "<error>";

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let requests = self.requests.clone();
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let method = request.method().to_string();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer
                .as_ref()
                .map_or_else(|_| NO_ANSWER.to_owned(), |answer| answer.status().as_u16().to_string());
            requests.0.get_or_create(&Call { code, host, method }).inc();
            answer
        })
    }
}

#[cfg(test)]
mod tests;
