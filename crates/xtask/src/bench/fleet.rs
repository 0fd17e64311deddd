//! `cargo xtask bench fleet`: the operator's process with its default flags, a real API server, and the requested number of
//! simulated servers. It prints figures and does not judge them.

mod report;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::Context;
use kube::api::ListParams;
use kube::{Api, Resource};
use metal3_api::metal3::{
    BareMetalHost, FirmwareSchema, HardwareData, HostFirmwareComponents, HostFirmwareSettings, ProvisioningState,
};
use metal3_ironic_sim::{ApiServer, Config, Sim, Timings};
use metal3_lab::operator::{self, IronicAccess, OperatorConfig, Ramdisk};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::env::{BENCH, Measured, TestEnv};
use super::many::{create_all, host_of};
use super::measure::{Arrivals, Cost, Mark};
use super::program::{Built, OPERATOR, ProgramArgs};
use super::requests::Counts;
use super::watch::{Goal, arrivals, in_order};

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
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), default_value = "100,1000")]
    hosts: Vec<u32>,

    /// Seconds at rest after each run
    #[arg(long, default_value_t = 60)]
    rest: u64,

    /// Leave hosts switched off: nothing follows once they are available
    #[arg(long)]
    off: bool,

    #[command(flatten)]
    program: ProgramArgs,
}

/// A run.
#[derive(Debug)]
struct Figures {
    hosts: u32,
    /// From the first creation until hosts were available, and until they had settled.
    enrol: Arrivals,
    enrol_calls: Counts,
    rest: Cost,
    rest_calls: Counts,
    /// How long nodes at rest waited for us while all hosts came in, their places in the queue included.
    reactions: Vec<Duration>,
    /// The same for single hosts of a fleet at rest.
    wakes: Vec<Duration>,
    /// Creations and cleanings beyond one for each host.
    doubled: u32,
    /// The objects beside the hosts: settings, components, schemas, inventories.
    companions: [usize; 4],
}

/// Runs the benchmark.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let operator = OPERATOR.build(&args.program)?;
    for hosts in &args.hosts {
        let figures = operator.run(one(*hosts, args, &operator))?;
        report::print(&figures);
    }
    Ok(())
}

/// The operator at work with a simulated Ironic.
pub(super) struct Bench {
    pub env: Measured,
    sim: Sim,
    server: ApiServer,
    hosts: u32,
    online: bool,
}

async fn one(hosts: u32, args: &Args, built: &Built) -> anyhow::Result<Figures> {
    let bench = Bench::start(hosts, !args.off, built, &[]).await?;
    let figures = bench.run(Duration::from_secs(args.rest)).await?;
    bench.stop().await;
    Ok(figures)
}

/// How many objects of a kind there are.
async fn count<K>(api: Api<K>) -> Result<usize, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let none = ListParams::default().limit(1);
    let first = api.list_metadata(&none).await?;
    let more = first.metadata.remaining_item_count.unwrap_or_default();
    Ok(first.items.len() + usize::try_from(more).unwrap_or_default())
}

impl Bench {
    /// Starts the operator, with these flags besides those of the build, and so many servers.
    pub(super) async fn start(hosts: u32, online: bool, built: &Built, flags: &[&str]) -> anyhow::Result<Self> {
        let env = TestEnv::start(built.program).await?;
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
        let folder = env.control_plane.folder().join("operator");
        let mut config = OperatorConfig::new(&built.executable, folder, &env.kubeconfig);
        config.args.clone_from(&built.flags);
        config.args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let access = IronicAccess {
            endpoint: server.url(),
            credentials: None,
            ca_file: None,
            ramdisk: Ramdisk::Iso("http://images.example/ipa.iso".to_owned()),
        };
        Ok(Self {
            env: env.with(operator::start(&config, &access).await?)?,
            sim,
            server,
            hosts,
            online,
        })
    }

    pub(super) async fn stop(self) {
        self.env.stop().await;
        self.server.stop().await;
    }

    /// Creates all hosts, and waits until they have settled. Returns where their enrolment began, and when each was available.
    pub(super) async fn enrol(&self) -> anyhow::Result<(Mark, Counts, Vec<f64>)> {
        let client = &self.env.client;
        let (secrets, hosts): (Vec<_>, Vec<_>) = (0..self.hosts).map(|number| self.host(number).into()).unzip();
        create_all(client, BENCH, secrets).await?;
        let (mark, calls) = (self.env.mark()?, self.calls());
        let (seconds, ()) = tokio::try_join!(self.arrivals(mark.start), create_all(client, BENCH, hosts))?;
        println!("{} hosts are available; they settle …", self.hosts);
        self.settle().await;
        Ok((mark, calls, seconds))
    }

    /// Waits for what follows the last arrival.
    pub(super) async fn settle(&self) {
        tokio::time::sleep(SETTLE + SETTLE_OF_A_HOST * self.hosts).await;
    }

    async fn run(&self, rest: Duration) -> anyhow::Result<Figures> {
        let (mark, calls, seconds) = self.enrol().await?;
        let cost = self.env.cost(&mark)?;
        let enrol_calls = self.calls().since(&calls);
        let (mark, calls) = (self.env.mark()?, self.calls());
        tokio::time::sleep(rest).await;
        Ok(Figures {
            hosts: self.hosts,
            enrol: Arrivals { seconds, cost },
            enrol_calls,
            rest: self.env.cost(&mark)?,
            rest_calls: self.calls().since(&calls),
            reactions: self.sim.reactions(),
            doubled: self.doubled(),
            companions: self.companions().await?,
            wakes: self.wake().await?,
        })
    }

    fn calls(&self) -> Counts {
        Counts(self.sim.requests())
    }

    async fn companions(&self) -> anyhow::Result<[usize; 4]> {
        let env = &self.env;
        let (settings, components, schemas, hardware) = tokio::try_join!(
            count(env.api::<HostFirmwareSettings>()),
            count(env.api::<HostFirmwareComponents>()),
            count(env.api::<FirmwareSchema>()),
            count(env.api::<HardwareData>()),
        )?;
        Ok([settings, components, schemas, hardware])
    }

    fn doubled(&self) -> u32 {
        let counters = self.sim.all_counters();
        let doubled = counters.values().map(|went| {
            [went.creates, went.inspections, went.cleans]
                .iter()
                .map(|count| count.saturating_sub(1))
                .sum::<u32>()
        });
        doubled.sum()
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

    /// The host of a server, after its Secret.
    fn host(&self, number: u32) -> [Value; 2] {
        let server = self.sim.server(number);
        let (user, address) = (&server.credentials, server.redfish_address());
        let [secret, mut host] = host_of(
            &server.name,
            &address,
            server.boot_mac(),
            [&user.username, &user.password],
        );
        host["spec"]["online"] = json!(self.online);
        [secret, host]
    }

    /// When each host was seen to be available.
    async fn arrivals(&self, start: Instant) -> anyhow::Result<Vec<f64>> {
        let goal = Goal::State(|host: &BareMetalHost| {
            let state = host.status.as_ref().map(|status| &status.provisioning.state);
            state == Some(&ProvisioningState::Available)
        });
        let clock = || start.elapsed().as_secs_f64();
        let arrivals = arrivals(self.env.api(), self.hosts as usize, clock, goal);
        let ends = tokio::time::timeout(LIMIT, arrivals)
            .await
            .with_context(|| format!("not all hosts arrived: {:?}", self.sim.states()))??;
        Ok(in_order(ends))
    }
}
