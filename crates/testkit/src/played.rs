//! An in-memory API server: tests decide when a request is answered and what goes wrong. It implements what controllers rely on:
//! resource versions and conflicts, the status subresource, finalizers.

use std::collections::BTreeMap;
use std::future::Future;

use axum::http;
use json_patch::PatchOperation;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::{StatusDetails, StatusSummary};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET` and so on.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// Null if there is none.
    pub body: Value,
    /// Whether it is a server-side apply, which creates a missing object.
    pub is_apply: bool,
}

/// A code and a body.
pub type Answer = (u16, Value);

impl Request {
    /// One of a test's own.
    pub fn new(method: &str, path: impl Into<String>, body: Value) -> Self {
        Self {
            method: method.to_owned(),
            path: path.into(),
            body,
            is_apply: false,
        }
    }

    /// Plural, name and subresource, as far as the path has them.
    pub fn below_namespace(&self) -> &str {
        let below = self.path.split_once("/namespaces/").map(|(_, below)| below);
        below
            .and_then(|below| below.split_once('/'))
            .map_or(&self.path, |(_, rest)| rest)
    }

    /// Whether it changes something that lasts.
    pub fn is_write(&self) -> bool {
        self.method != "GET"
    }
}

/// A client for a namespace whose requests a function answers.
pub fn client<A>(namespace: &str, answer: impl Fn(Request) -> A + Clone + Send + 'static) -> Client
where
    A: Future<Output = Answer> + Send + 'static,
{
    client_of_text(namespace, move |request| {
        let answer = answer(request);
        async move {
            let (code, body) = answer.await;
            (code, body.to_string())
        }
    })
}

/// A client for a namespace whose requests a function answers with texts, which may be JSON that no [`Value`] can hold.
pub fn client_of_text<A>(namespace: &str, answer: impl Fn(Request) -> A + Clone + Send + 'static) -> Client
where
    A: Future<Output = (u16, String)> + Send + 'static,
{
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let kind = parts.headers.get(http::header::CONTENT_TYPE);
            let request = Request {
                method: parts.method.to_string(),
                path: parts.uri.path().to_owned(),
                body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
                is_apply: kind.is_some_and(|kind| kind == "application/apply-patch+yaml"),
            };
            let (code, body) = answer(request).await;
            let response = http::Response::builder().status(code);
            let body = Body::from(body.into_bytes());
            response.body(body).map_err(kube::Error::HttpError)
        }
    });
    Client::new(service, namespace)
}

/// An error response, which names an object as the real ones do.
pub fn failure(code: u16, reason: &str) -> Answer {
    let named = StatusDetails {
        name: "object".to_owned(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    };
    let refused = Status::failure("refused by the test's server", reason);
    let mut status = refused.with_code(code).with_details(named);
    status.status = Some(StatusSummary::Failure);
    (code, json!(status))
}

/// The objects of one namespace. Their kinds are distinguished by plural only.
#[derive(Clone, Debug)]
pub struct Objects {
    namespace: &'static str,
    version: u64,
    /// By plural and name.
    stored: BTreeMap<(String, String), Value>,
    /// Every version of every object, oldest first, with its plural; of a deleted one the last state, without finalizers.
    pub log: Vec<(String, Value)>,
}

impl Objects {
    /// No objects.
    pub fn new(namespace: &'static str) -> Self {
        Self {
            namespace,
            version: 0,
            stored: BTreeMap::new(),
            log: Vec::new(),
        }
    }

    /// An object, if it exists.
    pub fn get<K: DeserializeOwned>(&self, plural: &str, name: &str) -> Option<K> {
        let object = self.stored.get(&(plural.to_owned(), name.to_owned()))?;
        Some(read(object.clone()))
    }

    /// The objects of a kind, by name.
    pub fn all<K: DeserializeOwned>(&self, plural: &str) -> Vec<K> {
        self.of_kind(plural).cloned().map(read).collect()
    }

    fn of_kind(&self, plural: &str) -> impl Iterator<Item = &Value> {
        let of_kind = self.stored.iter().filter(move |((kind, _), _)| kind == plural);
        of_kind.map(|(_, object)| object)
    }

    /// Handles a request. Events are accepted and dropped.
    pub fn handle(&mut self, request: &Request) -> Answer {
        let mut parts = request.below_namespace().split('/').map(str::to_owned);
        let plural = parts.next().unwrap_or_default();
        match parts.next() {
            _ if plural == "events" => (201, request.body.clone()),
            Some(name) => {
                let is_status = parts.next().as_deref() == Some("status");
                self.handle_one((plural, name), is_status, request)
            }
            None if request.method == "POST" => self.create(plural, request.body.clone()),
            None => {
                let items: Vec<&Value> = self.of_kind(&plural).collect();
                let version = self.version.to_string();
                (200, json!({"metadata": {"resourceVersion": version}, "items": items}))
            }
        }
    }

    fn handle_one(&mut self, key: (String, String), is_status: bool, request: &Request) -> Answer {
        let Some(there) = self.stored.get(&key).cloned() else {
            return if request.is_apply {
                self.create(key.0, request.body.clone())
            } else {
                failure(404, "NotFound")
            };
        };
        let mut object = there.clone();
        match request.method.as_str() {
            "GET" => return (200, there),
            "DELETE" => {
                let wanted = &request.body["preconditions"];
                let is_met = |field: &str| wanted[field].is_null() || wanted[field] == there["metadata"][field];
                if !is_met("uid") || !is_met("resourceVersion") {
                    return failure(409, "Conflict");
                }
                object["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
            }
            "PUT" => object = request.body.clone(),
            "PATCH" => match serde_json::from_value::<json_patch::Patch>(request.body.clone()) {
                Ok(mut patch) => {
                    // To a real server, too, what is not there is null.
                    patch.0.retain(|op| match op {
                        PatchOperation::Test(test) => {
                            !test.value.is_null() || object.pointer(test.path.as_str()).is_some()
                        }
                        _ => true,
                    });
                    if json_patch::patch(&mut object, &patch).is_err() {
                        return failure(422, "Invalid");
                    }
                }
                Err(_) => json_patch::merge(&mut object, &request.body),
            },
            other => panic!("the played API server knows no {other} {}", request.path),
        }
        if object["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"] {
            return failure(409, "Conflict");
        }
        if is_status {
            object = with_status_of(&object, there.clone());
        } else {
            object = with_status_of(&there, object);
            if object["spec"] != there["spec"] || request.method == "DELETE" {
                let generation = there["metadata"]["generation"].as_i64().unwrap_or_default();
                object["metadata"]["generation"] = json!(generation + 1);
            }
        }
        if object != there {
            self.store(key, &mut object);
        }
        (200, object)
    }

    fn create(&mut self, plural: String, mut object: Value) -> Answer {
        let Some(name) = object["metadata"]["name"].as_str().map(str::to_owned) else {
            return failure(422, "Invalid");
        };
        let key = (plural, name);
        if self.stored.contains_key(&key) {
            return failure(409, "AlreadyExists");
        }
        for (field, value) in [
            ("namespace", json!(self.namespace)),
            ("uid", json!(format!("00000000-0000-4000-8000-{:012}", self.version))),
            ("generation", json!(1)),
            ("creationTimestamp", json!("2026-01-01T00:00:00Z")),
        ] {
            object["metadata"][field] = value;
        }
        self.store(key, &mut object);
        (201, object)
    }

    fn store(&mut self, key: (String, String), object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.log.push((key.0.clone(), object.clone()));
        if is_gone(object) {
            self.stored.remove(&key);
        } else {
            self.stored.insert(key, object.clone());
        }
    }
}

fn with_status_of(other: &Value, mut object: Value) -> Value {
    if let Some(status) = other.get("status") {
        object["status"] = status.clone();
    } else if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

/// Whether an object is being deleted and has no finalizer.
fn is_gone(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    let is_held = finalizers.is_some_and(|finalizers| !finalizers.is_empty());
    !is_held && !object["metadata"]["deletionTimestamp"].is_null()
}

fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap_or_else(|err| panic!("not of the kind that is asked for: {err}"))
}
