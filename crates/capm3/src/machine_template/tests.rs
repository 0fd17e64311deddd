use std::sync::Arc;

use metal3_runtime::store::Sink;
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

const HERE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const OURS: &str = "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io";

fn parse<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn machine(mode: Option<&str>, annotations: &Value) -> Metal3Machine {
    parse(json!({"apiVersion": HERE, "kind": "Metal3Machine",
        "metadata": {"namespace": "ns", "name": "m", "uid": "u", "resourceVersion": "1", "annotations": annotations,
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"automatedCleaningMode": mode}}))
}

fn template(mode: Option<&str>, annotations: &Value) -> Metal3MachineTemplate {
    parse(json!({"apiVersion": HERE, "kind": "Metal3MachineTemplate",
        "metadata": {"namespace": "ns", "name": "t", "uid": "t", "resourceVersion": "1", "annotations": annotations},
        "spec": {"nodeReuse": true, "template": {"spec": {"automatedCleaningMode": mode}}}}))
}

fn cloned(name: &str, kind: &str) -> Value {
    json!({"cluster.x-k8s.io/cloned-from-name": name, "cluster.x-k8s.io/cloned-from-groupkind": kind})
}

#[rstest]
#[case::other(Some("disabled"), Some("metadata"), Some("disabled"))]
#[case::first(Some("metadata"), None, Some("metadata"))]
#[case::same(Some("disabled"), Some("disabled"), None)]
#[case::template_leaves_it(None, Some("disabled"), None)]
#[case::neither(None, None, None)]
fn a_machine_gets_the_mode_of_its_template(
    #[case] wanted: Option<&str>,
    #[case] has: Option<&str>,
    #[case] gets: Option<&str>,
) {
    let seen = Observed {
        machine: Arc::new(machine(has, &json!({}))),
        template: Arc::new(template(wanted, &json!({}))),
    };
    let patch = gets.map(|mode| json!({"metadata": {"uid": "u"}, "spec": {"automatedCleaningMode": mode}}));
    let Decision::Act(plan) = decide(&seen);
    assert_eq!(plan.effects, patch.into_iter().map(Change).collect::<Vec<_>>());
}

#[rstest]
#[case::ours(cloned("t", OURS), true)]
#[case::other_name(cloned("s", OURS), false)]
#[case::no_name(cloned("", OURS), false)]
#[case::other_kind(cloned("t", "OtherTemplate.infrastructure.cluster.x-k8s.io"), false)]
#[case::other_group(cloned("t", "Metal3MachineTemplate.example.com"), false)]
#[case::no_group(cloned("t", "Metal3MachineTemplate"), false)]
#[case::no_kind(json!({"cluster.x-k8s.io/cloned-from-name": "t"}), false)]
#[case::not_cloned(json!({}), false)]
fn a_machine_is_found_by_name_and_kind_of_its_template(#[case] annotations: Value, #[case] is_found: bool) {
    let machine = machine(None, &annotations);
    assert_eq!(cloned_from(&machine) == Some(ObjectKey::new("ns", "t")), is_found);
    let stores = Stores::new("");
    stores.metal3_machines.put(machine);
    let of_template = Metal3MachineBy::Template(ObjectKey::new("ns", "t"));
    assert_eq!(stores.metal3_machines.count(&of_template) == 1, is_found);
}

#[rstest]
#[case::nothing_in_the_way("", json!({}), json!({}), json!({"spec": {}}), true)]
#[case::paused_cluster("", json!({}), json!({}), json!({"spec": {"paused": true}}), false)]
#[case::paused_template("", json!({"cluster.x-k8s.io/paused": ""}), json!({}), json!({"spec": {}}), false)]
#[case::paused_machine("", json!({}), json!({"cluster.x-k8s.io/paused": ""}), json!({"spec": {}}), false)]
#[case::moved("", json!({}), json!({"clusterctl.cluster.x-k8s.io/delete-for-move": ""}), json!({"spec": {}}), false)]
#[case::of_another_provider("blue", json!({}), json!({}), json!({"spec": {}}), false)]
fn what_is_to_be_left_alone_is_not_looked_at(
    #[case] filter: &str,
    #[case] of_template: Value,
    #[case] of_machine: Value,
    #[case] mut cluster: Value,
    #[case] is_seen: bool,
) {
    let stores = Stores::new(filter);
    cluster["metadata"] = json!({"namespace": "ns", "name": "c", "resourceVersion": "1"});
    stores.clusters.put(parse(cluster));
    stores.templates.put(template(Some("disabled"), &of_template));
    let mut annotations = cloned("t", OURS);
    annotations
        .as_object_mut()
        .unwrap()
        .extend(of_machine.as_object().unwrap().clone());
    stores.metal3_machines.put(machine(None, &annotations));
    let seen = observe(&stores, &ObjectKey::new("ns", "m"));
    assert_eq!(seen.is_some_and(|seen| decide(&seen) != Decision::idle()), is_seen);
}
