//! One run: N hosts at once from creation through provisioned and back to nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::audit::AuditLog;
use metal3_lab::ironic::{IronicConfig, IronicLab, Mark, Request};
use metal3_lab::operator::{Operator, OperatorConfig};
use metal3_lab::{ControlPlane, ControlPlaneConfig};
use serde_json::json;

use super::own_time::{NodeNames, own_seconds};
use super::process::{self, Usage};

const NAMESPACE: &str = "bench";
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
    pub ironic: BTreeMap<String, u64>,
    /// Lists of the whole fleet, and discovery.
    pub shared: u64,
    /// Requests to the API server by verb and resource; watches and leases left out.
    pub kubernetes: BTreeMap<String, usize>,
}

/// A time at rest.
#[derive(Debug)]
pub struct Rest {
    pub seconds: f64,
    pub ironic: u64,
    pub reads: usize,
    pub writes: usize,
    pub cpu: f64,
    pub usage: Usage,
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
    client: Client,
    ironic: IronicLab,
    audit: AuditLog,
    user: String,
    hosts: u16,
}

/// Runs N hosts through their lives; with `rest`, stops for so many seconds while they are provisioned.
pub async fn run(hosts: u16, rest: Option<u64>, binary: &Path) -> anyhow::Result<Figures> {
    let config = ControlPlaneConfig {
        audit: true,
        ..ControlPlaneConfig::default()
    };
    let control_plane = ControlPlane::start(config).await?;
    let client = control_plane.client().await?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    metal3_lab::apply::apply_crds(&client, &root.join("config/crd")).await?;
    let rights = std::fs::read_to_string(root.join("config/rbac/baremetal-operator.yaml"))?;
    metal3_lab::apply::apply(&client, &metal3_lab::apply::parse(&rights)?, None).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(&client, &namespace.to_string()).await?;
    let ironic = IronicLab::start(IronicConfig {
        hosts,
        ..IronicConfig::default()
    })
    .await?;
    let (home, account) = (
        baremetal_operator::rbac::NAMESPACE,
        baremetal_operator::rbac::SERVICE_ACCOUNT,
    );
    let kubeconfig = control_plane.service_account_kubeconfig(home, account).await?;
    let folder = control_plane.folder().join("operator");
    let operator = Operator::start(&OperatorConfig::new(binary, &folder, kubeconfig), &ironic).await?;
    let audit = control_plane.audit_log().context("the audit log is on")?.clone();
    let bench = Bench {
        client,
        ironic,
        audit,
        user: format!("system:serviceaccount:{home}:{account}"),
        hosts,
    };
    let pid = operator.process().pid();

    let mut phases = Vec::new();
    let is = |state: ProvisioningState| {
        move |h: &BareMetalHost| h.status.as_ref().is_some_and(|s| s.provisioning.state == state)
    };
    phases.push(
        bench
            .phase("create → available", bench.create(), is(ProvisioningState::Available))
            .await?,
    );
    let image = bench.ironic.image()?;
    let image = json!({"url": image.url, "checksum": image.sha256, "checksumType": "sha256", "format": "raw"});
    let image = json!({"spec": {"image": image}});
    phases.push(
        bench
            .phase("→ provisioned", bench.patch(image), is(ProvisioningState::Provisioned))
            .await?,
    );
    let rest = match rest {
        Some(seconds) if seconds > 0 => Some(bench.rest(Duration::from_secs(seconds), pid).await?),
        _ => None,
    };
    let none = json!({"spec": {"image": null}});
    phases.push(
        bench
            .phase("→ available", bench.patch(none), is(ProvisioningState::Available))
            .await?,
    );
    phases.push(bench.phase("→ deleted", bench.delete(), |_| false).await?);
    let usage = process::usage(pid)?;
    operator.stop().await;
    Ok(Figures {
        hosts,
        phases,
        rest,
        usage,
    })
}

async fn apply(client: &Client, text: &str) -> anyhow::Result<()> {
    metal3_lab::apply::apply(client, &metal3_lab::apply::parse(text)?, Some(NAMESPACE))
        .await
        .map(|_| ())
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
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn create(&self) -> anyhow::Result<()> {
        for server in self.ironic.hosts() {
            let (name, user) = (&server.name, &server.credentials);
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}-bmc")},
                "stringData": {"username": user.username, "password": user.password}});
            let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name},
                "spec": {"online": true, "bootMACAddress": server.boot_mac(),
                    "bmc": {"address": server.bmc_address(), "credentialsName": format!("{name}-bmc")}}});
            apply(&self.client, &format!("{secret}\n---\n{host}")).await?;
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
        arrived: impl Fn(&BareMetalHost) -> bool,
    ) -> anyhow::Result<Phase> {
        let (audit, requests) = (self.audit.end()?, self.ironic.requests(Mark::default())?.1);
        let before = self.nodes().await?;
        let start = now();
        let watch = self.arrivals(&arrived);
        let ((), ends) = tokio::try_join!(action, async {
            tokio::time::timeout(LIMIT, watch)
                .await
                .with_context(|| format!("{name}: not all hosts arrived"))?
        })?;
        let mut nodes = self.nodes().await?;
        nodes.extend(before);
        let moments = self.ironic.moments(Mark::default())?.0;
        let all = self.ironic.requests(requests)?.0;
        let ours: Vec<Request> = all
            .into_iter()
            .filter(|r| r.agent.starts_with(OPERATOR_AGENT))
            .collect();
        let (mut own, mut whole) = (0.0, 0.0);
        for (host, end) in &ends {
            whole += end - start;
            own += nodes
                .get(host)
                .map_or(0.0, |n| own_seconds(&moments, &ours, n, start, *end));
        }
        let (single, shared): (Vec<&Request>, Vec<&Request>) = ours.iter().partition(|r| !is_shared(r));
        let mut ironic = BTreeMap::new();
        for request in single {
            *ironic.entry(request.method.clone()).or_default() += 1;
        }
        Ok(Phase {
            name,
            wall: ends.values().fold(start, |a, b| a.max(*b)) - start,
            own_share: own / whole.max(0.001),
            own: own / f64::from(self.hosts),
            ironic,
            shared: shared.len() as u64,
            kubernetes: self.kubernetes(audit)?,
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
                name: format!("{NAMESPACE}~{}", h.name_any()),
            })
        };
        Ok(hosts.iter().filter_map(|h| Some((h.name_any(), names(h)?))).collect())
    }

    /// When each host was seen to arrive. A watch, because lists would cost the server more than the operator does.
    async fn arrivals(&self, arrived: impl Fn(&BareMetalHost) -> bool) -> anyhow::Result<BTreeMap<String, f64>> {
        let mut ends = BTreeMap::new();
        let mut events = watcher(self.api(), watcher::Config::default())
            .default_backoff()
            .boxed();
        let mut known = 0_usize;
        while let Some(event) = events.try_next().await? {
            match event {
                watcher::Event::Apply(host) | watcher::Event::InitApply(host) if arrived(&host) => {
                    ends.entry(host.name_any()).or_insert_with(now);
                }
                watcher::Event::InitApply(_) => known += 1,
                watcher::Event::Delete(host) => {
                    ends.entry(host.name_any()).or_insert_with(now);
                }
                watcher::Event::Apply(_) | watcher::Event::Init | watcher::Event::InitDone => {}
            }
            if ends.len() == usize::from(self.hosts) {
                return Ok(ends);
            }
        }
        bail!(
            "the watch ended with {} of {} hosts ({known} known)",
            ends.len(),
            self.hosts
        )
    }

    fn kubernetes(&self, since: metal3_lab::audit::Position) -> anyhow::Result<BTreeMap<String, usize>> {
        let requests = self.audit.since(since)?.0;
        let mut counts = BTreeMap::new();
        for request in requests.iter().filter(|r| r.user == self.user && r.verb != "watch") {
            *counts
                .entry(format!("{} {}", request.verb, request.resource))
                .or_default() += 1;
        }
        Ok(counts)
    }

    async fn rest(&self, time: Duration, pid: u32) -> anyhow::Result<Rest> {
        // What follows the last arrival belongs to it: events, the last list, and Ironic's first word about each server's
        // health, which comes with its next look at the power.
        let is_healthy = |h: &BareMetalHost| {
            let conditions = h.status.iter().flat_map(|s| &s.conditions);
            conditions
                .into_iter()
                .any(|c| c.type_ == "Healthy" && c.reason == "Healthy")
        };
        if tokio::time::timeout(FIRST_HEALTH, self.arrivals(is_healthy))
            .await
            .is_err()
        {
            println!("not every server's health is known yet; what it costs to learn it counts below");
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (audit, requests) = (self.audit.end()?, self.ironic.requests(Mark::default())?.1);
        let before = process::usage(pid)?;
        println!("at rest for {} s …", time.as_secs());
        tokio::time::sleep(time).await;
        let usage = process::usage(pid)?;
        let ironic = self
            .ironic
            .requests(requests)?
            .0
            .into_iter()
            .filter(|r| r.agent.starts_with(OPERATOR_AGENT))
            .count();
        let kubernetes = self.kubernetes(audit)?;
        let is_read = |key: &str| ["get ", "list "].iter().any(|verb| key.starts_with(verb));
        let (reads, writes): (Vec<_>, Vec<_>) = kubernetes.into_iter().partition(|(key, _)| is_read(key));
        let sum = |part: Vec<(String, usize)>| part.into_iter().map(|(_, n)| n).sum();
        Ok(Rest {
            seconds: time.as_secs_f64(),
            ironic: ironic as u64,
            reads: sum(reads),
            writes: sum(writes),
            cpu: usage.cpu - before.cpu,
            usage,
        })
    }
}

/// Calls that serve all hosts at once.
fn is_shared(request: &Request) -> bool {
    request.method == "GET" && matches!(request.path.as_str(), "/v1/nodes" | "/v1/drivers" | "/v1" | "/")
}
