//! The simulator's handle for programs and tests.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::api::{self, Request};
use crate::clock::Clock;
use crate::config::Config;
use crate::rules::Rule;
use crate::server::{Counters, Faults, MOST, Server};
use crate::world::World;

/// A simulated Ironic. Clones are the same one.
///
/// It has no thread of its own: whatever is due happens at the next access, in the order and at the moments at which it
/// was due. A client sees no difference, and a fleet at rest costs nothing.
#[derive(Debug, Clone)]
pub struct Sim {
    world: Arc<Mutex<World>>,
    pub(crate) clock: Clock,
}

impl Sim {
    /// A simulator without nodes.
    pub fn new(mut config: Config) -> Self {
        config.servers = config.servers.min(MOST);
        let clock = Clock::new(config.pace, config.begin);
        Self {
            world: Arc::new(Mutex::new(World::new(config, clock.clone()))),
            clock,
        }
    }

    /// The world as it is at this moment.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock();
        world.run_until(self.clock.now());
        world
    }

    // --- time ---

    /// Simulated time since the beginning.
    pub fn now(&self) -> Duration {
        self.world().now
    }

    /// Moves time forward. Only with [`crate::Pace::Manual`]; other clocks do not listen.
    pub fn advance(&self, by: Duration) {
        if self.clock.is_manual() {
            self.clock.set(self.clock.now().saturating_add(by));
        }
        drop(self.world());
    }

    // --- servers ---

    /// A server as its administrator knows it. Ironic finds only those below [`Config::servers`].
    pub fn server(&self, number: u32) -> Server {
        Server::new(number)
    }

    /// Makes these the only faults of a server.
    pub fn set_faults(&self, server: u32, faults: Faults) {
        self.world().set_faults(server, Some(faults));
    }

    /// Ends the faults of a server.
    pub fn clear_faults(&self, server: u32) {
        self.world().set_faults(server, None);
    }

    /// Switches a server on or off behind Ironic's back.
    pub fn push_button(&self, server: u32, is_on: bool) {
        self.world().push_button(server, is_on);
    }

    /// Whether a server is on.
    pub fn is_on(&self, server: u32) -> bool {
        self.world().machine(server).is_on
    }

    /// The configuration drive of a server's last deployment, as it was sent.
    pub fn config_drive(&self, server: u32) -> Option<Value> {
        self.world().machine(server).more.as_ref()?.config_drive.clone()
    }

    /// The subscriptions to the events of a server's BMC, with their headers.
    pub fn subscriptions(&self, server: u32) -> Vec<Value> {
        let mut world = self.world();
        let more = world.machine(server).more.as_ref();
        more.map(|more| more.subscriptions.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Gives a server's BMC a subscription that it lists and does not show.
    pub fn add_unreadable_subscription(&self, server: u32, id: &str) {
        let mut world = self.world();
        let more = world.machine(server).more();
        more.subscriptions.insert(id.to_owned(), Value::Null);
    }

    // --- what went on ---

    /// What a server went through.
    pub fn counters(&self, server: u32) -> Counters {
        self.world().counters(server)
    }

    /// The same of all servers that anything happened to.
    pub fn all_counters(&self) -> BTreeMap<u32, Counters> {
        self.world().all_counters().collect()
    }

    /// Requests so far by method and kind of path, such as `PUT /v1/nodes/{id}/states/power`.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        self.world().requests.clone()
    }

    /// How long nodes waited, once they had come to rest or had been seen with another power state, until somebody changed
    /// them: the client's time, not ours.
    pub fn reactions(&self) -> Vec<Duration> {
        self.world().reactions.clone()
    }

    /// How many nodes are in each state that any node is in.
    pub fn states(&self) -> BTreeMap<&'static str, usize> {
        let world = self.world();
        let mut states = BTreeMap::new();
        for node in world.nodes.values() {
            *states.entry(node.state.as_str()).or_default() += 1;
        }
        states
    }

    // --- trouble ---

    /// Makes some requests go wrong from now on.
    pub fn add_rule(&self, rule: Rule) {
        self.world().rules.add(rule);
    }

    /// Ends all rules.
    pub fn clear_rules(&self) {
        self.world().rules.clear();
    }

    /// Empties the database: Ironic knows no node any more. Servers stay as they are.
    pub fn wipe(&self) {
        self.world().wipe();
    }

    /// The conductor dies and starts again: what it was doing has failed, locks are gone.
    pub fn crash(&self) {
        self.world().crash();
    }

    // --- the API without HTTP ---

    /// Makes a call in a minor version, such as `("GET", "/v1/nodes?fields=uuid", 95, Value::Null)`, and returns status and
    /// body. Rules and credentials do not count, and a locked node is a refusal at once.
    pub fn call(&self, method: &str, path: &str, version: u16, body: Value) -> (u16, Value) {
        let request = request(method, path, version, body, "http://sim");
        match api::answer(&mut self.world(), &request) {
            Ok(reply) => (reply.status, reply.body.unwrap_or_default()),
            Err(refusal) => (refusal.status, refusal.body()),
        }
    }

    /// Refusals as [`Sim::call`] has them, reduced to the text.
    pub fn refusal(body: &Value) -> Option<String> {
        let inner: Value = serde_json::from_str(body["error_message"].as_str()?).ok()?;
        Some(inner["faultstring"].as_str()?.to_owned())
    }
}

/// A request out of its parts.
pub(crate) fn request(method: &str, path: &str, version: u16, body: Value, base: &str) -> Request {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let decode = |segment: &str| {
        let pairs = format!("x={}", segment.replace('+', "%2B"));
        let decoded = url::form_urlencoded::parse(pairs.as_bytes()).next();
        decoded.map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    let mut segments: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    if segments.first().is_some_and(|first| first == "v1") {
        segments.remove(0);
    }
    Request {
        method: method.to_owned(),
        path: segments,
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        body,
        version,
        base: base.to_owned(),
    }
}

/// How requests are counted: identities do not count.
pub(crate) fn kind_of(request: &Request) -> String {
    let mut kind = format!("{} /v1", request.method);
    for (index, part) in request.path.iter().enumerate() {
        let is_identity = index == 1 || (index == 3 && request.path[2] == "bios");
        kind.push('/');
        kind.push_str(if is_identity { "{id}" } else { part });
    }
    kind
}
