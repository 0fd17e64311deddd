//! One run: N hosts at once, from creation through provisioned to deletion.

pub mod report;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::ironic::{IronicConfig, IronicLab, Mark, Request};
use metal3_lab::operator::{self, OperatorConfig};
use serde_json::json;

use super::env::{BENCH, Measured, TestEnv};
use super::many::{create, host_of};
use super::measure::Cost;
use super::own_time::{NodeNames, own_seconds};
use super::process::{self, Usage};
use super::program::Built;
use super::requests::{Counts, Requests};
use super::watch::{Goal, arrivals};

const LIMIT: Duration = Duration::from_secs(900);
/// Ironic looks at the power of every server once a minute.
const FIRST_HEALTH: Duration = Duration::from_secs(150);
const OPERATOR_AGENT: &str = "metal3-baremetal-operator";

/// What one phase cost, over all hosts.
#[derive(Debug)]
pub struct Phase {
    pub name: &'static str,
    /// Seconds until the last host had arrived.
    pub wall: f64,
    /// Our share of the hosts' times, 0 to 1.
    pub own_share: f64,
    /// Our own seconds per host.
    pub own: f64,
    /// Calls to Ironic about single hosts, by method.
    pub ironic: Counts,
    /// Lists of the whole fleet, and discovery.
    pub shared: u64,
    /// Requests to the API server.
    pub kubernetes: Requests,
}

/// A time at rest.
#[derive(Debug)]
pub struct Rest {
    /// Calls to Ironic.
    pub ironic: usize,
    pub cost: Cost,
}

/// A run.
#[derive(Debug)]
pub struct Figures {
    pub hosts: u16,
    pub phases: Vec<Phase>,
    pub rest: Option<Rest>,
    pub usage: Usage,
}

struct Bench {
    env: Measured,
    ironic: IronicLab,
    hosts: u16,
}

/// Runs N hosts through their lives; with `rest`, stops for so many seconds while they are provisioned.
pub async fn run(hosts: u16, rest: Option<u64>, built: &Built) -> anyhow::Result<Figures> {
    let env = TestEnv::start(built.program).await?;
    let ironic = IronicLab::start(IronicConfig {
        hosts,
        ..IronicConfig::default()
    })
    .await?;
    let folder = env.control_plane.folder().join("operator");
    let config = OperatorConfig::new(&built.executable, folder, &env.kubeconfig);
    let bench = Bench {
        env: env.with(operator::start(&config, &(&ironic).into()).await?)?,
        ironic,
        hosts,
    };

    let is = |state: ProvisioningState| {
        Goal::State(move |h: &BareMetalHost| h.status.as_ref().is_some_and(|s| s.provisioning.state == state))
    };
    let available = is(ProvisioningState::Available);
    let mut phases = vec![bench.phase("create → available", bench.create(), available).await?];
    let image = bench.ironic.image()?;
    let image = json!({"url": image.url, "checksum": image.sha256, "checksumType": "sha256", "format": "raw"});
    let image = bench.patch(json!({"spec": {"image": image}}));
    let provisioned = is(ProvisioningState::Provisioned);
    phases.push(bench.phase("→ provisioned", image, provisioned).await?);
    let rest = match rest {
        Some(seconds) if seconds > 0 => Some(bench.rest(Duration::from_secs(seconds)).await?),
        _ => None,
    };
    let none = bench.patch(json!({"spec": {"image": null}}));
    let available = is(ProvisioningState::Available);
    phases.push(bench.phase("→ available", none, available).await?);
    let gone = Goal::<fn(&BareMetalHost) -> bool>::Gone;
    phases.push(bench.phase("→ deleted", bench.delete(), gone).await?);
    let usage = process::usage(bench.env.pid())?;
    bench.env.stop().await;
    Ok(Figures {
        hosts,
        phases,
        rest,
        usage,
    })
}

#[expect(clippy::disallowed_methods, reason = "compared with the logs of other processes")]
fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

impl Bench {
    fn api(&self) -> Api<BareMetalHost> {
        self.env.api()
    }

    async fn create(&self) -> anyhow::Result<()> {
        for server in self.ironic.hosts() {
            let (user, address) = (&server.credentials, server.bmc_address());
            let [secret, host] = host_of(
                &server.name,
                &address,
                server.boot_mac(),
                [&user.username, &user.password],
            );
            create(&self.env.client, BENCH, secret).await?;
            create(&self.env.client, BENCH, host).await?;
        }
        Ok(())
    }

    async fn patch(&self, patch: serde_json::Value) -> anyhow::Result<()> {
        for server in self.ironic.hosts() {
            self.api()
                .patch(&server.name, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
        }
        Ok(())
    }

    async fn delete(&self) -> anyhow::Result<()> {
        for server in self.ironic.hosts() {
            self.api().delete(&server.name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// Does something to all hosts and waits until the last has arrived, or is gone.
    async fn phase(
        &self,
        name: &'static str,
        action: impl Future<Output = anyhow::Result<()>>,
        goal: Goal<impl Fn(&BareMetalHost) -> bool>,
    ) -> anyhow::Result<Phase> {
        let (mark, requests) = (self.env.mark()?, self.ironic.requests(Mark::default())?.1);
        let before = self.nodes().await?;
        let start = now();
        let watch = self.arrivals(goal);
        let ((), ends) = tokio::try_join!(action, async {
            tokio::time::timeout(LIMIT, watch)
                .await
                .with_context(|| format!("{name}: not all hosts arrived"))?
        })?;
        let mut nodes = self.nodes().await?;
        nodes.extend(before);
        let moments = self.ironic.moments(Mark::default())?.0;
        let ours = self.calls(requests)?;
        let (mut own, mut whole) = (0.0, 0.0);
        for (host, end) in &ends {
            whole += end - start;
            own += nodes
                .get(host)
                .map_or(0.0, |n| own_seconds(&moments, &ours, n, start, *end));
        }
        let (single, shared): (Vec<&Request>, Vec<&Request>) = ours.iter().partition(|r| !is_shared(r));
        let mut ironic = Counts::default();
        for request in single {
            ironic.add(request.method.clone());
        }
        Ok(Phase {
            name,
            wall: ends.values().fold(start, |a, b| a.max(*b)) - start,
            own_share: own / whole.max(0.001),
            own: own / f64::from(self.hosts),
            ironic,
            shared: shared.len() as u64,
            kubernetes: self.env.cost(&mark)?.requests,
        })
    }

    /// Each host's node.
    async fn nodes(&self) -> anyhow::Result<BTreeMap<String, NodeNames>> {
        let hosts = self.api().list(&kube::api::ListParams::default()).await?;
        let id = |h: &BareMetalHost| {
            h.status
                .as_ref()
                .map(|s| s.provisioning.id.clone())
                .filter(|i| !i.is_empty())
        };
        let names = |h: &BareMetalHost| {
            Some(NodeNames {
                uuid: id(h)?,
                name: format!("{BENCH}~{}", h.name_any()),
            })
        };
        Ok(hosts.iter().filter_map(|h| Some((h.name_any(), names(h)?))).collect())
    }

    /// When each host was seen to arrive, by the clock that Ironic's logs have.
    async fn arrivals(&self, goal: Goal<impl Fn(&BareMetalHost) -> bool>) -> anyhow::Result<BTreeMap<String, f64>> {
        arrivals(self.api(), usize::from(self.hosts), now, goal).await
    }

    /// The operator's calls to Ironic.
    fn calls(&self, since: Mark) -> anyhow::Result<Vec<Request>> {
        let mut calls = self.ironic.requests(since)?.0;
        calls.retain(|call| call.agent.starts_with(OPERATOR_AGENT));
        Ok(calls)
    }

    async fn rest(&self, time: Duration) -> anyhow::Result<Rest> {
        // What follows the last arrival belongs to it: events, the last list, and Ironic's first word about each server's
        // health, which comes with its next look at the power.
        let is_healthy = Goal::State(|host: &BareMetalHost| {
            let mut conditions = host.status.iter().flat_map(|status| &status.conditions);
            conditions.any(|c| c.type_ == "Healthy" && c.reason == "Healthy")
        });
        if tokio::time::timeout(FIRST_HEALTH, self.arrivals(is_healthy))
            .await
            .is_err()
        {
            println!("not every server's health is known yet; what it costs to learn it counts below");
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (mark, calls) = (self.env.mark()?, self.ironic.requests(Mark::default())?.1);
        println!("at rest for {} s …", time.as_secs());
        tokio::time::sleep(time).await;
        Ok(Rest {
            ironic: self.calls(calls)?.len(),
            cost: self.env.cost(&mark)?,
        })
    }
}

/// Calls that serve all hosts at once.
fn is_shared(request: &Request) -> bool {
    request.method == "GET" && matches!(request.path.as_str(), "/v1/nodes" | "/v1/drivers" | "/v1" | "/")
}
