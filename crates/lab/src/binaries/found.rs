//! Binaries already installed on the machine.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Binaries;
use crate::process::in_path;

/// The minor versions of Kubernetes 1.x that the tests are meant to pass on.
const MINORS: RangeInclusive<u32> = 33..=36;

/// etcd and kube-apiserver from `KUBEBUILDER_ASSETS` or `PATH`, if both are there and the version fits.
///
/// A variable that is set and leads nowhere is an error: it was set on purpose, and building for minutes instead would
/// hide the mistake. Other programs on `PATH` were not put there for us, so they are passed over.
pub fn search() -> Result<Option<Binaries>> {
    if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()) {
        let folder = PathBuf::from(folder);
        let at = |name: &str| Some(folder.join(name)).filter(|path| path.is_file());
        return pick(&at)?
            .with_context(|| {
                format!(
                    "KUBEBUILDER_ASSETS is {}, which does not hold both etcd and a kube-apiserver 1.{} to 1.{}",
                    folder.display(),
                    MINORS.start(),
                    MINORS.end()
                )
            })
            .map(Some);
    }
    pick(&in_path)
}

fn pick(at: &dyn Fn(&str) -> Option<PathBuf>) -> Result<Option<Binaries>> {
    let (Some(etcd), Some(kube_apiserver)) = (at("etcd"), at("kube-apiserver")) else {
        return Ok(None);
    };
    if !fits(&kube_apiserver)? {
        return Ok(None);
    }
    // The controller manager and kubectl only of a fitting version; a distribution's kubectl may be years old.
    let fitting = |name: &str| Ok::<_, anyhow::Error>(at(name).filter(|path| fits(path).unwrap_or(false)));
    let kube_controller_manager = fitting("kube-controller-manager")?;
    let kubectl = at("kubectl")
        .filter(|path| matches!(version(path, &["version", "--client"]), Ok(Some(minor)) if MINORS.contains(&minor)));
    Ok(Some(Binaries {
        etcd,
        kube_apiserver,
        kube_controller_manager,
        kubectl,
    }))
}

fn fits(path: &Path) -> Result<bool> {
    Ok(version(path, &["--version"])?.is_some_and(|minor| MINORS.contains(&minor)))
}

fn version(path: &Path, args: &[&str]) -> Result<Option<u32>> {
    let output = Command::new(path)
        .args(args)
        .output()
        .with_context(|| format!("cannot run {}", path.display()))?;
    Ok(minor(&String::from_utf8_lossy(&output.stdout)))
}

/// The minor version in a text such as `Kubernetes v1.36.3`.
fn minor(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("v1.")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn versions_are_read_from_what_the_commands_print() {
        assert_eq!(minor("Kubernetes v1.36.3\n"), Some(36));
        assert_eq!(minor("Client Version: v1.20.5-rc1+x\nKustomize Version: v5"), Some(20));
        assert_eq!(minor("Kubernetes v0.0.0-master+$Format:%H$"), None);
    }

    #[test]
    fn a_pair_is_taken_only_if_the_api_server_fits() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Some(folder.path().join(name)).filter(|path| path.is_file());
        let put = |name: &str, prints: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\necho '{prints}'\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        put("kubectl", "Client Version: v1.20.5");
        assert_eq!(pick(&at).unwrap(), None, "a kubectl alone is nothing");
        put("etcd", "etcd Version: 3.6.16");
        put("kube-apiserver", "Kubernetes v1.32.9");
        assert_eq!(pick(&at).unwrap(), None, "too old");
        put("kube-apiserver", "Kubernetes v1.33.0");
        let found = pick(&at).unwrap().expect("fits");
        assert_eq!(
            (found.kube_controller_manager, found.kubectl),
            (None, None),
            "the old kubectl is passed over"
        );
    }
}
