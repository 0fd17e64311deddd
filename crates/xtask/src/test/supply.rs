//! What our programs are made of: licences, sources and known faults of the crates in Cargo.lock, by cargo-deny and `deny.toml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// The checker. It is built once, into `target/tools`.
const VERSION: &str = "0.20.2";

/// Checks that fail. Known faults are looked up in a database that is fetched: where it cannot be, that is said and not counted.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let program = ensure(root)?;
    let deny = |args: &str| -> anyhow::Result<bool> {
        println!("$ cargo deny {args}");
        let mut command = Command::new(&program);
        let status = command.current_dir(root).args(args.split(' ')).status();
        Ok(status.context("cannot start cargo-deny")?.success())
    };
    let fetched = metal3_lab::cargo::command()
        .current_dir(root)
        .args(["fetch", "--quiet", "--locked"])
        .status();
    anyhow::ensure!(
        fetched.context("cannot start cargo")?.success(),
        "the crates of Cargo.lock cannot be fetched"
    );
    let mut failed = Vec::new();
    let offline = "--offline --locked check --hide-inclusion-graph bans licenses sources";
    if !deny(offline)? {
        failed.push(format!("cargo deny {offline}"));
    }
    if !deny("--log-level error fetch db")? {
        println!("KNOWN FAULTS OF CRATES WERE NOT LOOKED UP: the database of RustSec cannot be fetched from here");
        return Ok(failed);
    }
    let known = "--offline --locked check --hide-inclusion-graph advisories";
    if !deny(known)? {
        failed.push(format!("cargo deny {known}"));
    }
    Ok(failed)
}

/// The program, which is built where it is missing or another version.
fn ensure(root: &Path) -> anyhow::Result<PathBuf> {
    let tools = root.join("target/tools");
    let program = tools.join("bin/cargo-deny");
    let said = Command::new(&program).arg("--version").output();
    let is_it = said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim() == format!("cargo-deny {VERSION}"));
    if is_it {
        return Ok(program);
    }
    println!("building cargo-deny {VERSION}, which takes some minutes, once");
    let status = metal3_lab::cargo::command()
        .current_dir(root)
        .args([
            "install",
            "cargo-deny",
            "--quiet",
            "--locked",
            "--force",
            "--version",
            VERSION,
            "--root",
        ])
        .arg(&tools)
        .env("CARGO_TARGET_DIR", tools.join("build"))
        .status()
        .context("cannot start cargo")?;
    anyhow::ensure!(status.success(), "cargo-deny {VERSION} cannot be built");
    // Half a gigabyte that nobody needs again.
    std::fs::remove_dir_all(tools.join("build")).ok();
    Ok(program)
}
