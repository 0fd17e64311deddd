//! An API server whose answers come when a test wants them to: requests wait at a gate until they are let through, watches
//! show what happened when the test says so, and a process may die between any two requests.

mod manager;
mod site;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use kube::{Client, Resource};
use metal3_testkit::leaks;
use metal3_testkit::played::{self, Answer, Objects, Request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;

pub use self::manager::{Manager, settle};
pub use self::site::{Site, limits, owners};
pub use metal3_testkit::played::failure;

/// The namespace of everything.
pub const NAMESPACE: &str = "ns";

/// The server. Clones are the same one.
#[derive(Clone)]
pub struct Server(Arc<Mutex<State>>);

pub struct State {
    /// Their log is what watches show, in order.
    pub objects: Objects,
    waiting: Vec<(Request, oneshot::Sender<Answer>)>,
    /// How many requests were answered.
    pub answered: usize,
    /// Content of Secrets in what was emitted.
    leaks: Vec<String>,
}

impl Default for Server {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            objects: Objects::new(NAMESPACE),
            waiting: Vec::new(),
            answered: 0,
            leaks: Vec::new(),
        })))
    }
}

impl Server {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// A client whose requests wait at the gate.
    pub fn client(&self) -> Client {
        let state = self.0.clone();
        played::client(NAMESPACE, move |request| {
            let (answer, answered) = oneshot::channel();
            let mut state = state.lock();
            state.search_request(&request);
            state.waiting.push((request, answer));
            // Whoever asks may be gone by then; the test lets the request through all the same.
            async move { answered.await.unwrap_or((500, Value::Null)) }
        })
    }

    /// A client whose requests are answered at once. `other` is shown each first, as method, path and body, and may answer
    /// it instead of the server.
    pub fn prompt_client(
        &self,
        other: impl Fn(&str, &str, &Value) -> Option<Answer> + Send + Sync + 'static,
    ) -> Client {
        let (state, other) = (self.0.clone(), Arc::new(other));
        played::client(NAMESPACE, move |request| {
            state.lock().search_request(&request);
            let answer = other(&request.method, &request.path, &request.body);
            let answer = answer.unwrap_or_else(|| state.lock().objects.handle(&request));
            async move { answer }
        })
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Answers one of those that wait, if any does. Numbers begin anew after the last one.
    pub fn answer(&self, which: usize) {
        let mut state = self.state();
        let Some(which) = which.checked_rem(state.waiting.len()) else {
            return;
        };
        let (request, sender) = state.waiting.remove(which);
        let answer = state.objects.handle(&request);
        state.answered += 1;
        sender.send(answer).ok();
    }

    /// Does what somebody else does, with an object or the objects of a kind: `PLURAL[/NAME[/status]]`. Every Secret is made with a
    /// mark, for which everything that is emitted is searched.
    pub fn ask(&self, method: &str, path: &str, mut body: Value) -> Answer {
        if (method, path) == ("POST", "secrets") {
            leaks::mark_secret(&mut body);
        }
        self.state().objects.handle(&Request::new(method, path, body))
    }

    /// An object that somebody makes, as it is stored then.
    pub fn make<K: Resource<DynamicType = ()> + DeserializeOwned>(&self, name: &str, body: &Value) -> K {
        let mut object = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": name}});
        json_patch::merge(&mut object, body);
        let (code, made) = self.ask("POST", &K::plural(&()), object);
        assert_eq!(code, 201, "{made}");
        serde_json::from_value(made).unwrap()
    }

    /// Searches what was emitted, besides requests and logs.
    pub fn search(&self, place: &str, text: &str) {
        let leak = leaks::leak(place, text);
        self.state().leaks.extend(leak);
    }

    /// Fails the test if the content of a Secret was emitted: in a request about another object, such as a status or an event, in what
    /// was searched, or in the log of this process.
    #[track_caller]
    pub fn expect_no_leaks(&self) {
        let found = std::mem::take(&mut self.state().leaks);
        assert!(found.is_empty(), "secrets were emitted: {found:#?}");
        leaks::expect_none_logged();
    }

    /// The objects of a kind.
    pub fn all<K: DeserializeOwned>(&self, plural: &str) -> Vec<K> {
        self.state().objects.all(plural)
    }
}

impl State {
    /// Searches what a program asks. Only Secrets, such as those that are rendered, may have what Secrets have.
    fn search_request(&mut self, request: &Request) {
        if !request.below_namespace().starts_with("secrets") {
            let place = format!("{} {}", request.method, request.path);
            self.leaks.extend(leaks::leak(&place, &request.body.to_string()));
        }
    }
}

/// Lets everybody do what can be done without an answer.
pub async fn breathe() {
    for _ in 0..40 {
        tokio::task::yield_now().await;
    }
}
