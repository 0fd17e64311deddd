//! A cluster that is made from a ClusterClass: Cluster API makes our templates and machines of it, and makes them anew when
//! the class changes. Hosts are played by the test; what has booted joins a workload cluster of its own.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::ironic::ConfigDrive;
use metal3_lab::workload::{Boot, WorkloadCluster, fit, join};
use metal3_testkit::{eventually, namespace, with_controller_manager};
use serde_json::{Value, json};

use crate::hosts::turns;
use crate::support::Site;
use crate::{ALONE, LIMIT, cluster_api};

const NAME: &str = "from-class";

/// A cluster's site, and where its machines join.
struct Class {
    site: Site,
    workload: WorkloadCluster,
    client: Client,
}

impl Class {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
        Api::namespaced_with(self.site.namespace.client.clone(), &self.site.namespace.name, &resource)
    }

    /// What is applied: the example with one machine for its control plane, for this workload cluster.
    async fn apply_example(&self) {
        for secret in self.workload.access().secrets(NAME) {
            self.site.apply(secret).await;
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cluster/cluster-class.yaml");
        let mut objects = metal3_testkit::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        fit(&mut objects, self.workload.access(), "http://images/i", "0123");
        for object in &mut objects {
            if object.name_any() == NAME {
                object.data["spec"]["topology"]["controlPlane"]["replicas"] = json!(1);
            }
        }
        let namespace = &self.site.namespace;
        let applied = metal3_lab::apply::apply(&namespace.client, &objects, Some(&namespace.name));
        applied.await.unwrap();
    }

    /// Plays the operator for a while: a host that is told what to run boots it.
    async fn play(&self) {
        for (host, state) in turns(&self.site).await {
            let name = host.name_any();
            if state == ProvisioningState::Available {
                self.site.host_becomes(&name, state.as_str()).await;
                continue;
            }
            let drive = self.config_drive(&host).await;
            self.site.host_becomes(&name, state.as_str()).await;
            let boot = Boot::read(&drive).unwrap().unwrap();
            join(&self.client, &self.workload.access().version, &boot)
                .await
                .unwrap();
        }
    }

    /// What the operator would put on a host's config drive.
    async fn config_drive(&self, host: &BareMetalHost) -> ConfigDrive {
        let secrets = self.site.namespace.api::<Secret>();
        let text = async |name: &str, key: &str| {
            let data = secrets.get(name).await.unwrap().data.unwrap();
            // Bootstrap data have the key that Cluster API wants.
            let found = data.get(key).or_else(|| data.get("value")).unwrap();
            String::from_utf8(found.0.clone()).unwrap()
        };
        let name = host.name_any();
        let mut meta_data = json!({"uuid": host.uid(), "name": name, "local_hostname": name});
        if let Some(reference) = &host.spec.meta_data {
            let own: BTreeMap<String, String> =
                serde_saphyr::from_str(&text(&reference.name, "metaData").await).unwrap();
            for (key, value) in own {
                meta_data[key] = json!(value);
            }
        }
        let reference = host.spec.user_data.as_ref().unwrap();
        ConfigDrive {
            meta_data: Some(meta_data),
            user_data: Some(text(&reference.name, "userData").await),
            network_data: None,
        }
    }

    /// Waits until so many Machines run. Their names.
    async fn expect_running(&self, count: usize) -> BTreeSet<String> {
        eventually(LIMIT, &format!("{count} Machines run"), || async {
            self.play().await;
            let machines = self.api("Machine").list(&ListParams::default()).await.unwrap().items;
            let phase = |machine: &DynamicObject| machine.data["status"]["phase"].as_str().map(str::to_owned);
            let running = machines
                .iter()
                .filter(|machine| phase(machine).as_deref() == Some("Running"));
            if (machines.len(), running.count()) == (count, count) {
                return Ok(machines.iter().map(ResourceExt::name_any).collect());
            }
            let seen = machines
                .iter()
                .map(|machine| (machine.name_any(), machine.data["status"].clone()));
            Err(format!("{:#?}", seen.collect::<Vec<_>>()))
        })
        .await
    }

    async fn patch(&self, kind: &str, name: &str, change: Value) {
        let api = self.api(kind);
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        patched.unwrap();
    }

    /// What the Metal3Machines of workers are to do with disks, by name of the machine.
    async fn cleaning(&self) -> BTreeMap<String, Option<String>> {
        let machines = self.site.namespace.api::<Metal3Machine>();
        let listed = machines.list(&ListParams::default()).await.unwrap().into_iter();
        let workers = listed.filter(|machine| machine.name_any().contains("-workers-"));
        let mode = |machine: Metal3Machine| {
            let mode = serde_json::to_value(machine.spec.automated_cleaning_mode).unwrap();
            (machine.metadata.name.unwrap(), mode.as_str().map(str::to_owned))
        };
        workers.map(mode).collect()
    }
}

#[tokio::test]
async fn a_cluster_of_a_class_is_made_scaled_rotated_and_deleted() {
    let _alone = ALONE.lock().await;
    with_controller_manager();
    let namespace = namespace!().await;
    cluster_api(namespace.server()).await;
    let site = Site::beside_managers(namespace).await;
    let provider = site.provider().await;
    let workload = WorkloadCluster::start(None, None, None).await.unwrap();
    let client = workload.control_plane().client().await.unwrap();
    let class = Class { site, workload, client };
    for (number, role) in ["control-plane", "worker", "worker", "worker", "worker"]
        .iter()
        .enumerate()
    {
        let name = format!("h{number}");
        class
            .site
            .host(&name, json!({"example.org/role": role}), "available")
            .await;
        let mac = json!({"spec": {"bootMACAddress": format!("52:54:00:00:00:0{number}")}});
        class.site.patch::<BareMetalHost>(&name, mac).await;
    }
    class.site.secret("bmc").await;
    class.apply_example().await;
    class.expect_running(3).await;

    let workers = json!([{"class": "workers", "name": "workers", "replicas": 3}]);
    let change = json!({"spec": {"topology": {"workers": {"machineDeployments": workers}}}});
    class.patch("Cluster", NAME, change).await;
    let before = class.expect_running(4).await;

    // Another template in the class: Cluster API makes one of its own of it, and machines by that.
    let group = "infrastructure.cluster.x-k8s.io";
    class
        .site
        .apply(json!({"apiVersion": format!("{group}/v1beta2"), "kind": "Metal3MachineTemplate",
            "metadata": {"name": "metal3-workers-2"},
            "spec": {"template": {"spec": {"automatedCleaningMode": "disabled",
                "hostSelector": {"matchLabels": {"example.org/role": "worker"}}, "dataTemplate": {"name": "metal3"},
                "image": {"url": "http://images/i2", "checksum": "4567", "checksumType": "sha256", "diskFormat": "raw"}}}}}))
        .await;
    let mut current = class.api("ClusterClass").get("metal3").await.unwrap().data["spec"]["workers"].clone();
    current["machineDeployments"][0]["infrastructure"]["templateRef"]["name"] = json!("metal3-workers-2");
    class
        .patch("ClusterClass", "metal3", json!({"spec": {"workers": current}}))
        .await;
    eventually(LIMIT, "all workers are of the new template", || async {
        class.play().await;
        let modes = class.cleaning().await;
        let is_new = |mode: &Option<String>| mode.as_deref() == Some("disabled");
        if modes.len() == 3 && modes.values().all(is_new) {
            Ok(())
        } else {
            Err(format!("{modes:?}"))
        }
    })
    .await;
    let after = class.expect_running(4).await;
    assert_eq!(
        before.intersection(&after).count(),
        1,
        "the control plane stays: {before:?} {after:?}"
    );

    class
        .api("Cluster")
        .delete(NAME, &DeleteParams::default())
        .await
        .unwrap();
    eventually(LIMIT, "the Cluster is gone, and every host is free", || async {
        class.play().await;
        let hosts: Api<BareMetalHost> = class.site.namespace.api();
        let hosts = hosts.list(&ListParams::default()).await.unwrap();
        let used = hosts.iter().filter(|host| host.spec.consumer_ref.is_some()).count();
        let clusters = class
            .api("Cluster")
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len();
        if (used, clusters) == (0, 0) {
            Ok(())
        } else {
            Err(format!("{used} hosts in use, {clusters} clusters"))
        }
    })
    .await;
    provider.stop().await;
    class.workload.stop().await;
}
