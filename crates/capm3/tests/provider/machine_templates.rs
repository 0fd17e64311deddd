//! Metal3MachineTemplates: what of them holds for machines that are there already.

use kube::ResourceExt;
use metal3_api::capi::{Cluster, Machine, MachineSet};
use metal3_api::condition::ConditionStatus::True;
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineTemplate};
use metal3_api::metal3::BareMetalHost;
use metal3_testkit::namespace;
use serde_json::{Value, json};

use crate::support::{ASSOCIATED, Site, consumer, lacks, says};

/// The mode of a machine's or a host's specification.
fn mode(spec: &impl serde::Serialize) -> Value {
    json!(spec)["automatedCleaningMode"].clone()
}

async fn set_mode(site: &Site, mode: &str) {
    let change = json!({"spec": {"template": {"spec": {"automatedCleaningMode": mode}}}});
    site.patch::<Metal3MachineTemplate>("t", change).await;
}

#[tokio::test]
async fn a_changed_cleaning_mode_reaches_the_machines_of_the_template_and_their_hosts() {
    let site = Site::for_machines(namespace!().await).await;
    site.host("h", json!({}), "available").await;
    site.apply(
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3MachineTemplate",
            "metadata": {"name": "t"},
            "spec": {"template": {"spec": {"image": {"url": "http://images/i.qcow2", "checksum": "abc"}}}}}),
    )
    .await;
    let provider = site.provider().await;
    for (machine, kind) in [("m", "Metal3MachineTemplate"), ("other", "OtherMachineTemplate")] {
        site.machine(machine, json!({})).await;
        site.cloned_from(machine, kind, "t").await;
        site.claimed("h", "m").await;
    }
    set_mode(&site, "disabled").await;
    let is_disabled = |machine: &Metal3Machine| mode(&machine.spec) == "disabled";
    site.namespace.expect("m", "is not cleaned", is_disabled).await;
    site.namespace.expect_event("m", "AutomatedCleaningModeChanged").await;
    let is_disabled = |host: &BareMetalHost| mode(&host.spec) == "disabled";
    site.namespace.expect("h", "is not cleaned", is_disabled).await;

    // What is as it should be costs nothing, whoever touches other fields.
    let settled = site.settled().await;
    let of_other_kind: Metal3Machine = site.namespace.api().get("other").await.unwrap();
    assert_eq!(mode(&of_other_kind.spec), Value::Null);
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    site.patch::<Metal3MachineTemplate>("t", label.clone()).await;
    site.patch::<Metal3Machine>("m", label).await;
    assert_eq!(site.settled().await, settled);

    // A paused cluster is left alone until it goes on.
    site.patch::<Cluster>("c", json!({"spec": {"paused": true}})).await;
    let is_paused = |machine: &Metal3Machine| {
        let status = machine.status.clone().unwrap_or_default();
        says(&status.conditions, "Paused", &True, "Paused")
    };
    site.namespace.expect("m", "is paused", is_paused).await;
    set_mode(&site, "metadata").await;
    site.settled().await;
    let kept: Metal3Machine = site.namespace.api().get("m").await.unwrap();
    assert_eq!(mode(&kept.spec), "disabled");
    site.patch::<Cluster>("c", json!({"spec": {"paused": false}})).await;
    let is_cleaned = |machine: &Metal3Machine| mode(&machine.spec) == "metadata";
    site.namespace.expect("m", "is cleaned again", is_cleaned).await;
    provider.stop().await;
}

#[tokio::test]
async fn a_kept_host_goes_to_the_next_machine_of_its_deployment() {
    let site = Site::for_machines(namespace!().await).await;
    let group = "infrastructure.cluster.x-k8s.io";
    let reference = json!({"apiGroup": group, "kind": "Metal3MachineTemplate", "name": "t"});
    let image = json!({"url": "http://images/i.qcow2", "checksum": "abc"});
    site.apply(
        json!({"apiVersion": format!("{group}/v1beta2"), "kind": "Metal3MachineTemplate",
        "metadata": {"name": "t"}, "spec": {"template": {"spec": {"image": image}}}}),
    )
    .await;
    let deployment =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "workers", "uid": "u"});
    let template =
        json!({"spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "b"}, "infrastructureRef": reference}});
    let set = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"name": "s", "ownerReferences": [deployment]},
        "spec": {"clusterName": "c", "selector": {"matchLabels": {"x": "y"}}, "template": template}});
    let made = site.namespace.apply(&set.to_string()).await;
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "s", "uid": made[0].metadata.uid});
    let of_set = json!({"metadata": {"ownerReferences": [owner]}});
    site.host("h", json!({}), "available").await;
    site.machine("m", json!({})).await;
    site.patch::<Machine>("m", of_set.clone()).await;
    let provider = site.provider().await;
    site.claimed("h", "m").await;
    // What the template says when the machine goes counts, whatever it said when the machine was made.
    site.cloned_from("m", "Metal3MachineTemplate", "t").await;
    let change = json!({"nodeReuse": true, "template": {"spec": {"automatedCleaningMode": "disabled"}}});
    site.patch::<Metal3MachineTemplate>("t", json!({"spec": change})).await;
    let has_heard = |machine: &Metal3Machine| machine.spec.automated_cleaning_mode.is_some();
    site.namespace.expect("m", "has heard of it", has_heard).await;
    site.delete::<Metal3Machine>("m").await;
    site.namespace.expect_gone::<Metal3Machine>("m").await;
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    assert_eq!(
        host.labels()["infrastructure.cluster.x-k8s.io/node-reuse"],
        "md-workers"
    );
    assert_eq!(consumer(&host), Some("c"), "the cluster holds it");
    site.machine("other", json!({})).await;
    let waits = |machine: &Metal3Machine| lacks(machine, ASSOCIATED, "0 of 1 hosts: 1 kept for md-workers");
    site.namespace.expect("other", "waits", waits).await;
    site.machine("next", json!({})).await;
    site.patch::<Machine>("next", of_set).await;
    let host = site.claimed("h", "next").await;
    assert!(!host.labels().contains_key("infrastructure.cluster.x-k8s.io/node-reuse"));
    let reused = |machine: &Metal3Machine| {
        let status = machine.status.clone().unwrap_or_default();
        says(
            &status.conditions,
            ASSOCIATED,
            &True,
            "AssociateBareMetalHostViaNodeReuseSuccess",
        )
    };
    site.namespace.expect("next", "says why it has this host", reused).await;

    // Kept again, and then nobody comes any more: the deployment goes, and with it its set.
    site.delete::<Metal3Machine>("next").await;
    site.namespace.expect_gone::<Metal3Machine>("next").await;
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    assert_eq!(consumer(&host), Some("c"));
    site.delete::<MachineSet>("s").await;
    site.claimed("h", "other").await;
    provider.stop().await;
}
