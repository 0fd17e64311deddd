//! The test programs of the workspace, built once.
//!
//! `cargo test --package P` would choose the features of P's dependencies for P alone, and so compile kube and all below it
//! once more for nearly every package: minutes, and gigabytes. Here the workspace is built as one, and the programs are
//! started directly.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use serde::Deserialize;

/// What the build of all tests left.
pub struct Programs {
    /// By package and name, the tests beside the code first.
    pub tests: Vec<TestProgram>,
    /// Our programs themselves, which scenarios start, by name.
    pub ours: BTreeMap<String, PathBuf>,
}

/// One program of tests.
#[derive(Debug, Default)]
pub struct TestProgram {
    pub package: String,
    pub name: String,
    /// Holds the tests that stand in a library or a program, not those of a file in `tests/`.
    pub is_beside_code: bool,
    pub executable: PathBuf,
    /// Where its `Cargo.toml` is. Tests are run from there.
    pub folder: PathBuf,
}

/// A line of `cargo --message-format=json`, as far as it is read.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Programs {
    /// Compiles every program and every test of the workspace.
    pub fn build(root: &Path) -> anyhow::Result<Self> {
        let output = metal3_lab::cargo::command()
            .current_dir(root)
            .args(["test", "--workspace", "--locked", "--no-run"])
            .arg("--message-format=json-render-diagnostics")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo")?;
        if !output.status.success() {
            bail!("the tests cannot be built");
        }
        Self::read(&String::from_utf8_lossy(&output.stdout))
    }

    fn read(lines: &str) -> anyhow::Result<Self> {
        let mut tests = Vec::new();
        let mut ours = BTreeMap::new();
        for line in lines.lines() {
            let message: Message = serde_json::from_str(line).context("cargo gave no JSON")?;
            let (Some(target), Some(profile), Some(executable)) = (message.target, message.profile, message.executable)
            else {
                continue;
            };
            if message.reason != "compiler-artifact" {
                continue;
            }
            if profile.test {
                tests.push(TestProgram {
                    package: package_of(&message.package_id).to_owned(),
                    name: target.name,
                    is_beside_code: !target.kind.iter().any(|kind| kind == "test"),
                    executable,
                    folder: message.manifest_path.parent().unwrap_or(Path::new(".")).to_owned(),
                });
            } else {
                ours.insert(target.name, executable);
            }
        }
        tests.sort_by(|a, b| (!a.is_beside_code, &a.package, &a.name).cmp(&(!b.is_beside_code, &b.package, &b.name)));
        if !ours.contains_key("baremetal-operator") {
            bail!("the build made no baremetal-operator");
        }
        Ok(Self { tests, ours })
    }

    /// The variables that tell scenarios where our programs are, such as `BAREMETAL_OPERATOR_PROGRAM`.
    pub fn variables(&self) -> impl Iterator<Item = (String, &Path)> {
        let variable = |name: &str| format!("{}_PROGRAM", name.to_uppercase().replace('-', "_"));
        self.ours
            .iter()
            .map(move |(name, path)| (variable(name), path.as_path()))
    }
}

/// The name in cargo's `path+file:///folder#name@version`, or `path+file:///name#version` where the folder has the same.
fn package_of(id: &str) -> &str {
    let (folder, rest) = id.split_once('#').unwrap_or((id, ""));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next().unwrap_or(folder),
    }
}

impl TestProgram {
    /// What a person types to run this program alone.
    pub fn command_of_a_person(&self) -> String {
        let (package, name) = (&self.package, &self.name);
        if self.is_beside_code {
            format!("cargo test --package {package} --lib --bins # {name}")
        } else {
            format!("cargo test --package {package} --test {name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_tells_its_tests_and_our_programs() {
        let lines = r#"{"reason":"compiler-artifact","package_id":"registry+https://x#serde@1.0.0","manifest_path":"/r/Cargo.toml","target":{"kind":["lib"],"name":"serde"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/ipam#ip-address-manager@0.1.0","manifest_path":"/w/crates/ipam/Cargo.toml","target":{"kind":["test"],"name":"claims"},"profile":{"test":true},"executable":"/t/claims-1"}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/xtask#0.1.0","manifest_path":"/w/crates/xtask/Cargo.toml","target":{"kind":["bin"],"name":"xtask"},"profile":{"test":true},"executable":"/t/xtask-1"}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/b#baremetal-operator@0.1.0","manifest_path":"/w/crates/b/Cargo.toml","target":{"kind":["bin"],"name":"baremetal-operator"},"profile":{"test":false},"executable":"/t/baremetal-operator"}
{"reason":"build-finished","success":true}"#;
        let programs = Programs::read(lines).expect("it can be read");
        let variables: Vec<_> = programs.variables().collect();
        let wanted = (
            "BAREMETAL_OPERATOR_PROGRAM".to_owned(),
            Path::new("/t/baremetal-operator"),
        );
        assert_eq!(variables, [wanted]);
        let found: Vec<_> = programs
            .tests
            .iter()
            .map(|t| (&*t.package, &*t.name, t.is_beside_code))
            .collect();
        assert_eq!(
            found,
            [("xtask", "xtask", true), ("ip-address-manager", "claims", false)]
        );
        assert_eq!(programs.tests[1].folder, Path::new("/w/crates/ipam"));
    }
}
