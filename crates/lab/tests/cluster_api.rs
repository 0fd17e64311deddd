//! Cluster API's managers do their work here: the API server calls their webhooks, and they reconcile.

use std::time::{Duration, Instant};

use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use metal3_lab::cluster_api::ClusterApi;
use metal3_lab::{ControlPlane, ControlPlaneConfig};
use serde_json::{Value, json};

/// Clusters in one of the versions that are served.
struct Clusters {
    resource: ApiResource,
    api: Api<DynamicObject>,
}

impl Clusters {
    fn new(client: &Client, version: &str) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", version, "Cluster"));
        let api = Api::namespaced_with(client.clone(), "default", &resource);
        Self { resource, api }
    }

    async fn create(&self, name: &str, spec: Value) -> kube::Result<DynamicObject> {
        let cluster = DynamicObject::new(name, &self.resource).data(json!({"spec": spec}));
        self.api.create(&PostParams::default(), &cluster).await
    }
}

#[tokio::test]
async fn webhooks_are_called_versions_converted_and_objects_reconciled() {
    let config = ControlPlaneConfig {
        controller_manager: true,
        ..ControlPlaneConfig::default()
    };
    let lab = ControlPlane::start(config).await.unwrap();
    let capi = ClusterApi::start(&lab).await.unwrap();
    let client = lab.client().await.unwrap();
    let (new, old) = (Clusters::new(&client, "v1beta2"), Clusters::new(&client, "v1beta1"));
    let endpoint = json!({"host": "127.0.0.1", "port": 6443});

    // To the schema a range of addresses is any text; that this one is none only the validating webhook can see.
    let range = json!({"pods": {"cidrBlocks": ["10.0.0.0/99"]}});
    let wrong = json!({"clusterNetwork": range, "controlPlaneEndpoint": endpoint});
    let refused = new.create("wrong", wrong).await.unwrap_err().to_string();
    assert!(
        refused.contains("admission webhook") && refused.contains("10.0.0.0/99"),
        "{refused}"
    );

    // Written in the old version, read in the new one: the conversion webhook stands in between.
    let reference = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "KubeadmControlPlane", "name": "c", "namespace": "default",
    });
    let spec = json!({"paused": true, "controlPlaneEndpoint": endpoint, "controlPlaneRef": reference});
    old.create("c", spec).await.unwrap();
    let reference = new.api.get("c").await.unwrap().data["spec"]["controlPlaneRef"].clone();
    assert_eq!(
        reference["apiGroup"], "controlplane.cluster.x-k8s.io",
        "the new version has a group: {reference}"
    );
    assert_eq!(reference.get("apiVersion"), None, "and no version: {reference}");

    // The core manager acts under its own service account: it gives the Cluster a condition.
    let start = Instant::now();
    loop {
        let conditions = new.api.get("c").await.unwrap().data["status"]["conditions"].clone();
        let paused = |condition: &Value| condition["type"] == "Paused" && condition["status"] == "True";
        if conditions.as_array().is_some_and(|all| all.iter().any(paused)) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "last seen: {conditions}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    capi.ensure_alive().unwrap();

    // And to see that it is the manager that decides: without it, nothing gets in.
    capi.stop().await;
    let missed = new
        .create("fine", json!({"controlPlaneEndpoint": endpoint}))
        .await
        .unwrap_err()
        .to_string();
    assert!(missed.contains("failed calling webhook"), "{missed}");
    lab.stop().await;
}
