//! The effect of booting an image with a config drive on the Kubernetes API: cloud-init renders the user data with the metadata
//! and writes kubeadm's file, and kubeadm and the kubelet follow it. Pure.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use minijinja::{Environment, UndefinedBehavior};
use serde::Deserialize;
use serde_json::Value;

use crate::ironic::ConfigDrive;

/// Where Cluster API's bootstrap provider puts kubeadm's configuration: of the first machine of a cluster, and of others.
const INIT: &str = "/run/kubeadm/kubeadm.yaml";
const JOIN: &str = "/run/kubeadm/kubeadm-join-config.yaml";
/// The first line of user data that is a template.
const TEMPLATE: &str = "## template: jinja";

/// A server that has become a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Boot {
    /// What it is called.
    pub node: String,
    /// The node labels configured for the kubelet.
    pub labels: BTreeMap<String, String>,
    /// What it is tainted with; none where kubeadm decides.
    pub taints: Option<Vec<Value>>,
    /// The provider ID, if the kubelet has one configured.
    pub provider_id: Option<String>,
    /// Its addresses, as its network data have them.
    pub addresses: Vec<String>,
    /// Its part in the cluster.
    pub role: Role,
}

/// The part of a node in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The first of the control plane, with the cluster's configuration (`ClusterConfiguration`, YAML).
    Init(String),
    /// Another of the control plane.
    ControlPlane,
    /// All others.
    Worker,
}

#[derive(Deserialize)]
struct CloudConfig {
    #[serde(default)]
    write_files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    #[serde(default)]
    content: String,
}

impl Boot {
    /// Reads a config drive; none if its user data has nothing for kubeadm.
    ///
    /// Fails where the machine would boot and never join: a template that asks for metadata which is not there, what is
    /// no YAML, an argument of the kubelet that it would not take.
    pub fn read(drive: &ConfigDrive) -> Result<Option<Self>> {
        let Some(user_data) = &drive.user_data else {
            return Ok(None);
        };
        let meta_data = drive.meta_data.clone().unwrap_or_default();
        let text = match user_data.strip_prefix(TEMPLATE) {
            Some(template) => render(template, &meta_data)?,
            None => user_data.clone(),
        };
        if !text.trim_start().starts_with("#cloud-config") {
            return Ok(None);
        }
        let config: CloudConfig = serde_saphyr::from_str(&text).context("the user data are no cloud-config")?;
        let file = |path| config.write_files.iter().find(|file| file.path == path);
        let Some(file) = file(INIT).or_else(|| file(JOIN)) else {
            return Ok(None);
        };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&file.content).with_context(|| format!("{} is no YAML", file.path))?;
        let document = |kind: &str| documents.iter().find(|document| document["kind"] == kind);
        let (registration, role) = match (document("InitConfiguration"), document("JoinConfiguration")) {
            (Some(init), _) => {
                let cluster = document("ClusterConfiguration").context("no ClusterConfiguration to begin with")?;
                let cluster = serde_saphyr::to_string(cluster).context("cannot write YAML")?;
                (&init["nodeRegistration"], Role::Init(cluster))
            }
            (None, Some(join)) if join["controlPlane"].is_object() => (&join["nodeRegistration"], Role::ControlPlane),
            (None, Some(join)) => (&join["nodeRegistration"], Role::Worker),
            (None, None) => bail!("{} has neither an InitConfiguration nor a JoinConfiguration", file.path),
        };
        let arguments = arguments(registration)?;
        let hostname = || meta_data["local-hostname"].as_str();
        let node = registration["name"].as_str().or_else(hostname);
        Ok(Some(Self {
            node: node.context("a machine without a name")?.to_owned(),
            labels: labels(arguments.get("node-labels").map_or("", String::as_str))?,
            taints: registration["taints"].as_array().cloned(),
            provider_id: arguments.get("provider-id").cloned(),
            addresses: addresses(drive.network_data.as_ref()),
            role,
        }))
    }

    /// Whether it is of the control plane.
    pub fn is_control_plane(&self) -> bool {
        self.role != Role::Worker
    }
}

/// As cloud-init does it, but strictly: what it would render as a complaint is an error here.
fn render(template: &str, meta_data: &Value) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // Metadata are flat. Keys with a dash can also be had with an underscore.
    let mut keys = BTreeMap::new();
    for (key, value) in meta_data.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        keys.insert(key.replace('-', "_"), minijinja::Value::from(&text));
        keys.insert(key.clone(), minijinja::Value::from(text));
    }
    let source = BTreeMap::from([("meta_data", minijinja::Value::from(keys))]);
    let data = BTreeMap::from([("ds", minijinja::Value::from(source))]);
    environment
        .render_str(template, minijinja::Value::from(data))
        .context("the user data are a template that cannot be rendered")
}

/// The kubelet's arguments: a list since kubeadm's v1beta4.
fn arguments(registration: &Value) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Argument {
        name: String,
        value: String,
    }
    let list = match &registration["kubeletExtraArgs"] {
        Value::Null => Vec::new(),
        list => serde_json::from_value::<Vec<Argument>>(list.clone()).context("odd kubeletExtraArgs")?,
    };
    Ok(list
        .into_iter()
        .map(|argument| (argument.name, argument.value))
        .collect())
}

fn labels(text: &str) -> Result<BTreeMap<String, String>> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').with_context(|| format!("{pair} is no label"))?;
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect()
}

/// The fixed addresses in network data.
pub fn addresses(network_data: Option<&Value>) -> Vec<String> {
    let networks = network_data.and_then(|data| data["networks"].as_array());
    let address = |network: &Value| network["ip_address"].as_str().map(str::to_owned);
    networks.into_iter().flatten().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn drive(user_data: &str) -> ConfigDrive {
        ConfigDrive {
            meta_data: Some(json!({"uuid": "u-1", "local-hostname": "node-0", "name": "node-0"})),
            user_data: Some(user_data.to_owned()),
            network_data: Some(
                json!({"networks": [{"id": "a", "ip_address": "192.0.2.7"}, {"id": "b", "type": "ipv4_dhcp"}]}),
            ),
            ..ConfigDrive::default()
        }
    }

    fn of_kubeadm(path: &str, documents: &str) -> ConfigDrive {
        let documents = documents.replace('\n', "\n      ");
        drive(&format!(
            "{TEMPLATE}\n#cloud-config\n\nwrite_files:\n-   path: {path}\n    owner: root:root\n    content: |\n      ---\n      \
             {documents}\nruncmd:\n  - 'kubeadm'\n"
        ))
    }

    const REGISTRATION: &str = "nodeRegistration:\n  name: '{{ ds.meta_data.local_hostname }}'\n  kubeletExtraArgs:\n  - name: \
                                node-labels\n    value: metal3.io/uuid={{ ds.meta_data.uuid }},a=b\n";

    #[test]
    fn a_worker_is_called_and_labelled_as_its_user_data_say() {
        let join = format!("kind: JoinConfiguration\n{REGISTRATION}  taints:\n  - effect: NoSchedule\n    key: k");
        let boot = Boot::read(&of_kubeadm(JOIN, &join)).unwrap().unwrap();
        assert_eq!((boot.node.as_str(), &boot.role), ("node-0", &Role::Worker));
        let labels = [("a", "b"), ("metal3.io/uuid", "u-1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(boot.labels, labels.into());
        assert_eq!(boot.taints, Some(vec![json!({"effect": "NoSchedule", "key": "k"})]));
        assert_eq!((boot.addresses, boot.provider_id), (vec!["192.0.2.7".to_owned()], None));
    }

    #[test]
    fn the_first_of_a_control_plane_brings_the_configuration_of_the_cluster() {
        let init = format!("kind: ClusterConfiguration\nclusterName: c\n---\nkind: InitConfiguration\n{REGISTRATION}");
        let boot = Boot::read(&of_kubeadm(INIT, &init)).unwrap().unwrap();
        assert!(boot.is_control_plane() && boot.taints.is_none());
        assert!(matches!(&boot.role, Role::Init(cluster) if cluster.contains("clusterName: c")));
        let join = format!("kind: JoinConfiguration\ncontrolPlane: {{}}\n{REGISTRATION}");
        let boot = Boot::read(&of_kubeadm(JOIN, &join)).unwrap().unwrap();
        assert_eq!(boot.role, Role::ControlPlane);
    }

    #[test]
    fn what_is_not_for_kubeadm_makes_no_node_and_what_cannot_join_is_an_error() {
        assert_eq!(Boot::read(&drive("#cloud-config\nusers: []\n")).unwrap(), None);
        assert_eq!(Boot::read(&drive("#!/bin/sh\n")).unwrap(), None);
        let join = "kind: JoinConfiguration\nnodeRegistration:\n  name: '{{ ds.meta_data.nobody }}'";
        let error = Boot::read(&of_kubeadm(JOIN, join)).unwrap_err();
        assert!(format!("{error:#}").contains("undefined"), "{error:#}");
        assert!(Boot::read(&of_kubeadm(JOIN, "kind: Other")).is_err());
    }
}
