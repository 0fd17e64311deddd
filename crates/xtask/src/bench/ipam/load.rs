//! The manager's load, and its cost.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use metal3_api::capi::Cluster;
use metal3_api::ipam::{IPClaim, IPPool};
use metal3_lab::cluster_api;
use serde_json::json;

use crate::bench::env::{BENCH, Measured, TestEnv};
use crate::bench::many::{AT_ONCE, create};
use crate::bench::measure::{Arrivals, Mark};
use crate::bench::program::Built;
use crate::bench::watch::{Goal, arrivals, in_order};

/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(1800);
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
    /// Claims that have an address.
    pub arrivals: Arrivals,
}

/// Runs it.
pub async fn run(built: &Built, load: Load) -> anyhow::Result<Figures> {
    let env = TestEnv::start(built.program).await?;
    cluster_api::define(&env.client).await?;
    let env = env.run(built).await?;
    let bench = Bench { env, load };
    let figures = tokio::time::timeout(LIMIT, bench.run())
        .await
        .with_context(|| format!("{load:?} was not done in {LIMIT:?}: {}", bench.env.log()))?;
    bench.env.stop().await;
    figures
}

struct Bench {
    env: Measured,
    load: Load,
}

impl Bench {
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
        let mark = self.env.mark()?;
        let begin = async {
            if is_arriving {
                self.make_claims(names).await
            } else {
                self.let_go().await
            }
        };
        let (seconds, ()) = tokio::try_join!(self.arrivals("claim-", mark.start), begin)?;
        tokio::time::sleep(SETTLE).await;
        let arrivals = match self.load {
            Load::Churn { claims } => self.churn(claims).await?,
            Load::AtOnce { .. } | Load::Arriving { .. } => self.figures(seconds, &mark)?,
        };
        Ok(Figures {
            load: self.load,
            arrivals,
        })
    }

    fn figures(&self, seconds: Vec<f64>, since: &Mark) -> anyhow::Result<Arrivals> {
        let cost = self.env.cost(since)?;
        Ok(Arrivals { seconds, cost })
    }

    /// The claims go, and others come.
    async fn churn(&self, claims: u32) -> anyhow::Result<Arrivals> {
        let mark = self.env.mark()?;
        let names = (0..claims).map(|n| (0, format!("later-{n}")));
        let (seconds, (), ()) = tokio::try_join!(
            self.arrivals("later-", mark.start),
            self.delete_all(claims),
            self.make_claims(names)
        )?;
        tokio::time::sleep(SETTLE).await;
        self.figures(seconds, &mark)
    }

    async fn make_paused_cluster(&self) -> anyhow::Result<()> {
        // What its schema insists on, and of no meaning here.
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": CLUSTER});
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": CLUSTER},
            "spec": {"paused": true, "infrastructureRef": reference},
        });
        create(&self.env.client, BENCH, cluster).await?;
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
        self.env.api::<IPPool>().create(&PostParams::default(), &pool).await?;
        Ok(())
    }

    /// The pools may be served.
    async fn let_go(&self) -> anyhow::Result<()> {
        let unpaused = Patch::Merge(json!({"spec": {"paused": false}}));
        self.env
            .api::<Cluster>()
            .patch(CLUSTER, &PatchParams::default(), &unpaused)
            .await?;
        Ok(())
    }

    async fn make_claims(&self, names: impl Iterator<Item = (u32, String)>) -> anyhow::Result<()> {
        let api = self.env.api::<IPClaim>();
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
        let api = self.env.api::<IPClaim>();
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

    /// When each claim of such a name was seen to have its address.
    async fn arrivals(&self, prefix: &str, start: Instant) -> anyhow::Result<Vec<f64>> {
        let goal = Goal::State(|claim: &IPClaim| {
            let has_address = claim.status.as_ref().is_some_and(|status| status.address.is_some());
            has_address && claim.name_any().starts_with(prefix)
        });
        let clock = || start.elapsed().as_secs_f64();
        let ends = arrivals(self.env.api(), self.load.claims() as usize, clock, goal);
        Ok(in_order(ends.await?))
    }
}
