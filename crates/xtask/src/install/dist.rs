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
use super::deployment::{Certificates, Style, deployment, disruption_budget, metrics, metrics_reader, network_policy};
use super::origin::{Key, statement};
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
    /// The plugin of kubectl, as `cargo build --release -p kubectl-metal3` makes it; it goes beside the other files
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// A private key on the curve P-256, in PEM, with which the list of checksums is signed
    #[arg(long, value_name = "FILE")]
    sign_with: Option<PathBuf>,
}

/// Writes the files. Two runs of one commit write the same, but for the signature.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (root, version) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), version());
    let key = args.sign_with.as_deref().map(Key::read).transpose()?;
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
    let mut names: Vec<String> = files.into_iter().map(|(name, _)| name).collect();
    names.push(chart(&root, args, &version)?);
    names.extend(materials(&root, &args.into)?);
    for (name, path) in MONITORING {
        fs::copy(root.join(path), args.into.join(name)).with_context(|| format!("cannot copy {path}"))?;
        names.push(name.to_owned());
    }
    let plugin = args.plugin.iter().map(|path| (PLUGIN, path.clone()));
    for (name, path) in plugin.chain([(CHANGES, root.join(CHANGES))]) {
        fs::copy(&path, args.into.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
        names.push(name.to_owned());
    }
    if args.plugin.is_none() {
        eprintln!("NO {PLUGIN}: --plugin names it");
    }
    names.sort();
    let sum = |name: String| -> anyhow::Result<_> {
        let content = fs::read(args.into.join(&name)).with_context(|| format!("cannot read {name}"))?;
        Ok((name, hex(&Sha256::digest(&content))))
    };
    let mut sums = names.into_iter().map(sum).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(statement) = statement(&root, &args.registry, &version, &sums)? {
        fs::write(args.into.join(PROVENANCE), serde_json::to_vec_pretty(&statement)?)?;
        sums.push(sum(PROVENANCE.to_owned())?);
    } else {
        eprintln!("NO {PROVENANCE}: this is not the unchanged working tree of a commit");
    }
    let lines = sums.iter().fold(String::new(), |mut lines, (name, sum)| {
        writeln!(lines, "{sum}  {name}").ok();
        lines
    });
    fs::write(args.into.join(SUMS), &lines)?;
    print!("{lines}");
    match key {
        Some(key) => fs::write(args.into.join(SIGNATURE), key.sign(lines.as_bytes())?)?,
        None => eprintln!("NOT SIGNED: --sign-with names a key"),
    }
    Ok(())
}

/// Lists the crates that each program is made of.
const CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// Writes a list of the crates, with versions, licences and checksums, for each program of a release. Returns the files' names.
fn materials(root: &Path, into: &Path) -> anyhow::Result<Vec<String>> {
    let program = metal3_lab::cargo::installed(CYCLONEDX.0, CYCLONEDX.1)?;
    // It writes beside the manifests that it reads.
    let copy = tempfile::tempdir().context("a folder for the lists of crates")?;
    let status = Command::new("sh")
        .args([
            "-c",
            r#"tar -C "$1" --exclude=./target --exclude=./.git --exclude=./.lab -cf - . | tar -C "$2" -xf -"#,
            "sh",
        ])
        .args([root, copy.path()])
        .status();
    ensure!(status.context("cannot start sh")?.success(), "cannot copy the sources");
    let status = Command::new(&program)
        .current_dir(copy.path())
        .args(["cyclonedx", "--format", "json", "--quiet"])
        // Without it there would be the time and a random number.
        .env("SOURCE_DATE_EPOCH", "0")
        .status();
    ensure!(
        status.context("cannot start cargo-cyclonedx")?.success(),
        "cargo-cyclonedx failed"
    );
    let mut names = Vec::new();
    for (folder, package) in [
        ("baremetal-operator", "baremetal-operator"),
        ("capm3", "cluster-api-provider-metal3"),
        ("ipam", "ip-address-manager"),
        ("kubectl-metal3", "kubectl-metal3"),
    ] {
        let name = format!("{package}.cdx.json");
        let made = copy.path().join("crates").join(folder).join(&name);
        let text = fs::read_to_string(&made).with_context(|| format!("cargo-cyclonedx has not written {name}"))?;
        // Where the copy was says nothing.
        let place = format!("path+file://{}", copy.path().display());
        fs::write(into.join(&name), text.replace(&place, "path+file://"))?;
        names.push(name);
    }
    Ok(names)
}

/// What has changed.
const CHANGES: &str = "CHANGELOG.md";
/// For those who do not install the chart, which brings them.
const MONITORING: [(&str, &str); 2] = [
    ("metal3-alerts.yaml", "charts/metal3/alerts.yaml"),
    ("metal3-dashboard.json", "charts/metal3/dashboard.json"),
];
/// The plugin of kubectl, for the platform that it was built for.
const PLUGIN: &str = "kubectl-metal3";
/// The list of all files of a release.
const SUMS: &str = "SHA256SUMS";
/// A signature over that list.
const SIGNATURE: &str = "SHA256SUMS.sig";
/// What all other files were made of.
const PROVENANCE: &str = "provenance.intoto.json";

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
    for name in names.map(|(_, name)| name).chain([SIGNATURE]).map(Path::new) {
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
        metrics_reader(program),
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
