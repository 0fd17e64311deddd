//! `cargo xtask bench claims`: HostClaims on as many hosts of a simulated Ironic. It prints figures and does not judge them.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::DeleteParams;
use metal3_api::metal3::{BareMetalHost, HostClaim};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::env::BENCH;
use super::fleet::Bench;
use super::many::{AT_ONCE, create, create_all};
use super::measure::Cost;
use super::program::{Built, OPERATOR, ProgramArgs};
use super::table::{self, row};
use super::times::percentiles;
use super::watch::{Goal, arrivals};

/// How long all claims together may take.
const LIMIT: Duration = Duration::from_secs(1800);

/// Arguments of `cargo xtask bench claims`.
#[derive(clap::Args)]
pub struct Args {
    /// How many claims on as many hosts, one run for each number
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), default_value = "100,1000")]
    claims: Vec<u32>,

    /// Seconds at rest after each run
    #[arg(long, default_value_t = 60)]
    rest: u64,

    #[command(flatten)]
    program: ProgramArgs,
}

/// A run.
struct Figures {
    /// From the creation of a claim until it had its host, with all hosts free.
    claimed: Vec<Duration>,
    cost: Cost,
    rest: Cost,
    /// From when a host was free until another claim had it, with all claims waiting.
    handed_on: Vec<Duration>,
    handing_on: Cost,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let operator = OPERATOR.build(&args.program)?;
    for claims in &args.claims {
        let figures = operator.run(one(*claims, args, &operator))?;
        print(*claims, &figures);
    }
    Ok(())
}

async fn one(claims: u32, args: &Args, built: &Built) -> anyhow::Result<Figures> {
    let bench = Bench::start(claims, false, built, &["--hostclaims"]).await?;
    bench.enrol().await?;
    let policy = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy", "metadata": {"name": "all"},
        "spec": {"hostClaimNamespaces": {}}});
    create(&bench.env.client, BENCH, policy).await?;
    let run = measure(&bench, claims, Duration::from_secs(args.rest));
    let figures = tokio::time::timeout(LIMIT, run)
        .await
        .context("not all claims got a host")??;
    bench.stop().await;
    Ok(figures)
}

async fn measure(bench: &Bench, claims: u32, rest: Duration) -> anyhow::Result<Figures> {
    let env = &bench.env;
    let mark = env.mark()?;
    let clock = || mark.start.elapsed().as_secs_f64();
    let created = Mutex::new(BTreeMap::new());
    let creations = stream::iter(0..claims).map(|number| {
        let (name, created) = (name("first", number), &created);
        async move {
            created.lock().insert(name.clone(), clock());
            create(&env.client, BENCH, claim(&name)).await.map(drop)
        }
    });
    let is_bound = |claim: &HostClaim| {
        claim
            .status
            .as_ref()
            .is_some_and(|status| status.bare_metal_host.is_some())
    };
    let (ends, ()) = tokio::try_join!(
        arrivals(env.api::<HostClaim>(), claims as usize, clock, Goal::State(is_bound)),
        creations.buffer_unordered(AT_ONCE).try_collect(),
    )?;
    println!("{claims} claims have hosts; they settle …");
    bench.settle().await;
    let cost = env.cost(&mark)?;
    let at_rest = env.mark()?;
    tokio::time::sleep(rest).await;
    let rest = env.cost(&at_rest)?;
    let (handed_on, handing_on) = hand_on(bench, claims).await?;
    Ok(Figures {
        claimed: waits(&created.into_inner(), &ends),
        cost,
        rest,
        handed_on,
        handing_on,
    })
}

/// As many claims wait for the hosts of the first ones, which are deleted.
async fn hand_on(bench: &Bench, claims: u32) -> anyhow::Result<(Vec<Duration>, Cost)> {
    let env = &bench.env;
    let start = Instant::now();
    let clock = || start.elapsed().as_secs_f64();
    let second = (0..claims).map(|number| claim(&name("second", number)));
    let reports = |claim: &HostClaim| claim.status.is_some();
    let waiting = arrivals(env.api::<HostClaim>(), 2 * claims as usize, clock, Goal::State(reports));
    tokio::try_join!(waiting, create_all(&env.client, BENCH, second))?;
    println!("{claims} more claims wait …");
    bench.settle().await;
    let mark = env.mark()?;
    let claims_api = &env.api::<HostClaim>();
    let deletions = stream::iter(0..claims).map(|number| async move {
        let deleted = claims_api
            .delete(&name("first", number), &DeleteParams::default())
            .await;
        deleted.map(drop).context("cannot delete a claim")
    });
    let consumer = |host: &BareMetalHost| host.spec.consumer_ref.as_ref().map(|consumer| consumer.name.clone());
    let is_free = move |host: &BareMetalHost| consumer(host).is_none();
    let is_claimed = move |host: &BareMetalHost| consumer(host).is_some_and(|name| name.starts_with("second"));
    let wanted = claims as usize;
    let (free, claimed, ()) = tokio::try_join!(
        arrivals(env.api::<BareMetalHost>(), wanted, clock, Goal::State(is_free)),
        arrivals(env.api::<BareMetalHost>(), wanted, clock, Goal::State(is_claimed)),
        deletions.buffer_unordered(AT_ONCE).try_collect(),
    )?;
    bench.settle().await;
    Ok((waits(&free, &claimed), env.cost(&mark)?))
}

fn name(wave: &str, number: u32) -> String {
    format!("{wave}-{number}")
}

fn claim(name: &str) -> Value {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"name": name}, "spec": {"poweredOn": false}})
}

/// The time between two moments of each object.
fn waits(begins: &BTreeMap<String, f64>, ends: &BTreeMap<String, f64>) -> Vec<Duration> {
    let pairs = ends.iter().filter_map(|(name, end)| Some((begins.get(name)?, end)));
    pairs
        .map(|(begin, end)| Duration::from_secs_f64((end - begin).max(0.0)))
        .collect()
}

fn print(claims: u32, figures: &Figures) {
    println!("\n{claims} claims on {claims} hosts");
    let each = |cost: &Cost| format!("{:.1}", cost.requests.sum() as f64 / f64::from(claims));
    let conflicts = format!(
        "{} / {}",
        figures.cost.requests.conflicts, figures.handing_on.requests.conflicts
    );
    let rows = [
        row(
            "creation to claimed, p50 / p99 / max",
            percentiles(&figures.claimed),
            "",
            "",
        ),
        row(
            "free to claimed by another, p50 / p99 / max",
            percentiles(&figures.handed_on),
            "",
            "",
        ),
        row("API requests per claim", each(&figures.cost), "", ""),
        row(
            "API requests per host that is handed on",
            each(&figures.handing_on),
            "",
            "",
        ),
        row("conflicts of both", conflicts, "", "0"),
        row("CPU", format!("{:.1} s", figures.cost.cpu()), "", ""),
        row("RSS before / after / peak", figures.cost.memory(), "", ""),
        row("at rest: API requests", figures.rest.requests.sum(), "", "0"),
    ];
    table::print("upstream", rows);
    println!("API: {}", figures.cost.requests.counts);
    println!("API, handed on: {}", figures.handing_on.requests.counts);
    if figures.rest.requests.sum() > 0 {
        println!("API at rest: {}", figures.rest.requests.counts);
    }
}
