//! A machine with the name of an earlier one does not take over that one's objects.

use metal3_runtime::store::{ObjectKey, Sink};
use rstest::rstest;

use super::*;
use crate::machine::{Subject, observe};
use crate::stores::Stores;

/// Machine m, its host h, and a claim answered by rendered data, each as stored.
fn stores(of_claim: &Value, of_data: &Value) -> Stores {
    let stores = Stores::new("");
    stores.clusters.put((**cluster(&json!({})).found().unwrap()).clone());
    stores.machines.put((**owner(&json!({})).found().unwrap()).clone());
    let owned = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "owner", "uid": "o"}]);
    let mut named = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": "ns/h"}, "ownerReferences": owned},
        "spec": {"dataTemplate": {"name": "t", "namespace": "ns"}}});
    merge(&mut named, &associated());
    stores.metal3_machines.put((*machine(&named)).clone());
    stores.hosts.put((*host(&json!({}))).clone());
    let mut answered = json!({"metadata": {"uid": "u-c", "resourceVersion": "1"},
        "status": {"renderedData": {"name": "t-0"}}});
    merge(&mut answered, of_claim);
    stores.data_claims.put((*claim(&answered)).clone());
    let data = json!({"apiVersion": HERE, "kind": "Metal3Data", "metadata": {"namespace": "ns", "name": "t-0",
            "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": HERE, "kind": "Metal3DataClaim", "name": "m", "uid": "u-c"}]},
        "status": {"ready": true}, "spec": {"index": 0, "claim": {"name": "m"}, "template": {"name": "t"},
            "metaData": {"name": "m-metadata"}}});
    let data: Arc<metal3_api::infra::v1beta2::Metal3Data> = with(data, of_data);
    stores.datas.put((*data).clone());
    stores
}

fn decided(stores: &Stores) -> Plan {
    let Some(Subject::Machine(mut seen)) = observe(stores, &ObjectKey::new("ns", "m"), false) else {
        panic!("no machine is seen");
    };
    seen.reads = super::seen(&json!({})).reads;
    plan(&seen)
}

fn owned_by(kind: &str, name: &str, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": HERE, "kind": kind, "name": name, "uid": uid}]}})
}

#[test]
fn what_was_rendered_for_the_machine_is_used() {
    let plan = decided(&stores(&json!({}), &json!({})));
    assert_eq!(
        host_patch(&plan)["spec"]["metaData"],
        json!({"name": "m-metadata", "namespace": "ns"})
    );
}

#[rstest]
#[case::an_earlier_machine(owned_by("Metal3Machine", "m", "u-before"), "Metal3Machine m with UID u-before")]
#[case::nobody(json!({"metadata": {"ownerReferences": []}}), "no Metal3Machine")]
fn what_was_rendered_for_another_is_not_used_and_its_going_is_waited_for(#[case] of_claim: Value, #[case] owner: &str) {
    let plan = decided(&stores(&of_claim, &json!({})));
    assert!(
        plan.effects.iter().all(|effect| effect.label() != "set up the host"),
        "{plan:?}"
    );
    assert!(!labels(&plan).contains(&"create the Metal3DataClaim"));
    let (holds, _, message) = said(status(&plan), "Metal3DataReady");
    assert!(
        !holds && message.contains(owner) && message.contains("delete it"),
        "{message}"
    );
    assert_eq!(status(&plan).rendered_data.name, "");
}

#[test]
fn data_of_an_earlier_claim_of_the_name_is_not_used() {
    let plan = decided(&stores(&json!({}), &owned_by("Metal3DataClaim", "m", "u-before")));
    assert!(
        plan.effects.iter().all(|effect| effect.label() != "set up the host"),
        "{plan:?}"
    );
}
