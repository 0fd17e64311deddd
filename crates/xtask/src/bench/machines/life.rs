//! What the provider is given to do, and what that costs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use metal3_api::capi::Cluster;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_lab::audit::Position;
use serde_json::json;

use super::objects::{self, CLUSTER};
use super::site::{BENCH, IN_WORKLOAD, Site};
use crate::bench::many::{AT_ONCE, create, create_all};
use crate::bench::process::{self, Usage};
use crate::bench::requests::Requests;

/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(3600);
/// The provider has nothing to do any more when it has asked nothing for so long.
const QUIET: Duration = Duration::from_secs(4);
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
    /// Machines that wait for a host then, one after the other.
    pub waiting: u32,
}

/// A run.
#[derive(Debug)]
pub struct Figures {
    pub load: Load,
    /// Seconds from the start until a machine was provisioned, in the order of arrival.
    pub arrivals: Vec<f64>,
    /// Of the provider, until all were.
    pub requests: Requests,
    pub before: Usage,
    pub after: Usage,
    /// At rest.
    pub rest: Requests,
    /// CPU seconds at rest.
    pub rest_cpu: f64,
    /// Requests to the workload cluster at rest.
    pub rest_workload: usize,
    /// From the moment that a host is available until the machine that waits has claimed it.
    pub reactions: Vec<Duration>,
    /// The machine, with its load average in the minute before the start.
    pub machine: String,
}

/// Runs it.
pub async fn run(site: &Site, load: Load) -> anyhow::Result<Figures> {
    let life = Life { site, load };
    tokio::select! {
        played = super::player::provision(site.client.clone()) => {
            played?;
            bail!("nobody plays the operator any more")
        }
        lived = tokio::time::timeout(LIMIT, life.run()) => {
            lived.with_context(|| format!("{load:?} was not done in {LIMIT:?}: {}", site.log()))?
        }
    }
}

struct Life<'a> {
    site: &'a Site,
    load: Load,
}

impl Life<'_> {
    async fn run(&self) -> anyhow::Result<Figures> {
        let load = self.load;
        self.make_cluster().await?;
        self.make_hosts("host", load.machines + load.spare, "available").await?;
        self.make_machines("machine", load.machines).await?;
        self.quiet().await?;
        let machine = process::machine();
        let before = process::usage(self.site.pid())?;
        let mark = self.site.audit.end()?;
        let start = Instant::now();
        let (arrivals, ()) = tokio::try_join!(self.arrivals(start), self.let_go())?;
        println!("{} machines are provisioned; they settle …", load.machines);
        self.quiet().await?;
        let (requests, _) = self.requests(mark)?;
        let after = process::usage(self.site.pid())?;
        let mark = self.site.audit.end()?;
        tokio::time::sleep(load.rest).await;
        let (rest, rest_workload) = self.requests(mark)?;
        let rest_cpu = process::usage(self.site.pid())?.cpu - after.cpu;
        Ok(Figures {
            load,
            arrivals,
            requests,
            before,
            after,
            rest,
            rest_cpu,
            rest_workload,
            reactions: self.reactions().await?,
            machine,
        })
    }

    async fn make_cluster(&self) -> anyhow::Result<()> {
        let client = &self.site.client;
        let cluster = create(client, BENCH, objects::cluster()).await?;
        create(client, BENCH, objects::metal3_cluster(cluster.metadata.uid.as_deref())).await?;
        create(client, BENCH, objects::kubeconfig(&self.site.workload)).await?;
        create(client, BENCH, objects::data_template()).await?;
        Ok(())
    }

    async fn make_hosts(&self, prefix: &str, count: u32, state: &str) -> anyhow::Result<()> {
        let names = || (0..count).map(|number| format!("{prefix}-{number:05}"));
        let credentials = names().map(|name| objects::credentials(&name));
        create_all(&self.site.client, BENCH, credentials).await?;
        stream::iter(names())
            .map(|name| async move {
                create(&self.site.client, BENCH, objects::host(&name)).await?;
                self.host_becomes(&name, state).await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn host_becomes(&self, name: &str, state: &str) -> anyhow::Result<()> {
        let status = Patch::Merge(objects::status_of_host(name, state));
        let hosts = self.api::<BareMetalHost>();
        hosts.patch_status(name, &PatchParams::default(), &status).await?;
        Ok(())
    }

    async fn make_machines(&self, prefix: &str, count: u32) -> anyhow::Result<()> {
        let client = &self.site.client;
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
        let clusters = self.api::<Cluster>();
        clusters.patch_status(CLUSTER, &PatchParams::default(), &ready).await?;
        Ok(())
    }

    /// When each machine was seen to be provisioned. A watch, because lists would cost the server more than the provider does.
    async fn arrivals(&self, start: Instant) -> anyhow::Result<Vec<f64>> {
        let wanted = self.load.machines as usize;
        let mut events = watcher(self.api::<Metal3Machine>(), watcher::Config::default())
            .default_backoff()
            .boxed();
        let mut ends = BTreeMap::new();
        while let Some(event) = events.try_next().await? {
            if let watcher::Event::Apply(machine) | watcher::Event::InitApply(machine) = event
                && is_provisioned(&machine)
            {
                ends.entry(machine.name_any())
                    .or_insert_with(|| start.elapsed().as_secs_f64());
            }
            if ends.len() == wanted {
                let mut ends: Vec<f64> = ends.into_values().collect();
                ends.sort_by(f64::total_cmp);
                return Ok(ends);
            }
        }
        bail!("the watch ended with {} of {wanted} machines", ends.len())
    }

    /// Machines wait, and one host after the other becomes available for them.
    async fn reactions(&self) -> anyhow::Result<Vec<Duration>> {
        let count = self.load.waiting;
        self.make_hosts("later", count, "inspecting").await?;
        self.make_machines("waiting", count).await?;
        self.quiet().await?;
        let hosts = self.api::<BareMetalHost>();
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
        let mut mark = self.site.audit.end()?;
        let mut since = Instant::now();
        while since.elapsed() < QUIET {
            tokio::time::sleep(QUIET / 8).await;
            let (requests, _) = self.requests(mark)?;
            if requests.sum() > 0 {
                mark = self.site.audit.end()?;
                since = Instant::now();
            }
        }
        Ok(())
    }

    /// The provider's requests since then, and how many it sent to the workload cluster.
    fn requests(&self, since: Position) -> anyhow::Result<(Requests, usize)> {
        let all = self.site.audit.since(since)?.0;
        let workload = Requests::of(&all, IN_WORKLOAD).sum();
        Ok((Requests::of(&all, &self.site.user), workload))
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.site.client.clone(), BENCH)
    }
}

fn is_provisioned(machine: &Metal3Machine) -> bool {
    let status = machine.status.as_ref();
    status.is_some_and(|status| status.initialization.provisioned == Some(true))
}
