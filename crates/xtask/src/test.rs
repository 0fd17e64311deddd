//! `cargo xtask test`: every test there is, cheapest first, with the time of each tier.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Only what needs no servers: formatting, lints, unit and property tests
    #[arg(long)]
    quick: bool,
    /// Let the property tests try other cases in every run, instead of the same ones
    #[arg(long)]
    explore: bool,
}

/// Where the property tests start, so that a change is blamed for what it broke, and not for a rare case that an earlier
/// one left to be found. Those are looked for with `--explore`.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "3");

/// What a test needs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// Nothing but itself.
    Unit,
    /// The lab's API server.
    ApiServer,
    /// The lab's Ironic, with or without an API server.
    Ironic,
}

impl Tier {
    fn title(self) -> &'static str {
        match self {
            Self::Unit => "unit and property tests",
            Self::ApiServer => "tests on a real API server",
            Self::Ironic => "tests on a real Ironic",
        }
    }
}

/// Test programs of the cheaper tiers. Any other one is run in the last tier: a new program is never forgotten.
const TIERS: &[(&str, &str, Tier)] = &[
    ("baremetal-operator", "decide", Tier::Unit),
    ("baremetal-operator", "flags", Tier::Unit),
    ("metal3-api", "conversion", Tier::Unit),
    ("metal3-api", "capi", Tier::Unit),
    ("ip-address-manager", "claims", Tier::ApiServer),
    ("metal3-api", "go_objects", Tier::Unit),
    ("metal3-api", "ipam", Tier::Unit),
    ("metal3-api", "parity", Tier::Unit),
    ("metal3-api", "round_trip", Tier::Unit),
    ("metal3-bmc", "*", Tier::Unit),
    ("metal3-ironic", "wire", Tier::Unit),
    ("metal3-ironic-sim", "client", Tier::Unit),
    ("metal3-ironic-sim", "conformance_sim", Tier::Unit),
    ("metal3-ironic-sim", "life", Tier::Unit),
    ("metal3-api", "wire", Tier::ApiServer),
    ("metal3-runtime", "real_api", Tier::ApiServer),
    ("metal3-scenarios", "fleet", Tier::ApiServer),
    ("metal3-testkit", "*", Tier::ApiServer),
    ("metal3-scenarios", "cluster_api_kinds", Tier::ApiServer),
    ("metal3-scenarios", "manifests", Tier::ApiServer),
    ("metal3-lab", "processes", Tier::ApiServer),
    ("metal3-lab", "control_plane", Tier::ApiServer),
    ("metal3-lab", "cluster_api", Tier::ApiServer),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

struct Step {
    title: String,
    commands: Vec<Vec<String>>,
}

/// Runs the tests. Every tier runs, also after one has failed; the exit code tells whether all passed.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut summary = String::new();
    let (mut passed, mut failed) = (0, Vec::new());
    let mut failed_tiers = 0;
    for step in steps(&root, args.quick)? {
        println!("\n=== {} ===", step.title);
        let start = Instant::now();
        let mut is_ok = true;
        for command in &step.commands {
            if !succeeds(&root, command, args.explore)? {
                is_ok = false;
                failed.push(command.join(" "));
            }
        }
        *(if is_ok { &mut passed } else { &mut failed_tiers }) += 1;
        let word = if is_ok { "ok" } else { "FAILED" };
        writeln!(summary, "  {word:6} {:>9}  {}", minutes(start.elapsed()), step.title)?;
    }
    println!("\n=== tiers ===\n{summary}{passed} passed, {failed_tiers} failed");
    for command in &failed {
        println!("FAILED: cargo {command}");
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn steps(root: &Path, quick: bool) -> anyhow::Result<Vec<Step>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut steps = vec![Step {
        title: "formatting and lints".to_owned(),
        commands: vec![
            words("fmt --all --check"),
            words("clippy --quiet --workspace --all-targets --locked -- --deny warnings"),
        ],
    }];
    let programs = test_programs(root)?;
    for tier in [Tier::Unit, Tier::ApiServer, Tier::Ironic] {
        let mut commands = Vec::new();
        if tier == Tier::Unit {
            commands.push(words("test --workspace --lib --bins --locked"));
            commands.push(words("test --workspace --doc --locked"));
        }
        for (package, program) in programs
            .iter()
            .filter(|(package, program)| tier_of(package, program) == tier)
        {
            commands.push(words(&format!("test --locked --package {package} --test {program}")));
        }
        if !commands.is_empty() && (tier == Tier::Unit || !quick) {
            steps.push(Step {
                title: tier.title().to_owned(),
                commands,
            });
        }
    }
    Ok(steps)
}

/// Every test program of the workspace, by package and name.
fn test_programs(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let output = cargo(root)
        .args(["metadata", "--format-version=1", "--no-deps", "--locked"])
        .stdout(Stdio::piped())
        .output()
        .context("cannot start cargo")?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    let mut programs: Vec<_> = metadata
        .packages
        .into_iter()
        .flat_map(|package| {
            let tests = package
                .targets
                .into_iter()
                .filter(|t| t.kind.iter().any(|k| k == "test"));
            tests.map(|t| (package.name.clone(), t.name)).collect::<Vec<_>>()
        })
        .collect();
    programs.sort();
    Ok(programs)
}

fn tier_of(package: &str, program: &str) -> Tier {
    let row = TIERS
        .iter()
        .find(|(p, t, _)| *p == package && (*t == program || *t == "*"));
    row.map_or(Tier::Ironic, |(_, _, tier)| *tier)
}

fn succeeds(root: &Path, words: &[String], explore: bool) -> anyhow::Result<bool> {
    println!("$ cargo {}", words.join(" "));
    let mut command = cargo(root);
    if !explore {
        command.env(SEED.0, SEED.1);
    }
    Ok(command.args(words).status().context("cannot start cargo")?.success())
}

fn cargo(root: &Path) -> Command {
    let mut command = metal3_lab::cargo::command();
    command.current_dir(root);
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
        assert_eq!(tier_of("metal3-ironic", "wire"), Tier::Unit);
        assert_eq!(tier_of("metal3-ironic", "brand_new"), Tier::Ironic);
        assert_eq!(minutes(Duration::from_secs(61)), "1m01s");
    }
}
