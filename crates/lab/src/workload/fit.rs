//! Replaces the documentation addresses in a cluster's manifests with the lab's. Pure.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::Access;

/// Puts the workload cluster, its version and an image into the objects that name such; everything else stays as it is.
///
/// etcd becomes an external one: Cluster API looks at the members of its own by a port that the kubelet forwards, and
/// there is no kubelet.
pub fn fit(objects: &mut [DynamicObject], workload: &Access, image_url: &str, image_sha256: &str) {
    let here = json!({"host": "127.0.0.1", "port": workload.port});
    fit_version(objects, &workload.version, image_url, image_sha256);
    for object in objects {
        let kind = object.types.as_ref().map_or("", |types| &types.kind);
        let spec = &mut object.data["spec"];
        match kind {
            "Cluster" if spec["topology"].is_object() => {
                for variable in spec["topology"]["variables"].as_array_mut().into_iter().flatten() {
                    if variable["name"] == "controlPlaneEndpoint" {
                        put(variable, &["value"], here.clone());
                    }
                }
            }
            "Metal3Cluster" => put(spec, &["controlPlaneEndpoint"], here.clone()),
            "KubeadmControlPlane" => put(spec, &ETCD, etcd(workload)),
            "KubeadmControlPlaneTemplate" => put(&mut spec["template"]["spec"], &ETCD, etcd(workload)),
            _ => {}
        }
    }
}

/// Puts the version and an image into the objects that name such, for servers that really boot ([`crate::nodes`]); everything
/// else stays as it is, addresses too.
///
/// There is no CoreDNS among the images that the servers have.
pub fn fit_to_nodes(objects: &mut [DynamicObject], version: &str, image_url: &str, image_sha256: &str) {
    const SKIP: [&str; 3] = ["kubeadmConfigSpec", "initConfiguration", "skipPhases"];
    fit_version(objects, version, image_url, image_sha256);
    for object in objects {
        let kind = object.types.as_ref().map_or("", |types| &types.kind);
        let spec = &mut object.data["spec"];
        match kind {
            "KubeadmControlPlane" => put(spec, &SKIP, json!(["addon/coredns"])),
            "KubeadmControlPlaneTemplate" => put(&mut spec["template"]["spec"], &SKIP, json!(["addon/coredns"])),
            _ => {}
        }
    }
}

fn fit_version(objects: &mut [DynamicObject], version: &str, image_url: &str, image_sha256: &str) {
    for object in objects {
        let types = object.types.clone().unwrap_or_default();
        let is_older = types.api_version.ends_with("/v1beta1");
        let format = if is_older { "format" } else { "diskFormat" };
        let image = json!({"url": image_url, "checksum": image_sha256, "checksumType": "sha256", format: "raw"});
        let kind = types.kind.as_str();
        let spec = &mut object.data["spec"];
        let version = json!(version);
        match kind {
            "Cluster" if spec["topology"].is_object() => put(spec, &["topology", "version"], version),
            "KubeadmControlPlane" => put(spec, &["version"], version),
            "MachineDeployment" => put(spec, &["template", "spec", "version"], version),
            "Metal3MachineTemplate" => put(spec, &["template", "spec", "image"], image),
            _ => {}
        }
    }
}

/// Where etcd is, in the specification of a control plane.
const ETCD: [&str; 3] = ["kubeadmConfigSpec", "clusterConfiguration", "etcd"];

fn etcd(workload: &Access) -> Value {
    let folder = "/etc/kubernetes/pki";
    json!({"external": {
        "endpoints": [workload.etcd_url],
        "caFile": format!("{folder}/etcd/ca.crt"),
        "certFile": format!("{folder}/apiserver-etcd-client.crt"),
        "keyFile": format!("{folder}/apiserver-etcd-client.key"),
    }})
}

/// Sets a field, with the structures above it that are missing.
fn put(mut value: &mut Value, path: &[&str], new: Value) {
    for field in path {
        value = &mut value[*field];
    }
    *value = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(example: &str) -> Vec<DynamicObject> {
        let path = format!("{}/../../examples/cluster/{example}.yaml", env!("CARGO_MANIFEST_DIR"));
        crate::apply::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn fitted(example: &str) -> (Vec<DynamicObject>, Vec<DynamicObject>) {
        let before = read(example);
        let pair = crate::pki::Authority::generate("test").unwrap().pair();
        let workload = Access {
            port: 4711,
            etcd_url: "http://127.0.0.1:4712".to_owned(),
            version: "v1.36.3".to_owned(),
            kubeconfig: "kubeconfig".into(),
            authority: pair.clone(),
            etcd_client: pair,
        };
        let mut after = before.clone();
        fit(&mut after, &workload, "http://127.0.0.1/image", "0123");
        (before, after)
    }

    #[test]
    fn nothing_of_the_documentation_is_left_in_what_leads_somewhere() {
        for example in ["small", "cluster-class"] {
            let (before, after) = fitted(example);
            let text = serde_json::to_string(&after).unwrap();
            for old in ["192.0.2.", "images.example.org", "v1.35.0"] {
                assert!(!text.contains(old), "{example}: {old} in {text}");
            }
            for new in ["4711", "4712", "v1.36.3", "http://127.0.0.1/image"] {
                assert!(text.contains(new), "{example}: no {new} in {text}");
            }
            let same = before.iter().zip(&after).filter(|(before, after)| before == after);
            assert!(same.count() >= 3, "{example}: what leads nowhere stays");
            assert!(!text.contains("null"), "{example}: a field without a value in {text}");
        }
    }

    #[test]
    fn servers_that_really_boot_get_an_image_and_a_version_and_keep_their_addresses() {
        for example in ["small", "cluster-class"] {
            let mut objects = read(example);
            fit_to_nodes(&mut objects, "v1.36.3", "http://127.0.0.1/image", "0123");
            let text = serde_json::to_string(&objects).unwrap();
            for old in ["images.example.org", "v1.35.0"] {
                assert!(!text.contains(old), "{example}: {old} in {text}");
            }
            assert!(!text.contains("null"), "{example}: a field without a value in {text}");
            for new in ["192.0.2.100", "v1.36.3", "http://127.0.0.1/image", "addon/coredns"] {
                assert!(text.contains(new), "{example}: no {new} in {text}");
            }
        }
    }
}
