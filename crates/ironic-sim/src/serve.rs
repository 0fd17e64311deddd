//! The simulator behind HTTP.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use base64::Engine as _;
use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::api;
use crate::control;
use crate::refusal::{Answer, Refusal};
use crate::rules::Action;
use crate::sim::{Sim, kind_of, request};

/// The longest body of a request.
const LONGEST: usize = 64 << 20;

/// Between the half of an answer and its end.
const FLUSH: Duration = Duration::from_millis(20);

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, with those between it and the root.
    pub certificate: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// A listener through which a [`Sim`] can be reached. Dropping it cuts every connection; the simulator lives on and can be
/// given another listener, also on the same address.
#[derive(Debug)]
pub struct ApiServer {
    address: SocketAddr,
    is_tls: bool,
    handle: Handle<SocketAddr>,
    task: JoinSet<std::io::Result<()>>,
}

impl ApiServer {
    /// Listens on an address; port 0 is any free one. With an identity it speaks TLS, for which the process must have a
    /// default provider of cryptography.
    pub async fn start(sim: &Sim, address: SocketAddr, identity: Option<&Identity>) -> Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let handle = Handle::new();
        let scheme = if identity.is_some() { "https" } else { "http" };
        let shared = Shared {
            sim: sim.clone(),
            base: format!("{scheme}://{address}"),
        };
        let service = Router::new().fallback(answer).with_state(shared).into_make_service();
        let mut task = JoinSet::new();
        if let Some(identity) = identity {
            let config = RustlsConfig::from_pem(identity.certificate.clone(), identity.key.clone()).await;
            let config = config.context("the certificate or its key cannot be used")?;
            let server = axum_server::from_tcp_rustls(listener, config)?.handle(handle.clone());
            task.spawn(server.serve(service));
        } else {
            let server = axum_server::from_tcp(listener)?.handle(handle.clone());
            task.spawn(server.serve(service));
        }
        Ok(Self {
            address,
            is_tls: identity.is_some(),
            handle,
            task,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The API's address, without `/v1`.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.address)
    }

    /// Cuts every connection, and returns when the address is free.
    pub async fn stop(mut self) {
        self.handle.shutdown();
        self.task.join_next().await;
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

#[derive(Clone)]
struct Shared {
    sim: Sim,
    base: String,
}

async fn answer(State(shared): State<Shared>, incoming: Request) -> Response {
    let (parts, body) = incoming.into_parts();
    let sim = &shared.sim;
    let uri = parts.uri.path_and_query().map_or("/", |uri| uri.as_str()).to_owned();
    let path = parts.uri.path().trim_end_matches('/').to_owned();
    let bytes = to_bytes(body, LONGEST).await.unwrap_or_default();
    if let Some(rest) = path.strip_prefix("/sim/") {
        let (status, body) = control::answer(sim, parts.method.as_str(), rest, &bytes);
        return respond(status, Some(&body), None);
    }
    let chosen = {
        let mut world = sim.world();
        let parsed = request(parts.method.as_str(), &uri, 0, Value::Null, "");
        *world.requests.entry(kind_of(&parsed)).or_default() += 1;
        world.rules.choose(parts.method.as_str(), &path)
    };
    let latency = sim.world().config.timings.latency;
    pause(sim, latency).await;
    match &chosen {
        Some((Action::Delay { ms }, _)) => pause(sim, Duration::from_millis(*ms)).await,
        Some((action, false)) => return go_wrong(action).await,
        _ => {}
    }
    let done = act(&shared, &parts.method, &uri, &parts.headers, &bytes).await;
    match &chosen {
        Some((Action::Half, true)) => halve(done.status, done.body.as_ref()),
        Some((action, true)) if !matches!(action, Action::Delay { .. }) => go_wrong(action).await,
        _ => {
            let max = sim.world().config.max_version;
            respond(done.status, done.body.as_ref(), done.version.map(|sent| (sent, max)))
        }
    }
}

/// What a request came to.
struct Done {
    status: u16,
    body: Option<Value>,
    version: Option<u16>,
}

async fn act(shared: &Shared, method: &Method, uri: &str, headers: &HeaderMap, body: &[u8]) -> Done {
    let sim = &shared.sim;
    let refused = |refusal: Refusal| Done {
        status: refusal.status,
        body: Some(refusal.body()),
        version: None,
    };
    let path = uri.split('?').next().unwrap_or_default().trim_end_matches('/');
    let base = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let scheme = shared.base.split(':').next().unwrap_or("http");
    let base = base.map_or_else(|| shared.base.clone(), |host| format!("{scheme}://{host}"));
    let is_open = path.is_empty() || path == "/v1";
    if let (false, Some(refusal)) = (is_open, unauthorized(sim, headers)) {
        return refused(refusal);
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let wanted = api::requested(text("X-OpenStack-Ironic-API-Version"), text("OpenStack-API-Version"));
    let version = match api::negotiate(&sim.world().config, wanted) {
        Ok(version) => version,
        Err(refusal) => return refused(refusal),
    };
    let body = if body.is_empty() {
        Ok(Value::Null)
    } else {
        serde_json::from_slice(body)
    };
    let Ok(body) = body else {
        return refused(Refusal::bad_request("The body is not JSON."));
    };
    let answer: Answer = if path.is_empty() {
        let root = api::root(&sim.world(), &base);
        Ok(crate::refusal::Reply::ok(root))
    } else {
        let request = request(method.as_str(), uri, version, body, &base);
        patiently(sim, &request).await
    };
    match answer {
        Ok(reply) => {
            if reply.after_bmc {
                let bmc = sim.world().config.timings.bmc;
                pause(sim, bmc).await;
            }
            Done {
                status: reply.status,
                body: reply.body,
                version: Some(version),
            }
        }
        Err(refusal) => Done {
            version: Some(version),
            ..refused(refusal)
        },
    }
}

/// Waits for a lock as long as a conductor does.
async fn patiently(sim: &Sim, request: &api::Request) -> Answer {
    let (attempts, interval) = {
        let world = sim.world();
        (world.config.timings.lock_attempts, world.config.timings.lock_interval)
    };
    let mut attempt = 1;
    loop {
        let answer = api::answer(&mut sim.world(), request);
        match answer {
            Err(refusal) if refusal.is_lock && attempt < attempts && !sim.clock.is_manual() => {
                attempt += 1;
                pause(sim, interval).await;
            }
            answer => return answer,
        }
    }
}

fn unauthorized(sim: &Sim, headers: &HeaderMap) -> Option<Refusal> {
    let wanted = sim.world().config.credentials.clone()?;
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(token) = sent.and_then(|value| value.strip_prefix("Basic ")) else {
        return Some(Refusal::new(401, "Authorization required"));
    };
    let pair = format!("{}:{}", wanted.username, wanted.password);
    let expected = base64::engine::general_purpose::STANDARD.encode(pair);
    (token.trim() != expected).then(|| Refusal::new(401, "Incorrect username or password"))
}

/// Sleeps for a span of simulated time.
async fn pause(sim: &Sim, span: Duration) {
    let span = sim.clock.real(span);
    if !span.is_zero() {
        tokio::time::sleep(span).await;
    }
}

async fn go_wrong(action: &Action) -> Response {
    match action {
        Action::Refuse {
            status,
            text,
            retry_after,
        } => {
            let mut response = respond(*status, Some(&Refusal::new(*status, text.clone()).body()), None);
            if let Some(seconds) = retry_after {
                response
                    .headers_mut()
                    .insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
            }
            response
        }
        Action::Page { status } => {
            let mut response = Response::new(Body::from("<html><h1>nginx</h1></html>"));
            *response.status_mut() = StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_GATEWAY);
            response
        }
        Action::Stall => std::future::pending().await,
        Action::Half => halve(200, None),
        Action::Delay { .. } => respond(500, None, None),
    }
}

fn respond(status: u16, body: Option<&Value>, version: Option<(u16, u16)>) -> Response {
    let body = body.map(|body| Body::from(body.to_string())).unwrap_or_default();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some((sent, max)) = version {
        for (name, minor) in [
            ("x-openstack-ironic-api-version", sent),
            ("x-openstack-ironic-api-maximum-version", max),
        ] {
            if let Ok(value) = HeaderValue::from_str(&format!("1.{minor}")) {
                headers.insert(name, value);
            }
        }
    }
    response
}

/// Half of a body, and then the connection breaks: more is announced than comes.
fn halve(status: u16, body: Option<&Value>) -> Response {
    let whole = body.map_or_else(|| "{\"nodes\": []}".to_owned(), Value::to_string);
    let half = Bytes::copy_from_slice(&whole.as_bytes()[..whole.len() / 2]);
    // The pause sends off what there is, before the connection breaks.
    let broken = async {
        tokio::time::sleep(FLUSH).await;
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
    };
    let parts = stream::iter([Ok(half)]).chain(stream::once(broken));
    let mut response = Response::new(Body::from_stream(parts));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, HeaderValue::from(whole.len()));
    response
}
