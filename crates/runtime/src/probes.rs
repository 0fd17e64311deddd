//! `/healthz` and `/readyz`, as the kubelet and people with curl ask for them.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::{Path, RawQuery, State},
    http::StatusCode,
    routing::get,
};
use axum_server::Handle;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::serve::bounded;

/// How long responses in progress may take to finish at shutdown.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// A health check. Cheap to clone; it starts as failing.
#[derive(Clone, Debug, Default)]
pub struct Check(Arc<Standing>);

#[derive(Debug, Default)]
struct Standing {
    passes: AtomicBool,
    note: Mutex<String>,
}

impl Check {
    /// Sets whether the check passes.
    pub fn set(&self, in_order: bool) {
        self.0.passes.store(in_order, Ordering::Relaxed);
    }

    /// Sets a message for people, shown beside the result; empty for none.
    pub fn note(&self, note: impl Into<String>) {
        *self.0.note.lock() = note.into();
    }

    /// Whether there is a message.
    pub(crate) fn has_note(&self) -> bool {
        !self.0.note.lock().is_empty()
    }

    /// Whether the check passes.
    pub fn passes(&self) -> bool {
        self.0.passes.load(Ordering::Relaxed)
    }

    /// The result, and the message after a colon.
    pub(crate) fn shown(&self) -> String {
        let result = if self.passes() { "ok" } else { "failed" };
        let note = self.0.note.lock();
        if note.is_empty() {
            result.to_owned()
        } else {
            format!("{result}: {note}")
        }
    }
}

/// The checks behind both probes. `ping`, which always passes, is part of each.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    health: BTreeMap<&'static str, Check>,
    ready: BTreeMap<&'static str, Check>,
}

impl Probes {
    /// Only `ping`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check to `/healthz`; while it fails, the kubelet restarts the container.
    pub fn health(&mut self, name: &'static str) -> Check {
        self.health.entry(name).or_default().clone()
    }

    /// Adds a check to `/readyz`; while it fails, Services send nothing to this replica.
    pub fn ready(&mut self, name: &'static str) -> Check {
        self.ready.entry(name).or_default().clone()
    }

    fn router(self) -> Router {
        let health = Arc::new(Probe {
            title: "healthz",
            checks: self.health,
        });
        let ready = Arc::new(Probe {
            title: "readyz",
            checks: self.ready,
        });
        Router::new()
            .merge(routes("/healthz", health))
            .merge(routes("/readyz", ready))
    }
}

/// Serves the probes until `stop` is cancelled.
pub async fn serve(listener: TcpListener, probes: Probes, stop: CancellationToken) -> std::io::Result<()> {
    let handle = Handle::new();
    let server = bounded(axum_server::from_tcp(listener)?).handle(handle.clone());
    let closing = async {
        stop.cancelled().await;
        handle.graceful_shutdown(Some(LAST_ANSWER));
    };
    tokio::join!(server.serve(probes.router().into_make_service()), closing).0
}

#[derive(Debug)]
struct Probe {
    title: &'static str,
    checks: BTreeMap<&'static str, Check>,
}

type Answer = (StatusCode, String);

fn routes(path: &str, probe: Arc<Probe>) -> Router {
    let all = |State(probe): State<Arc<Probe>>, RawQuery(query): RawQuery| async move { probe.all(query.as_deref()) };
    let one = |State(probe): State<Arc<Probe>>, Path(name): Path<String>| async move { probe.one(&name) };
    Router::new()
        .route(path, get(all))
        .route(&format!("{path}/{{check}}"), get(one))
        .with_state(probe)
}

impl Probe {
    /// `ok` if all pass; one line for each check if one fails, or with `?verbose`. `?exclude=x` omits x.
    fn all(&self, query: Option<&str>) -> Answer {
        let options: Vec<_> = query.unwrap_or_default().split('&').collect();
        let excluded = |name: &str| {
            options
                .iter()
                .any(|option| option.strip_prefix("exclude=") == Some(name))
        };
        let verbose = options
            .iter()
            .any(|option| *option == "verbose" || option.starts_with("verbose="));
        let mut lines = String::new();
        let mut failed = false;
        line_of(
            &mut lines,
            "ping",
            true,
            if excluded("ping") { "excluded: ok" } else { "ok" },
        );
        for (name, check) in &self.checks {
            if excluded(name) {
                line_of(&mut lines, name, true, "excluded: ok");
            } else {
                failed |= !check.passes();
                line_of(&mut lines, name, check.passes(), &check.shown());
            }
        }
        match (failed, verbose) {
            (false, false) => (StatusCode::OK, "ok".into()),
            (false, true) => {
                line(&mut lines, format_args!("{} check passed", self.title));
                (StatusCode::OK, lines)
            }
            (true, _) => {
                line(&mut lines, format_args!("{} check failed", self.title));
                (StatusCode::INTERNAL_SERVER_ERROR, lines)
            }
        }
    }

    fn one(&self, name: &str) -> Answer {
        match self.checks.get(name) {
            None if name == "ping" => (StatusCode::OK, "ok".into()),
            None => (StatusCode::NOT_FOUND, format!("no check named {name}\n")),
            Some(check) if check.passes() => (StatusCode::OK, check.shown()),
            Some(check) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{name} {}\n", check.shown())),
        }
    }
}

fn line_of(lines: &mut String, name: &str, passes: bool, result: &str) {
    line(
        lines,
        format_args!("[{}]{name} {result}", if passes { '+' } else { '-' }),
    );
}

fn line(lines: &mut String, text: fmt::Arguments<'_>) {
    writeln!(lines, "{text}").ok(); // writing to a String does not fail
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn fetch(addr: std::net::SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(addr).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap();
        format!("{status} {}", answer.split("\r\n\r\n").nth(1).unwrap())
    }

    #[tokio::test]
    async fn probes_answer_like_upstreams() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let mut probes = Probes::new();
        let webhook = probes.ready("webhook");
        let stop = CancellationToken::new();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(serve(listener, probes, stop.clone()));

        assert_eq!(fetch(addr, "/healthz").await, "200 ok");
        assert_eq!(
            fetch(addr, "/readyz").await,
            "500 [+]ping ok\n[-]webhook failed\nreadyz check failed\n"
        );
        assert_eq!(fetch(addr, "/readyz?exclude=webhook").await, "200 ok");
        assert_eq!(fetch(addr, "/readyz/ping").await, "200 ok");
        assert_eq!(fetch(addr, "/readyz/webhook").await, "500 webhook failed\n");
        webhook.set(true);
        assert_eq!(fetch(addr, "/readyz").await, "200 ok");
        let verbose = fetch(addr, "/readyz?verbose").await;
        assert_eq!(verbose, "200 [+]ping ok\n[+]webhook ok\nreadyz check passed\n");
        webhook.note("it could be better");
        let verbose = fetch(addr, "/readyz?verbose").await;
        assert_eq!(
            verbose,
            "200 [+]ping ok\n[+]webhook ok: it could be better\nreadyz check passed\n"
        );
        assert_eq!(fetch(addr, "/readyz").await, "200 ok");
        assert_eq!(fetch(addr, "/readyz/nothing").await, "404 no check named nothing\n");
        stop.cancel();
        tasks.join_next().await.unwrap().unwrap().unwrap();
    }
}
