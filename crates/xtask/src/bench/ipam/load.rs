//! What the manager is given to do, and what that costs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use metal3_api::capi::Cluster;
use metal3_api::ipam::{IPClaim, IPPool};
use metal3_lab::apply;
use serde_json::json;

use super::site::{BENCH, Site};
use crate::bench::process::{self, Usage};
use crate::bench::requests::Requests;

/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(1800);
/// How many requests of ours are under way at once.
const AT_ONCE: usize = 16;
/// What follows the last claim belongs to it: events, the pools' figures.
const SETTLE: Duration = Duration::from_secs(5);
/// So that the manager has seen everything before it may begin.
const QUIET: Duration = Duration::from_secs(3);
/// The Cluster of all pools. While it is paused the manager writes nothing, so that claims can be made without a start.
const CLUSTER: &str = "bench";

/// A task for the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Claims that are there already when their pools are let go.
    AtOnce { pools: u32, claims_each: u32 },
    /// Claims that are made, as fast as they can be, while their pool is served.
    Arriving { claims: u32 },
    /// A full pool of which all claims are deleted while as many others are made.
    Churn { claims: u32 },
}

impl Load {
    pub fn claims(self) -> u32 {
        match self {
            Self::AtOnce { pools, claims_each } => pools * claims_each,
            Self::Arriving { claims } | Self::Churn { claims } => claims,
        }
    }
}

/// A run.
#[derive(Debug)]
pub struct Figures {
    pub load: Load,
    /// Seconds from the start until a claim had its address, in the order of arrival.
    pub arrivals: Vec<f64>,
    /// Requests of the manager.
    pub requests: Requests,
    pub before: Usage,
    pub after: Usage,
    /// The machine, with its load average in the minute before the start.
    pub machine: String,
}

/// Runs it.
pub async fn run(site: &Site, load: Load) -> anyhow::Result<Figures> {
    let bench = Bench { site, load };
    tokio::time::timeout(LIMIT, bench.run())
        .await
        .with_context(|| format!("{load:?} was not done in {LIMIT:?}: {}", site.log()))?
}

struct Bench<'a> {
    site: &'a Site,
    load: Load,
}

impl Bench<'_> {
    async fn run(&self) -> anyhow::Result<Figures> {
        let (pools, each) = match self.load {
            Load::AtOnce { pools, claims_each } => (pools, claims_each),
            Load::Arriving { claims } | Load::Churn { claims } => (1, claims),
        };
        self.make_paused_cluster().await?;
        for pool in 0..pools {
            self.make_pool(pool, each).await?;
        }
        let names = (0..pools).flat_map(|pool| (0..each).map(move |n| (pool, format!("claim-{pool}-{n}"))));
        let is_arriving = matches!(self.load, Load::Arriving { .. });
        if is_arriving {
            self.let_go().await?;
        } else {
            self.make_claims(names.clone()).await?;
        }
        tokio::time::sleep(QUIET).await;
        let mut machine = process::machine();
        let mut before = process::usage(self.site.pid())?;
        let mut mark = self.site.audit.end()?;
        let mut start = Instant::now();
        let begin = async {
            if is_arriving {
                self.make_claims(names).await
            } else {
                self.let_go().await
            }
        };
        let arrivals = tokio::try_join!(self.arrivals("claim-", start), begin)?.0;
        let arrivals = if let Load::Churn { claims } = self.load {
            tokio::time::sleep(SETTLE).await;
            machine = process::machine();
            before = process::usage(self.site.pid())?;
            mark = self.site.audit.end()?;
            start = Instant::now();
            let names = (0..claims).map(|n| (0, format!("later-{n}")));
            tokio::try_join!(
                self.arrivals("later-", start),
                self.delete_all(claims),
                self.make_claims(names)
            )?
            .0
        } else {
            arrivals
        };
        tokio::time::sleep(SETTLE).await;
        let requests = Requests::of(&self.site.audit.since(mark)?.0, &self.site.user);
        Ok(Figures {
            load: self.load,
            arrivals,
            requests,
            before,
            after: process::usage(self.site.pid())?,
            machine,
        })
    }

    async fn make_paused_cluster(&self) -> anyhow::Result<()> {
        // What its schema insists on, and of no meaning here.
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": CLUSTER});
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": CLUSTER},
            "spec": {"paused": true, "infrastructureRef": reference},
        });
        let objects = apply::parse(&cluster.to_string())?;
        apply::apply(&self.site.client, &objects, Some(BENCH)).await?;
        Ok(())
    }

    /// A pool with as many addresses as it is to have claims.
    async fn make_pool(&self, number: u32, size: u32) -> anyhow::Result<()> {
        let first = u32::from_be_bytes([10, 0, 0, 1]) + number * (1 << 16);
        let address = |number: u32| std::net::Ipv4Addr::from_bits(number).to_string();
        let name = format!("pool-{number}");
        let pool = json!({
            "metadata": {"name": name},
            "spec": {
                "namePrefix": name, "prefix": 16, "clusterName": CLUSTER,
                "pools": [{"start": address(first), "end": address(first + size - 1)}],
            },
        });
        let pool: IPPool = serde_json::from_value(pool)?;
        self.api::<IPPool>().create(&PostParams::default(), &pool).await?;
        Ok(())
    }

    /// The pools may be served.
    async fn let_go(&self) -> anyhow::Result<()> {
        let unpaused = Patch::Merge(json!({"spec": {"paused": false}}));
        self.api::<Cluster>()
            .patch(CLUSTER, &PatchParams::default(), &unpaused)
            .await?;
        Ok(())
    }

    async fn make_claims(&self, names: impl Iterator<Item = (u32, String)>) -> anyhow::Result<()> {
        let api = self.api::<IPClaim>();
        stream::iter(names)
            .map(|(pool, name)| {
                let api = api.clone();
                async move {
                    let claim = json!({
                        "metadata": {"name": name}, "spec": {"pool": {"name": format!("pool-{pool}")}},
                    });
                    api.create(&PostParams::default(), &serde_json::from_value(claim)?)
                        .await?;
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn delete_all(&self, claims: u32) -> anyhow::Result<()> {
        let api = self.api::<IPClaim>();
        stream::iter(0..claims)
            .map(|n| {
                let api = api.clone();
                async move {
                    api.delete(&format!("claim-0-{n}"), &DeleteParams::default()).await?;
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// When each claim was seen to have its address. A watch, because lists would cost the server more than the manager does.
    async fn arrivals(&self, prefix: &str, start: Instant) -> anyhow::Result<Vec<f64>> {
        let wanted = self.load.claims() as usize;
        let mut events = watcher(self.api::<IPClaim>(), watcher::Config::default())
            .default_backoff()
            .boxed();
        let mut ends = BTreeMap::new();
        while let Some(event) = events.try_next().await? {
            if let watcher::Event::Apply(claim) | watcher::Event::InitApply(claim) = event {
                let has_address = claim.status.as_ref().is_some_and(|status| status.address.is_some());
                if has_address && claim.name_any().starts_with(prefix) {
                    ends.entry(claim.name_any())
                        .or_insert_with(|| start.elapsed().as_secs_f64());
                }
            }
            if ends.len() == wanted {
                let mut ends: Vec<f64> = ends.into_values().collect();
                ends.sort_by(f64::total_cmp);
                return Ok(ends);
            }
        }
        bail!("the watch ended with {} of {wanted} claims", ends.len())
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.site.client.clone(), BENCH)
    }
}
