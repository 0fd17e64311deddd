//! The provider's load, and its cost.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use metal3_api::capi::Cluster;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_lab::cluster_api;
use serde_json::json;

use super::objects::{self, CLUSTER};
use crate::bench::env::{BENCH, Measured, TestEnv};
use crate::bench::many::{AT_ONCE, create, create_all};
use crate::bench::measure::{Arrivals, Cost};
use crate::bench::program::Built;
use crate::bench::watch::{Goal, arrivals, in_order};

/// The provider's user in the workload cluster.
const IN_WORKLOAD: &str = "workload";
/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(3600);
/// The provider has nothing to do any more when it has asked nothing for so long.
const QUIET: Duration = Duration::from_secs(4);
/// Waiting machines report a change within this time.
const RETOLD: Duration = Duration::from_secs(40);
/// At most this many waiting machines get a host.
const MOST_SERVED: u32 = 100;
/// What lies between two hosts that become available: no burst.
const BETWEEN_HOSTS: Duration = Duration::from_millis(200);

/// A task for the provider.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Machines, and hosts for them.
    pub machines: u32,
    /// More hosts.
    pub spare: u32,
    /// Whether metadata and network data are rendered.
    pub has_data: bool,
    /// How long everything is left alone afterwards.
    pub rest: Duration,
    /// Machines that wait for a host then, of which one after the other gets one.
    pub waiting: u32,
    /// Hosts that are not available meanwhile.
    pub busy: u32,
}

impl Load {
    /// Hosts that there are when machines wait.
    pub fn hosts_at_last(&self) -> u32 {
        self.machines + self.spare + self.busy + self.waiting.min(MOST_SERVED)
    }
}

/// A run.
#[derive(Debug)]
pub struct Figures {
    pub load: Load,
    /// Machines that were provisioned.
    pub arrivals: Arrivals,
    pub rest: Cost,
    /// Requests to the workload cluster at rest.
    pub rest_workload: u64,
    /// The cost of a changed number in the message of waiting machines.
    pub retold: Option<Cost>,
    /// From the moment that a host is available until the machine that waits has claimed it.
    pub reactions: Vec<Duration>,
}

/// Runs it.
pub async fn run(built: &Built, load: Load) -> anyhow::Result<Figures> {
    let env = TestEnv::start(built.program).await?;
    cluster_api::define(&env.client).await?;
    let workload = env.control_plane.user_kubeconfig(IN_WORKLOAD, &["system:masters"])?;
    let life = Life {
        env: env.run(built).await?,
        workload: std::fs::read_to_string(workload)?,
        load,
    };
    let lived = tokio::select! {
        played = super::player::provision(life.env.client.clone()) => {
            played?;
            bail!("nobody plays the operator any more")
        }
        lived = tokio::time::timeout(LIMIT, life.run()) => {
            lived.with_context(|| format!("{load:?} was not done in {LIMIT:?}: {}", life.env.log()))?
        }
    };
    life.env.stop().await;
    lived
}

struct Life {
    env: Measured,
    /// A kubeconfig of the workload cluster.
    workload: String,
    load: Load,
}

impl Life {
    async fn run(&self) -> anyhow::Result<Figures> {
        let load = self.load;
        self.make_cluster().await?;
        self.make_hosts("host", load.machines + load.spare, "available").await?;
        self.make_machines("machine", load.machines).await?;
        self.quiet().await?;
        let mark = self.env.mark()?;
        let (seconds, ()) = tokio::try_join!(self.arrivals(mark.start), self.let_go())?;
        println!("{} machines are provisioned; they settle …", load.machines);
        self.quiet().await?;
        let cost = self.env.cost(&mark)?;
        let mark = self.env.mark()?;
        tokio::time::sleep(load.rest).await;
        let rest = self.env.cost(&mark)?;
        let rest_workload = self.env.requests(IN_WORKLOAD, &mark)?.sum();
        Ok(Figures {
            load,
            arrivals: Arrivals { seconds, cost },
            rest,
            rest_workload,
            retold: self.retold().await?,
            reactions: self.reactions().await?,
        })
    }

    async fn make_cluster(&self) -> anyhow::Result<()> {
        let client = &self.env.client;
        let cluster = create(client, BENCH, objects::cluster()).await?;
        create(client, BENCH, objects::metal3_cluster(cluster.metadata.uid.as_deref())).await?;
        create(client, BENCH, objects::kubeconfig(&self.workload)).await?;
        create(client, BENCH, objects::data_template()).await?;
        Ok(())
    }

    async fn make_hosts(&self, prefix: &str, count: u32, state: &str) -> anyhow::Result<()> {
        stream::iter((0..count).map(|number| format!("{prefix}-{number:05}")))
            .map(|name| async move {
                create_all(&self.env.client, BENCH, objects::host(&name)).await?;
                self.host_becomes(&name, state).await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn host_becomes(&self, name: &str, state: &str) -> anyhow::Result<()> {
        let status = Patch::Merge(objects::status_of_host(name, state));
        let hosts = self.env.api::<BareMetalHost>();
        hosts.patch_status(name, &PatchParams::default(), &status).await?;
        Ok(())
    }

    async fn make_machines(&self, prefix: &str, count: u32) -> anyhow::Result<()> {
        let client = &self.env.client;
        stream::iter(0..count)
            .map(|number| async move {
                let name = format!("{prefix}-{number:05}");
                create(client, BENCH, objects::bootstrap(&name)).await?;
                let machine = create(client, BENCH, objects::machine(&name)).await?;
                let uid = machine.metadata.uid.as_deref();
                create(client, BENCH, objects::metal3_machine(&name, uid, self.load.has_data)).await?;
                anyhow::Ok(())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// The machines may begin.
    async fn let_go(&self) -> anyhow::Result<()> {
        let ready = Patch::Merge(json!({"status": {"initialization": {"infrastructureProvisioned": true}}}));
        let clusters = self.env.api::<Cluster>();
        clusters.patch_status(CLUSTER, &PatchParams::default(), &ready).await?;
        Ok(())
    }

    /// When each machine was seen to be provisioned.
    async fn arrivals(&self, start: Instant) -> anyhow::Result<Vec<f64>> {
        let goal = Goal::State(is_provisioned);
        let clock = || start.elapsed().as_secs_f64();
        let ends = arrivals(self.env.api(), self.load.machines as usize, clock, goal);
        Ok(in_order(ends.await?))
    }

    /// Machines wait, and there is one more host that is of no use to them.
    async fn retold(&self) -> anyhow::Result<Option<Cost>> {
        if self.load.waiting == 0 {
            return Ok(None);
        }
        self.make_hosts("later", self.load.waiting.min(MOST_SERVED), "inspecting")
            .await?;
        self.make_hosts("busy", self.load.busy, "inspecting").await?;
        self.make_machines("waiting", self.load.waiting).await?;
        self.quiet().await?;
        // Changes made while they arrived have been reported.
        tokio::time::sleep(RETOLD).await;
        let mark = self.env.mark()?;
        self.make_hosts("more", 1, "inspecting").await?;
        tokio::time::sleep(RETOLD).await;
        Ok(Some(self.env.cost(&mark)?))
    }

    /// Makes one host after the other available to the waiting machines.
    async fn reactions(&self) -> anyhow::Result<Vec<Duration>> {
        let count = self.load.waiting.min(MOST_SERVED);
        let hosts = self.env.api::<BareMetalHost>();
        let mut reactions = Vec::new();
        for number in 0..count {
            let name = format!("later-{number:05}");
            let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let mut events = watcher(hosts.clone(), only).default_backoff().boxed();
            let mut start = None;
            while let Some(event) = events.try_next().await? {
                match event {
                    watcher::Event::InitDone => {
                        start = Some(Instant::now());
                        self.host_becomes(&name, "available").await?;
                    }
                    watcher::Event::Apply(host) if host.spec.consumer_ref.is_some() => break,
                    _ => {}
                }
            }
            reactions.push(start.context("the watch began")?.elapsed());
            tokio::time::sleep(BETWEEN_HOSTS).await;
        }
        Ok(reactions)
    }

    /// Waits until the provider has nothing to do.
    async fn quiet(&self) -> anyhow::Result<()> {
        let mut mark = self.env.mark()?;
        while mark.start.elapsed() < QUIET {
            tokio::time::sleep(QUIET / 8).await;
            if self.env.is_busy(&mark)? {
                mark = self.env.mark()?;
            }
        }
        Ok(())
    }
}

fn is_provisioned(machine: &Metal3Machine) -> bool {
    let status = machine.status.as_ref();
    status.is_some_and(|status| status.initialization.provisioned == Some(true))
}
