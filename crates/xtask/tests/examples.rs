//! The files in `examples`, as they are read; `tests/tests/manifests.rs` applies each to an API server.

#![expect(clippy::unwrap_used, reason = "clippy allows it in functions marked #[test] only")]

use std::path::{Path, PathBuf};

use metal3_api::metal3::{BareMetalHost, HostClaim};
use metal3_bmc::BmcAddress;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The files with their texts.
fn files() -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push((path.clone(), std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(files.len() > 30, "{}", files.len());
    files
}

fn read<K: DeserializeOwned + Serialize>(value: &Value) -> K {
    let read: K = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&read).unwrap(), value);
    read
}

/// A comment or a fold in the wrong place would change what is read.
#[test]
fn hosts_read_back_with_the_secrets_that_they_name() {
    for (path, text) in files() {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let secrets: Vec<_> = of_kind("Secret")
            .map(|secret| secret["metadata"]["name"].as_str().unwrap())
            .collect();
        let mut wanted = Vec::new();
        for value in of_kind("BareMetalHost") {
            let spec = read::<BareMetalHost>(value).spec;
            BmcAddress::parse(&spec.bmc.address).unwrap();
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
    for (path, text) in files() {
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
    let examples = files();
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
