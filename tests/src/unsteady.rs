//! An API server behind a bad network, for one client: watch events come late, and responses to writes get lost.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use fastrand::Rng;
use futures::stream;
use metal3_lab::ControlPlane;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// How much may go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    /// Watches stall occasionally, for up to this long.
    pub late: Duration,
    /// The share of writes that are applied while their response gets lost.
    pub lost: f64,
    /// The random seed.
    pub seed: u64,
}

/// A faulty connection to an API server. It ends with this value.
#[derive(Debug)]
pub struct UnsteadyApi {
    address: String,
    server: String,
    way: Arc<Way>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Way {
    server: String,
    client: reqwest::Client,
    trouble: Trouble,
    random: Mutex<Rng>,
    lost: AtomicUsize,
    stalls: AtomicUsize,
}

impl UnsteadyApi {
    /// Opens a connection to this API server.
    pub async fn start(server: &ControlPlane, trouble: Trouble) -> Self {
        let authority = server.authority().certificate();
        let authority = reqwest::Certificate::from_pem(authority.as_bytes()).expect("the lab's authority");
        let client = reqwest::Client::builder().tls_certs_only([authority]).build();
        let way = Arc::new(Way {
            server: server.url(),
            client: client.expect("a client"),
            trouble,
            random: Mutex::new(Rng::with_seed(trouble.seed)),
            lost: AtomicUsize::new(0),
            stalls: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let router = Router::new().fallback(pass).with_state(way.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            axum::serve(listener, router).await.ok(); // it never ends by itself
        });
        Self {
            address: format!("http://{address}"),
            server: server.url(),
            way,
            _tasks: tasks,
        }
    }

    /// A copy of this kubeconfig that uses this connection.
    pub fn kubeconfig(&self, direct: &Path, name: &str) -> PathBuf {
        let text = std::fs::read_to_string(direct).expect("the kubeconfig");
        assert!(text.contains(&self.server), "it is one of this server");
        let path = direct.with_file_name(format!("{name}.kubeconfig"));
        std::fs::write(&path, text.replace(&self.server, &self.address)).expect("it can be written");
        path
    }

    /// How many responses were lost.
    pub fn lost(&self) -> usize {
        self.way.lost.load(Ordering::Relaxed)
    }

    /// How many times a watch stalled.
    pub fn stalls(&self) -> usize {
        self.way.stalls.load(Ordering::Relaxed)
    }
}

async fn pass(State(way): State<Arc<Way>>, request: Request) -> Response {
    match way.forward(request).await {
        Ok(answer) => answer,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

impl Way {
    async fn forward(self: Arc<Self>, request: Request) -> anyhow::Result<Response> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let is_watch = path.contains("watch=true");
        let mut onward = self
            .client
            .request(parts.method.clone(), format!("{}{path}", self.server))
            .body(to_bytes(body, usize::MAX).await?);
        for name in [ACCEPT, AUTHORIZATION, CONTENT_TYPE] {
            if let Some(value) = parts.headers.get(&name) {
                onward = onward.header(name, value);
            }
        }
        let answer = onward.send().await?;
        if parts.method != Method::GET && self.random(Rng::f64) < self.trouble.lost {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return Ok((StatusCode::GATEWAY_TIMEOUT, "the answer was lost").into_response());
        }
        let mut response = Response::builder().status(answer.status());
        if let Some(kind) = answer.headers().get(CONTENT_TYPE) {
            response = response.header(CONTENT_TYPE, kind);
        }
        let body = if is_watch {
            self.late(answer)
        } else {
            Body::from(answer.bytes().await?)
        };
        Ok(response.body(body)?)
    }

    /// A watch with stalls.
    fn late(self: Arc<Self>, answer: reqwest::Response) -> Body {
        let flows_until = Instant::now();
        let next = |(way, mut answer, mut flows_until): (Arc<Self>, reqwest::Response, Instant)| async move {
            let chunk: Result<Option<Bytes>, _> = answer.chunk().await;
            if Instant::now() > flows_until {
                way.stalls.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(way.a_while()).await;
                flows_until = Instant::now() + way.a_while();
            }
            let chunk = chunk.transpose()?;
            Some((chunk, (way, answer, flows_until)))
        };
        Body::from_stream(stream::unfold((self, answer, flows_until), next))
    }

    fn a_while(&self) -> Duration {
        self.trouble.late.mul_f64(self.random(Rng::f64))
    }

    fn random<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.random.lock())
    }
}
