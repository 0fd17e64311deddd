//! The process: which tasks there are, what they share, and in which order they start and end.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use metal3_api::capi;
use metal3_api::ipam::{self, IPPool};
use metal3_runtime::args::Namespaces;
use metal3_runtime::error::chain;
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::metrics::{Build, ControllerMetrics, Registry};
use metal3_runtime::process::{Process, Settings};
use metal3_runtime::work::Queue;
use metal3_runtime::{BoxError, Clock};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::feed::{Awaited, Books, PoolKey, Watched, follow, follow_clusters};
use crate::metrics::PoolMetrics;
use crate::pass::Context;
use crate::pool::{Lists, Policy};

/// Upstream's, so that the two never work at once while one replaces the other.
const LEASE: &str = "controller-leader-election-ipam-capm3";
const REPORTER: Reporter = Reporter {
    component: "metal3-ip-address-manager",
    controller: "ipam.metal3.io/ip-address-manager",
};

/// Runs the manager until it is told to stop.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut process = Process::begin(&Settings {
        build: Build {
            component: "ip-address-manager",
            version: env!("CARGO_PKG_VERSION"),
        },
        lease: LEASE,
        pod_namespace: &args.pod_namespace,
        client: &args.client,
        namespaces: &args.namespaces,
        leader: &args.leader,
        probes: &args.probes,
        metrics: &args.metrics,
        tls: &args.tls,
        log: &args.log,
    })
    .await?;
    if args.webhook_port != 0 {
        let port = args.webhook_port;
        tracing::warn!(
            port,
            "no webhooks are served: remove their configuration from the cluster"
        );
    }
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
            watch_filter: args.watch_filter.clone(),
            concurrency: args.ippool_concurrency,
            sync_period: args.sync_period,
            policy,
        },
        process.tasks.stop(),
    );
    let (leads, metrics, ready) = (
        process.leads.clone(),
        process.controllers.clone(),
        process.kinds_ready.clone(),
    );
    process.tasks.spawn(
        "pools",
        async move { manager.run(leads, metrics, || ready.set(true)).await },
    );
    process.run().await?;
    Ok(())
}

/// Between looks for kinds that are not served yet.
const KINDS_RECHECK: Duration = Duration::from_secs(2);

/// Waits until all kinds are served, Cluster API's too, so that the order of installation does not matter.
async fn wait_for_kinds(client: &Client, namespaces: &Namespaces) {
    loop {
        let answers = futures::join!(
            first(namespaces.apis::<IPPool>(client)),
            first(namespaces.apis::<ipam::IPClaim>(client)),
            first(namespaces.apis::<ipam::IPAddress>(client)),
            first(namespaces.apis::<capi::IPAddressClaim>(client)),
            first(namespaces.apis::<capi::IPAddress>(client)),
            first(namespaces.apis::<capi::Cluster>(client)),
        );
        let answers = [answers.0, answers.1, answers.2, answers.3, answers.4, answers.5];
        let Some(error) = answers.into_iter().find_map(Result::err) else {
            return;
        };
        tracing::warn!(error = %chain(&error), "waiting until the kinds of IP address management and Cluster API can be listed");
        tokio::time::sleep(KINDS_RECHECK).await;
    }
}

async fn first<K>(apis: Vec<Api<K>>) -> Result<(), kube::Error>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + Debug,
{
    for api in apis {
        api.list_metadata(&ListParams::default().limit(1)).await?;
    }
    Ok(())
}

/// What is looked after, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where pools, claims and addresses are watched.
    pub namespaces: Namespaces,
    /// Value of the watch-filter label; empty takes everything.
    pub watch_filter: String,
    /// Pools that are worked on at once.
    pub concurrency: u16,
    /// How often everything is looked at without a reason.
    pub sync_period: Duration,
    /// Times and sizes of decisions.
    pub policy: Policy,
}

/// The manager itself, without the process around it.
pub struct Manager {
    ctx: Context,
    queue: Queue<PoolKey>,
    setup: Setup,
}

impl Manager {
    /// Prepares everything; no request is made.
    pub fn new(client: Client, clock: Clock, registry: &Registry, setup: Setup, stop: CancellationToken) -> Self {
        let queue = Queue::new();
        let ctx = Context {
            recorder: Recorder::new(client.clone(), REPORTER, clock.clone()),
            books: Books::new(queue.clone(), setup.policy.clone(), &setup.watch_filter),
            client,
            lists: Lists::default(),
            clock,
            metrics: PoolMetrics::new(registry),
            stop,
        };
        Self { ctx, queue, setup }
    }

    /// Watches on every replica, works while leading. Calls `served` when all kinds are there. Ends with the stop token.
    pub async fn run(
        self,
        mut leads: watch::Receiver<bool>,
        metrics: ControllerMetrics,
        served: impl FnOnce(),
    ) -> Result<(), BoxError> {
        let Self { ctx, queue, setup } = self;
        let stop = ctx.stop.clone();
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = wait_for_kinds(&ctx.client, &setup.namespaces) => served(),
        }
        let awaited = Awaited::default();
        let mut watches = JoinSet::new();
        let namespaces = &setup.namespaces;
        watch_all::<IPPool>(&mut watches, &ctx, namespaces, &awaited);
        watch_all::<ipam::IPClaim>(&mut watches, &ctx, namespaces, &awaited);
        watch_all::<ipam::IPAddress>(&mut watches, &ctx, namespaces, &awaited);
        watch_all::<capi::IPAddressClaim>(&mut watches, &ctx, namespaces, &awaited);
        watch_all::<capi::IPAddress>(&mut watches, &ctx, namespaces, &awaited);
        for api in namespaces.apis::<capi::Cluster>(&ctx.client) {
            awaited.expect();
            watches.spawn(follow_clusters(api, ctx.books.clone(), awaited.clone(), stop.clone()));
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = awaited.all() => {}
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            led = leads.wait_for(|leads| *leads) => { led?; }
        }
        metrics.set_leading(true);
        let books = ctx.books.clone();
        let work = queue.run(setup.concurrency.into(), stop.clone(), |key| {
            let (ctx, metrics) = (ctx.clone(), metrics.clone());
            async move {
                let clock = ctx.clock.clone();
                let start = clock.elapsed();
                let again = ctx.pass(key).await;
                metrics.observe("ippool", "ok", clock.elapsed().saturating_sub(start));
                again
            }
        });
        let resync = async {
            loop {
                tokio::time::sleep(setup.sync_period.max(Duration::from_secs(1))).await;
                books.resync();
            }
        };
        tokio::select! {
            () = work => Ok(()),
            () = resync => Ok(()),
            Some(ended) = watches.join_next(), if !stop.is_cancelled() => Ok(ended?),
        }
    }
}

fn watch_all<K>(watches: &mut JoinSet<()>, ctx: &Context, namespaces: &Namespaces, awaited: &Awaited)
where
    K: Watched + kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    for api in namespaces.apis::<K>(&ctx.client) {
        awaited.expect();
        watches.spawn(follow(api, ctx.books.clone(), awaited.clone(), ctx.stop.clone()));
    }
}
