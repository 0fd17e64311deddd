//! Machines of a cluster with their Nodes and hosts, and their leftovers.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use kube::api::DynamicObject;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use serde_json::{Value, json};

use crate::{ClusterEnv, Kind, description, state};

impl ClusterEnv {
    /// Waits until there are this many Machines, all running, each with exactly one Node with its provider ID. Returns the names
    /// of Machines and Nodes.
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

    /// Waits until so many hosts are available.
    pub async fn expect_available(&self, count: usize) {
        self.until(&format!("{count} hosts are available"), async || {
            let free = self.available().await;
            if free == count {
                Ok(())
            } else {
                Err(format!("{free} are"))
            }
        })
        .await;
    }

    async fn available(&self) -> usize {
        let hosts = self.hosts().await;
        let free = hosts.iter().filter(|host| state(host) == ProvisioningState::Available);
        free.count()
    }

    /// The namespace's objects of clusters and hosts, including Secrets, such as `Metal3Data/small-0`.
    pub async fn names(&self) -> BTreeSet<String> {
        self.inventory().await.into_keys().collect()
    }

    /// Waits until all hosts are free and only the objects of `before` are left, and checks that nothing is left on Ironic's
    /// nodes.
    pub async fn expect_nothing_new(&self, before: &BTreeSet<String>) {
        self.until("nothing is left", async || {
            let (users, free) = (self.users().await, self.available().await);
            if !users.is_empty() || free != self.base.ironic.hosts().len() {
                return Err(format!("in use: {users:?}, available: {free}"));
            }
            let names = self.names().await;
            let new: Vec<_> = names.difference(before).collect();
            if new.is_empty() {
                Ok(())
            } else {
                Err(format!("{new:?}"))
            }
        })
        .await;
        for node in self.base.nodes().await {
            assert_eq!(description(&node), json!({}), "{node}");
        }
    }
}

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
