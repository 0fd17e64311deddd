//! The process: its tasks, what they share, and the order in which they start and end.

use std::fmt::Debug;
use std::time::Duration;

use kube::Client;
use kube::runtime::watcher;
use metal3_api::capi;
use metal3_api::ipam::{self, IPPool};
use metal3_runtime::args::Namespaces;
use metal3_runtime::controller::Controllers;
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::metrics::{Build, Catalogue, ControllerMetrics, Registry};
use metal3_runtime::probes::Check;
use metal3_runtime::process::{Process, Settings};
use metal3_runtime::store::{Awaited, Follow, ObjectKey, Sink};
use metal3_runtime::work::Queue;
use metal3_runtime::{BoxError, Clock, served, telemetry};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::metrics::PoolMetrics;
use crate::pool::{Lists, Policy};
use crate::pools::Pools;
use crate::reconcile::Context;
use crate::watches::{self, ClusterSink, PoolSink};
use crate::webhooks;

/// Upstream's lease, so that the two managers never run at once while one replaces the other.
pub(crate) const LEASE: &str = "controller-leader-election-ipam-capm3";
const REPORTER: Reporter = Reporter {
    component: "metal3-ip-address-manager",
    controller: "ipam.metal3.io/ip-address-manager",
};

/// Runs the manager until it is stopped.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::init(&args.log)?;
    let mut process = Process::begin(&Settings {
        build: Build {
            component: "ip-address-manager",
            version: env!("CARGO_PKG_VERSION"),
        },
        lease: LEASE,
        pod_namespace: &args.provider.pod_namespace,
        client: &args.client,
        namespaces: &args.namespaces,
        leader: &args.leader,
        probes: &args.probes,
        metrics: &args.metrics,
        tls: &args.tls,
    })
    .await?;
    let certificates = webhooks::certificates(&args.provider.pod_namespace);
    process.serve_webhooks(&args.provider.webhooks, &args.tls, webhooks::all(), certificates)?;
    let policy = Policy {
        orphan_grace: Duration::from_secs(args.orphan_grace_seconds),
        ..Policy::default()
    };
    let manager = Manager::new(
        process.client.clone(),
        process.clock.clone(),
        &process.registry,
        Setup {
            namespaces: args.namespaces.namespace.clone(),
            watch_filter: args.provider.watch_filter.clone(),
            concurrency: args.ippool_concurrency,
            sync_period: args.provider.sync_period,
            policy,
        },
        process.tasks.stop(),
    );
    let (leads, metrics, kinds) = (
        process.leads.clone(),
        process.controllers.clone(),
        process.kinds.clone(),
    );
    process
        .tasks
        .spawn("pools", async move { manager.run(leads, metrics, &kinds).await });
    process.run().await?;
    Ok(())
}

/// Waits until all kinds are served, Cluster API's too.
async fn kinds_served(client: &Client, namespaces: &Namespaces, check: &Check) {
    let ask = async || {
        vec![
            served::one(namespaces.apis::<IPPool>(client)).await,
            served::one(namespaces.apis::<ipam::IPClaim>(client)).await,
            served::one(namespaces.apis::<ipam::IPAddress>(client)).await,
            served::one(namespaces.apis::<capi::IPAddressClaim>(client)).await,
            served::one(namespaces.apis::<capi::IPAddress>(client)).await,
            served::one(namespaces.apis::<capi::Cluster>(client)).await,
        ]
    };
    served::all(check, ask).await;
}

/// What the manager handles, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where pools, claims and addresses are watched.
    pub namespaces: Namespaces,
    /// Value of the watch-filter label; empty takes everything.
    pub watch_filter: String,
    /// Concurrent pools.
    pub concurrency: u16,
    /// The resync period.
    pub sync_period: Duration,
    /// Times and sizes of decisions.
    pub policy: Policy,
}

/// The manager itself, without the process around it.
pub struct Manager {
    ctx: Context,
    queue: Queue<ObjectKey>,
    setup: Setup,
}

impl Manager {
    /// Creates the controller; sends no request.
    pub fn new(client: Client, clock: Clock, registry: &Registry, setup: Setup, stop: CancellationToken) -> Self {
        let queue = Queue::new();
        let ctx = Context {
            recorder: Recorder::new(client.clone(), REPORTER, clock.clone()),
            pools: Pools::new(queue.clone(), clock.clone(), setup.policy, &setup.watch_filter),
            client,
            lists: Lists::default(),
            clock,
            metrics: PoolMetrics::new(&mut Catalogue::new(registry)),
            stop,
        };
        Self { ctx, queue, setup }
    }

    /// Watches on every replica, reconciles while leading. `kinds` notes which kinds are awaited. Ends with the stop token.
    pub async fn run(
        self,
        mut leads: watch::Receiver<bool>,
        metrics: ControllerMetrics,
        kinds: &Check,
    ) -> Result<(), BoxError> {
        let Self { ctx, queue, setup } = self;
        let stop = ctx.stop.clone();
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = kinds_served(&ctx.client, &setup.namespaces, kinds) => {}
        }
        let awaited = Awaited::default();
        let mut tasks = JoinSet::new();
        let mut watch = Watch {
            tasks: &mut tasks,
            ctx: &ctx,
            namespaces: &setup.namespaces,
            awaited: &awaited,
        };
        watch.all(&PoolSink::new(&ctx.pools, watches::pool));
        watch.all(&PoolSink::new(&ctx.pools, watches::claim));
        watch.all(&PoolSink::new(&ctx.pools, watches::address));
        watch.all(&PoolSink::new(&ctx.pools, watches::capi_claim));
        watch.all(&PoolSink::new(&ctx.pools, watches::capi_address));
        watch.all(&ClusterSink(ctx.pools.clone()));
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = awaited.all() => {}
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            led = leads.wait_for(|leads| *leads) => { led?; }
        }
        metrics.set_leading(true);
        let mut controllers = Controllers::new(metrics, ctx.clock.clone(), stop.clone());
        controllers.add_with(queue, ctx, setup.concurrency);
        tokio::select! {
            () = controllers.run(setup.sync_period) => Ok(()),
            Some(ended) = tasks.join_next(), if !stop.is_cancelled() => Ok(ended?),
        }
    }
}

/// Starts watches.
struct Watch<'a> {
    tasks: &'a mut JoinSet<()>,
    ctx: &'a Context,
    namespaces: &'a Namespaces,
    awaited: &'a Awaited,
}

impl Watch<'_> {
    /// Of one kind, in each namespace that is looked after.
    fn all<K>(&mut self, sink: &(impl Sink<K> + Clone + Send + 'static))
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + serde::de::DeserializeOwned + Debug + Send + 'static,
    {
        for api in self.namespaces.apis::<K>(&self.ctx.client) {
            let follow = Follow {
                api,
                store: sink.clone(),
                config: watcher::Config::default(),
                is_optional: false,
            };
            self.awaited.expect();
            self.tasks
                .spawn(follow.run(self.awaited.clone(), self.ctx.stop.clone()));
        }
    }
}
