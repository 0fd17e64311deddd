//! An example with hosts, read from `examples/`, with the lab's servers in place of its own.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::DynamicObject;
use metal3_lab::ironic::Host;
use serde_json::{Value, json};

/// Where the hosts with images are, from the root of the repository.
pub const FILE: &str = "examples/rack/rack.yaml";
/// The same of those for clusters.
pub const FOR_CLUSTERS: &str = "examples/cluster/hosts.yaml";

/// A host with the Secrets that it names.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The host's name.
    pub name: String,
    /// The Secrets, and the host last.
    pub objects: Vec<DynamicObject>,
}

/// The hosts of the example, in order.
pub fn read(yaml: &str) -> Result<Vec<Entry>> {
    let objects = metal3_lab::apply::parse(yaml)?;
    let (hosts, secrets): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| kind(object) == "BareMetalHost");
    ensure!(!hosts.is_empty(), "no host is in the example");
    let entries = hosts.into_iter().map(|host| {
        let wanted = references(&host);
        let mut objects: Vec<_> = secrets
            .iter()
            .filter(|secret| wanted.contains(&secret.name_any().as_str()))
            .cloned()
            .collect();
        ensure!(
            objects.len() == wanted.len(),
            "the example lacks a Secret of {}",
            host.name_any()
        );
        let name = host.name_any();
        objects.push(host);
        Ok(Entry { name, objects })
    });
    entries.collect()
}

/// The first `count` hosts. When the example has fewer, more of the last one's form follow.
pub fn take(mut entries: Vec<Entry>, count: usize) -> Result<Vec<Entry>> {
    let last = entries.last().context("no host to take as a form")?.clone();
    let stem = last.name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    for number in entries.len() + 1..=count {
        let name = format!("{stem}{number}");
        let text = serde_json::to_string(&last.objects)?.replace(&last.name, &name);
        entries.push(Entry {
            objects: serde_json::from_str(&text)?,
            name,
        });
    }
    entries.truncate(count);
    Ok(entries)
}

/// The entry with a server of the lab and the lab's image instead of what is there for documentation. Everything else
/// stays as it is.
pub fn adapt(entry: &Entry, server: &Host, image_url: &str, image_sha256: &str) -> Result<Entry> {
    let mut entry = entry.clone();
    let host = entry.objects.last_mut().context("an entry without a host")?;
    let spec = &mut host.data["spec"];
    let written_mac = spec["bootMACAddress"]
        .as_str()
        .context("a host without a boot MAC")?
        .to_owned();
    let credentials = spec["bmc"]["credentialsName"].as_str().unwrap_or_default().to_owned();
    spec["bootMACAddress"] = json!(server.boot_mac());
    spec["bmc"]["address"] = json!(server.bmc_address());
    if spec["image"].is_object() {
        spec["image"] = json!({"url": image_url, "checksum": image_sha256, "checksumType": "sha256", "format": "raw"});
    }
    for secret in entry.objects.iter_mut().filter(|object| kind(object) == "Secret") {
        if secret.name_any() == credentials {
            secret.data["stringData"] = json!(server.credentials);
        } else {
            replace(&mut secret.data, &written_mac, server.boot_mac());
        }
    }
    Ok(entry)
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

/// The Secrets that a host names.
fn references(host: &DynamicObject) -> Vec<&str> {
    let spec = &host.data["spec"];
    let data = ["userData", "metaData", "networkData"].map(|field| spec[field]["name"].as_str());
    data.into_iter()
        .chain([spec["bmc"]["credentialsName"].as_str()])
        .flatten()
        .collect()
}

fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) => *text = text.replace(from, to),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, from, to)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, from, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<Entry> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(FILE);
        read(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn server() -> Host {
        let credentials = json!({"username": "admin", "password": "of the lab"});
        let host = json!({"uuid": "u", "name": "host-1", "protocol": "redfish", "port": 4711, "credentials": credentials,
            "macs": ["52:54:00:00:01:01"], "tls": true});
        serde_json::from_value(host).unwrap()
    }

    #[test]
    fn more_hosts_than_the_example_has_are_of_the_form_of_its_last() {
        let few = take(example(), 2).unwrap();
        assert_eq!(few.len(), 2);
        let many = take(example(), 12).unwrap();
        let names: Vec<_> = many.iter().map(|entry| entry.name.clone()).collect();
        assert_eq!(names[..4], ["rack2-node1", "rack2-node2", "rack2-node3", "rack2-node4"]);
        let objects: Vec<_> = many[11].objects.iter().map(ResourceExt::name_any).collect();
        assert_eq!(objects, ["rack2-node12-bmc", "rack2-node12"]);
        assert_eq!(
            many[11].objects[1].data["spec"]["bmc"]["credentialsName"],
            "rack2-node12-bmc"
        );
    }

    #[test]
    fn nothing_of_the_documentation_is_left_and_the_rest_stays() {
        let first = &example()[0];
        assert_eq!(first.objects.len(), 5, "four Secrets and the host");
        let adapted = adapt(first, &server(), "http://127.0.0.1/tiny.img", "0123").unwrap();
        let text = serde_json::to_string(&adapted.objects).unwrap();
        for old in [
            "192.0.2.",
            "52:54:00:12:35",
            "change-me",
            "images.example.org",
            "3e5b8f6c",
        ] {
            assert!(!text.contains(old), "{old} in {text}");
        }
        assert_eq!(
            text.matches("52:54:00:00:01:01").count(),
            2,
            "the host's and its network data's"
        );
        assert!(text.contains("#cloud-config") && text.contains("node1.example.org"));
        let spec = &adapted.objects[4].data["spec"];
        assert_eq!(spec["image"]["checksum"], "0123");
        assert_eq!(spec["automatedCleaningMode"], "metadata");
    }
}
