//! An API server of a few lines: versions, patches, finalizers, and the operator's death after any one write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use json_patch::PatchOperation;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusSummary;
use metal3_api::metal3::BareMetalHost;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::death::Death;

/// The namespace of everything.
pub const NAMESPACE: &str = "metal3";

/// The server. Clones are the same one.
#[derive(Clone, Default)]
pub struct Cluster(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    /// By plural and name.
    objects: BTreeMap<(String, String), Value>,
    /// Every version of every host that was stored, oldest first.
    versions: Vec<Value>,
    requests: Vec<Request>,
    /// Whether status writes that change the state are refused.
    keeps_state: bool,
    /// How many of the next status writes fail.
    failing: usize,
    /// As under the role that upstream ships.
    forbids_patches_of_secrets: bool,
}

/// What was asked of the server.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Plural, name, subresource.
    pub path: String,
    pub body: Value,
}

impl Request {
    /// Whether it changes something that lasts.
    pub fn is_write(&self) -> bool {
        self.method != "GET"
    }
}

impl Cluster {
    /// A client for one life of the operator: after its death nothing is answered.
    pub fn client(&self, death: &Arc<Death>) -> Client {
        let (cluster, death) = (self.clone(), death.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (cluster, death) = (cluster.clone(), death.clone());
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let path = parts.uri.path();
                let path = path.split_once("/namespaces/metal3/").map_or(path, |(_, rest)| rest);
                let request = Request {
                    method: parts.method.to_string(),
                    path: path.to_owned(),
                    body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
                };
                if death.has_come() {
                    return std::future::pending().await;
                }
                let (code, body) = cluster.lock().handle(&request);
                if request.is_write() && death.comes_after_this_effect() {
                    return std::future::pending().await;
                }
                let response = http::Response::builder().status(code);
                Ok::<_, kube::Error>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
            }
        });
        Client::new(service, NAMESPACE)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Does what a user does; the answer.
    pub fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            body,
        };
        let (code, body) = self.lock().handle(&request);
        assert!((200..300).contains(&code), "{method} {path}: {code} {body}");
        body
    }

    /// An object as it is stored.
    pub fn get<K: DeserializeOwned>(&self, plural: &str, name: &str) -> Option<K> {
        let object = self
            .lock()
            .objects
            .get(&(plural.to_owned(), name.to_owned()))
            .cloned()?;
        Some(serde_json::from_value(object).unwrap())
    }

    /// Every version of the hosts, oldest first.
    pub fn versions(&self) -> Vec<BareMetalHost> {
        let versions = self.lock().versions.clone();
        versions
            .into_iter()
            .map(|host| serde_json::from_value(host).unwrap())
            .collect()
    }

    /// What was asked since the last call of this.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.lock().requests)
    }

    /// Refuses patches of Secrets, as the role that upstream ships does.
    pub fn forbid_patches_of_secrets(&self) {
        self.lock().forbids_patches_of_secrets = true;
    }

    /// So many of the next status writes fail.
    pub fn fail_status_writes(&self, count: usize) {
        self.lock().failing = count;
    }

    /// Whether status writes that change the state are refused from now on, as those that break a schema are.
    pub fn keep_state(&self, keeps_state: bool) {
        self.lock().keeps_state = keeps_state;
    }
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let mut status = Status::failure("refused by the test's server", reason).with_code(code);
    status.status = Some(StatusSummary::Failure);
    (code, serde_json::to_value(status).unwrap())
}

impl State {
    fn handle(&mut self, request: &Request) -> (u16, Value) {
        self.requests.push(request.clone());
        let mut parts = request.path.split('/').map(str::to_owned);
        let plural = parts.next().unwrap_or_default();
        let Some(name) = parts.next() else {
            return self.create(plural, request.body.clone());
        };
        let is_status = parts.next().as_deref() == Some("status");
        let key = (plural, name);
        let Some(there) = self.objects.get(&key).cloned() else {
            return match (request.method.as_str(), &request.body) {
                ("PATCH", Value::Object(_)) => self.create(key.0, request.body.clone()), // server-side apply
                _ => failure(404, "NotFound"),
            };
        };
        if self.forbids_patches_of_secrets && key.0 == "secrets" && request.method == "PATCH" {
            return failure(403, "Forbidden");
        }
        if is_status && self.failing > 0 {
            self.failing -= 1;
            return failure(500, "InternalError");
        }
        let mut object = there.clone();
        match request.method.as_str() {
            "GET" => return (200, there),
            "DELETE" => object["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z"),
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
            other => panic!("{other} {}", request.path),
        }
        if object["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"] {
            return failure(409, "Conflict");
        }
        let state = |object: &Value| object["status"]["provisioning"]["state"].as_str().map(str::to_owned);
        let changes = |object| state(object).unwrap_or_default() != state(&there).unwrap_or_default();
        if is_status && self.keeps_state && changes(&object) {
            return failure(422, "Invalid");
        }
        if is_status {
            let status = object["status"].take();
            object = there.clone();
            object["status"] = status;
        } else if key.0 == "baremetalhosts" {
            object["status"] = there["status"].clone();
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

    fn create(&mut self, plural: String, mut object: Value) -> (u16, Value) {
        if plural == "events" {
            return (201, object);
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let key = (plural, name);
        if self.objects.contains_key(&key) {
            return failure(409, "AlreadyExists");
        }
        for (field, value) in [
            ("namespace", json!(NAMESPACE)),
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
        let finalizers = object["metadata"]["finalizers"].as_array();
        let is_held = finalizers.is_some_and(|finalizers| !finalizers.is_empty());
        if !is_held && !object["metadata"]["deletionTimestamp"].is_null() {
            self.objects.remove(&key);
            return;
        }
        if key.0 == "baremetalhosts" {
            self.versions.push(object.clone());
        }
        self.objects.insert(key, object.clone());
    }
}
