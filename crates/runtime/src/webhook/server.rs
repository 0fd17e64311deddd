//! The server: port, TLS, limits and metrics.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsAcceptor;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::body::Room;
use super::calls::Calls;
use super::connections::Bounded;
use super::keeper::Keeper;
use super::metrics::Metrics;
use super::{Answer, SelfManaged, Webhook, Webhooks};
use crate::Clock;
use crate::args::WebhookArgs;
use crate::events::{Recorder, Reporter};
use crate::listen::{BindError, ListenAddr};
use crate::metrics::{Catalogue, Registry};
use crate::probes::Check;
use crate::serve::{HEADERS_WITHIN, bounded};
use crate::timing::webhooks::{ANSWERED_WITHIN, IDLE, LAST_REVIEWS};
use crate::tls::{Certificate, Policy, TlsError, Trusted, are_trusted};

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

/// An open port on which webhooks will be served.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    certificate: Certificate,
    webhooks: Webhooks,
    metrics: Metrics,
    /// The certificate manager if there are no files.
    keeper: Option<Keeper>,
    /// Follows the objects that tell the API server to call.
    calls: Option<Calls>,
    /// Of what is served, what everything trusts that calls this program.
    trusted: Option<Trusted>,
    /// Passes when this replica may be called.
    ready: Check,
    /// Cancelled when the process is about to end.
    closing: CancellationToken,
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

    /// Lets the program create its own certificate, unless there is one in files; and reports configurations that call
    /// what is not there.
    #[must_use]
    pub fn self_managed(mut self, of: SelfManaged, client: Client, leads: watch::Receiver<bool>, clock: Clock) -> Self {
        let is_self_signed = self.certificate.is_self_signed();
        let namespace = of.namespace.as_str();
        let (offer, mut offered) = watch::channel(None);
        let (trusting, trusted) = watch::channel(None);
        if is_self_signed && namespace.is_empty() {
            tracing::warn!(
                "the API server does not trust the webhooks: there is no certificate in --webhook-cert-dir, and without \
                 POD_NAMESPACE none is made"
            );
        } else if is_self_signed {
            tracing::info!(
                namespace,
                "no certificate in --webhook-cert-dir: this program makes one"
            );
            self.keeper = Some(Keeper {
                client: client.clone(),
                clock: clock.clone(),
                leads: leads.clone(),
                of: of.clone(),
                offer,
                trusted: trusted.clone(),
            });
        }
        if !is_self_signed {
            offered = self.certificate.offer();
        }
        self.trusted = Some(trusted);
        self.calls = Some(Calls {
            has_files: !is_self_signed,
            recorder: recorder(of.installed.label.1, &client, clock.clone()),
            clock,
            client,
            leads,
            offer: offered,
            trusted: trusting,
            paths: self.webhooks.0.keys().cloned().collect(),
            of,
            check: Check::default(),
        });
        self
    }

    /// The name under which the program reports events, and a readiness check that tells the same. The check passes when
    /// everything trusts this replica that calls the program, and after [`TRUSTED_WITHIN`] at the latest. Then it never fails:
    /// what cannot be trusted is no reason to leave what can without an answer.
    #[must_use]
    pub fn reporting(mut self, component: &'static str, clock: Clock, check: Check) -> Self {
        if let Some(calls) = &mut self.calls {
            calls.recorder = recorder(component, &calls.client, clock);
            calls.check = check.clone();
        }
        self.ready = check;
        self
    }

    /// Asks callers to open new connections once `closing` is cancelled, so that they find another replica. Reviews are
    /// answered until [`Self::serve`] is stopped.
    #[must_use]
    pub fn closing(mut self, closing: CancellationToken) -> Self {
        self.closing = closing;
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
            calls: None,
            trusted: None,
            ready: Check::default(),
            closing: CancellationToken::new(),
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
        let paths = served(self.webhooks, &self.metrics, &self.closing);
        let router = router(paths).into_make_service();
        let acceptor = RustlsAcceptor::new(self.certificate.server_config()).acceptor(Bounded::new());
        let server = bounded(axum_server::from_tcp(self.listener)?.acceptor(acceptor));
        let mut server = server.first_request_timeout(HEADERS_WITHIN);
        server.http_builder().http1().header_read_timeout(IDLE);
        let server = server.handle(handle.clone()).serve(router);
        let certificate = async {
            match self.keeper {
                Some(keeper) => keeper.run(self.certificate, stop.clone()).await,
                None => self.certificate.follow(self.trusted.clone(), stop.clone()).await,
            }
        };
        let ready = async {
            if let Some(mut trusted) = self.trusted.clone() {
                stop.run_until_cancelled(are_trusted(&mut trusted, |_| true)).await;
            }
            self.ready.set(true);
        };
        let calls = async {
            if let Some(calls) = self.calls {
                calls.run(stop.clone()).await;
            }
        };
        tokio::join!(server, closing, certificate, ready, calls).0
    }
}

fn recorder(component: &'static str, client: &Client, clock: Clock) -> Recorder {
    let reporter = Reporter {
        component,
        controller: component,
    };
    Recorder::new(client.clone(), reporter, clock)
}

/// One path and what is needed to answer on it.
struct Served {
    path: String,
    webhook: Webhook,
    metrics: Metrics,
    room: Room,
    closing: CancellationToken,
}

/// The paths, with one room for all of them.
fn served(webhooks: Webhooks, metrics: &Metrics, closing: &CancellationToken) -> impl Iterator<Item = Arc<Served>> {
    let room = Room::new();
    webhooks.0.into_iter().map(move |(path, webhook)| {
        metrics.begin(&path);
        Arc::new(Served {
            path,
            webhook,
            metrics: metrics.clone(),
            room: room.clone(),
            closing: closing.clone(),
        })
    })
}

fn router(served: impl Iterator<Item = Arc<Served>>) -> Router {
    served.fold(Router::new(), |router, served| {
        let limit = DefaultBodyLimit::disable(); // `Room` has its own
        let path = served.path.clone();
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
    let headers = headers(answer.status, served.closing.is_cancelled());
    (answer.status, headers, answer.into_body()).into_response()
}

fn headers(status: StatusCode, is_closing: bool) -> HeaderMap {
    let kind = if status == StatusCode::OK {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    };
    let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]);
    if status == StatusCode::TOO_MANY_REQUESTS {
        // The API server then sends the review again by itself.
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if is_closing {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers
}

async fn answer(served: Arc<Served>, request: Request) -> Answer {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length: Option<usize> = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let received = served
        .room
        .receive(request.into_body(), length, served.webhook.reads)
        .await;
    let received = match received {
        Ok(received) => received,
        Err(refused) => return refused.into(),
    };
    // On another thread: a large conversion must not block the rest of the process. A panic ends there.
    let path = served.path.clone();
    let answered = tokio::task::spawn_blocking(move || received.answer(&served.webhook.answer));
    answered.await.unwrap_or_else(|_| {
        tracing::error!(path, "a review made the webhook panic");
        Answer::failed(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use axum::body::Body;
    use futures::StreamExt;
    use futures::stream::FuturesUnordered;
    use k8s_openapi::api::core::v1::ConfigMap;
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::metrics::Build;
    use crate::timing::webhooks::SENT_WITHIN;
    use crate::webhook::{InUse, Rules};

    /// Converts every object into one that no socket can hold.
    #[expect(clippy::unnecessary_wraps, reason = "conversions can fail")]
    fn grow(_: serde_json::Value, _: &str) -> Result<serde_json::Value, std::fmt::Error> {
        Ok("x".repeat(32 << 20).into())
    }

    // OWN 30xg: an answer no longer counted once it was written, and a caller that did not read it kept it for ever.
    // OWN 31zk: no alert told of reviews that failed, and it would not have seen the first of a path.
    #[test]
    fn reviews_that_fail_are_counted_from_nothing() {
        let registry = Registry::new(Build {
            component: "test",
            version: "0",
        });
        let metrics = Metrics::listed(&mut Catalogue::new(&registry));
        let paths = served(Webhooks::new().convert(grow), &metrics, &CancellationToken::new()).count();
        let line = r#"metal3_webhook_reviews_total{webhook="/convert",verdict="failed"} 0"#;
        let text = registry.text().unwrap();
        assert!(paths == 1 && text.lines().any(|found| found == line), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_counts_until_its_time_is_over() {
        let registry = Registry::new(Build {
            component: "test",
            version: "0",
        });
        let metrics = Metrics::listed(&mut Catalogue::new(&registry));
        let served: Vec<_> = served(Webhooks::new().convert(grow), &metrics, &CancellationToken::new()).collect();
        let room = served[0].room.clone();
        let free = room.free();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let http = bounded(axum_server::from_tcp(listener).unwrap().acceptor(Bounded::new()));
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(http.serve(router(served.into_iter()).into_make_service()));

        let object = json!({"kind": "K", "note": "x".repeat(1 << 20)});
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": "g/v2", "objects": [object]}})
        .to_string();
        let length = review.len();
        let request = format!("POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{review}");
        let mut caller = tokio::net::TcpStream::connect(address).await.unwrap();
        caller.write_all(request.as_bytes()).await.unwrap();
        caller.read_u8().await.unwrap();
        assert!(room.free() <= free - (1 << 20), "the answer is being sent");
        tokio::time::sleep(SENT_WITHIN + Duration::from_secs(1)).await;
        assert_eq!(room.free(), free);
        let read = caller.read_to_end(&mut Vec::new()).await;
        assert!(
            read.is_err() || read.is_ok_and(|length| length < 32 << 20),
            "it was cut off"
        );
    }

    /// More than the threads that tokio has for what blocks.
    const CALLERS: usize = 600;

    /// A review of a ConfigMap in this namespace.
    fn asking(operation: &str, namespace: &str) -> Request {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": namespace}});
        let object = if operation == "DELETE" { "oldObject" } else { "object" };
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "operation": operation, "name": "m",
                "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                object: map,
            },
        })
        .to_string();
        let request = Request::post("/").header(header::CONTENT_LENGTH, review.len());
        request.body(Body::from(review)).unwrap()
    }

    // OWN 30xj: reviews that need no lookup were refused while others waited for one, and one namespace could take all lookups.
    // OWN 30f: reviews that waited for the API server took all threads, and those on other paths got no answer.
    #[tokio::test]
    async fn reviews_that_wait_for_the_api_server_do_not_hold_up_other_paths() {
        let (release, released) = mpsc::channel::<()>();
        let (released, rules) = (Mutex::new(released), Rules::<ConfigMap>::of(|_| Vec::new()));
        let in_use = InUse {
            field: "data",
            affects: |_, _| true,
            users: Box::new(move |_| {
                released.lock().recv().ok();
                Ok(Vec::new())
            }),
        };
        let webhooks = Webhooks::new()
            .admit_unless_used(rules, in_use)
            .convert(|object, _| Ok::<_, std::fmt::Error>(object));
        let registry = Registry::new(Build {
            component: "test",
            version: "0",
        });
        let metrics = Metrics::listed(&mut Catalogue::new(&registry));
        let served: Vec<_> = served(webhooks, &metrics, &CancellationToken::new()).collect();
        let [convert, validate] = served.as_slice() else {
            panic!("two paths")
        };
        let reviews = (0..CALLERS).map(|n| answer(validate.clone(), asking("DELETE", &(n % 2).to_string())));
        let mut reviews: FuturesUnordered<_> = reviews.collect();
        let others = async {
            // One waits for each namespace.
            let refused: Vec<_> = reviews.by_ref().take(CALLERS - 2).collect().await;
            let conversion = answer(convert.clone(), asking("DELETE", "0")).await;
            (
                refused,
                conversion,
                answer(validate.clone(), asking("CREATE", "0")).await,
            )
        };
        let Ok((refused, conversion, creation)) = tokio::time::timeout(ANSWERED_WITHIN, others).await else {
            panic!("no answer to other reviews")
        };
        assert!(
            refused
                .iter()
                .all(|answer| answer.status == StatusCode::TOO_MANY_REQUESTS)
        );
        assert_eq!(conversion.status, StatusCode::BAD_REQUEST, "it is no conversion");
        assert_eq!(creation.status, StatusCode::OK, "it needs no lookup");
        drop(release);
        let last: Vec<_> = reviews.map(|answer| answer.status).collect().await;
        assert_eq!(last, [StatusCode::OK; 2]);
    }
}
