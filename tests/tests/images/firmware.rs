//! BIOS settings and firmware, from the objects next to a host. The test writes their statuses as their controllers do.

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Resource};
use metal3_api::metal3::names::annotation::REBOOT;
use metal3_api::metal3::{
    ErrorType, HostFirmwareComponents, HostFirmwareSettings, OperationalStatus, ProvisioningState,
};
use metal3_scenarios::{LIMIT, TestEnv, at_once, deployed_at_once, is_available_and_on, is_running, run, status};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

use super::IRONIC;

/// Applies such an object and its controller's status: the spec requests a change.
async fn apply_companion<K: Resource<DynamicType = ()>>(env: &TestEnv, name: &str, spec: Value, mut found: Value) {
    let resource = ApiResource::erase::<K>(&());
    let object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec,
    });
    let generation = env.namespace.apply(&object.to_string()).await[0].metadata.generation;
    let client = env.namespace.client.clone();
    let api = Api::<DynamicObject>::namespaced_with(client, &env.namespace.name, &resource);
    let conditions: Vec<_> = ["ChangeDetected", "Valid"]
        .into_iter()
        .map(|type_| {
            json!({"type": type_, "status": "True", "reason": "Success", "message": "", "observedGeneration": generation,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect();
    found["conditions"] = json!(conditions);
    let status = api
        .patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": found})))
        .await;
    status.expect("its status is accepted");
}

/// The BIOS settings that Ironic knows of a host.
async fn bios(env: &TestEnv, name: &str) -> serde_json::Map<String, Value> {
    let answer = env
        .ask_ironic(&format!("/v1/nodes/{}~{name}/bios", env.namespace.name))
        .await;
    let settings = answer["bios"].as_array().cloned().unwrap_or_default();
    let pair = |setting: Value| Some((setting["name"].as_str()?.to_owned(), setting["value"].clone()));
    settings.into_iter().filter_map(pair).collect()
}

async fn bios_version(env: &TestEnv, name: &str) -> Value {
    let answer = env
        .ask_ironic(&format!("/v1/nodes/{}~{name}/firmware", env.namespace.name))
        .await;
    let components = answer["firmware"].as_array().cloned().unwrap_or_default();
    let bios = components.into_iter().find(|c| c["component"] == "bios");
    bios.map_or(json!(null), |bios| bios["current_version"].clone())
}

#[test]
fn bios_settings_and_firmware_are_changed_once_and_refused_settings_are_told() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, at_once).await;
        env.expect(&name, "is available and on", is_available_and_on).await;
        let before = bios(&env, &name).await;
        assert_eq!(before["ProcTurboMode"], "Enabled");
        assert_eq!(bios_version(&env, &name).await, "1.0.0");
        let ask = async |settings: Value| {
            let (spec, found) = (json!({"settings": settings}), json!({"settings": before}));
            apply_companion::<HostFirmwareSettings>(&env, &name, spec, found).await;
        };

        // One of them is read-only, which Ironic detects.
        ask(json!({"ProcTurboMode": "Disabled", "NumCores": 12})).await;
        let host = env
            .expect_waiting(&name, "BackOff", &["preparation error", "NumCores"])
            .await;
        println!("{}", status(&host).error_message);
        assert_eq!(status(&host).error_type, Some(ErrorType::Preparation));
        ask(json!({"ProcTurboMode": "Disabled", "QuietBoot": "true"})).await;
        eventually(LIMIT, "the BIOS setting is in force", || async {
            let now = bios(&env, &name).await;
            match now.get("ProcTurboMode") {
                Some(mode) if mode == "Disabled" => Ok(()),
                seen => Err(format!("{seen:?}, {}", status(&env.host(&name).await).error_message)),
            }
        })
        .await;
        let host = env.expect(&name, "is available again", is_available_and_on).await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));

        let url = "http://127.0.0.1:1/bios-1.1.0.bin";
        let updates = json!({"updates": [{"component": "bios", "url": url}]});
        let found =
            json!({"components": [{"component": "bios", "initialVersion": "1.0.0", "currentVersion": "1.0.0"}]});
        apply_companion::<HostFirmwareComponents>(&env, &name, updates, found).await;
        let components = env.namespace.api::<HostFirmwareComponents>();
        eventually(LIMIT, "the update is recorded", || async {
            let object = components.get(&name).await.map_err(|e| e.to_string())?;
            let updates = object.status.clone().unwrap_or_default().updates;
            if updates == object.spec.updates {
                Ok(())
            } else {
                Err(format!("{updates:?}"))
            }
        })
        .await;
        env.expect(&name, "is available again", is_available_and_on).await;
        assert_eq!(bios_version(&env, &name).await, "1.1.0");

        let requests = env.machine(0).await.counters.bmc_requests;
        let count = |method: &str, path: &str| {
            let those = requests
                .iter()
                .filter(|(r, _)| r.starts_with(method) && r.contains(path));
            those.map(|(_, count)| count).sum::<u64>()
        };
        assert_eq!(count("PATCH", "/BIOS/Settings"), 1, "{requests:?}");
        assert_eq!(count("POST", "SimpleUpdate"), 1, "{requests:?}");
        let host = env.host(&name).await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
    });
}

#[test]
fn settings_of_a_host_in_use_are_changed_at_its_next_start_where_its_policy_allows_it() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, deployed_at_once(env.image())).await;
        env.expect(&name, "runs", is_running).await;
        let before = bios(&env, &name).await;
        let policy = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "HostUpdatePolicy", "metadata": {"name": name},
            "spec": {"firmwareSettings": "onReboot"},
        });
        env.namespace.apply(&policy.to_string()).await;
        let (spec, found) = (
            json!({"settings": {"ProcTurboMode": "Disabled"}}),
            json!({"settings": before}),
        );
        apply_companion::<HostFirmwareSettings>(&env, &name, spec, found).await;

        let annotation = json!({"metadata": {"annotations": {REBOOT: ""}}});
        env.patch(&name, annotation).await;
        let host = env
            .expect_waiting(&name, "Servicing", &["while its system is down"])
            .await;
        assert_eq!(status(&host).operational_status, OperationalStatus::Servicing);
        assert_eq!(status(&host).provisioning.state, ProvisioningState::Provisioned);
        env.expect(&name, "runs again", is_running).await;
        assert_eq!(bios(&env, &name).await["ProcTurboMode"], "Disabled");
        let machine = env.machine(0).await;
        assert_eq!((machine.deploys, machine.cleans(), machine.is_on), (1, 0, true));
    });
}
