//! One unhealthy machine with its related objects, as an API server stores them.

use std::collections::BTreeMap;
use std::sync::Arc;

use metal3_runtime::store::ObjectKey;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Effect, Observed, Read};
use crate::remediation::node::Drain;
use crate::remediation::{NodeView, observe};
use crate::stores::Stores;
use crate::workload::Unreachable;

pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// Objects by kind: there is one of each at most.
pub type Objects = BTreeMap<&'static str, Value>;

#[derive(Clone, Debug)]
pub struct Scene {
    pub objects: Objects,
    version: u64,
    /// Why the workload cluster is unreachable, if it is.
    pub unreachable: Option<Unreachable>,
    /// Whether the workload cluster supports the out-of-service taint.
    pub knows_taint: Result<bool, String>,
    pub drain: Drain,
}

impl Scene {
    /// Everything is healthy except the Node, whose kubelet is silent.
    pub fn new() -> Self {
        let meta = |name: &str, uid: &str| json!({"namespace": "ns", "name": name, "uid": uid, "resourceVersion": "1"});
        let of = |kind: &str, name: &str, uid: &str| {
            let version = if kind == "Machine" {
                "cluster.x-k8s.io/v1beta2"
            } else {
                INFRASTRUCTURE
            };
            json!([{"apiVersion": version, "kind": kind, "name": name, "uid": uid}])
        };
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
        let mut objects = Objects::new();
        let mut remediation = json!({"apiVersion": INFRASTRUCTURE, "kind": "Metal3Remediation",
            "metadata": meta("m", "u-r"),
            "spec": {"strategy": {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 600}}});
        remediation["metadata"]["ownerReferences"] = of("Machine", "m", "u-m");
        objects.insert("remediation", remediation);
        let mut machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": meta("m", "u-m"),
            "spec": {"clusterName": "c", "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                "kind": "Metal3Machine", "name": "mm"}},
            "status": {"nodeRef": {"name": "n"}, "conditions": [{"type": "Ready", "status": "False", "reason": "NotReady",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        machine["metadata"]["labels"] = labels.clone();
        machine["metadata"]["ownerReferences"] = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
            "name": "ms", "uid": "u-ms", "controller": true}]);
        objects.insert("machine", machine);
        let mut ours = json!({"apiVersion": INFRASTRUCTURE, "kind": "Metal3Machine", "metadata": meta("mm", "u-mm"),
            "spec": {}});
        ours["metadata"]["annotations"] = json!({"metal3.io/BareMetalHost": "ns/h"});
        ours["metadata"]["ownerReferences"] = of("Machine", "m", "u-m");
        ours["metadata"]["labels"] = labels;
        objects.insert("metal3machine", ours);
        objects.insert("cluster", json!({"metadata": meta("c", "u-c")}));
        let consumer = json!({"apiVersion": INFRASTRUCTURE, "kind": "Metal3Machine", "namespace": "ns", "name": "mm",
            "uid": "u-mm"});
        objects.insert(
            "host",
            json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": meta("h", "u-h"), "spec": {"online": true, "consumerRef": consumer},
            "status": {"provisioning": {"state": "provisioned", "ID": "i"}, "errorMessage": "", "poweredOn": true}}),
        );
        objects.insert("node", json!({"metadata": {"name": "n", "uid": "u-n", "resourceVersion": "1",
                "labels": {"role": "worker"}, "annotations": {"note": "x"}},
            "spec": {"providerID": "metal3://ns/h/mm"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
        Self {
            objects,
            version: 1,
            unreachable: None,
            knows_taint: Ok(true),
            drain: Drain::default(),
        }
    }

    /// A merge patch, whatever the version.
    pub fn set(&mut self, kind: &'static str, patch: &Value) {
        let object = self.objects.get_mut(kind).expect("an object");
        json_patch::merge(object, patch);
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.collect(kind);
    }

    /// The same guarded by a version: false if it is not the current one.
    pub fn patch(&mut self, kind: &'static str, patch: &Value) -> bool {
        let over = &patch["metadata"]["resourceVersion"];
        assert!(!over.is_null(), "no write without a version: {patch}");
        let is_present = self
            .objects
            .get(kind)
            .is_some_and(|object| object["metadata"]["resourceVersion"] == *over);
        if is_present {
            self.set(kind, patch);
        }
        is_present
    }

    /// Removes objects that are deleted and have no finalizer.
    fn collect(&mut self, kind: &'static str) {
        let metadata = &self.objects[kind]["metadata"];
        let is_held = metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if !metadata["deletionTimestamp"].is_null() && !is_held {
            self.objects.remove(kind);
        }
    }

    /// Deletes an object.
    pub fn delete(&mut self, kind: &'static str, at: &str) {
        if self.objects.contains_key(kind) {
            self.set(kind, &json!({"metadata": {"deletionTimestamp": at}}));
        }
    }

    /// The observed state of a manager that has seen all of this.
    pub fn seen(&self) -> Observed {
        self.seen_through(&self.objects).expect("there is a remediation")
    }

    /// What a manager sees to whom these objects were shown.
    pub fn seen_through(&self, view: &Objects) -> Option<Observed> {
        let stores = Stores::new("");
        let get = |kind: &str| view.get(kind).cloned();
        read(get("cluster"), |object| stores.clusters.created(object));
        read(get("machine"), |object| stores.machines.created(object));
        read(get("metal3machine"), |object| stores.metal3_machines.created(object));
        read(get("host"), |object| stores.hosts.created(object));
        read(get("remediation"), |object| stores.remediations.created(object));
        let mut seen = observe(&stores, &ObjectKey::new("ns", "m"))?;
        let name = seen.machine.found().map(|machine| machine.status.node_ref.name.clone());
        let name = name.filter(|name| !name.is_empty() && seen.cluster.found().is_some());
        seen.node = match (name, &self.unreachable) {
            (None, _) => NodeView::Unnamed,
            (Some(_), Some(why)) => NodeView::Unreachable(why.clone()),
            (Some(name), None) => get("node").map_or_else(
                || NodeView::Gone(name),
                |node| NodeView::Here(Arc::new(serde_json::from_value(node).unwrap())),
            ),
        };
        Some(seen)
    }

    /// Answers a read without any lag.
    pub fn answer(&self, seen: &mut Observed, need: Read) {
        match need {
            Read::Fresh => seen.looks.is_fresh = true,
            Read::FreshNode => seen.looks.is_node_fresh = true,
            Read::Drain => seen.looks.drain = Some(Ok(self.drain)),
            Read::KnowsTaint => seen.looks.knows_taint = Some(self.knows_taint.clone()),
        }
    }

    /// A manager's write: whether it succeeded.
    pub fn write(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::ReportWait(_) => true,
            Effect::AddFinalizer | Effect::RemoveFinalizer => panic!("a patch of metadata: see `finalize`"),
            Effect::Host { patch, .. } => self.patch("host", patch),
            Effect::Node { patch, .. } => self.patch("node", patch),
            Effect::Keep { patch, .. } => self.patch("remediation", patch),
            Effect::Machine { patch, .. } => self.patch("machine", patch),
            Effect::DeleteNode { uid, version, .. } => {
                let is_this = self.objects.get("node").is_some_and(|node| {
                    node["metadata"]["uid"] == json!(uid) && node["metadata"]["resourceVersion"] == json!(version)
                });
                is_this && self.objects.remove("node").is_some()
            }
        }
    }

    /// Adds or removes the finalizer, guarded by the observed version.
    pub fn finalize(&mut self, seen: &Observed, is_held: bool) -> bool {
        let finalizers = if is_held { json!([super::FINALIZER]) } else { json!([]) };
        let version = seen.remediation.metadata.resource_version.clone();
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        self.patch("remediation", &patch)
    }

    /// A field, or null.
    pub fn at(&self, kind: &str, pointer: &str) -> Value {
        let object = self.objects.get(kind);
        object
            .and_then(|object| object.pointer(pointer))
            .cloned()
            .unwrap_or_default()
    }
}

fn read<K: DeserializeOwned>(object: Option<Value>, put: impl FnOnce(K)) {
    if let Some(object) = object {
        put(serde_json::from_value(object).unwrap());
    }
}
