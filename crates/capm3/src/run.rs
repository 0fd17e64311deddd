//! The process: its tasks, what they share, and the order in which they start and end.

use std::time::Duration;

use kube::Client;
use metal3_runtime::args::Namespaces;
use metal3_runtime::controller::Controllers;
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::metrics::{Build, Catalogue, ControllerMetrics, Registry};
use metal3_runtime::migration::{self, Migration};
use metal3_runtime::probes::Check;
use metal3_runtime::process::{Process, Settings};
use metal3_runtime::{BoxError, Clock, telemetry};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Args, HostChoice, Workers};
use crate::cluster::Metal3Clusters;
use crate::context::Context;
use crate::data::Metal3Datas;
use crate::data_template::Metal3DataTemplates;
use crate::label_sync::LabelSync;
use crate::machine::Metal3Machines;
use crate::machine_template::Metal3MachineTemplates;
use crate::metrics::Figures;
use crate::refusals::Refusals;
use crate::remediation::Metal3Remediations;
use crate::stores::Stores;
use crate::webhooks;
use crate::workload::{Access, Workloads};

const REPORTER: Reporter = Reporter {
    component: "cluster-api-provider-metal3",
    controller: "infrastructure.cluster.x-k8s.io/cluster-api-provider-metal3",
};

/// The leader election lease.
pub(crate) const LEASE: &str = "controller-leader-election-capm3";

/// Runs the provider until it is stopped.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::init(&args.log)?;
    let mut process = Process::begin(&Settings {
        build: Build {
            component: "cluster-api-provider-metal3",
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
    let certificates = webhooks::installed::certificates(&args.provider.pod_namespace);
    let migration = Migration {
        client: process.client.clone(),
        definitions: certificates.definitions.clone(),
        phases: migration::phases(&args.skip_crd_migration_phases),
        recorder: Recorder::new(process.client.clone(), REPORTER, process.clock.clone()),
        metrics: migration::Metrics::listed(&mut Catalogue::new(&process.registry)),
    };
    let migrated = migration.run(process.leads.clone(), process.tasks.stop());
    process.tasks.spawn("migration of stored versions", migrated);
    process.serve_webhooks(&args.provider.webhooks, &args.tls, webhooks::all(), certificates)?;
    let setup = Setup {
        namespaces: args.namespaces.namespace.clone(),
        watch_filter: args.provider.watch_filter.clone(),
        claims_by_host: args.enable_bmh_name_based_preallocation,
        workers: args.workers.clone(),
        sync_period: args.provider.sync_period,
        is_fast_track: is_fast_track(&args),
        host_choice: args.host_choice,
        workloads: args.workloads.access(),
    };
    let stop = process.tasks.stop();
    let provider = Provider::new(
        process.client.clone(),
        process.clock.clone(),
        &process.registry,
        setup,
        stop,
    );
    let (leads, metrics, kinds) = (
        process.leads.clone(),
        process.controllers.clone(),
        process.kinds.clone(),
    );
    process
        .tasks
        .spawn("controllers", async move { provider.run(leads, metrics, &kinds).await });
    process.run().await?;
    Ok(())
}

/// Whether hosts stay powered on between two machines. A setting that is neither on nor off is logged.
fn is_fast_track(args: &Args) -> bool {
    let fast_track = args.fast_track();
    if fast_track.is_none() {
        let value = &args.fast_track;
        tracing::warn!(%value, "CAPM3_FAST_TRACK is neither true nor false, and counts as false");
    }
    fast_track.unwrap_or_default()
}

/// What the provider manages, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The watched namespaces.
    pub namespaces: Namespaces,
    /// Value of the watch-filter label; empty manages everything.
    pub watch_filter: String,
    /// Whether IP claims are named after hosts, so that a pool can reserve an address for a host.
    pub claims_by_host: bool,
    /// Concurrent passes per controller.
    pub workers: Workers,
    /// The resync period.
    pub sync_period: Duration,
    /// Whether hosts stay powered on between two machines.
    pub is_fast_track: bool,
    /// How to choose among hosts that fit equally.
    pub host_choice: HostChoice,
    /// How workload clusters may be accessed.
    pub workloads: Access,
}

/// All controllers, without the process around them.
pub struct Provider {
    ctx: Context,
    workloads: Workloads,
    figures: Figures,
    setup: Setup,
    stop: CancellationToken,
}

impl Provider {
    /// Creates the controllers; sends no request. Once per registry.
    pub fn new(client: Client, clock: Clock, registry: &Registry, setup: Setup, stop: CancellationToken) -> Self {
        let ctx = Context {
            recorder: Recorder::new(client.clone(), REPORTER, clock.clone()),
            stores: Stores::new(&setup.watch_filter),
            client,
            clock,
            refusals: Refusals::default(),
        };
        let workloads = Workloads::new(ctx.client.clone(), setup.workloads.clone(), stop.clone());
        let figures = Figures::new(registry, &ctx.stores, &workloads, ctx.clock.clone());
        Self {
            ctx,
            workloads,
            figures,
            setup,
            stop,
        }
    }

    /// Watches on every replica, reconciles while leading. `kinds` notes which kinds are awaited. Ends with the stop token.
    pub async fn run(
        self,
        mut leads: watch::Receiver<bool>,
        metrics: ControllerMetrics,
        kinds: &Check,
    ) -> Result<(), BoxError> {
        let Self {
            ctx,
            workloads,
            figures,
            setup,
            stop,
        } = self;
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = ctx.stores.served(&ctx.client, &setup.namespaces, kinds) => {}
        }
        let mut controllers = Controllers::new(metrics.clone(), ctx.clock.clone(), stop.clone());
        let workers = &setup.workers;
        controllers.add(Metal3Clusters { ctx: ctx.clone() }, workers.metal3cluster_concurrency);
        let machines = Metal3Machines::new(ctx.clone(), workloads.clone(), setup.is_fast_track, setup.host_choice);
        let remediations = Metal3Remediations::new(ctx.clone(), workloads.clone());
        controllers.add(remediations, workers.metal3remediation_concurrency);
        controllers.add(machines.clone(), workers.metal3machine_concurrency);
        let labels = LabelSync {
            ctx: ctx.clone(),
            workloads,
            refusals: Refusals::default(),
        };
        controllers.add(labels, workers.metal3labelsync_concurrency);
        let templates = Metal3MachineTemplates::new(ctx.clone());
        controllers.add(templates, workers.metal3machinetemplate_concurrency);
        let data_templates = Metal3DataTemplates::new(ctx.clone());
        controllers.add(data_templates, workers.metal3datatemplate_concurrency);
        let datas = Metal3Datas {
            ctx: ctx.clone(),
            by_host: setup.claims_by_host,
        };
        controllers.add(datas, workers.metal3data_concurrency);
        let mut watches = JoinSet::new();
        machines.follow_secrets(&setup.namespaces, &mut watches, &stop);
        let awaited = ctx.stores.follow(&ctx.client, &setup.namespaces, &mut watches, &stop);
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = awaited.all() => {}
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            led = leads.wait_for(|leads| *leads) => { led?; }
        }
        metrics.set_leading(true);
        figures.lead();
        tokio::select! {
            () = controllers.run(setup.sync_period) => Ok(()),
            Some(ended) = watches.join_next(), if !stop.is_cancelled() => Ok(ended?),
        }
    }
}
