use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use metal3_api::capi::names::annotation::PAUSED;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::Sink;
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::observed::Observed;
use super::*;
use crate::stores::Stores;
use crate::workload::nodes::nodes;

const HERE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CLUSTER: &str = "cluster.x-k8s.io/v1beta2";
const PREFIXES: &str = "metal3.io/metal3-label-sync-prefixes";

fn parse<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

#[rstest]
#[case::one("example.com", &["example.com"], &[])]
#[case::spaces_and_empties(" a.b ,, c-d.e, ", &["a.b", "c-d.e"], &[])]
#[case::twice("a,a", &["a"], &[])]
#[case::none("", &[], &[])]
#[case::digits("0.1", &["0.1"], &[])]
#[case::upper_case("Example.com,a", &["a"], &["Example.com"])]
#[case::underscore("a_b", &[], &["a_b"])]
#[case::slash("a/b", &[], &["a/b"])]
#[case::star("*.a", &[], &["*.a"])]
#[case::dots("a..b,.a,a.", &[], &["a..b", ".a", "a."])]
#[case::dashes("-a,a-,a.-b", &[], &["-a", "a-", "a.-b"])]
#[case::space_within("a b", &[], &["a b"])]
fn prefixes_are_domains(#[case] text: &str, #[case] good: &[&str], #[case] bad: &[&str]) {
    let prefixes = Prefixes::parse(text);
    assert_eq!(
        prefixes.good,
        good.iter().map(ToString::to_string).collect::<BTreeSet<_>>()
    );
    assert_eq!(prefixes.bad, bad);
    let complaint = prefixes.complaint().unwrap_or_default();
    assert_eq!(complaint.is_empty(), bad.is_empty());
    assert!(
        bad.iter().all(|bad| complaint.contains(&format!("{bad:?}"))),
        "{complaint}"
    );
}

#[test]
fn a_complaint_is_short_however_much_is_wrong() {
    let text = vec!["Ä".repeat(1000); 1000].join(",");
    let complaint = Prefixes::parse(&text).complaint().unwrap();
    assert!(complaint.len() < 1000, "{}", complaint.len());
    assert!(complaint.contains("and 997 more"), "{complaint}");
}

#[test]
fn a_prefix_is_as_long_as_the_key_of_a_label_allows() {
    let longest = "a".repeat(253);
    assert!(Prefixes::parse(&longest).bad.is_empty());
    assert!(Prefixes::parse(&format!("{longest}a")).good.is_empty());
}

#[rstest]
#[case::set("a.b", json!({"a.b/x": "1"}), json!({}), Some(json!({"a.b/x": "1"})))]
#[case::changed("a.b", json!({"a.b/x": "1"}), json!({"a.b/x": "2"}), Some(json!({"a.b/x": "1"})))]
#[case::gone("a.b", json!({}), json!({"a.b/x": "1"}), Some(json!({"a.b/x": null})))]
#[case::same("a.b", json!({"a.b/x": "1", "a.b/y": ""}), json!({"a.b/y": "", "a.b/x": "1"}), None)]
#[case::all_at_once("a.b,c", json!({"a.b/x": "1", "c/y": "2"}), json!({"a.b/z": "3"}),
    Some(json!({"a.b/x": "1", "a.b/z": null, "c/y": "2"})))]
#[case::without_prefix("a.b", json!({"x": "1"}), json!({"y": "1"}), None)]
#[case::other_prefix("a.b", json!({"b/x": "1", "sub.a.b/x": "1"}), json!({"a/x": "1"}), None)]
#[case::never("kubernetes.io,metal3.io", json!({"kubernetes.io/os": "plan9"}),
    json!({"kubernetes.io/hostname": "n", "kubernetes.io/arch": "arm64", "metal3.io/uuid": "u"}), None)]
#[case::others_of_its_prefix("kubernetes.io", json!({}), json!({"kubernetes.io/hostname": "n", "kubernetes.io/other": "x"}),
    Some(json!({"kubernetes.io/other": null})))]
fn a_node_gets_the_labels_of_its_host(
    #[case] prefixes: &str,
    #[case] host: Value,
    #[case] node: Value,
    #[case] change: Option<Value>,
) {
    let host: BareMetalHost = parse(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h", "labels": host}, "spec": {}}));
    let node: Node = parse(json!({"metadata": {"name": "n", "uid": "u", "labels": node}}));
    let metal3_cluster = json!({"apiVersion": HERE, "kind": "Metal3Cluster", "metadata": {"name": "c"}, "spec": {}});
    let seen = Observed {
        key: ObjectKey::new("ns", "c"),
        uid: "u-c".to_owned(),
        metal3_cluster: Arc::new(parse(metal3_cluster)),
        prefixes: Prefixes::parse(prefixes),
        pairs: vec![(Arc::new(host), Arc::new(node))],
        refused: None,
        events: Vec::new(),
    };
    let Decision::Act(plan) = decide(&seen);
    let patches: Vec<Value> = plan.effects.iter().filter_map(patch_of).collect();
    let expected = change.map(|labels| json!({"metadata": {"uid": "u", "labels": labels}}));
    assert_eq!(patches, expected.into_iter().collect::<Vec<_>>());
}

fn patch_of(effect: &Effect) -> Option<Value> {
    match effect {
        Effect::Relabel(change) => Some(change.patch()),
        Effect::Conclude => None,
    }
}

/// A cluster with one machine, its host and its Node; `change` is what is different, by kind.
fn stores(filter: &str, change: &Value) -> Stores {
    let with = |kind: &str, mut object: Value| {
        object["metadata"]["namespace"] = json!("ns");
        object["metadata"]["resourceVersion"] = json!("1");
        if let Some(change) = change.get(kind) {
            json_patch::merge(&mut object, change);
        }
        object
    };
    let stores = Stores::new(filter);
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": "c"});
    let cluster = json!({"metadata": {"name": "c"}, "spec": {"infrastructureRef": reference}});
    stores.clusters.put(parse(with("cluster", cluster)));
    let metal3_cluster = json!({"apiVersion": HERE, "kind": "Metal3Cluster",
        "metadata": {"name": "c", "annotations": {PREFIXES: "a.b,WRONG"}}, "spec": {}});
    stores
        .metal3_clusters
        .put(parse(with("metal3_cluster", metal3_cluster)));
    let machine = json!({"metadata": {"name": "owner"}, "status": {"nodeRef": {"name": "n"}}});
    stores.machines.put(parse(with("machine", machine)));
    let owners = json!([{"apiVersion": CLUSTER, "kind": "Machine", "name": "owner", "uid": "u"}]);
    let metal3_machine = json!({"apiVersion": HERE, "kind": "Metal3Machine",
        "metadata": {"name": "m", "uid": "u-m", "ownerReferences": owners, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "annotations": {"metal3.io/BareMetalHost": "ns/h"}},
        "spec": {}});
    stores
        .metal3_machines
        .put(parse(with("metal3_machine", metal3_machine)));
    let consumer = json!({"apiVersion": HERE, "kind": "Metal3Machine", "namespace": "ns", "name": "m", "uid": "u-m"});
    let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h", "labels": {"a.b/x": "1"}}, "spec": {"consumerRef": consumer}});
    stores.hosts.put(parse(with("host", host)));
    stores
}

#[rstest]
#[case::all_there("", json!({}), true)]
#[case::paused_cluster("", json!({"cluster": {"spec": {"paused": true}}}), false)]
#[case::paused_metal3_cluster("", json!({"metal3_cluster": {"metadata": {"annotations": {PAUSED: ""}}}}), false)]
#[case::paused_machine("", json!({"metal3_machine": {"metadata": {"annotations": {PAUSED: ""}}}}), false)]
#[case::paused_host("", json!({"host": {"metadata": {"annotations": {PAUSED: ""}}}}), false)]
// OWN 31sz: the pause of a host is its own annotation.
#[case::host_paused_by_its_own("", json!({"host": {"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}}), false)]
#[case::nothing_wanted("", json!({"metal3_cluster": {"metadata": {"annotations": {PREFIXES: null}}}}), false)]
#[case::nothing_usable("", json!({"metal3_cluster": {"metadata": {"annotations": {PREFIXES: "A"}}}}), false)]
#[case::of_another_provider("blue", json!({}), false)]
#[case::other_infrastructure("", json!({"cluster": {"spec": {"infrastructureRef": {"kind": "OtherCluster"}}}}), false)]
#[case::no_node_yet("", json!({"machine": {"status": null}}), false)]
#[case::no_owner("", json!({"metal3_machine": {"metadata": {"ownerReferences": null}}}), false)]
#[case::machine_goes("", json!({"metal3_machine": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
    "finalizers": ["f"]}}}), false)]
#[case::host_of_another("", json!({"host": {"spec": {"consumerRef": {"name": "other", "uid": "o"}}}}), false)]
#[case::host_of_nobody("", json!({"host": {"spec": {"consumerRef": null}}}), false)]
fn only_a_host_with_a_node_is_looked_at_and_nothing_that_is_paused(
    #[case] filter: &str,
    #[case] change: Value,
    #[case] is_seen: bool,
) {
    let (stores, key) = (stores(filter, &change), ObjectKey::new("ns", "c"));
    let nodes = nodes();
    nodes.put(parse(
        json!({"metadata": {"name": "n", "uid": "u-n", "resourceVersion": "1"}}),
    ));
    let pairs = observe(&stores, &key, || Some(nodes)).map(|seen| seen.pairs);
    assert_eq!(pairs.unwrap_or_default().len(), usize::from(is_seen));
}
