//! What a remediation writes to the Node, and what it saves of it. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use metal3_api::infra::names::annotation::{NODE_ANNOTATIONS_BACKUP, NODE_LABELS_BACKUP};
use metal3_api::infra::v1beta2::Metal3Remediation;
use metal3_runtime::conditions::whole_seconds;
use serde_json::{Map, Value, json};

/// Key of the out-of-service taint, for a Node whose server is off: its Pods are deleted, and its volumes detached, without
/// confirmation by its kubelet.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const VALUE: &str = "nodeshutdown";
const NO_EXECUTE: &str = "NoExecute";

/// What has not left a Node yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Pods to be evicted.
    pub pods: usize,
    /// Attached volumes.
    pub volumes: usize,
}

/// Whether the Node has the taint.
pub fn is_out_of_service(node: &Node) -> bool {
    taints(node).iter().any(is_ours)
}

/// By any client: key and effect count, as in Kubernetes.
fn is_ours(taint: &Taint) -> bool {
    taint.key == OUT_OF_SERVICE && taint.effect == NO_EXECUTE
}

fn taints(node: &Node) -> Vec<Taint> {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.clone()).unwrap_or_default()
}

/// The patch that sets the taint.
pub fn taint(node: &Node, now: Timestamp) -> Value {
    let mut taints = taints(node);
    taints.push(Taint {
        key: OUT_OF_SERVICE.to_owned(),
        value: Some(VALUE.to_owned()),
        effect: NO_EXECUTE.to_owned(),
        time_added: Some(Time(whole_seconds(now))),
    });
    with_taints(node, &taints)
}

/// The patch that removes it.
pub fn untaint(node: &Node) -> Value {
    let mut taints = taints(node);
    taints.retain(|taint| !is_ours(taint));
    with_taints(node, &taints)
}

/// The list is replaced as a whole, guarded by the observed version.
fn with_taints(node: &Node, taints: &[Taint]) -> Value {
    json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}})
}

/// Whether a Pod must leave an out-of-service Node.
pub fn has_to_leave(pod: &Pod) -> bool {
    if pod.metadata.deletion_timestamp.is_some() {
        return true;
    }
    // The API holds only a mirror of a static Pod: it is not deleted.
    let is_image = pod.annotations().contains_key("kubernetes.io/config.mirror");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let has_ended = matches!(phase, Some("Succeeded" | "Failed"));
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    !is_image && !has_ended && !tolerations.into_iter().any(tolerates)
}

fn tolerates(toleration: &Toleration) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    if !(effect.is_empty() || effect == NO_EXECUTE) || !(key.is_empty() || key == OUT_OF_SERVICE) {
        return false;
    }
    match text(&toleration.operator).as_str() {
        "Exists" => true,
        "" | "Equal" => key == OUT_OF_SERVICE && text(&toleration.value) == VALUE,
        _ => false,
    }
}

/// The labels and annotations of a Node to restore after it re-registers, without those that others manage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
}

impl Backup {
    /// The saved data. An unparsable value counts as empty.
    pub fn of(remediation: &Metal3Remediation) -> Option<Self> {
        let annotations = remediation.annotations();
        let [of_annotations, of_labels] = [NODE_ANNOTATIONS_BACKUP, NODE_LABELS_BACKUP].map(|key| annotations.get(key));
        let read = |text: Option<&String>| {
            let map: Option<Option<BTreeMap<String, String>>> = text.and_then(|text| serde_json::from_str(text).ok());
            map.flatten().unwrap_or_default()
        };
        (of_annotations.is_some() || of_labels.is_some()).then(|| Self {
            annotations: read(of_annotations),
            labels: read(of_labels),
        })
    }

    /// The saved data, overlaid with the Node's current data: if the Node re-registered, was not fully restored, and is deleted
    /// once more, nothing is lost.
    #[must_use]
    pub fn with(&self, node: &Node) -> Self {
        let over = |kept: &BTreeMap<String, String>, present: &BTreeMap<String, String>| {
            let mut all = kept.clone();
            all.extend(present.clone());
            all
        };
        Self {
            annotations: over(&self.annotations, node.annotations()),
            labels: over(&self.labels, node.labels()),
        }
    }

    /// The patch of the remediation that saves it.
    pub fn kept(&self, remediation: &Metal3Remediation) -> Value {
        json!({"metadata": {"resourceVersion": remediation.resource_version(), "annotations": {
            NODE_ANNOTATIONS_BACKUP: json!(self.annotations).to_string(),
            NODE_LABELS_BACKUP: json!(self.labels).to_string(),
        }}})
    }

    /// The patch of the remediation that clears it.
    pub fn dropped(remediation: &Metal3Remediation) -> Value {
        json!({"metadata": {"resourceVersion": remediation.resource_version(), "annotations": {
            NODE_ANNOTATIONS_BACKUP: Value::Null,
            NODE_LABELS_BACKUP: Value::Null,
        }}})
    }

    /// The patch that restores a re-registered Node. Nothing if it has everything.
    pub fn returned(&self, node: &Node) -> Option<Value> {
        let missing = |kept: &BTreeMap<String, String>, present: &BTreeMap<String, String>| {
            let missing = kept.iter().filter(|(key, _)| !present.contains_key(*key));
            missing
                .map(|(key, value)| (key.clone(), value.clone().into()))
                .collect::<Map<String, Value>>()
        };
        let annotations = missing(&self.annotations, node.annotations());
        let labels = missing(&self.labels, node.labels());
        (!annotations.is_empty() || !labels.is_empty()).then(|| {
            json!({"metadata": {"resourceVersion": node.resource_version(), "annotations": annotations, "labels": labels}})
        })
    }
}
