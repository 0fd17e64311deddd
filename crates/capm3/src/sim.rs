//! An API server of a few lines whose answers come when a test wants them to: requests wait at a gate until they are let
//! through, watches show what happened when the test says so, and a process may die between any two requests.

mod manager;
mod site;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use kube::Client;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::{StatusDetails, StatusSummary};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;

pub use self::manager::{Manager, settle};
pub use self::site::{Site, limits, owners};

/// The namespace of everything.
pub const NAMESPACE: &str = "ns";

/// The server. Clones are the same one.
#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<State>>);

#[derive(Default)]
pub struct State {
    version: u64,
    /// By plural and name.
    pub objects: BTreeMap<(String, String), Value>,
    /// What watches show, in order: the plural, and the object as it was then. Of one that went, its last state without
    /// finalizers.
    pub log: Vec<(String, Value)>,
    waiting: Vec<(Request, oneshot::Sender<(u16, Value)>)>,
    /// How many requests were answered.
    pub answered: usize,
}

struct Request {
    method: String,
    path: String,
    body: Value,
}

impl Server {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A client whose requests wait at the gate.
    pub fn client(&self) -> Client {
        let state = self.0.clone();
        let service = tower::service_fn(move |request: axum::http::Request<Body>| {
            let state = state.clone();
            async move {
                let request = read(request).await?;
                let (answer, answered) = oneshot::channel();
                state.lock().unwrap().waiting.push((request, answer));
                // Whoever asks may be gone by then; the test lets the request through all the same.
                let (code, body) = answered.await.unwrap_or((500, Value::Null));
                let response = axum::http::Response::builder().status(code);
                Ok::<_, kube::Error>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
            }
        });
        Client::new(service, NAMESPACE)
    }

    /// A client whose requests are answered at once. `other` is shown each first, as method, path and body, and may answer
    /// it instead of the server.
    pub fn prompt_client(
        &self,
        other: impl Fn(&str, &str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Client {
        let (state, other) = (self.0.clone(), Arc::new(other));
        let service = tower::service_fn(move |request: axum::http::Request<Body>| {
            let (state, other) = (state.clone(), other.clone());
            async move {
                let request = read(request).await?;
                let answer = other(&request.method, &request.path, &request.body);
                let (code, body) = answer.unwrap_or_else(|| state.lock().unwrap().handle(&request));
                let response = axum::http::Response::builder().status(code);
                Ok::<_, kube::Error>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
            }
        });
        Client::new(service, NAMESPACE)
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Answers one of those that wait.
    pub fn answer(&self, which: usize) {
        let mut state = self.state();
        let (request, sender) = state.waiting.remove(which);
        let answer = state.handle(&request);
        state.answered += 1;
        sender.send(answer).ok();
    }

    /// Does what somebody else does.
    pub fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let path = format!("/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/{path}");
        let method = method.to_owned();
        self.state().handle(&Request { method, path, body })
    }

    /// The objects of a kind.
    pub fn all<K: DeserializeOwned>(&self, plural: &str) -> Vec<K> {
        let state = self.state();
        let of_kind = state.objects.iter().filter(|((kind, _), _)| kind == plural);
        of_kind
            .map(|(_, object)| serde_json::from_value(object.clone()).unwrap())
            .collect()
    }
}

async fn read(request: axum::http::Request<Body>) -> Result<Request, kube::Error> {
    let (parts, body) = request.into_parts();
    let bytes = body.collect_bytes().await?;
    Ok(Request {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    })
}

/// What a server says that does not do it, with the name of the object.
pub fn failure(code: u16, reason: &str) -> (u16, Value) {
    let named: StatusDetails = serde_json::from_value(json!({"name": "object"})).unwrap();
    let mut status = Status::failure("refused", reason).with_code(code).with_details(named);
    status.status = Some(StatusSummary::Failure);
    (code, serde_json::to_value(status).unwrap())
}

impl State {
    fn handle(&mut self, request: &Request) -> (u16, Value) {
        let mut rest = request.path.split('/').skip_while(|part| *part != NAMESPACE).skip(1);
        let plural = rest.next().unwrap_or_default().to_owned();
        let name = rest.next().map(str::to_owned);
        let is_status = rest.next() == Some("status");
        if plural == "events" {
            return (200, request.body.clone());
        }
        let Some(name) = name else {
            return if request.method == "POST" {
                self.create(plural, request.body.clone())
            } else {
                let items: Vec<&Value> = self
                    .objects
                    .iter()
                    .filter(|((p, _), _)| *p == plural)
                    .map(|(_, o)| o)
                    .collect();
                (
                    200,
                    json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items}),
                )
            };
        };
        let key = (plural, name);
        let Some(there) = self.objects.get(&key).cloned() else {
            return failure(404, "NotFound");
        };
        let refers = |field: &str, at: &str| {
            let wanted = request.body.pointer(at).filter(|wanted| !wanted.is_null());
            wanted.is_none_or(|wanted| *wanted == there["metadata"][field])
        };
        if !refers("resourceVersion", "/metadata/resourceVersion") || !refers("uid", "/preconditions/uid") {
            return failure(409, "Conflict");
        }
        let mut object = there.clone();
        match request.method.as_str() {
            "GET" => return (200, there),
            "PUT" if is_status => object["status"] = request.body["status"].clone(),
            "PATCH" => {
                let mut patch = request.body.clone();
                if let Some(fields) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
                    fields.remove("resourceVersion");
                }
                json_patch::merge(&mut object, &patch);
            }
            "DELETE" if object["metadata"]["deletionTimestamp"].is_null() => {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            "DELETE" => {}
            other => panic!("{other} {}", request.path),
        }
        if object != there {
            self.store(key, &mut object);
        }
        (200, object)
    }

    fn create(&mut self, plural: String, mut object: Value) -> (u16, Value) {
        let key = (plural, object["metadata"]["name"].as_str().unwrap().to_owned());
        if self.objects.contains_key(&key) {
            return failure(409, "AlreadyExists");
        }
        object["metadata"]["namespace"] = json!(NAMESPACE);
        object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        self.store(key, &mut object);
        (201, object)
    }

    fn store(&mut self, key: (String, String), object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let finalizers = object["metadata"]["finalizers"].as_array();
        let is_held = finalizers.is_some_and(|finalizers| !finalizers.is_empty());
        self.log.push((key.0.clone(), object.clone()));
        if is_held || object["metadata"]["deletionTimestamp"].is_null() {
            self.objects.insert(key, object.clone());
        } else {
            self.objects.remove(&key);
        }
    }
}

/// Lets everybody do what can be done without an answer.
pub async fn breathe() {
    for _ in 0..40 {
        tokio::task::yield_now().await;
    }
}
