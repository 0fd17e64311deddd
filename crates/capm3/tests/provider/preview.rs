//! Bootstrap data that takes from the metadata what is not there.

use metal3_api::condition::ConditionStatus::False;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::conditions;
use metal3_testkit::namespace;
use serde_json::json;

use crate::support::{Site, lacks, says};

const BOOTSTRAP_DATA: &str = "BootstrapDataComplete";

/// How often the provider has read one Secret.
fn reads(site: &Site, name: &str) -> usize {
    let requests = site.requests();
    let reads = requests
        .iter()
        .filter(|request| request.verb == "get" && request.resource == "secrets" && request.name == name);
    reads.count()
}

#[tokio::test]
async fn missing_metadata_is_told_before_the_host_is_and_waited_for_where_the_user_asks() {
    let site = Site::for_machines(namespace!().await).await;
    let secret = async |name: &str, key: &str, text: &str| {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: text}});
        site.apply(secret).await;
    };
    let template = "## template: jinja\n#cloud-config\nhostname: {{ ds.meta_data.rack }}\n# hunter2\n";
    secret("b", "value", template).await;
    for name in ["of-easy", "of-strict"] {
        secret(name, "metaData", "row: '7'\n").await;
    }
    let provider = site.provider().await;
    for name in ["easy", "strict"] {
        let spec = json!({"metaData": {"name": format!("of-{name}")}, "hostSelector": {"matchLabels": {"of": name}}});
        site.machine(name, spec).await;
    }
    let strict = json!({"infrastructure.cluster.x-k8s.io/strict-bootstrap-data": "true"});
    site.patch::<Metal3Machine>("strict", json!({"metadata": {"annotations": strict}}))
        .await;
    for name in ["easy", "strict"] {
        site.host(name, json!({"of": name}), "available").await;
    }

    let is_told = |host: &BareMetalHost| host.spec.image.is_some();
    site.namespace.expect("easy", "is to be provisioned", is_told).await;
    let is_said = |machine: &Metal3Machine| lacks(machine, BOOTSTRAP_DATA, "takes ds.meta_data.rack from the metadata");
    let machine = site.namespace.expect("easy", "tells what is missing", is_said).await;
    assert!(
        !serde_json::to_string(&machine).unwrap().contains("hunter2"),
        "nothing but keys is told"
    );
    site.namespace.expect_event("easy", "MetadataKeysMissing").await;
    let is_waiting =
        |machine: &Metal3Machine| is_said(machine) && lacks(machine, "Ready", "add it to Secret of-strict");
    site.namespace.expect("strict", "waits", is_waiting).await;
    let host = site.claimed("strict", "strict").await;
    assert!(!is_told(&host), "a user asks for that");

    // What is read once is not read again. The other machine looks at its own, and at what they share, while it waits.
    site.settled().await;
    let before = reads(&site, "of-easy");
    assert!(before <= 2, "whether it is there, and what is in it: {before}");
    site.host_becomes("easy", "provisioning").await;
    site.host_becomes("easy", "provisioned").await;
    let is_provisioned = |machine: &Metal3Machine| {
        let status = machine.status.clone().unwrap_or_default();
        status.initialization.provisioned == Some(true)
    };
    site.namespace.expect("easy", "is provisioned", is_provisioned).await;
    site.settled().await;
    assert_eq!(reads(&site, "of-easy"), before);

    secret("of-strict", "metaData", "rack: b\n").await;
    site.namespace.expect("strict", "is to be provisioned", is_told).await;
    let is_over = |machine: &Metal3Machine| {
        let status = machine.status.clone().unwrap_or_default();
        conditions::get(&status.conditions, BOOTSTRAP_DATA).is_none()
            && says(&status.conditions, "Ready", &False, "NotReady")
    };
    site.namespace
        .expect("strict", "has nothing to say of it any more", is_over)
        .await;
    provider.stop().await;
}
