//! A server that answers as a test tells it to, and remembers what it was asked.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use metal3_ironic::{Auth, Client, ClientConfig, Exchange, Observer, Url};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Method and path.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

type Answer = Box<dyn Fn(&Seen, usize) -> (Duration, Response) + Send + Sync>;

struct Script {
    answer: Answer,
    seen: Mutex<Vec<Seen>>,
}

/// Stops when dropped.
pub struct Server {
    pub url: Url,
    script: Arc<Script>,
    _task: JoinSet<()>,
}

impl Server {
    /// Answers discovery and drivers itself, and everything else by `answer`, which gets the request and how many such
    /// requests came before.
    pub async fn start(answer: impl Fn(&Seen, usize) -> Response + Send + Sync + 'static) -> Self {
        Self::start_slow(move |seen, nth| (Duration::ZERO, answer(seen, nth))).await
    }

    /// The same, with a delay before each answer.
    pub async fn start_slow(answer: impl Fn(&Seen, usize) -> (Duration, Response) + Send + Sync + 'static) -> Self {
        Self::start_bare(move |seen, nth| match seen.path.as_str() {
            "/" => (Duration::ZERO, respond(200, &root("1.115"))),
            "/v1/drivers" => (
                Duration::ZERO,
                respond(200, &json!({"drivers": [{"name": "redfish", "hosts": ["lab"]}]})),
            ),
            _ => answer(seen, nth),
        })
        .await
    }

    /// Answers nothing by itself.
    pub async fn start_bare(answer: impl Fn(&Seen, usize) -> (Duration, Response) + Send + Sync + 'static) -> Self {
        let (router, script) = scripted(answer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            script,
            _task: task,
        }
    }

    /// Every request but those of discovery and readiness.
    pub fn seen(&self) -> Vec<Seen> {
        self.all_seen()
            .into_iter()
            .filter(|seen| !matches!(seen.path.as_str(), "/" | "/v1/drivers"))
            .collect()
    }

    pub fn all_seen(&self) -> Vec<Seen> {
        self.script.seen.lock().clone()
    }

    pub fn lines(&self) -> Vec<String> {
        self.seen().iter().map(Seen::line).collect()
    }

    pub fn client(&self) -> Client {
        Client::new(self.config()).unwrap()
    }

    pub fn config(&self) -> ClientConfig {
        config(&self.url)
    }
}

pub const PASSWORD: &str = "correct-horse";

pub fn config(url: &Url) -> ClientConfig {
    let auth = Auth::Basic {
        username: "metal3".to_owned(),
        password: PASSWORD.to_owned(),
    };
    ClientConfig {
        auth,
        timeout: Duration::from_secs(10),
        ..ClientConfig::new(url.clone())
    }
}

/// A router that follows `answer`; used with TLS too.
fn scripted(answer: impl Fn(&Seen, usize) -> (Duration, Response) + Send + Sync + 'static) -> (Router, Arc<Script>) {
    async fn handle(State(script): State<Arc<Script>>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let seen = Seen {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        let nth = {
            let mut all = script.seen.lock();
            let nth = all.iter().filter(|before| before.line() == seen.line()).count();
            all.push(seen.clone());
            nth
        };
        let (delay, response) = (script.answer)(&seen, nth);
        tokio::time::sleep(delay).await;
        response
    }
    let script = Arc::new(Script {
        answer: Box::new(answer),
        seen: Mutex::default(),
    });
    (Router::new().fallback(handle).with_state(Arc::clone(&script)), script)
}

/// A router that says just enough to be ready.
pub fn ready_router() -> Router {
    scripted(|seen, _| {
        let body = if seen.path == "/v1" {
            v1("1.115")
        } else {
            json!({"drivers": [{"name": "redfish"}]})
        };
        (Duration::ZERO, respond(200, &body))
    })
    .0
}

pub fn v1(max: &str) -> Value {
    json!({"id": "v1", "links": [], "version": {"id": "v1", "status": "CURRENT", "min_version": "1.1", "version": max}})
}

pub fn root(max: &str) -> Value {
    json!({"name": "OpenStack Ironic API", "versions": [{"id": "v1", "min_version": "1.1", "version": max}]})
}

pub fn respond(status: u16, body: &Value) -> Response {
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .unwrap()
}

/// An empty answer.
pub fn status(status: u16) -> Response {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

/// A refusal in Ironic's usual, doubly wrapped form.
pub fn fault(status: u16, text: &str) -> Response {
    let inner = json!({"faultcode": "Client", "faultstring": text, "debuginfo": null}).to_string();
    respond(status, &json!({"error_message": inner}))
}

/// Remembers every exchange.
#[derive(Default)]
pub struct Counter(pub Mutex<Vec<Exchange>>);

impl Observer for Counter {
    fn observe(&self, exchange: &Exchange) {
        self.0.lock().push(*exchange);
    }
}

impl Counter {
    /// `operation code` of every exchange that is not part of readiness.
    pub fn lines(&self) -> Vec<String> {
        let all = self.0.lock();
        let lines = all
            .iter()
            .map(|exchange| format!("{} {}", exchange.operation.label(), exchange.outcome));
        lines
            .filter(|line| !line.starts_with("discover") && !line.starts_with("list_drivers"))
            .collect()
    }
}
