//! The server: port, TLS, limits and metrics.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum_server::Handle;
use kube::Client;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::keeper::Keeper;
use super::{Answer, SelfManaged, Webhook, Webhooks};
use crate::Clock;
use crate::args::WebhookArgs;
use crate::listen::{BindError, ListenAddr};
use crate::metrics::{Build, Catalogue, Kind, Registry, Row};
use crate::serve::bounded;
use crate::tls::{Certificate, Policy, TlsError};

/// Why webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The port.
    #[error("webhooks")]
    Bind(#[from] BindError),
    /// The certificate or the TLS settings.
    #[error("webhooks")]
    Tls(#[from] TlsError),
}

/// No API server waits longer for a response.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// How long reviews in progress may take to finish at shutdown. Final tasks have two seconds.
const LAST_REVIEWS: Duration = Duration::from_millis(1500);

/// Larger reviews are processed two at a time, so that memory is bounded. Admissions and the usual pages of 500 objects
/// are smaller as a rule, and never wait.
const LARGE: usize = 8 << 20;
const LARGE_AT_ONCE: usize = 2;

/// An open port on which webhooks will be served.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    certificate: Certificate,
    webhooks: Webhooks,
    metrics: Metrics,
    /// The certificate manager if there are no files.
    keeper: Option<Keeper>,
}

impl Endpoint {
    /// Opens the port. `Ok(None)` if webhooks are disabled.
    pub fn open(
        args: &WebhookArgs,
        policy: Policy,
        webhooks: Webhooks,
        registry: &Registry,
    ) -> Result<Option<Self>, WebhookError> {
        if args.webhook_port == 0 {
            return Ok(None);
        }
        let Some(listener) = ListenAddr::Any(args.webhook_port).bind()? else {
            return Ok(None);
        };
        let certificate = Certificate::load(policy, &args.webhook_cert_dir)?;
        Ok(Some(Self::on(listener, certificate, webhooks, registry)))
    }

    /// Lets the program create its own certificate, unless there is one in files.
    #[must_use]
    pub fn self_managed(mut self, of: SelfManaged, client: Client, leads: watch::Receiver<bool>, clock: Clock) -> Self {
        if self.certificate.is_self_signed() {
            let namespace = of.namespace.as_str();
            if namespace.is_empty() {
                tracing::warn!(
                    "the API server does not trust the webhooks: there is no certificate in --webhook-cert-dir, and without \
                     POD_NAMESPACE none is made"
                );
            } else {
                tracing::info!(namespace, "no certificate in --webhook-cert-dir: the leader makes one");
                self.keeper = Some(Keeper {
                    client,
                    clock,
                    leads,
                    of,
                });
            }
        }
        self
    }

    /// Serves on an open port, which must be non-blocking.
    pub fn on(listener: TcpListener, certificate: Certificate, webhooks: Webhooks, registry: &Registry) -> Self {
        Self {
            listener,
            certificate,
            webhooks,
            metrics: Metrics::listed(&mut Catalogue::new(registry)),
            keeper: None,
        }
    }

    /// The listen address, for tests that let the system choose a port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is cancelled.
    pub async fn serve(self, stop: CancellationToken) -> io::Result<()> {
        let handle = Handle::new();
        let closing = async {
            stop.cancelled().await;
            handle.graceful_shutdown(Some(LAST_REVIEWS));
        };
        let router = router(self.webhooks, &self.metrics).into_make_service();
        let config = self.certificate.server_config();
        let server = bounded(axum_server::from_tcp_rustls(self.listener, config)?)
            .handle(handle.clone())
            .serve(router);
        let certificate = async {
            match self.keeper {
                Some(keeper) => keeper.run(self.certificate, stop.clone()).await,
                None => self.certificate.follow(stop.clone()).await,
            }
        };
        tokio::join!(server, closing, certificate).0
    }
}

/// One path and what is needed to answer on it.
struct Served {
    path: String,
    webhook: Webhook,
    metrics: Metrics,
    large: Arc<Semaphore>,
}

fn router(webhooks: Webhooks, metrics: &Metrics) -> Router {
    let large = Arc::new(Semaphore::new(LARGE_AT_ONCE));
    webhooks.0.into_iter().fold(Router::new(), |router, (path, webhook)| {
        let served = Arc::new(Served {
            path: path.clone(),
            webhook,
            metrics: metrics.clone(),
            large: large.clone(),
        });
        let limit = DefaultBodyLimit::max(served.webhook.limit);
        router.route(&path, post(review).layer(limit).with_state(served))
    })
}

async fn review(State(served): State<Arc<Served>>, request: Request) -> Response {
    let start = Instant::now();
    let answer = tokio::time::timeout(ANSWERED_WITHIN, answer(served.clone(), request)).await;
    let answer = answer.unwrap_or_else(|_| {
        let message = format!("no answer within {} seconds", ANSWERED_WITHIN.as_secs());
        Answer::failed(StatusCode::SERVICE_UNAVAILABLE, message)
    });
    served.metrics.observe(&served.path, &answer, start.elapsed());
    let kind = if answer.status == StatusCode::OK {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    };
    (answer.status, [(header::CONTENT_TYPE, kind)], answer.body).into_response()
}

async fn answer(served: Arc<Served>, request: Request) -> Answer {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length: Option<usize> = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let turn = match length {
        // The API server always says how much it sends. Without a length a few slow callers could take every turn.
        None => return Answer::failed(StatusCode::LENGTH_REQUIRED, "Content-Length is missing"),
        Some(length) if length <= LARGE => None,
        Some(_) => served.large.clone().acquire_owned().await.ok(),
    };
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        // Too large (413), or cut off (400).
        Err(rejection) => return Answer::failed(rejection.status(), rejection.body_text()),
    };
    // On another thread: a large conversion must not block the rest of the process. A panic ends there.
    let path = served.path.clone();
    let answered = tokio::task::spawn_blocking(move || {
        let answer = (served.webhook.answer)(body);
        drop(turn);
        answer
    });
    answered.await.unwrap_or_else(|_| {
        tracing::error!(path, "a review made the webhook panic");
        Answer::failed(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    })
}

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

/// Labels are served paths, codes and verdicts; nothing that a caller chooses.
#[derive(Clone, Debug)]
struct Metrics {
    codes: Family<ByCode, Counter>,
    verdicts: Family<ByVerdict, Counter>,
    seconds: Family<OfPath, Histogram, fn() -> Histogram>,
}

impl Metrics {
    fn listed(catalogue: &mut Catalogue<'_>) -> Self {
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
        Self {
            codes,
            verdicts,
            seconds,
        }
    }

    fn observe(&self, path: &str, answer: &Answer, took: Duration) {
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
