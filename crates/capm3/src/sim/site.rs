//! What one controller needs, over a server that answers at once, and what came of it.

use parking_lot::Mutex;
use std::hash::Hash;
use std::sync::Arc;

use kube::Resource;
use metal3_runtime::Clock;
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::store::Store;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Server;
use crate::context::Context;
use crate::refusals::Refusals;
use crate::stores::Stores;

pub struct Site {
    pub ctx: Context,
    pub server: Server,
    events: Arc<Mutex<Vec<(String, String)>>>,
    writes: Arc<Mutex<Vec<String>>>,
    _search: Search,
}

/// Fails the test at its end if the content of a Secret was emitted.
struct Search(Server);

impl Drop for Search {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.expect_no_leaks();
        }
    }
}

impl Site {
    /// With a watch filter. `other` may answer a request, given as method, path and body, instead of the server.
    pub fn new(
        filter: &str,
        other: impl Fn(&str, &str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Self {
        metal3_testkit::init();
        let server = Server::default();
        let events: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let writes: Arc<Mutex<Vec<String>>> = Arc::default();
        let (told, written) = (events.clone(), writes.clone());
        let client = server.prompt_client(move |method, path, body| {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            if path.ends_with("/events") {
                told.lock().push((text("reason"), text("message")));
                return None;
            }
            let answer = other(method, path, body);
            let is_done = answer.as_ref().is_none_or(|(code, _)| *code < 400);
            if is_done && method != "GET" {
                written.lock().push(format!("{method} {path}"));
            }
            answer
        });
        let clock = Clock::manual("2026-01-01T01:00:00Z".parse().unwrap());
        let reporter = Reporter {
            component: "test",
            controller: "test",
        };
        Self {
            ctx: Context {
                recorder: Recorder::new(client.clone(), reporter, clock.clone()),
                stores: Stores::new(filter),
                client,
                clock,
                refusals: Refusals::default(),
            },
            _search: Search(server.clone()),
            server,
            events,
            writes,
        }
    }

    /// An object that somebody makes and this store of the stores shows, as it is then.
    pub fn shows<K, By>(&self, store: &Store<K, By>, name: &str, body: &Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned,
        By: Eq + Hash + Clone,
    {
        let made: K = self.server.make(name, body);
        store.created(made.clone());
        made
    }

    /// The first one of a kind, as it is stored.
    pub fn now<K: DeserializeOwned>(&self, plural: &str) -> K {
        self.server.all(plural).remove(0)
    }

    /// Reason and message of each event.
    pub fn told(&self) -> Vec<(String, String)> {
        self.events.lock().clone()
    }

    /// Method and path of each write that was done, events excepted.
    pub fn writes(&self) -> Vec<String> {
        self.writes.lock().clone()
    }
}

/// A reference to an owner.
pub fn owners(version: &str, kind: &str, name: &str, uid: Option<String>) -> Value {
    json!([{"apiVersion": version, "kind": kind, "name": name, "uid": Value::from(uid)}])
}

/// The limits of requests to workload clusters that hold without flags.
pub fn limits() -> metal3_runtime::args::ClientArgs {
    use clap::Parser;
    crate::args::Args::parse_from(["test"]).unified().workloads.limits()
}
