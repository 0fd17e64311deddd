//! Runs cargo from our own programs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache;

/// The variables that cargo has set for this process and that a cargo started by it must not see.
///
/// `cargo run` and `cargo test` tell a program about its package, `CARGO_PKG_NAME` and the like. Build scripts such as
/// ring's ask to be run again when these change. Handed on, they would change with every way to start a build, and with
/// them ring, rustls, kube and everything above would be compiled again, time after time.
pub fn variables_of_this_package() -> Vec<OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    let is_of_a_package = |name: &OsString| {
        let name = name.to_string_lossy();
        let families = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_"];
        families.iter().any(|family| name.starts_with(family))
            || ["CARGO_CRATE_NAME", "CARGO_BIN_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"].contains(&&*name)
    };
    names.filter(is_of_a_package).collect()
}

/// The cargo that runs us, or the one on `PATH`.
pub fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A cargo that builds as one started by a person would.
pub fn command() -> Command {
    let mut command = Command::new(program());
    for name in variables_of_this_package() {
        command.env_remove(name);
    }
    command
}

/// A program that cargo installs, in this version; built once per machine.
pub fn installed(name: &str, version: &str) -> Result<PathBuf> {
    installed_with(name, version, &[])
}

/// The same with these features instead of the usual ones.
pub fn installed_with(name: &str, version: &str, features: &[&str]) -> Result<PathBuf> {
    let what = format!("{name} {version}");
    let folder = cache::once(&format!("{name}-{version}"), &what, true, |making| {
        cache::say(&format!("building {what}, which takes some minutes, once"));
        let build = making.folder.join("build");
        // Not optimised: it takes longer to build such a program than to run it for years.
        let status = command()
            .current_dir(&making.folder)
            .args(["install", name, "--quiet", "--locked", "--debug", "--version", version])
            .arg("--root")
            .arg(&making.folder)
            .args(if features.is_empty() {
                &[][..]
            } else {
                &["--no-default-features", "--features"]
            })
            .args((!features.is_empty()).then(|| features.join(",")))
            .env("CARGO_TARGET_DIR", &build)
            .status()
            .context("cannot start cargo")?;
        ensure!(status.success(), "{what} cannot be built");
        // Half a gigabyte that is not needed again.
        std::fs::remove_dir_all(build).ok();
        Ok(())
    })?;
    Ok(folder.join("bin").join(name))
}
