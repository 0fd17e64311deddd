//! `cargo xtask fuzz`: libFuzzer searches for inputs that break what must hold for every input (`crates/fuzz`). It starts from
//! `fuzz/corpus`, keeps what reaches new code in `target/fuzz/corpus`, and leaves a failing input in `fuzz/artifacts`.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use metal3_fuzz::TARGETS;

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Args {
    /// Which kinds of input; all by default
    #[arg(value_parser = TARGETS.map(|target| target.name))]
    targets: Vec<String>,
    /// Minutes of search, shared by the kinds
    #[arg(long, default_value_t = 60)]
    minutes: u64,
}

/// The required version of cargo-fuzz.
const VERSION: &str = "0.13.2";

/// In bytes. Longer inputs reach no other code.
const LONGEST: &str = "-max_len=16384";

/// Searches. Fails if an input breaks something.
pub fn run(args: &Args) -> Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let is_there = cargo(&root).args(["fuzz", "--version"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        bail!(
            "cargo-fuzz or a nightly compiler is missing: rustup toolchain install nightly && cargo install --locked \
             cargo-fuzz@{VERSION}"
        );
    }
    let is_wanted = |name: &&str| args.targets.is_empty() || args.targets.iter().any(|wanted| wanted == name);
    let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).filter(is_wanted).collect();
    let seconds = (args.minutes * 60).div_ceil(targets.len() as u64);
    let mut failed = Vec::new();
    for target in targets {
        println!("\n=== {target} ===");
        if !holds(&root, target, seconds)? {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "\nFAILED: {}. The inputs are in fuzz/artifacts: mend the fault and add them to fuzz/corpus.",
        failed.join(", ")
    );
    Ok(ExitCode::FAILURE)
}

/// New inputs go to the first folder. Without a sanitizer, which is for `unsafe` code, a search is twice as fast.
fn holds(root: &Path, target: &str, seconds: u64) -> Result<bool> {
    let found = root.join("target/fuzz/corpus").join(target);
    std::fs::create_dir_all(&found)?;
    let status = cargo(root)
        .args(["fuzz", "run", "--sanitizer", "none", target])
        .arg(&found)
        .arg(root.join("fuzz/corpus").join(target))
        .args(["--", LONGEST, &format!("-max_total_time={seconds}")])
        .status()
        .context("cannot start cargo fuzz")?;
    Ok(status.success())
}

/// The nightly one: libFuzzer needs flags of the compiler that are not stable.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new("rustup");
    for name in metal3_lab::cargo::variables_of_this_package() {
        command.env_remove(name);
    }
    command
        .args(["run", "nightly", "cargo"])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", root.join("target/fuzz/build"));
    command
}
