//! Decisions about Metal3Machines.

mod deletion;
mod host;
mod journey;
mod namesakes;
mod nodes;
mod passes;
mod preview;
mod refused;
mod schedules;
mod waiting;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use metal3_api::condition::ConditionStatus;
use metal3_api::infra::v1beta2::{Metal3DataClaim, Metal3MachineStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::conditions;
use metal3_runtime::controller::Report;
use metal3_testkit::leaks::{CANARY, expect_none_in_plan};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::decide::{Decision, Effect, Plan, Refused, machine as decide, refused};
use super::node::NodeView;
use super::observed::Leftovers;
use super::{Host, Observed, Preview, Reads, Related};
use crate::select::{Choice, Outcome};

const FINALIZER: &str = "metal3machine.infrastructure.cluster.x-k8s.io";
const HERE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}

fn with<K: DeserializeOwned>(object: Value, other: &Value) -> Arc<K> {
    let mut object = object;
    merge(&mut object, other);
    Arc::new(serde_json::from_value(object).unwrap())
}

/// A machine with an image, an owner and the finalizer, with `other` merged over it.
fn machine(other: &Value) -> Arc<metal3_api::infra::v1beta2::Metal3Machine> {
    let object = json!({
        "apiVersion": HERE, "kind": "Metal3Machine",
        "metadata": {"namespace": "ns", "name": "m", "uid": "u-m", "generation": 3, "resourceVersion": "7",
            "finalizers": [FINALIZER], "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"image": {"url": "http://i", "checksum": "abc", "checksumType": "sha256", "diskFormat": "raw"}},
    });
    with(object, other)
}

/// The Machine, with bootstrap data.
fn owner(other: &Value) -> Related<metal3_api::capi::Machine> {
    let object = json!({"metadata": {"namespace": "ns", "name": "owner"},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "b"}}});
    Related::Found(with(object, other))
}

/// The Cluster, with its infrastructure.
fn cluster(other: &Value) -> Related<metal3_api::capi::Cluster> {
    let object = json!({"metadata": {"namespace": "ns", "name": "c"},
        "status": {"initialization": {"infrastructureProvisioned": true}}});
    Related::Found(with(object, other))
}

/// The machine's host, available and without an image, with `other` merged over it.
fn host(other: &Value) -> Arc<BareMetalHost> {
    let consumer = json!({"apiVersion": HERE, "kind": "Metal3Machine", "namespace": "ns", "name": "m", "uid": "u-m"});
    let object = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"namespace": "ns", "name": "h", "resourceVersion": "5",
            "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "annotations": {"clusterctl.cluster.x-k8s.io/block-move": ""}},
        "spec": {"online": false, "consumerRef": consumer, "bmc": {"address": "ipmi://a", "credentialsName": "bmc"}},
        "status": {"provisioning": {"state": "available", "ID": ""}, "errorMessage": "", "poweredOn": false},
    });
    with(object, other)
}

/// The machine's image as a host spec.
fn image() -> Value {
    json!({"url": "http://i", "checksum": "abc", "checksumType": "sha256", "format": "raw"})
}

/// A host with its image set, in this state.
fn told(state: &str) -> Value {
    json!({"spec": {"image": image(), "userData": {"name": "b", "namespace": "ns"}, "online": true},
        "status": {"provisioning": {"state": state}}})
}

/// A free host.
fn free() -> Arc<BareMetalHost> {
    let nothing = json!({"cluster.x-k8s.io/cluster-name": null});
    let unmarked = json!({"clusterctl.cluster.x-k8s.io/block-move": null});
    host(&json!({"metadata": {"labels": nothing, "annotations": unmarked}, "spec": {"consumerRef": null}}))
}

/// A machine that needs only a host; its Secrets exist.
fn seen(other: &Value) -> Observed {
    let secrets = ["b", "meta", "net"].map(|name| (name.to_owned(), true));
    let metal3_cluster = json!({"apiVersion": HERE, "kind": "Metal3Cluster", "metadata": {"name": "c"}, "spec": {}});
    Observed {
        machine: machine(other),
        owner: owner(&json!({})),
        cluster: cluster(&json!({})),
        metal3_cluster: Related::Found(with(metal3_cluster, &json!({}))),
        host: Host::None,
        claim: None,
        data: None,
        kept_as: Some("md-workers".to_owned()),
        is_fast_track: false,
        node: NodeView::NotAsked,
        leftovers: Leftovers::default(),
        judged: Some(3),
        reads: Reads {
            secrets: Some(BTreeMap::from(secrets)),
            preview: Some(Preview::Complete),
            ..Reads::default()
        },
    }
}

/// The status of a machine that has its host.
fn associated() -> Value {
    let associated = json!({"type": "AssociateBareMetalHost", "status": "True", "reason": "AssociateBareMetalHostSuccess",
        "message": "", "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({"status": {"conditions": [associated]}})
}

/// The same with its host, which the machine names.
fn with_host(other: &Value, of_host: &Value) -> Observed {
    let mut named = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": "ns/h"}}});
    merge(&mut named, &associated());
    merge(&mut named, other);
    let mut seen = seen(&named);
    seen.host = Host::Ours(host(of_host));
    seen
}

/// The machine's data claim, with `other` merged over it.
fn claim(other: &Value) -> Arc<Metal3DataClaim> {
    let owner = json!([{"apiVersion": HERE, "kind": "Metal3Machine", "name": "m", "uid": "u-m"}]);
    let object = json!({"apiVersion": HERE, "kind": "Metal3DataClaim", "spec": {"template": {"name": "t"}},
        "metadata": {"namespace": "ns", "name": "m", "finalizers": [FINALIZER], "ownerReferences": owner}});
    with(object, other)
}

#[expect(clippy::unnecessary_wraps, reason = "it is what a read answers")]
fn chosen(host: Arc<BareMetalHost>, is_reuse: bool) -> Option<Choice> {
    Some(Choice {
        outcome: Outcome::Chosen { host, is_reuse },
        considered: 3,
        why: String::new(),
    })
}

/// A plan that tells nothing from a Secret.
fn plan(seen: &Observed) -> Plan {
    match decide(seen, now()) {
        Decision::Act(plan) => {
            expect_none_in_plan(&plan);
            *plan
        }
        Decision::Fetch(read) => panic!("no plan: {read:?}"),
    }
}

fn status(plan: &Plan) -> &Metal3MachineStatus {
    stored(&plan.report)
}

fn stored(report: &Report<Metal3MachineStatus>) -> &Metal3MachineStatus {
    report.status.as_ref().expect("a status is stored")
}

/// Whether a condition holds, its reason and its message.
fn said<'a>(status: &'a Metal3MachineStatus, type_: &str) -> (bool, &'a str, &'a str) {
    let found = conditions::get(&status.conditions, type_).unwrap();
    assert_eq!(found.observed_generation, Some(3));
    (found.status == ConditionStatus::True, &found.reason, &found.message)
}

fn legacy<'a>(status: &'a Metal3MachineStatus, type_: &str) -> (&'a str, &'a str, &'a str) {
    let list = &status.deprecated.v1beta1.conditions;
    let found = list.iter().find(|condition| condition.type_ == type_).unwrap();
    (&found.status, &found.severity, &found.reason)
}

/// The single write to the host.
fn host_patch(plan: &Plan) -> &Value {
    let mut patches = plan.effects.iter().filter_map(|effect| match effect {
        Effect::Host { patch, .. } => Some(patch),
        _ => None,
    });
    let patch = patches.next().expect("a write to the host");
    assert!(patches.next().is_none(), "one write to the host at most");
    patch
}

fn labels(plan: &Plan) -> Vec<&'static str> {
    plan.effects.iter().map(Effect::label).collect()
}
