//! A snapshot of a namespace's clusters and hosts, to compare before and after a move.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{DynamicObject, ListParams};
use kube::discovery::{ApiGroup, Discovery, Scope, verbs};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::ClusterEnv;

/// Parts of objects by their kind and name, such as `Metal3Data/small-0`.
pub type Inventory = BTreeMap<String, Value>;

/// Groups of Cluster API and of ours.
const GROUPS: [&str; 8] = [
    "addons.cluster.x-k8s.io",
    "bootstrap.cluster.x-k8s.io",
    "cluster.x-k8s.io",
    "controlplane.cluster.x-k8s.io",
    "infrastructure.cluster.x-k8s.io",
    "ipam.cluster.x-k8s.io",
    "ipam.metal3.io",
    "metal3.io",
];

/// Of them, those whose statuses we write.
const OURS: [&str; 3] = ["infrastructure.cluster.x-k8s.io", "ipam.metal3.io", "metal3.io"];

/// Status fields of an object's own life: versions and times, and conditions with their own times.
const OF_ITS_LIFE: [&str; 8] = [
    "conditions",
    "deprecated",
    "goodCredentials",
    "lastReconciled",
    "lastUpdated",
    "observedGeneration",
    // When a host's node last got credentials. Those in a new Secret are sent again.
    "register",
    "triedCredentials",
];

impl ClusterEnv {
    /// Everything that users requested and what resulted: owners, labels and specs, and the contents of Secrets. Without UIDs,
    /// which differ in each cluster.
    pub async fn inventory(&self) -> Inventory {
        let mut all = Inventory::new();
        for object in self.objects(&GROUPS).await.into_iter().chain(self.secrets().await) {
            let owners = object.owner_references().iter();
            let owners: BTreeSet<_> = owners.map(|owner| format!("{}/{}", owner.kind, owner.name)).collect();
            let mut part = json!({"owners": owners, "labels": object.labels()});
            for field in ["spec", "data"] {
                part[field] = without(&object.data[field], &["uid"]);
            }
            all.insert(key(&object), part);
        }
        all
    }

    /// The statuses that our controllers write, without the fields of an object's own life.
    pub async fn statuses(&self) -> Inventory {
        let mut all = Inventory::new();
        for object in self.objects(&OURS).await {
            let mut status = without(&object.data["status"], &OF_ITS_LIFE);
            // The status of an unused host is not copied; the host starts over.
            if key(&object).starts_with("BareMetalHost/") && object.data["spec"]["consumerRef"].is_null() {
                status = without(&status, &["operationHistory"]);
            }
            all.insert(key(&object), status);
        }
        all
    }

    async fn objects(&self, groups: &[&str]) -> Vec<DynamicObject> {
        let namespace = &self.base.namespace;
        let found = Discovery::new(namespace.client.clone()).filter(groups).run().await;
        let found = found.expect("the API server tells its kinds");
        let mut objects = Vec::new();
        for (resource, capabilities) in found.groups().flat_map(ApiGroup::recommended_resources) {
            if capabilities.scope != Scope::Namespaced || !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let api: Api<DynamicObject> = Api::namespaced_with(namespace.client.clone(), &namespace.name, &resource);
            let mut listed = api
                .list(&ListParams::default())
                .await
                .expect("objects can be listed")
                .items;
            for object in &mut listed {
                object.types.get_or_insert_default().kind.clone_from(&resource.kind);
            }
            objects.append(&mut listed);
        }
        objects
    }

    async fn secrets(&self) -> Vec<DynamicObject> {
        let secrets = self.list(crate::Kind("", "v1", "Secret")).await.into_iter();
        // Each management cluster's programs keep their own certificates, which stay with them.
        let secrets = secrets.filter(|secret| !secret.name_any().ends_with("-webhook-own-certificate"));
        let named = secrets.map(|mut secret| {
            "Secret".clone_into(&mut secret.types.get_or_insert_default().kind);
            secret
        });
        named.collect()
    }
}

fn key(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("", |types| &types.kind);
    format!("{kind}/{}", object.name_any())
}

/// The value without these fields, at any depth.
fn without(value: &Value, fields: &[&str]) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !fields.contains(&name.as_str()));
            Value::Object(
                kept.map(|(name, value)| (name.clone(), without(value, fields)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| without(item, fields)).collect()),
        other => other.clone(),
    }
}

/// The differences between two inventories, one per line; for Secrets without the values.
pub fn differences(before: &Inventory, after: &Inventory) -> Vec<String> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let mut lines = Vec::new();
    for key in keys {
        match (before.get(key), after.get(key)) {
            (Some(before), Some(after)) => compare(key, before, after, &mut lines),
            (Some(_), None) => lines.push(format!("{key} is missing")),
            (None, _) => lines.push(format!("{key} is new")),
        }
    }
    lines
}

fn compare(path: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let fields: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            for field in fields {
                let [old, new] = [old, new].map(|map| map.get(field).unwrap_or(&Value::Null));
                compare(&format!("{path} {field}"), old, new, lines);
            }
        }
        _ if path.starts_with("Secret/") => lines.push(format!("{path} is another")),
        _ => lines.push(format!("{path}: {before} became {after}")),
    }
}
