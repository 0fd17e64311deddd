//! The API server, with the operator's death after any one write, and with statuses that cannot be written.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_testkit::leaks;
use metal3_testkit::played::{self, Objects, Request};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::death::Death;

/// The namespace of everything.
pub const NAMESPACE: &str = "metal3";

/// The server. Clones are the same one.
#[derive(Clone)]
pub struct Cluster(Arc<Mutex<State>>);

struct State {
    objects: Objects,
    requests: Vec<Request>,
    /// Whether status writes that change the state are refused.
    holds_hosts_back: bool,
    /// What is refused, and with which code.
    refusal: Option<Refusal>,
    /// Content of Secrets in what was emitted.
    leaks: Vec<String>,
}

type Refusal = Box<dyn FnMut(&Request) -> Option<u16> + Send>;

impl Default for Cluster {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            objects: Objects::new(NAMESPACE),
            requests: Vec::new(),
            holds_hosts_back: false,
            refusal: None,
            leaks: Vec::new(),
        })))
    }
}

impl Cluster {
    /// A client for one life of the operator: after its death nothing is answered.
    pub fn client(&self, death: &Arc<Death>) -> Client {
        let (cluster, death) = (self.clone(), death.clone());
        played::client(NAMESPACE, move |request| {
            let (cluster, death) = (cluster.clone(), death.clone());
            async move {
                if death.has_come() {
                    return std::future::pending().await;
                }
                let answer = cluster.lock().handle(&request);
                if request.is_write() && death.comes_after_this_effect() {
                    return std::future::pending().await;
                }
                answer
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Does what a user does; the answer. Every Secret is made with a mark, for which everything that is emitted is searched.
    pub fn ask(&self, method: &str, path: &str, mut body: Value) -> Value {
        if (method, path) == ("POST", "secrets") {
            leaks::mark_secret(&mut body);
        }
        let (code, body) = self.lock().handle(&Request::new(method, path, body));
        assert!((200..300).contains(&code), "{method} {path}: {code} {body}");
        body
    }

    /// An object as it is stored.
    pub fn get<K: DeserializeOwned>(&self, plural: &str, name: &str) -> Option<K> {
        self.lock().objects.get(plural, name)
    }

    /// The objects of a kind, as they are stored.
    pub fn all<K: DeserializeOwned>(&self, plural: &str) -> Vec<K> {
        self.lock().objects.all(plural)
    }

    /// The Secrets that carry the operator's finalizer, by name.
    pub fn held_secrets(&self) -> Vec<String> {
        let secrets = self.all::<Secret>("secrets");
        let held = secrets.iter().filter(|secret| !secret.finalizers().is_empty());
        held.map(ResourceExt::name_any).collect()
    }

    /// Every version of the hosts, oldest first.
    pub fn versions(&self) -> Vec<BareMetalHost> {
        let state = self.lock();
        let hosts = state
            .objects
            .log
            .iter()
            .filter(|(plural, _)| plural == "baremetalhosts");
        hosts
            .map(|(_, host)| serde_json::from_value(host.clone()).unwrap())
            .collect()
    }

    /// Searches what was emitted, besides requests and logs.
    pub fn search(&self, place: &str, text: &str) {
        let leak = leaks::leak(place, text);
        self.lock().leaks.extend(leak);
    }

    /// Content of Secrets in what was asked of this server about other objects, in what was searched, and in the log of this process.
    pub fn leaks(&self) -> Vec<String> {
        let found = std::mem::take(&mut self.lock().leaks);
        found.into_iter().chain(leaks::in_logs()).collect()
    }

    /// What was asked since the last call of this.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.lock().requests)
    }

    /// From now on requests are refused with this code. It replaces what was refused before.
    pub fn refuse(&self, refusal: impl FnMut(&Request) -> Option<u16> + Send + 'static) {
        self.lock().refusal = Some(Box::new(refusal));
    }

    /// The next status writes fail with these codes.
    pub fn fail_status_writes(&self, codes: impl IntoIterator<Item = u16, IntoIter: Send + 'static>) {
        let mut codes = codes.into_iter();
        self.refuse(move |request| {
            let is_status = request.below_namespace().ends_with("/status");
            is_status.then(|| codes.next()).flatten()
        });
    }

    /// Nothing is refused any more.
    pub fn recover(&self) {
        self.lock().refusal = None;
    }

    /// Whether status writes that change the state are refused from now on, as those that break a schema are.
    pub fn keep_state(&self, holds_hosts_back: bool) {
        self.lock().holds_hosts_back = holds_hosts_back;
    }
}

impl State {
    fn handle(&mut self, request: &Request) -> played::Answer {
        self.requests.push(request.clone());
        if !request.below_namespace().starts_with("secrets") {
            // Statuses, annotations, events.
            let place = format!("{} {}", request.method, request.path);
            self.leaks.extend(leaks::leak(&place, &request.body.to_string()));
        }
        if let Some(code) = self.refusal.as_mut().and_then(|refusal| refusal(request)) {
            let reason = match code {
                403 => "Forbidden",
                409 => "Conflict",
                _ => "InternalError",
            };
            return played::failure(code, reason);
        }
        if self.holds_hosts_back {
            let mut tried = self.objects.clone();
            tried.handle(request);
            if states(&tried) != states(&self.objects) {
                return played::failure(422, "Invalid");
            }
        }
        self.objects.handle(request)
    }
}

/// In which state each host is.
fn states(objects: &Objects) -> Vec<ProvisioningState> {
    let hosts: Vec<BareMetalHost> = objects.all("baremetalhosts");
    let states = hosts
        .into_iter()
        .map(|host| host.status.unwrap_or_default().provisioning.state);
    states.collect()
}
