//! The image of servers that really boot: a root tree of Debian's packages with systemd, cloud-init and containerd; kubelet,
//! kubeadm and kubectl, built from their Go module; and the images of a control plane, preloaded, so that no registry is asked.
//!
//! Nothing is installed on the machine. `lab/node/image` is the recipe. Debian's mirrors keep only the newest version of a
//! package, so the versions in `packages.lock` are what the lab was tested with, and not a condition: differences are reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cache::{self, Making};
use crate::{binaries, debian};

/// Debian 13: systemd 257, cloud-init 25.1, containerd 1.7.
pub(crate) const SUITE: &str = "trixie";
/// Part of the checksum: to be changed with what this module does.
const STEPS: &str = "1";
const PACKAGES: &str = "packages";
const LOCK: &str = "packages.lock";

/// The image on this machine.
#[derive(Debug, Clone)]
pub struct Image {
    /// The root tree. Servers lay their changes over it.
    pub tree: PathBuf,
    /// The version of Kubernetes in it, such as `v1.36.3`.
    pub version: String,
    /// kubectl of this version.
    pub kubectl: PathBuf,
}

/// The image, made if it is not there yet: two minutes, and ten more where Kubernetes is not compiled yet. Blocks meanwhile.
pub fn ensure() -> Result<Image> {
    let kubernetes = binaries::ensure_node()?;
    let folder = cache::once(&name(&kubernetes)?, "the image of servers", true, |making| {
        make(making, &kubernetes)?;
        report(&making.folder)
    })?;
    image(&folder, &kubernetes)
}

/// Makes the image of the newest packages, and writes their versions to the lock file.
pub fn refresh() -> Result<Image> {
    let kubernetes = binaries::ensure_node()?;
    let root = cache::root()?;
    let old = root.join(name(&kubernetes)?);
    if old.exists() {
        fs::remove_dir_all(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    let made = cache::once(&name(&kubernetes)?, "the image of servers", true, |making| {
        make(making, &kubernetes)
    })?;
    fs::copy(made.join(LOCK), recipe()?.join(LOCK)).context("cannot write the lock file")?;
    // The lock file is part of the name.
    let folder = root.join(name(&kubernetes)?);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::rename(&made, &folder).context("cannot move the image to its place")?;
    image(&folder, &kubernetes)
}

fn image(folder: &Path, kubernetes: &Path) -> Result<Image> {
    let tree = folder.join("tree");
    Ok(Image {
        version: fs::read_to_string(kubernetes.join("version")).context("a build without its version")?,
        kubectl: tree.join("usr/local/bin/kubectl"),
        tree,
    })
}

fn recipe() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/node/image");
    path.canonicalize()
        .with_context(|| format!("the recipe of the image is not at {}", path.display()))
}

/// The name of the image's folder in the cache. `kubernetes` is the folder of a build, which is named by a checksum too.
fn name(kubernetes: &Path) -> Result<String> {
    let mut parts = vec![STEPS.as_bytes().to_vec(), SUITE.as_bytes().to_vec()];
    parts.push(kubernetes.file_name().unwrap_or_default().as_encoded_bytes().to_vec());
    parts.extend(cache::contents(&recipe()?, &|_| true)?);
    Ok(format!("node-image-{}", cache::checksum(parts)))
}

fn make(making: &Making, kubernetes: &Path) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the image of servers can only be made as root: its files belong to many users"
    );
    debian::probe()?;
    let recipe = recipe()?;
    let tree = making.folder.join("tree");
    let packages = fs::read_to_string(recipe.join(PACKAGES)).context("cannot read the list of packages")?;
    let packages: Vec<&str> = packages.lines().collect();
    let what = "installing Debian's packages into a folder (once per machine)";
    debian::install(making, what, SUITE, &packages, &tree)?;
    let version = fs::read_to_string(kubernetes.join("version")).context("a build without its version")?;
    let args = vec![tree.into(), kubernetes.into(), version.into()];
    let what = "putting Kubernetes and its images into the servers' image";
    making.run(what, &recipe.join("finish.sh"), args)
}

/// Says which packages are not those of the lock file.
fn report(folder: &Path) -> Result<()> {
    let read = |folder: &Path| fs::read_to_string(folder.join(LOCK)).context("cannot read a list of packages");
    let differences = differences(&read(&recipe()?)?, &read(folder)?);
    if !differences.is_empty() {
        cache::say(&format!(
            "WARNING: {} packages of the image are not those that it was tested with (`cargo xtask image --refresh` \
             accepts them):\n  {}",
            differences.len(),
            differences.join("\n  ")
        ));
    }
    Ok(())
}

/// A line for each package that is missing, new, or of another version. Both texts have lines of a name and a version.
fn differences(locked: &str, found: &str) -> Vec<String> {
    let read = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
            .collect()
    };
    let (locked, found) = (read(locked), read(found));
    let missing = locked.iter().filter(|(name, _)| !found.contains_key(*name));
    let missing = missing.map(|(name, version)| format!("{name}: {version} is missing"));
    let other = found.iter().filter_map(|(name, version)| match locked.get(name) {
        Some(before) if before == version => None,
        Some(before) => Some(format!("{name}: {version} instead of {before}")),
        None => Some(format!("{name}: {version} is new")),
    });
    missing.chain(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_are_not_those_of_the_lock_file_are_named() {
        let locked = "runc 1.1\nsystemd 257.13\nudev 257.13\n";
        assert_eq!(differences(locked, locked), Vec::<String>::new());
        let found = "runc 1.1\nsystemd 257.14\nsudo 1.9\n";
        let lines = [
            "udev: 257.13 is missing",
            "sudo: 1.9 is new",
            "systemd: 257.14 instead of 257.13",
        ];
        assert_eq!(differences(locked, found), lines);
    }
}
