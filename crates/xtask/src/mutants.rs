//! `cargo xtask mutants`: does a test fail when a pure decision is changed? A sample of small changes (mutants) is made by
//! cargo-mutants to a copy of the tree, one after the other; those that no test notices are printed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

/// Arguments of `cargo xtask mutants`.
#[derive(clap::Args)]
pub struct Args {
    /// Which rooms: decide, select, alloc, render; all of them without a name
    rooms: Vec<String>,
    /// How many mutants of each room are tried, spread evenly over its files; 60 of each take about an hour
    #[arg(long, default_value_t = 60)]
    sample: usize,
    /// Which of the samples that do not overlap; another number tries other mutants
    #[arg(long, default_value_t = 0)]
    part: usize,
}

/// Pure code, and the tests that have to notice a change of it.
struct Room {
    name: &'static str,
    package: &'static str,
    files: &'static str,
    tests: &'static [&'static str],
}

const ROOMS: [Room; 4] = [
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

/// The version that is asked for when there is none.
const VERSION: &str = "27.1.0";

/// A mutant that makes the tests run so many times as long as they should makes one run for ever, and is caught.
const TIMEOUT: [&str; 4] = ["--timeout-multiplier", "4", "--minimum-test-timeout", "60"];

/// So many of ten mutants have to be caught.
const ENOUGH_OF_TEN: usize = 9;

/// Tries the mutants. Fails when too many of a room survive.
pub fn run(args: &Args) -> Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    if let Some(unknown) = args
        .rooms
        .iter()
        .find(|name| ROOMS.iter().all(|room| room.name != **name))
    {
        bail!("there is no room {unknown}: choose among decide, select, alloc and render");
    }
    if args.sample == 0 {
        bail!("--sample must be at least 1");
    }
    let is_there = cargo(&root).args(["mutants", "--version"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        bail!("cargo-mutants is not installed: cargo install --locked cargo-mutants@{VERSION}");
    }
    let mut is_enough = true;
    let mut sums = String::new();
    for room in ROOMS
        .iter()
        .filter(|room| args.rooms.is_empty() || args.rooms.contains(&room.name.to_owned()))
    {
        let outcome = try_room(&root, room, args)?;
        is_enough &= outcome.is_enough();
        sums += &outcome.line(room.name);
        println!("{}", outcome.line(room.name));
        for survivor in &outcome.missed {
            println!("  survived: {survivor}");
        }
    }
    println!("\n=== mutants ===\n{sums}");
    Ok(if is_enough {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What became of the mutants of a room.
struct Outcome {
    caught: usize,
    missed: Vec<String>,
    unviable: usize,
}

impl Outcome {
    fn is_enough(&self) -> bool {
        self.caught * 10 >= (self.caught + self.missed.len()) * ENOUGH_OF_TEN
    }

    fn line(&self, room: &str) -> String {
        let word = if self.is_enough() { "ok" } else { "TOO FEW" };
        let tried = self.caught + self.missed.len();
        format!(
            "  {word:7} {room:7} {} of {tried} caught, {} do not compile\n",
            self.caught, self.unviable
        )
    }
}

fn try_room(repository: &Path, room: &Room, args: &Args) -> Result<Outcome> {
    let selection = ["mutants", "--package", room.package, "--file", room.files];
    let list = cargo(repository)
        .args(selection)
        .args(["--list", "--no-shuffle"])
        .output();
    let list = list.context("cannot start cargo mutants")?;
    if !list.status.success() {
        bail!("cargo mutants --list: {}", String::from_utf8_lossy(&list.stderr));
    }
    let total = String::from_utf8_lossy(&list.stdout).lines().count();
    let parts = (total / args.sample).max(1);
    println!("=== {}: {} of {total} mutants ===", room.name, total.div_ceil(parts));
    let output = repository.join("target/mutants").join(room.name);
    std::fs::create_dir_all(&output)?;
    let shard = format!("{}/{parts}", args.part % parts);
    let status = cargo(repository)
        .args(selection)
        .args(["--no-shuffle", "--sharding", "round-robin", "--shard", &shard])
        .args(TIMEOUT)
        .args(["--colors", "never", "--output"])
        .arg(&output)
        .arg("--")
        .args(room.tests)
        .status()
        .context("cannot start cargo mutants")?;
    // 2: some survived; 3: some ran too long.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        bail!("cargo mutants ended with {status}; its log is in {}", output.display());
    }
    let read = |name: &str| lines(&output.join("mutants.out").join(name));
    Ok(Outcome {
        caught: read("caught.txt")?.len() + read("timeout.txt")?.len(),
        missed: read("missed.txt")?,
        unviable: read("unviable.txt")?.len(),
    })
}

fn lines(file: &PathBuf) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Builds of all mutants share a folder, so that dependencies are compiled once.
fn cargo(root: &Path) -> Command {
    let mut command = metal3_lab::cargo::command();
    command
        .current_dir(root)
        .env("CARGO_TARGET_DIR", root.join("target/mutants/build"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env(super::test::SEED.0, super::test::SEED.1);
    command
}
