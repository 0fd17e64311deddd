//! `cargo xtask dist`: the files of a release.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use metal3_api::crd;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::bases::version;
use super::clusterctl::{components, metadata};
use super::deployment::{Certificates, Style, deployment, disruption_budget, metrics, network_policy};
use super::program::{self, Program};
use crate::generate::files::yaml;

/// Arguments of `cargo xtask dist`.
#[derive(clap::Args)]
pub struct Args {
    /// Registry and path of the images, before their names
    #[arg(long)]
    registry: String,
    /// The folder to write to: a new one, or one that this command has written, whose files are replaced
    #[arg(long, default_value = "target/dist")]
    into: PathBuf,
}

/// Writes the files. Two runs of one commit write the same.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (root, version) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), version());
    let mut files = texts(&args.registry, &version)?;
    let templates = root.join("config/clusterctl");
    for entry in fs::read_dir(&templates).context("the cluster templates")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Both providers are found in folders of their own.
        files.push((
            format!("infrastructure-metal3/{version}/{name}"),
            fs::read_to_string(&path)?,
        ));
    }
    remove_former(&args.into)?;
    for (name, text) in &files {
        let path = args.into.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&args.into))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let chart = chart(&root, args, &version)?;
    let mut sums = String::new();
    for name in files.iter().map(|(name, _)| name).chain([&chart]) {
        let content = fs::read(args.into.join(name))?;
        writeln!(sums, "{}  {name}", hex(&Sha256::digest(&content)))?;
    }
    fs::write(args.into.join(SUMS), &sums)?;
    print!("{sums}");
    Ok(())
}

/// The list of all files of a release.
const SUMS: &str = "SHA256SUMS";

/// Removes the files of an earlier release, by its own list. A folder with anything else is not ours to write to.
fn remove_former(folder: &Path) -> anyhow::Result<()> {
    let is_empty = !folder.exists() || fs::read_dir(folder).context("the folder to write to")?.next().is_none();
    if is_empty {
        return Ok(());
    }
    let sums = fs::read_to_string(folder.join(SUMS)).with_context(|| {
        let folder = folder.display();
        format!("{folder} is not empty and holds no earlier release: name a new folder with --into")
    })?;
    let names = sums.lines().filter_map(|line| line.split_once("  "));
    for name in names.map(|(_, name)| Path::new(name)) {
        let is_within = name.components().all(|part| matches!(part, Component::Normal(_)));
        let path = folder.join(name);
        if is_within && path.exists() {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// The manifests, by their names in the folder.
fn texts(registry: &str, version: &str) -> anyhow::Result<Vec<(String, String)>> {
    ensure!(
        !registry.is_empty() && !registry.ends_with('/'),
        "--registry is the path before an image's name"
    );
    let programs = program::all();
    let metadata = yaml(&[metadata(version)?])?;
    let mut files = Vec::new();
    for program in &programs {
        let Some((_, provider)) = (!program.drives_ironic()).then_some(program.label) else {
            continue;
        };
        let kind = provider.split('-').next().unwrap_or_default();
        let folder = format!("{provider}/{version}");
        let text = with_quotes(&yaml(&components(program, registry, version)?)?);
        files.push((format!("{folder}/{kind}-components.yaml"), text));
        files.push((format!("{folder}/metadata.yaml"), metadata.clone()));
    }
    let mut all = Vec::new();
    for program in &programs {
        all.extend(installed(program, registry, version));
    }
    let definitions = crd::all()?;
    let definitions: Vec<Value> = definitions.iter().map(|crd| crd.manifest().clone()).collect();
    files.push(("metal3.yaml".to_owned(), yaml(&[definitions, all].concat())?));
    Ok(files)
}

/// Quotes each value that is a variable: what a user sets it to stays text, where `true` or `1` would become something else.
fn with_quotes(text: &str) -> String {
    let line = |line: &str| match line.split_once(": ${") {
        Some((key, variable)) => format!("{key}: \"${{{variable}\"\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// A program with certificates of its own making, and the least permissions for Secrets with which it works in any namespace.
pub(super) fn installed(program: &Program, registry: &str, version: &str) -> Vec<Value> {
    let style = Style {
        image: &format!("{registry}/{}:{version}", program.name),
        certificates: Certificates::Own,
        has_variables: false,
    };
    let rights = &program.rights;
    let own = [
        deployment(program, style),
        metrics(program),
        network_policy(program),
        disruption_budget(program),
    ];
    [rights.base.as_slice(), &rights.secrets_by_name, &own, &program.webhooks].concat()
}

/// The chart with this version and registry, packed reproducibly. Returns its name.
fn chart(root: &Path, args: &Args, version: &str) -> anyhow::Result<String> {
    let version = version.trim_start_matches('v');
    let name = format!("metal3-{version}.tgz");
    let copy = tempfile::tempdir().context("a folder for the chart")?;
    let folder = copy.path().join("metal3");
    let run = |command: &mut Command| -> anyhow::Result<()> {
        let status = command.status().context("cannot run a command")?;
        ensure!(status.success(), "{command:?} failed ({status})");
        Ok(())
    };
    run(Command::new("cp")
        .arg("-r")
        .arg(root.join("charts/metal3"))
        .arg(&folder))?;
    let values = folder.join("values.yaml");
    let text = fs::read_to_string(&values)?.replace("registry: \"\"", &format!("registry: {:?}", args.registry));
    fs::write(values, text)?;
    run(Command::new("tar")
        .args([
            "--sort=name",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--mode=a=rX,u+w",
        ])
        .args(["--use-compress-program", "gzip -n9", "-cf"])
        .arg(args.into.join(&name))
        .arg("-C")
        .arg(copy.path())
        .arg("metal3"))?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_an_earlier_release_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        remove_former(&folder.path().join("new")).unwrap();
        remove_former(folder.path()).unwrap();
        write("mine", "");
        let error = remove_former(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--into"), "{error}");
        write("old.yaml", "");
        write(SUMS, "00  old.yaml\n00  gone.yaml\n00  ../mine\n00  /etc/hostname\n");
        remove_former(folder.path()).unwrap();
        assert!(folder.path().join("mine").exists());
        assert!(!folder.path().join("old.yaml").exists());
    }
}
