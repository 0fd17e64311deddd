//! `cargo xtask bench fleet`: the operator's process with its default flags, a real API server, and as many simulated
//! servers as are asked for. It prints figures and judges none.

mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_ironic_sim::{ApiServer, Config, Sim, Timings};
use metal3_lab::audit::{AuditLog, Position};
use metal3_lab::operator::{IronicAccess, Operator, OperatorConfig};
use metal3_lab::{ControlPlane, ControlPlaneConfig};
use serde_json::{Value, json};

use super::many::create_all;
use super::process::{self, Usage};
use super::requests::Requests;

const NAMESPACE: &str = "bench";
/// How long all hosts together may take.
const LIMIT: Duration = Duration::from_secs(3600);
/// What follows the last arrival belongs to it: events, conditions, the last lists.
const SETTLE: Duration = Duration::from_secs(20);
/// What a large fleet needs besides, for each host: two pauses between lists of all nodes.
const SETTLE_OF_A_HOST: Duration = Duration::from_millis(7);

/// How many hosts of the fleet at rest are disturbed.
const WAKES: u32 = 100;
/// What lies between two of them: no burst.
const BETWEEN_WAKES: Duration = Duration::from_millis(200);

/// Arguments of `cargo xtask bench fleet`.
#[derive(clap::Args)]
pub struct Args {
    /// How many hosts, one run for each number
    #[arg(long, value_delimiter = ',', default_value = "100,1000")]
    hosts: Vec<u32>,

    /// Seconds at rest after each run
    #[arg(long, default_value_t = 60)]
    rest: u64,

    /// Leave hosts switched off: nothing follows once they are available
    #[arg(long)]
    off: bool,

    /// The operator's build profile
    #[arg(long, default_value = "lab")]
    profile: String,

    /// A program that is there already, instead of one that is built now
    #[arg(long, conflicts_with = "profile")]
    binary: Option<PathBuf>,

    /// Environment variables for the operator besides the usual, as NAME=VALUE
    #[arg(long, value_parser = variable)]
    env: Vec<(String, String)>,

    /// Flags for the operator besides its defaults
    #[arg(last = true)]
    flags: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// What a time cost.
#[derive(Debug, Default)]
struct Cost {
    /// Requests to the API server.
    kubernetes: Requests,
    /// Requests to Ironic by method and kind of path.
    ironic: BTreeMap<String, u64>,
    /// CPU seconds.
    cpu: f64,
    /// CPU seconds of everything, by program: this one plays Ironic.
    machine: BTreeMap<String, f64>,
}

/// Where the counts stood.
struct Before {
    audit: Position,
    ironic: BTreeMap<String, u64>,
    cpu: f64,
    machine: BTreeMap<String, f64>,
}

/// A run.
#[derive(Debug)]
struct Figures {
    hosts: u32,
    /// Seconds from the first creation until a host was available, in the order of arrival.
    arrivals: Vec<f64>,
    enrol: Cost,
    rest: Cost,
    rest_seconds: f64,
    empty: Usage,
    full: Usage,
    /// How long nodes at rest waited for us while all hosts came in, their places in the queue included.
    reactions: Vec<Duration>,
    /// The same for single hosts of a fleet at rest.
    wakes: Vec<Duration>,
    /// Creations and cleanings beyond one for each host.
    doubled: u32,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => super::build("baremetal-operator", &args.profile)?,
    };
    rustls::crypto::ring::default_provider().install_default().ok(); // fails if there is one, which is as well
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let what = args.binary.as_ref().map_or_else(
        || format!("profile {}", args.profile),
        |binary| binary.display().to_string(),
    );
    println!("operator: {what}; {}", process::machine());
    for hosts in &args.hosts {
        let figures = runtime.block_on(one(*hosts, args, &binary))?;
        report::print(&figures);
    }
    Ok(())
}

struct Bench {
    client: Client,
    sim: Sim,
    audit: AuditLog,
    user: String,
    hosts: u32,
    online: bool,
    pid: u32,
}

async fn one(hosts: u32, args: &Args, binary: &Path) -> anyhow::Result<Figures> {
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
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}).to_string();
    metal3_lab::apply::apply(&client, &metal3_lab::apply::parse(&namespace)?, None).await?;
    let sim = Sim::new(Config {
        servers: hosts,
        timings: Timings {
            jitter: 0.5,
            ..Timings::quick()
        },
        // What an Ironic that is made for such a fleet is set to.
        max_concurrent_clean: usize::MAX,
        max_concurrent_deploy: usize::MAX,
        ..Config::default()
    });
    let server = ApiServer::start(&sim, ([127, 0, 0, 1], 0).into(), None).await?;
    let (home, account) = (
        baremetal_operator::rbac::NAMESPACE,
        baremetal_operator::rbac::SERVICE_ACCOUNT,
    );
    let kubeconfig = control_plane.service_account_kubeconfig(home, account).await?;
    let mut config = OperatorConfig::new(binary, control_plane.folder().join("operator"), kubeconfig);
    config.args.clone_from(&args.flags);
    config.env.clone_from(&args.env);
    let access = IronicAccess {
        endpoint: server.url(),
        credentials: None,
        ca_file: None,
        ramdisk_iso_url: "http://images.example/ipa.iso".to_owned(),
    };
    let operator = Operator::start_with(&config, &access).await?;
    let bench = Bench {
        client,
        sim,
        audit: control_plane.audit_log().context("the audit log is on")?.clone(),
        user: format!("system:serviceaccount:{home}:{account}"),
        hosts,
        online: !args.off,
        pid: operator.process().pid(),
    };
    let figures = bench.run(Duration::from_secs(args.rest)).await?;
    operator.stop().await;
    server.stop().await;
    Ok(figures)
}

impl Bench {
    async fn run(&self, rest: Duration) -> anyhow::Result<Figures> {
        let secrets = (0..self.hosts).map(|number| self.secret(number));
        create_all(&self.client, NAMESPACE, secrets).await?;
        let empty = process::usage(self.pid)?;
        let before = self.mark()?;
        let hosts = (0..self.hosts).map(|number| self.host(number));
        let start = Instant::now();
        let (arrivals, ()) = tokio::try_join!(
            async {
                tokio::time::timeout(LIMIT, self.arrivals(start))
                    .await
                    .with_context(|| format!("not all hosts arrived: {:?}", self.sim.states()))?
            },
            create_all(&self.client, NAMESPACE, hosts),
        )?;
        println!("{} hosts are available; they settle …", self.hosts);
        tokio::time::sleep(SETTLE + SETTLE_OF_A_HOST * self.hosts).await;
        let enrol = self.cost(&before)?;
        let before = self.mark()?;
        let start = Instant::now();
        tokio::time::sleep(rest).await;
        let (rest_cost, rest_seconds) = (self.cost(&before)?, start.elapsed().as_secs_f64());
        let (reactions, full) = (self.sim.reactions(), process::usage(self.pid)?);
        let counters = self.sim.all_counters();
        let doubled = counters.values().map(|went| {
            [went.creates, went.inspections, went.cleans]
                .iter()
                .map(|count| count.saturating_sub(1))
                .sum::<u32>()
        });
        Ok(Figures {
            hosts: self.hosts,
            arrivals,
            enrol,
            rest: rest_cost,
            rest_seconds,
            empty,
            full,
            reactions,
            wakes: self.wake().await?,
            doubled: doubled.sum(),
        })
    }

    /// Switches some servers off behind everybody's back, one after the other, and waits until they are on again.
    async fn wake(&self) -> anyhow::Result<Vec<Duration>> {
        if !self.online {
            return Ok(Vec::new());
        }
        let before = self.sim.reactions().len();
        let wanted = self.hosts.min(WAKES);
        for number in 0..wanted {
            self.sim.push_button(number, false);
            tokio::time::sleep(BETWEEN_WAKES).await;
        }
        let start = Instant::now();
        while self.sim.reactions().len() < before + wanted as usize {
            anyhow::ensure!(start.elapsed() < LIMIT, "not all servers were switched on again");
            tokio::time::sleep(BETWEEN_WAKES).await;
        }
        Ok(self.sim.reactions().split_off(before))
    }

    fn secret(&self, number: u32) -> Value {
        let server = self.sim.server(number);
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{}-bmc", server.name)},
            "stringData": {"username": server.credentials.username, "password": server.credentials.password},
        })
    }

    fn host(&self, number: u32) -> Value {
        let server = self.sim.server(number);
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": server.name},
            "spec": {
                "online": self.online, "bootMACAddress": server.boot_mac(),
                "bmc": {"address": server.redfish_address(), "credentialsName": format!("{}-bmc", server.name)},
            },
        })
    }

    /// When each host was seen to be available. A watch, because lists would cost the server more than the operator does.
    async fn arrivals(&self, start: Instant) -> anyhow::Result<Vec<f64>> {
        let api: Api<BareMetalHost> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        let mut ends = BTreeMap::new();
        while let Some(event) = events.try_next().await? {
            if let watcher::Event::Apply(host) | watcher::Event::InitApply(host) = event {
                let state = host.status.as_ref().map(|status| &status.provisioning.state);
                if state == Some(&ProvisioningState::Available) {
                    ends.entry(host.name_any())
                        .or_insert_with(|| start.elapsed().as_secs_f64());
                }
            }
            if ends.len() == self.hosts as usize {
                let mut ends: Vec<f64> = ends.into_values().collect();
                ends.sort_by(f64::total_cmp);
                return Ok(ends);
            }
        }
        bail!("the watch ended with {} of {} hosts", ends.len(), self.hosts)
    }

    fn mark(&self) -> anyhow::Result<Before> {
        Ok(Before {
            audit: self.audit.end()?,
            ironic: self.sim.requests(),
            cpu: process::usage(self.pid)?.cpu,
            machine: process::cpu_of_all()?,
        })
    }

    fn cost(&self, before: &Before) -> anyhow::Result<Cost> {
        let mut cost = Cost {
            cpu: process::usage(self.pid)?.cpu - before.cpu,
            kubernetes: Requests::of(&self.audit.since(before.audit)?.0, &self.user),
            ..Cost::default()
        };
        for (kind, count) in self.sim.requests() {
            let new = count - before.ironic.get(&kind).copied().unwrap_or_default();
            if new > 0 {
                cost.ironic.insert(kind, new);
            }
        }
        for (program, cpu) in process::cpu_of_all()? {
            let new = cpu - before.machine.get(&program).copied().unwrap_or_default();
            cost.machine.insert(program, new);
        }
        Ok(cost)
    }
}
