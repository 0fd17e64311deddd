//! Bodies of Ironic's answers, from Ironic or a gateway in front of it.

use crate::bounded::is_bounded;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use metal3_ironic::{Auth, Client, ClientConfig, Inventory, Node, Port, Url, Validation};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// The password of a BMC, and ours for Ironic, which no output may show.
const CANARY: &str = "secret-of-fuzz";

/// Any JSON can be read as an inventory or a validation, and any with a uuid as a node; with any status, the client reports a
/// short error or a node, without secrets.
pub fn check(input: &[u8]) {
    if let Ok(record) = serde_json::from_slice::<Value>(input) {
        let read: Result<Inventory, _> = serde_json::from_value(record.clone());
        is_bounded(input, format!("{:?}", read.expect("any JSON is an inventory")).len());
        let read: Result<Validation, _> = serde_json::from_value(record.clone());
        read.expect("any JSON is a validation");
        serde_json::from_value::<Port>(record.clone()).ok();
        is_node(input, record);
    }
    for status in [200, 400, 409, 503] {
        for said in IRONIC.ask(status, input) {
            assert!(said.len() <= 32 << 10, "{} bytes", said.len());
            assert!(!said.contains(CANARY), "{status}: {said}");
        }
    }
}

/// A node has a uuid, and its secrets are not shown.
fn is_node(input: &[u8], mut record: Value) {
    let has_uuid = record["uuid"].as_str().is_some_and(|uuid| !uuid.is_empty());
    let node: Result<Node, _> = serde_json::from_value(record.clone());
    assert!(node.is_ok() || !has_uuid, "{node:?}");
    let (true, false) = (has_uuid, record.to_string().contains(CANARY)) else {
        return;
    };
    record["driver_info"] = json!({ "redfish_password": CANARY, "nested": [{ "token": CANARY }] });
    let node: Node = serde_json::from_value(record).expect("a node with a BMC");
    let said = format!("{node:?}");
    is_bounded(input, said.len());
    assert!(!said.contains(CANARY), "{said}");
}

/// The next answer: status and body.
type Next = Arc<Mutex<(u16, Vec<u8>)>>;

/// An Ironic that gives the answers of this target, and a client of it.
struct Ironic {
    runtime: Runtime,
    client: Client,
    next: Next,
    _server: JoinSet<()>,
}

static IRONIC: LazyLock<Ironic> = LazyLock::new(Ironic::start);

impl Ironic {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let next = Next::default();
        let (client, server) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("a port"));
            let router = Router::new().fallback(respond).with_state(Arc::clone(&next));
            let mut server = JoinSet::new();
            server.spawn(async move { axum::serve(listener, router).await.expect("a server") });
            let auth = Auth::Basic {
                username: "u".to_owned(),
                password: CANARY.to_owned(),
            };
            let config = ClientConfig {
                auth,
                retries: 0,
                ..ClientConfig::new(Url::parse(&url).expect("a URL"))
            };
            (Client::new(config).expect("a client"), server)
        });
        Self {
            runtime,
            client,
            next,
            _server: server,
        }
    }

    /// What a log would say about the answer, as a node and as what BMCs report through Ironic.
    fn ask(&self, status: u16, body: &[u8]) -> Vec<String> {
        *self.next.lock() = (status, body.to_vec());
        let client = &self.client;
        self.runtime.block_on(async {
            let node = match client.node("node").await {
                Ok(node) => Some(format!("{:.1024}", format!("{node:?}"))),
                Err(error) => told(Err::<(), _>(error)),
            };
            let inventory = told(client.inventory("node").await);
            let settings = told(client.bios_settings("node").await);
            let firmware = told(client.firmware("node").await);
            let validation = told(client.validate("node").await);
            [node, inventory, settings, firmware, validation]
                .into_iter()
                .flatten()
                .collect()
        })
    }
}

/// An error in words. The rest is the BMC's own, and no secret.
fn told<T>(answer: Result<T, metal3_ironic::Error>) -> Option<String> {
    let error = answer.err()?;
    Some(format!("{error} {error:?} {}", error.message()))
}

async fn respond(State(next): State<Next>, request: Request) -> Response {
    let (status, body) = if matches!(request.uri().path(), "/" | "/v1" | "/v1/") {
        let version = json!({"id": "v1", "status": "CURRENT", "min_version": "1.1", "version": "1.109"});
        let root = json!({"default_version": version, "versions": [version], "version": version, "id": "v1"});
        (200, root.to_string().into_bytes())
    } else {
        next.lock().clone()
    };
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .expect("a status and a header")
}
