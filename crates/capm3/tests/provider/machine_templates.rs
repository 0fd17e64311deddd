//! Metal3MachineTemplates: what of them holds for machines that are there already.

use metal3_api::capi::Cluster;
use metal3_api::condition::ConditionStatus::True;
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineTemplate};
use metal3_api::metal3::BareMetalHost;
use metal3_testkit::namespace;
use serde_json::{Value, json};

use crate::support::{Site, says};

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
    let site = Site::new(namespace!().await).await;
    site.ready_cluster("c").await;
    site.secret("b").await;
    site.secret("bmc").await;
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
        let is_claimed = |host: &BareMetalHost| host.spec.consumer_ref.is_some();
        site.namespace.expect("h", "is claimed", is_claimed).await;
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
