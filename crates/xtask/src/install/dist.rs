//! `cargo xtask dist`: the files of a release.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
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
    /// The folder to write to; what it holds is replaced
    #[arg(long, default_value = "target/dist")]
    into: PathBuf,
}

/// Writes the files. Two runs of one commit write the same.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (root, version) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), version());
    if args.into.exists() {
        fs::remove_dir_all(&args.into).with_context(|| format!("cannot empty {}", args.into.display()))?;
    }
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
    fs::write(args.into.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
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

/// A program with certificates of its own making, and permissions for the Secrets of all namespaces.
fn installed(program: &Program, registry: &str, version: &str) -> Vec<Value> {
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
    [
        rights.base.as_slice(),
        &rights.secrets_in_all_namespaces,
        &own,
        &program.webhooks,
    ]
    .concat()
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
