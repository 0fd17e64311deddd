//! Machines of a cluster with their Nodes and hosts.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::DynamicObject;
use metal3_api::metal3::BareMetalHost;
use serde_json::Value;

use crate::{ClusterSite, Kind};

impl ClusterSite {
    /// The Machines, once there are so many, all of them run, and each has the one Node with its provider ID. By name, with
    /// the name of the Node.
    pub async fn expect_running(&self, count: usize) -> BTreeMap<String, String> {
        let what = format!("{count} Machines run with their Nodes");
        self.until(&what, async || {
            let machines = self.list(Kind::MACHINE).await;
            let nodes = self.nodes().await;
            let mut running = BTreeMap::new();
            for machine in &machines {
                let id = text(machine, "/spec/providerID");
                let with_it: Vec<_> = nodes
                    .iter()
                    .filter(|node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id))
                    .map(ResourceExt::name_any)
                    .collect();
                if text(machine, "/status/phase") == "Running" && with_it == [text(machine, "/status/nodeRef/name")] {
                    running.insert(machine.name_any(), with_it[0].clone());
                }
            }
            if (machines.len(), running.len()) == (count, count) {
                Ok(running)
            } else {
                Err(format!("{} of {} run", running.len(), machines.len()))
            }
        })
        .await
    }

    /// Which machine uses which host, by host.
    pub async fn users(&self) -> BTreeMap<String, String> {
        let hosts = self.hosts().await.into_iter();
        let user = |host: BareMetalHost| Some((host.name_any(), host.spec.consumer_ref?.name));
        hosts.filter_map(user).collect()
    }
}

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
