//! Debian's packages, without installing anything.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::Making;
use crate::process::in_path;

/// Whom Debian's releases are signed by.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Where the packages come from.
const MIRROR: &str = "http://deb.debian.org/debian";

/// The line of `sources.list` for a release.
fn source(suite: &str) -> String {
    format!("deb [signed-by={KEYRING}] {MIRROR} {suite} main")
}

/// Fails, with what to install, where packages cannot be fetched or their signatures not be checked.
pub(crate) fn probe() -> Result<()> {
    tool("apt-get")?;
    tool("dpkg-deb")?;
    if !Path::new(KEYRING).exists() {
        bail!(
            "{KEYRING} does not exist, so Debian's packages cannot be checked: apt-get install debian-archive-keyring"
        );
    }
    Ok(())
}

fn tool(name: &str) -> Result<PathBuf> {
    in_path(name).with_context(|| {
        format!("there is no {name} on PATH: it handles packages of Debian, so Debian or Ubuntu is needed")
    })
}

/// Unpacks packages of a release, such as `cloud-init` or `cloud-init=25.1.4-*`. apt works in a folder of its own: it needs no
/// root, the machine may run another release, and its lists stay as they are.
pub(crate) fn unpack(making: &Making, suite: &str, packages: &[&str], into: &Path) -> Result<()> {
    probe()?;
    let (apt, dpkg) = (tool("apt-get")?, tool("dpkg-deb")?);
    let folder = making.folder.join(format!("apt-{suite}"));
    for below in ["lists/partial", "cache/archives/partial", "state"] {
        fs::create_dir_all(folder.join(below)).context("cannot make a folder for apt")?;
    }
    fs::write(folder.join("status"), "").context("cannot write a file for apt")?;
    fs::write(folder.join("sources.list"), source(suite) + "\n").context("cannot write a file for apt")?;

    let lists = format!("reading Debian's list of packages ({suite})");
    making.run(&lists, &apt, apt_args(&folder, &["update"]))?;
    // apt writes into the folder that it is started in, so it is started by a shell that has gone there.
    let mut download = vec![
        "-c".into(),
        r#"cd "$0" && exec "$@""#.into(),
        folder.clone().into_os_string(),
        apt.into_os_string(),
    ];
    download.extend(apt_args(&folder, &[&["download"], packages].concat()));
    let names = packages.join(" ");
    making.run(&format!("fetching {names}"), Path::new("/bin/sh"), download)?;

    let files: Vec<PathBuf> = fs::read_dir(&folder)
        .context("cannot look for packages")?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect();
    ensure!(
        files.len() == packages.len(),
        "apt-get has left {} packages in {} instead of {}",
        files.len(),
        folder.display(),
        packages.len()
    );
    for file in files {
        let args = vec!["--extract".into(), file.into(), into.into()];
        making.run(&format!("unpacking {names}"), &dpkg, args)?;
    }
    fs::remove_dir_all(&folder).context("cannot remove apt's folder")
}

/// Installs packages, and what they need, into a root tree of its own, or into an archive of one where `into` ends with `.tar`. The
/// tree's files belong to many users, so this needs root.
pub(crate) fn install(making: &Making, what: &str, suite: &str, packages: &[&str], into: &Path) -> Result<()> {
    let tools = making.folder.join("mmdebstrap");
    unpack(making, suite, &["mmdebstrap"], &tools)?;
    // mmdebstrap finds a tool of its own on PATH.
    let programs = tools.join("usr/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    // Half of a small tree is documentation and translations.
    let without = ["doc", "man", "locale", "info", "lintian"];
    let without = without.map(|part| format!("--dpkgopt=path-exclude=/usr/share/{part}/*"));
    let mut args = vec![
        format!("PATH={}:{path}", programs.display()),
        "mmdebstrap".to_owned(),
        "--mode=root".to_owned(),
        "--variant=essential".to_owned(),
        "--aptopt=APT::Install-Recommends \"false\"".to_owned(),
    ];
    args.extend(without);
    args.extend([
        format!("--include={}", packages.join(",")),
        suite.to_owned(),
        into.display().to_string(),
        source(suite),
    ]);
    making.run(what, Path::new("env"), args.into_iter().map(Into::into).collect())?;
    fs::remove_dir_all(&tools).context("cannot remove mmdebstrap")
}

fn apt_args(folder: &Path, command: &[&str]) -> Vec<OsString> {
    let at = |option: &str, below: &str| format!("Dir::{option}={}", folder.join(below).display());
    let options = [
        at("State", "state"),
        at("State::Lists", "lists"),
        at("State::status", "status"),
        at("Cache", "cache"),
        at("Etc::SourceList", "sources.list"),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        "Acquire::Languages=none".to_owned(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        "Acquire::Retries=3".to_owned(),
        "APT::Update::Error-Mode=any".to_owned(),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]);
    options
        .chain(command.iter().map(|word| (*word).to_owned()))
        .map(OsString::from)
        .collect()
}
