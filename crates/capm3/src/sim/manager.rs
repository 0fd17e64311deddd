//! A process with one controller: its watches show one event at a time, and it dies when it is dropped.

use std::collections::HashMap;
use std::time::Duration;

use metal3_runtime::Clock;
use metal3_runtime::controller::Reconcile;
use metal3_runtime::error::chain;
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{NAMESPACE, Server, breathe};
use crate::context::Context;
use crate::refusals::Refusals;
use crate::stores::Stores;

/// From one pass to the next: what is not done twice in a second is put off by some passes, and not by others.
const ROUND: Duration = Duration::from_millis(600);

pub struct Manager<C> {
    controller: C,
    pub stores: Stores,
    clock: Clock,
    kinds: &'static [&'static str],
    /// How much of the log it has seen of each kind: watches do not wait for each other.
    shown: Vec<usize>,
    passes: HashMap<String, JoinSet<()>>,
    server: Server,
}

impl<C: Reconcile> Manager<C> {
    /// One that watches these kinds, by their plurals. It works only when all watches have shown what there is.
    pub fn start(server: &Server, kinds: &'static [&'static str], controller: impl FnOnce(Context) -> C) -> Self {
        metal3_testkit::init();
        let (stores, client) = (Stores::new(""), server.client());
        let clock = Clock::manual("2026-01-01T01:00:00Z".parse().unwrap());
        let reporter = Reporter {
            component: "test",
            controller: "test",
        };
        let ctx = Context {
            recorder: Recorder::new(client.clone(), reporter, clock.clone()),
            stores: stores.clone(),
            client,
            clock: clock.clone(),
            refusals: Refusals::default(),
        };
        let controller = controller(ctx);
        controller.listen(&Queue::new());
        let mut new = Self {
            controller,
            stores,
            clock,
            kinds,
            shown: vec![0; kinds.len()],
            passes: HashMap::new(),
            server: server.clone(),
        };
        new.catch_up(server);
        new
    }

    /// Shows one more event of a kind, if there is one.
    pub fn watch(&mut self, server: &Server, kind: usize) -> bool {
        let plural = self.kinds[kind];
        let event = {
            let state = server.state();
            let of_kind = state.objects.log.iter().enumerate().skip(self.shown[kind]);
            let mut of_kind = of_kind.filter(|(_, (other, _))| other == plural);
            of_kind.next().map(|(at, (_, object))| (at, object.clone()))
        };
        let Some((at, object)) = event else { return false };
        self.shown[kind] = at + 1;
        show(&self.stores, plural, object);
        true
    }

    /// Shows everything that there is.
    pub fn catch_up(&mut self, server: &Server) {
        for kind in 0..self.kinds.len() {
            while self.watch(server, kind) {}
        }
    }

    /// Begins a pass, unless one of this object is under way. Time goes on by [`ROUND`].
    pub fn work(&mut self, name: &str) {
        self.clock.advance(ROUND);
        let pass = self.passes.entry(name.to_owned()).or_default();
        while pass.try_join_next().is_some() {}
        if pass.is_empty() {
            let (controller, key) = (self.controller.clone(), ObjectKey::new(NAMESPACE, name));
            let server = self.server.clone();
            pass.spawn(async move {
                if let Err(error) = controller.reconcile(&key).await {
                    // The controller would log it.
                    server.search("an error", &chain(&error).to_string());
                }
            });
        }
    }
}

fn show(stores: &Stores, plural: &str, object: Value) {
    match plural {
        "clusters" => stores.clusters.created(read(object)),
        "machines" => stores.machines.created(read(object)),
        "metal3machines" => stores.metal3_machines.created(read(object)),
        "baremetalhosts" => stores.hosts.created(read(object)),
        "metal3datatemplates" => stores.data_templates.created(read(object)),
        "metal3dataclaims" => stores.data_claims.created(read(object)),
        "metal3datas" => stores.datas.created(read(object)),
        "ipclaims" => stores.ip_claims.created(read(object)),
        "secrets" => stores.secrets.created(read(object)),
        other => panic!("nobody watches {other}"),
    }
}

fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// Everybody sees everything and works on these objects, and every request is answered, until nothing is written any more.
/// `check` is called after each answer. Nothing of all that was asked tells anything from a Secret.
pub async fn settle<C: Reconcile>(
    server: &Server,
    managers: &mut [Manager<C>],
    names: &[&str],
    mut check: impl FnMut(&Server),
) {
    let mut quiet = 0;
    while quiet < 3 {
        let before = server.state().objects.log.len();
        for manager in &mut *managers {
            manager.catch_up(server);
            for name in names {
                manager.work(name);
            }
        }
        breathe().await;
        while server.waiting() > 0 {
            server.answer(0);
            check(server);
            breathe().await;
        }
        quiet = if server.state().objects.log.len() == before {
            quiet + 1
        } else {
            0
        };
    }
    server.expect_no_leaks();
}
