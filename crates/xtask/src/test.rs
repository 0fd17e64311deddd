//! `cargo xtask test`: runs all tests, cheapest first, with the time of each tier.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context;

use self::programs::{Programs, TestProgram};

mod lanes;
mod programs;
mod rights;
mod supply;

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Only what needs no servers: formatting, lints, supply chain, unit and property tests
    #[arg(long)]
    quick: bool,
    /// Let the property tests try other cases in every run, instead of the same ones; with a number, the simulations of
    /// the baremetal-operator and the ip-address-manager try so many times as many
    #[arg(long, value_name = "TIMES", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    explore: Option<u32>,
    /// Only the images of our programs: they are built as they are released, unpacked and started; a quarter of an hour the first time
    #[arg(long, conflicts_with_all = ["quick", "explore"])]
    images: bool,
    /// Only a server that really boots under a stock Ironic and our operator: an hour without hardware virtualisation
    #[arg(long, conflicts_with_all = ["quick", "explore", "images"])]
    metal: bool,
}

/// The test of images, which builds all programs as they are released. It has a lane of its own.
const IMAGES: (&str, &str) = ("metal3-scenarios", "containers");
/// The test of a server that really boots. It has a lane of its own, too.
const METAL: (&str, &str) = ("metal3-scenarios", "metal");

/// The fixed seed of the property tests, so that a change is blamed only for what it broke, and not for a rare older failure.
/// `--explore` searches for those.
pub const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "3");

/// Multiplier for the simulations' number of cases.
const EXPLORE_TIMES: &str = "EXPLORE_TIMES";

/// What a test needs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// Nothing.
    Unit,
    /// The lab's API server.
    ApiServer,
    /// The lab's Ironic, with or without an API server.
    Ironic,
}

/// Test programs of the cheaper tiers. All others run in the last tier, so a new program is never forgotten.
const TIERS: &[(&str, &str, Tier)] = &[
    ("baremetal-operator", "decide", Tier::Unit),
    ("baremetal-operator", "flags", Tier::Unit),
    ("baremetal-operator", "passes", Tier::Unit),
    ("baremetal-operator", "webhooks", Tier::ApiServer),
    ("metal3-api", "conversion", Tier::Unit),
    ("metal3-api", "capi", Tier::Unit),
    ("ip-address-manager", "claims", Tier::ApiServer),
    ("cluster-api-provider-metal3", "hostile", Tier::Unit),
    ("cluster-api-provider-metal3", "provider", Tier::ApiServer),
    ("metal3-api", "go_objects", Tier::Unit),
    ("metal3-api", "ipam", Tier::Unit),
    ("metal3-api", "parity", Tier::Unit),
    ("metal3-api", "round_trip", Tier::Unit),
    ("metal3-bmc", "*", Tier::Unit),
    ("metal3-fuzz", "corpus", Tier::Unit),
    ("metal3-ironic", "wire", Tier::Unit),
    ("metal3-ironic-sim", "client", Tier::Unit),
    ("metal3-ironic-sim", "conformance_sim", Tier::Unit),
    ("metal3-ironic-sim", "life", Tier::Unit),
    ("metal3-render", "errors", Tier::Unit),
    ("xtask", "documents", Tier::Unit),
    ("xtask", "examples", Tier::Unit),
    ("xtask", "imports", Tier::Unit),
    ("kubectl-metal3", "cluster", Tier::ApiServer),
    ("xtask", "install", Tier::ApiServer),
    ("metal3-render", "golden", Tier::Unit),
    ("metal3-render", "preview", Tier::Unit),
    ("metal3-render", "properties", Tier::Unit),
    ("metal3-api", "wire", Tier::ApiServer),
    ("metal3-runtime", "real_api", Tier::ApiServer),
    ("metal3-scenarios", "hostile", Tier::Unit),
    ("metal3-scenarios", "fleet", Tier::ApiServer),
    ("metal3-scenarios", "two_providers", Tier::ApiServer),
    ("metal3-testkit", "*", Tier::ApiServer),
    ("metal3-scenarios", "cluster_api_kinds", Tier::ApiServer),
    ("metal3-scenarios", "manifests", Tier::ApiServer),
    ("metal3-lab", "processes", Tier::ApiServer),
    ("metal3-lab", "control_plane", Tier::ApiServer),
    ("metal3-lab", "cluster_api", Tier::ApiServer),
];

/// The slowest programs, slowest first. They start first in their tier, because a slow one that starts last would run alone.
const LONGEST: &[&str] = &[
    "nodes",
    "networks",
    "wire",
    "fleet",
    "two_providers",
    "clusters",
    "images",
    "demo",
    "moves",
    "outages",
    "limits",
    "registration",
];

/// Programs that run one test at a time: they have only one, or two cores suffice for only one lab.
const SINGLE: &[&str] = &["demo", "life", "moves", "nodes"];

/// Runs the tests. Every tier runs even after a failure; the exit code is 0 only if all passed.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut report = Report::default();
    if args.images {
        report.step("images of our programs", || of_images(&root))?;
        return Ok(report.finish());
    }
    if args.metal {
        report.step("a server that really boots", || of_metal(&root))?;
        return Ok(report.finish());
    }

    report.step("formatting and lints", || {
        let mut failed = Vec::new();
        for line in [
            "fmt --all --check",
            "clippy --quiet --workspace --all-targets --locked -- --deny warnings",
        ] {
            failed.extend(cargo_fails(&root, line)?);
        }
        Ok(failed)
    })?;

    report.step("supply chain", || supply::check(&root))?;

    if !args.quick {
        report.step("documents as a website", || Ok(of_documents(&root)))?;
    }

    println!("\n=== building the tests ===");
    let programs = Programs::build(&root)?;
    if !args.quick {
        report.step("building the lab", build_lab)?;
    }
    let audit = rights::empty_folder()?;
    report.step("unit and property tests", || {
        let of_tier = programs.tests.iter().filter(|program| tier_of(program) == Tier::Unit);
        let mut failed = one_by_one(of_tier, &programs, args.explore)?;
        failed.extend(cargo_fails(&root, "test --quiet --workspace --doc --locked")?);
        Ok(failed)
    })?;
    if !args.quick {
        let with_servers = programs.tests.iter().filter(|program| {
            let has_own_lane = [IMAGES, METAL].contains(&(program.package.as_str(), program.name.as_str()));
            tier_of(program) > Tier::Unit && !has_own_lane
        });
        report.step("tests on a real API server and a real Ironic", || {
            side_by_side(with_servers, &programs, args.explore, &audit)
        })?;
    }
    if args.quick {
        println!("\nUnused and missing rights were not checked: that takes the tests with servers.");
    } else {
        report.step("unused and missing rights", || rights::check(&audit))?;
    }
    println!("\nThe images of our programs were not built and tried: `cargo xtask test --images` does that.");
    println!("No server really booted under a stock Ironic: `cargo xtask test --metal` does that.");
    Ok(report.finish())
}

/// Makes the website. One that cannot be made is a failure like that of a test: what follows runs all the same.
fn of_documents(root: &Path) -> Vec<String> {
    let Err(error) = crate::book::build(root, "book-of-tests") else {
        return Vec::new();
    };
    println!("{error:#}");
    vec!["cargo xtask docs".to_owned()]
}

/// Builds the images and runs their test.
fn of_images(root: &Path) -> anyhow::Result<Vec<String>> {
    if let Err(reason) = metal3_lab::oci::probe() {
        println!("NOT RUN: images cannot be built here: {reason:#}");
        return Ok(Vec::new());
    }
    lane(root, IMAGES, "")
}

/// Makes what the server is made of, and runs its test. Whoever asks for this lane wants to know whether it passes, so it fails
/// where it cannot run.
fn of_metal(root: &Path) -> anyhow::Result<Vec<String>> {
    metal3_lab::metal::probe().context("NOT RUN: no server can be emulated here")?;
    metal3_lab::metal::ensure().context("NOT RUN: what the server is made of cannot be made")?;
    // One after the other: a machine can have one such server at a time.
    lane(root, METAL, " --test-threads=1")
}

/// Runs a test program that has a lane of its own.
fn lane(root: &Path, (package, name): (&str, &str), more: &str) -> anyhow::Result<Vec<String>> {
    let line = format!("test --package {package} --test {name} --locked -- --ignored --nocapture{more}");
    Ok(cargo_fails(root, &line)?.into_iter().collect())
}

/// Builds the servers before anything else runs: on a new machine that takes all cores for many minutes, and tests waiting for
/// Ironic would time out. Returns at once if they are built.
fn build_lab() -> anyhow::Result<Vec<String>> {
    metal3_lab::binaries::ensure_complete().context("cannot build the control plane")?;
    metal3_lab::binaries::ensure_cluster_api().context("cannot build Cluster API")?;
    metal3_lab::binaries::ensure_helm().context("cannot build Helm")?;
    metal3_lab::binaries::ensure_promtool().context("cannot build Prometheus' tool for rules")?;
    metal3_lab::ironic::environment::ensure().context("cannot install Ironic")?;
    match metal3_lab::nodes::probe() {
        Ok(()) => drop(metal3_lab::image::ensure().context("cannot make the image of servers")?),
        Err(reason) => println!("NOT RUN: tests on servers that really boot: {reason:#}"),
    }
    match metal3_lab::guest::probe() {
        Ok(()) => metal3_lab::guest::ensure().context("cannot fetch the packages of networks")?,
        Err(reason) => println!("NOT RUN: tests of network data on systems that really boot: {reason:#}"),
    }
    Ok(Vec::new())
}

/// What ran, its duration, and its failures.
#[derive(Default)]
struct Report {
    tiers: String,
    passed: usize,
    failed_tiers: usize,
    failed: Vec<String>,
}

impl Report {
    /// Runs a step, which returns the failed commands.
    fn step(&mut self, title: &str, run: impl FnOnce() -> anyhow::Result<Vec<String>>) -> anyhow::Result<()> {
        println!("\n=== {title} ===");
        let start = Instant::now();
        let failed = run()?;
        let word = if failed.is_empty() { "ok" } else { "FAILED" };
        *(if failed.is_empty() {
            &mut self.passed
        } else {
            &mut self.failed_tiers
        }) += 1;
        writeln!(self.tiers, "  {word:6} {:>9}  {title}", minutes(start.elapsed()))?;
        self.failed.extend(failed);
        Ok(())
    }

    fn finish(self) -> ExitCode {
        println!(
            "\n=== tiers ===\n{}{} passed, {} failed",
            self.tiers, self.passed, self.failed_tiers
        );
        for command in &self.failed {
            println!("FAILED: {command}");
        }
        if self.failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// Unit tests are in the first tier, and so are the programs listed for it.
fn tier_of(program: &TestProgram) -> Tier {
    if program.is_beside_code {
        return Tier::Unit;
    }
    let row = TIERS
        .iter()
        .find(|(p, t, _)| *p == program.package && (*t == program.name || *t == "*"));
    row.map_or(Tier::Ironic, |(_, _, tier)| *tier)
}

/// Runs cargo; returns the command if it fails.
fn cargo_fails(root: &Path, line: &str) -> anyhow::Result<Option<String>> {
    println!("$ cargo {line}");
    let mut command = metal3_lab::cargo::command();
    let status = command.current_dir(root).args(line.split(' ')).status();
    let is_ok = status.context("cannot start cargo")?.success();
    Ok((!is_ok).then(|| format!("cargo {line}")))
}

/// Runs test programs one after the other. Returns the failed ones.
fn one_by_one<'a>(
    tests: impl Iterator<Item = &'a TestProgram>,
    all: &Programs,
    explore: Option<u32>,
) -> anyhow::Result<Vec<String>> {
    let mut failed = Vec::new();
    for program in tests {
        println!("\n$ {}", program.command_of_a_person());
        let start = Instant::now();
        let status = command(program, all, explore)
            .status()
            .with_context(|| format!("cannot start {}", program.executable.display()))?;
        println!("{}: {}", program.name, minutes(start.elapsed()));
        if !status.success() {
            failed.push(program.command_of_a_person());
        }
    }
    Ok(failed)
}

/// Runs test programs that mostly wait for servers: the cheaper tier first, and in each tier the slowest first. Lanes do not wait
/// for each other between the tiers. Returns the failed ones.
fn side_by_side<'a>(
    tests: impl Iterator<Item = &'a TestProgram>,
    all: &Programs,
    explore: Option<u32>,
    audit: &Path,
) -> anyhow::Result<Vec<String>> {
    let mut tests: Vec<&TestProgram> = tests.collect();
    tests.sort_by_key(|program| {
        let place = LONGEST.iter().position(|name| *name == program.name);
        (tier_of(program), place.unwrap_or(LONGEST.len()))
    });
    let job = |program: &TestProgram| {
        let mut command = command(program, all, explore);
        command.env(rights::AUDIT_FOLDER, audit);
        lanes::Job {
            name: program.name.clone(),
            title: program.command_of_a_person(),
            width: if SINGLE.contains(&&*program.name) { 1 } else { 2 },
            command,
        }
    };
    lanes::run(tests.into_iter().map(job).collect())
}

/// The command that starts a test program as `cargo test` does.
fn command(program: &TestProgram, all: &Programs, explore: Option<u32>) -> Command {
    let mut command = Command::new(&program.executable);
    for name in metal3_lab::cargo::variables_of_this_package() {
        command.env_remove(name);
    }
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("CARGO_PKG_NAME", &program.package)
        .envs(all.variables());
    match explore {
        Some(times) => command.env(EXPLORE_TIMES, times.to_string()),
        None => command.env(SEED.0, SEED.1),
    };
    command
}

fn minutes(time: Duration) -> String {
    format!("{}m{:02}s", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_program_is_run_in_the_last_tier() {
        let program = |package: &str, name: &str, is_beside_code| TestProgram {
            package: package.to_owned(),
            name: name.to_owned(),
            is_beside_code,
            ..TestProgram::default()
        };
        assert_eq!(tier_of(&program("metal3-ironic", "wire", false)), Tier::Unit);
        assert_eq!(tier_of(&program("metal3-ironic", "brand_new", false)), Tier::Ironic);
        assert_eq!(
            tier_of(&program("metal3-brand-new", "metal3_brand_new", true)),
            Tier::Unit
        );
        assert_eq!(minutes(Duration::from_secs(61)), "1m01s");
    }
}
