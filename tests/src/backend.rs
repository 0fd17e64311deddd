//! Ironic's nodes of an environment's hosts.

use metal3_testkit::eventually;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::{LIMIT, TestEnv};

/// The version of Ironic's API that scenarios use.
const VERSION: (&str, &str) = ("X-OpenStack-Ironic-API-Version", "1.95");

/// The keys of `instance_info` that describe a deployment; Ironic stores data of its own next to them.
const DESCRIPTION: [&str; 10] = [
    "boot_iso",
    "capabilities",
    "image_checksum",
    "image_disk_format",
    "image_os_hash_algo",
    "image_os_hash_value",
    "image_pull_secret",
    "image_source",
    "metal3_deploy_method",
    "root_device",
];

impl TestEnv {
    /// Ironic's response to a request; `path` begins with `/v1`.
    pub async fn ask_ironic(&self, path: &str) -> Value {
        let request = self.ironic.request(Method::GET, path).header(VERSION.0, VERSION.1);
        async { request.send().await?.error_for_status()?.json().await }
            .await
            .unwrap_or_else(|err: reqwest::Error| panic!("Ironic does not answer GET {path}: {err}"))
    }

    /// Ironic's nodes of this namespace's hosts.
    pub async fn nodes(&self) -> Vec<Value> {
        let answer = self.ask_ironic("/v1/nodes?detail=True").await;
        let prefix = format!("{}~", self.namespace.name);
        let nodes = answer["nodes"].as_array().cloned().unwrap_or_default();
        let is_ours = |node: &Value| node["name"].as_str().is_some_and(|name| name.starts_with(&prefix));
        nodes.into_iter().filter(is_ours).collect()
    }

    /// The node of a host.
    pub async fn node(&self, name: &str) -> Value {
        self.ask_ironic(&format!("/v1/nodes/{}~{name}", self.namespace.name))
            .await
    }

    /// Waits until a host's node is in this state.
    pub async fn expect_node(&self, name: &str, provision_state: &str) {
        let full = format!("{}~{name}", self.namespace.name);
        eventually(LIMIT, &format!("node {full} is {provision_state}"), || async {
            let nodes = self.nodes().await;
            let found = nodes.iter().find(|node| node["name"] == json!(full));
            match found.map(|node| &node["provision_state"]) {
                Some(state) if state == provision_state => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}

/// The deployment that a node describes: the relevant keys of `instance_info`, without nulls.
pub fn description(node: &Value) -> Value {
    let info = node["instance_info"].as_object().cloned().unwrap_or_default();
    let is_description = |key: &str, value: &Value| DESCRIPTION.contains(&key) && !value.is_null();
    let kept: Map<String, Value> = info.into_iter().filter(|(k, v)| is_description(k, v)).collect();
    Value::Object(kept)
}
