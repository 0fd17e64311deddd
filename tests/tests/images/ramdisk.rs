//! Ramdisks of a host's own: built by an image builder, or started with network data.

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::{PreprovisioningImage, ProvisioningState};
use metal3_scenarios::{LIMIT, TestEnv, network_ramdisk, run};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

use super::IRONIC;

#[test]
fn a_host_waits_for_its_own_ramdisk_and_is_inspected_by_it() {
    run(async {
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, 1, |config, _| {
            config.args.push("--build-preprov-image".to_owned());
            // Without a configured ramdisk the operator answers no PreprovisioningImage itself.
            config.env.push(("DEPLOY_ISO_URL".into(), "".into()));
        })
        .await;
        let name = env.apply_host(0, |_| {}).await;
        let full = format!("PreprovisioningImage {}/{name}", env.namespace.name);
        env.expect_waiting(&name, "RamdiskBuilding", &[&full, "image builder"])
            .await;
        assert_eq!(env.machine(0).await.times_switched_on(), 0);
        let images: Api<PreprovisioningImage> = env.namespace.api();
        let image = eventually(LIMIT, "the image is asked for", || async {
            images.get(&name).await.map_err(|e| e.to_string())
        })
        .await;
        assert_eq!(json!(image.spec.accept_formats), json!(["iso", "initrd"]));
        assert_eq!(image.spec.architecture, std::env::consts::ARCH);

        // The status written by an image builder.
        let built = format!("{}?for={name}", env.ironic.ramdisk_iso_url());
        let ready = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": "ImageSuccess", "message": "",
                "observedGeneration": image.metadata.generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let status = json!({"status": {
            "imageUrl": built, "format": "iso", "architecture": image.spec.architecture,
            "conditions": [ready("Ready", "True"), ready("Error", "False")],
        }});
        images
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("the status is accepted");
        env.expect_state(&name, ProvisioningState::Available).await;
        assert_eq!(env.node(&name).await["driver_info"]["deploy_iso"], built);
        assert_eq!(env.machine(0).await.inspections(), 1);
        env.delete(&name).await;
        env.expect_gone(&name).await;
        let image = images.get(&name).await.unwrap();
        assert_eq!(image.metadata.finalizers, None, "nothing of ours holds it");
    });
}

#[test]
fn a_host_is_inspected_by_the_ramdisk_for_its_architecture() {
    run(async {
        let architecture = std::env::consts::ARCH;
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, 1, |config, ironic| {
            config.args.push("--build-preprov-image".to_owned());
            let own = format!("{architecture}:{}?for={architecture}", ironic.ramdisk_iso_url());
            config.env.push(("DEPLOY_ISO_BY_ARCH".into(), own.into()));
        })
        .await;
        let own = format!("{}?for={architecture}", env.ironic.ramdisk_iso_url());
        let name = env.apply_host(0, |_| {}).await;
        env.expect_state(&name, ProvisioningState::Available).await;
        assert_eq!(env.node(&name).await["driver_info"]["deploy_iso"], own);
        assert_eq!(env.machine(0).await.inspections(), 1);
        let images: Api<PreprovisioningImage> = env.namespace.api();
        let image = images.get(&name).await.expect("the operator asks itself");
        let status = image.status.expect("and answers");
        assert_eq!((&*status.image_url, &*status.architecture), (&*own, architecture));
        let is_ready = |one: &Condition| one.type_ == "Ready" && one.status == ConditionStatus::True;
        assert!(status.conditions.iter().any(is_ready), "{:?}", status.conditions);

        // As in a deletion in the foreground, or of the namespace: the image goes first, and serves its host as it is.
        env.patch(&name, json!({"spec": {"image": env.image()}})).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        let before = env.machine(0).await;
        let deleted = images.delete(&name, &DeleteParams::default()).await;
        deleted.expect("it is deleted");
        env.delete(&name).await;
        env.expect_gone(&name).await;
        assert_eq!(env.machine(0).await.cleans(), before.cleans() + 1);
        eventually(LIMIT, "the image is gone", || async {
            let found = images.get_opt(&name).await.map_err(|error| error.to_string())?;
            found.map_or(Ok(()), |found| Err(format!("{found:?}")))
        })
        .await;
    });
}

/// Network data that gives a server's first card an address.
fn network_data(env: &TestEnv, number: usize, address: &str) -> Value {
    let network = json!({"id": "n", "network_id": "ramdisks", "type": "ipv4", "link": "eth0", "ip_address": address,
        "netmask": "255.255.255.0"});
    let data = json!({
        "links": [{"id": "eth0", "type": "phy", "ethernet_mac_address": env.server(number).macs[0]}],
        "networks": [network], "services": [],
    });
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ramdisk-network"},
        "stringData": {"networkData": data.to_string()}})
}

#[test]
fn where_there_is_no_dhcp_a_ramdisk_starts_with_the_network_data_of_its_host() {
    run(async {
        // Ironic writes network data only into an ISO that it builds itself.
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, 2, |config, ironic| {
            network_ramdisk(config, ironic);
            config.env.push(("DEPLOY_ISO_URL".into(), "".into()));
        })
        .await;
        for number in 0..2 {
            env.agent(number, json!({"no_dhcp": true})).await;
        }
        // Without it the ramdisk reaches nobody.
        env.apply_host(1, |_| {}).await;
        let without = eventually(LIMIT, "the ramdisk has no network", || async {
            let agent = env.machine(1).await.agent;
            let is_lost = agent.as_ref().is_some_and(|agent| agent.state == "without a network");
            if is_lost { Ok(agent) } else { Err(format!("{agent:?}")) }
        });

        let good = network_data(&env, 0, "192.0.2.9").to_string();
        // Ironic's schema wants it, and says something else.
        env.namespace.apply(&good.replace("network_id", "network")).await;
        let change = |host: &mut Value| host["spec"]["preprovisioningNetworkDataName"] = json!("ramdisk-network");
        let name = env.apply_host(0, change).await;
        env.expect_waiting(&name, "BackOff", &["registration error", "network_data"])
            .await;
        env.namespace.apply(&good).await;
        env.expect_state(&name, ProvisioningState::Available).await;
        let addresses = async || env.machine(0).await.agent.and_then(|agent| agent.addresses);
        assert_eq!(addresses().await, Some(vec!["192.0.2.9/24".to_owned()]));
        assert_eq!(without.await.unwrap().addresses, None);

        // The next ramdisk starts with what the Secret says by then, and so does the system that it writes: the host names no other
        // network data.
        let secret = network_data(&env, 0, "192.0.2.10");
        env.namespace.apply(&secret.to_string()).await;
        env.patch(&name, json!({"spec": {"image": env.image()}})).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        assert_eq!(addresses().await, Some(vec!["192.0.2.10/24".to_owned()]));
        let deployed = env.machine(0).await.deployments.pop().unwrap();
        let network = deployed.config_drive.unwrap().network_data.unwrap();
        assert_eq!(network["networks"][0]["ip_address"], "192.0.2.10");
    });
}
