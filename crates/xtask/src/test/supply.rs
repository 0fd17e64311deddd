//! What our programs are made of: licences, sources and known faults of the crates in Cargo.lock, by cargo-deny and `deny.toml`; and
//! that each crate that a manifest names is used, by cargo-machete.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

/// The checkers, by name and version.
const DENY: (&str, &str) = ("cargo-deny", "0.20.2");
const MACHETE: (&str, &str) = ("cargo-machete", "0.9.2");

/// Checks that fail. Known faults are looked up in a database that is fetched: where it cannot be, that is said and not counted.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let program = metal3_lab::cargo::installed(DENY.0, DENY.1)?;
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
    println!("$ cargo machete");
    let machete = metal3_lab::cargo::installed(MACHETE.0, MACHETE.1)?;
    let status = Command::new(machete).current_dir(root).status();
    if !status.context("cannot start cargo-machete")?.success() {
        failed.push("cargo machete".to_owned());
    }
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

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn images_are_built_auditable_of_a_base_that_can_be_named_by_digest() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Dockerfile");
        let text = fs::read_to_string(file).unwrap();
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let bases: Vec<_> = lines().filter_map(|line| line.strip_prefix("FROM ")).collect();
        let is_given = |base: &&str| {
            base.starts_with("${RUST_IMAGE} ") || base.starts_with("scratch ") || base.starts_with("base ")
        };
        assert!(!bases.is_empty() && bases.iter().all(is_given), "{bases:?}");
        let builds = lines().filter(|line| line.contains(" build --release"));
        assert!(builds.clone().count() > 0 && builds.clone().all(|line| line.contains("cargo auditable build")));
    }
}
