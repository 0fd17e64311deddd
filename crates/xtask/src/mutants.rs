//! `cargo xtask mutants`: does a test fail when a pure decision is changed? cargo-mutants makes a sample of small changes
//! (mutants) to a copy of the tree, one at a time; mutants that survive are printed.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

/// Arguments of `cargo xtask mutants`.
#[derive(clap::Args)]
pub struct Args {
    /// Which rooms; all by default
    #[arg(value_parser = ["decide", "select", "choice", "alloc", "render"])]
    rooms: Vec<String>,
    /// How many mutants of each room to try, spread evenly over its files; 60 of each take about an hour
    #[arg(long, default_value_t = 60)]
    sample: usize,
    /// Which of the disjoint samples; another number tries other mutants
    #[arg(long, default_value_t = 0)]
    part: usize,
}

/// Pure code, and the tests that must detect a change of it.
struct Room {
    name: &'static str,
    package: &'static str,
    files: &'static str,
    tests: &'static [&'static str],
}

const ROOMS: [Room; 5] = [
    Room {
        name: "decide",
        package: "baremetal-operator",
        files: "crates/baremetal-operator/src/host/decide/**/*.rs",
        tests: &["--lib", "--test", "decide"],
    },
    Room {
        name: "select",
        package: "cluster-api-provider-metal3",
        files: "crates/capm3/src/select/**/*.rs",
        tests: &["--lib"],
    },
    Room {
        name: "choice",
        package: "metal3-api",
        files: "crates/api/src/metal3/host/choice.rs",
        tests: &["--lib"],
    },
    Room {
        name: "alloc",
        package: "ip-address-manager",
        files: "crates/ipam/src/alloc/**/*.rs",
        tests: &["--lib"],
    },
    Room {
        name: "render",
        package: "metal3-render",
        files: "crates/render/src/**/*.rs",
        tests: &[
            "--lib",
            "--test",
            "golden",
            "--test",
            "errors",
            "--test",
            "properties",
            "--test",
            "preview",
        ],
    },
];

/// The required version of cargo-mutants.
const VERSION: &str = "27.1.0";

/// Timeout multiplier: a mutant whose tests run this many times longer than usual is an endless loop, and counts as caught.
const TIMEOUT: [&str; 4] = ["--timeout-multiplier", "4", "--minimum-test-timeout", "60"];

/// Tries the mutants. Fails if some survive.
pub fn run(args: &Args) -> Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let is_there = cargo(&root).args(["mutants", "--version"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        bail!("cargo-mutants is not installed: cargo install --locked cargo-mutants@{VERSION}");
    }
    let is_wanted = |room: &&Room| args.rooms.is_empty() || args.rooms.iter().any(|name| name == room.name);
    let mut survivors = false;
    for room in ROOMS.iter().filter(is_wanted) {
        println!("\n=== {} ===", room.name);
        survivors |= !survived_none(&root, room, args)?;
    }
    Ok(if survivors {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// cargo-mutants reports which mutants were caught and which were missed.
fn survived_none(repository: &Path, room: &Room, args: &Args) -> Result<bool> {
    let selection = [
        "mutants",
        "--package",
        room.package,
        "--file",
        room.files,
        "--no-shuffle",
    ];
    let list = cargo(repository).args(selection).arg("--list").output();
    let list = list.context("cannot start cargo mutants")?;
    ensure!(
        list.status.success(),
        "cargo mutants --list: {}",
        String::from_utf8_lossy(&list.stderr)
    );
    let total = String::from_utf8_lossy(&list.stdout).lines().count();
    let parts = (total / args.sample.max(1)).max(1);
    let output = repository.join("target/mutants").join(room.name);
    std::fs::create_dir_all(&output)?;
    let status = cargo(repository)
        .args(selection)
        .args([
            "--sharding",
            "round-robin",
            "--shard",
            &format!("{}/{parts}", args.part % parts),
        ])
        .args(TIMEOUT)
        .arg("--output")
        .arg(&output)
        .arg("--")
        .args(room.tests)
        .status()
        .context("cannot start cargo mutants")?;
    match status.code() {
        Some(0) => Ok(true),
        // Some survived; some timed out.
        Some(2 | 3) => Ok(false),
        _ => bail!("cargo mutants ended with {status}; its log is in {}", output.display()),
    }
}

/// All mutants share a build folder, so that dependencies are compiled once.
fn cargo(root: &Path) -> Command {
    let mut command = metal3_lab::cargo::command();
    command
        .current_dir(root)
        .env("CARGO_TARGET_DIR", root.join("target/mutants/build"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env(super::test::SEED.0, super::test::SEED.1);
    command
}
