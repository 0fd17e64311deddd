//! `examples`: manifests that work as they stand once the addresses are yours, one file for each use.
//!
//! A group of examples is a module here with a function `examples`. What applies the files in tests looks for them
//! itself, so a new group needs no more than its line in [`files`].

mod bmcs;
mod claims;
mod clusters;
mod companions;
mod file;
mod hosts;
mod ipam;
mod rack;

use super::Files;
use std::collections::BTreeMap;
use std::path::Path;

/// One folder in it for each group.
pub const FOLDER: &str = "examples";

/// Texts by their path below [`FOLDER`], such as `ipam/range.yaml`.
type Examples = BTreeMap<String, String>;

/// The examples of one folder, by their names.
fn named<const N: usize>(folder: &str, files: [(&str, String); N]) -> Examples {
    files.map(|(name, text)| (format!("{folder}/{name}.yaml"), text)).into()
}

pub fn files() -> anyhow::Result<Files> {
    let groups = [
        bmcs::examples()?,
        claims::examples()?,
        clusters::examples()?,
        companions::examples()?,
        hosts::examples()?,
        ipam::examples()?,
        rack::examples()?,
    ];
    let files = groups.into_iter().flatten();
    Ok(files.map(|(path, text)| (Path::new(FOLDER).join(path), text)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use metal3_api::metal3::{BareMetalHost, HostClaim};
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    fn read<K: DeserializeOwned + Serialize>(value: &Value) -> K {
        let read: K = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(&serde_json::to_value(&read).unwrap(), value);
        read
    }

    /// A comment or a fold in the wrong place would change what is read.
    #[test]
    fn hosts_read_back_with_the_secrets_that_they_name() {
        for (path, text) in files().unwrap() {
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
            let secrets: Vec<_> = of_kind("Secret")
                .map(|secret| secret["metadata"]["name"].as_str().unwrap())
                .collect();
            let mut wanted = Vec::new();
            for value in of_kind("BareMetalHost") {
                let spec = read::<BareMetalHost>(value).spec;
                if let Some(image) = spec.wanted_image() {
                    image.resolve_checksum().unwrap();
                    wanted.push(image.oci_auth_secret_name.clone());
                }
                let references = [spec.user_data, spec.network_data, spec.meta_data];
                wanted.extend(references.into_iter().flatten().map(|r| r.name));
                wanted.push(spec.bmc.credentials_name);
            }
            for value in of_kind("HostClaim") {
                let spec = read::<HostClaim>(value).spec;
                let references = [spec.user_data, spec.network_data, spec.meta_data];
                wanted.extend(references.into_iter().flatten().map(|r| r.name));
            }
            for name in wanted.iter().filter(|name| !name.is_empty()) {
                assert!(secrets.contains(&name.as_str()), "{}: no Secret {name}", path.display());
            }
        }
    }

    /// A file is there to be applied: it has objects, and no two of one name.
    #[test]
    fn every_file_has_its_own_objects() {
        for (path, text) in files().unwrap() {
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            let mut names: Vec<_> = objects
                .iter()
                .map(|object| format!("{} {}", object["kind"], object["metadata"]["name"]))
                .collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert!(count > 0 && names.len() == count, "{}: {names:?}", path.display());
        }
    }

    // OWN 20d: an example promised the same server, which machines that come first cannot get.
    #[test]
    fn a_control_plane_that_reuses_servers_replaces_machines_in_place() {
        let examples = files().unwrap();
        let (_, text) = examples
            .iter()
            .find(|(path, _)| path.ends_with("cluster/cluster.yaml"))
            .unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let control_plane = of_kind("KubeadmControlPlane").next().unwrap();
        let template = &control_plane["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["name"];
        let template = of_kind("Metal3MachineTemplate")
            .find(|one| one["metadata"]["name"] == *template)
            .unwrap();
        assert_eq!(template["spec"]["nodeReuse"], true);
        assert_eq!(
            control_plane["spec"]["rollout"]["strategy"]["rollingUpdate"]["maxSurge"],
            0
        );
    }
}
