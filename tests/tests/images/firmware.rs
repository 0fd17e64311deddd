//! BIOS settings and firmware, from the objects that the operator makes next to a host.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::names::annotation::REBOOT;
use metal3_api::metal3::{
    BareMetalHost, ErrorType, FirmwareSchema, HostFirmwareComponents, HostFirmwareSettings, OperationalStatus,
    ProvisioningState,
};
use metal3_lab::ironic::{Machine, Mark};
use metal3_scenarios::{
    LIMIT, TestEnv, at_once, deployed_at_once, id, is_available_and_on, is_running, run, state, status,
    waits_for_nothing, without_retries,
};
use metal3_testkit::{eventually, namespace};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::IRONIC;
use super::data_image::apply_disc;

/// Edits the object of a host, which the operator has made.
pub(super) async fn edit<K>(env: &TestEnv, name: &str, spec: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = env.namespace.api();
    eventually(
        LIMIT,
        &format!("the operator makes {name}'s {}", K::kind(&())),
        || async {
            let found = api.get_opt(name).await.map_err(|error| error.to_string())?;
            found.map(drop).ok_or("not yet".to_owned())
        },
    )
    .await;
    let change = Patch::Merge(json!({"spec": spec}));
    let edited = api.patch(name, &PatchParams::default(), &change).await;
    edited.expect("the edit is accepted");
}

/// The conditions ChangeDetected and Valid, if they are those of the object's generation.
pub(super) fn verdict(conditions: &[Condition], generation: Option<i64>) -> Option<(bool, bool)> {
    let holds = |type_: &str| {
        let found = conditions.iter().find(|condition| condition.type_ == type_)?;
        (found.observed_generation == generation).then(|| found.status == ConditionStatus::True)
    };
    Some((holds("ChangeDetected")?, holds("Valid")?))
}

/// Waits for this verdict on the settings of a host.
pub(super) async fn expect_settings(env: &TestEnv, name: &str, expected: (bool, bool)) -> HostFirmwareSettings {
    let settings = env.namespace.api::<HostFirmwareSettings>();
    eventually(LIMIT, &format!("{expected:?} of the settings of {name}"), || async {
        let object = settings.get(name).await.map_err(|error| error.to_string())?;
        let status = object.status.clone().unwrap_or_default();
        if verdict(&status.conditions, object.metadata.generation) == Some(expected) {
            Ok(object)
        } else {
            Err(format!("{:?}", status.conditions))
        }
    })
    .await
}

/// The host is done with its servicing, and so are its settings: nothing is left to change.
async fn expect_serviced(env: &TestEnv, name: &str, mode: &str) {
    let host = env.expect(name, "runs again", is_running).await;
    assert_eq!(status(&host).operational_status, OperationalStatus::Ok);
    let settings = env.namespace.api::<HostFirmwareSettings>().get(name).await;
    let settings = settings.expect("the settings are there");
    let found = settings.status.unwrap_or_default();
    assert_eq!(
        verdict(&found.conditions, settings.metadata.generation),
        Some((false, true)),
        "{found:?}"
    );
    assert_eq!(found.settings["ProcTurboMode"], mode);
    assert_eq!(bios(env, name).await["ProcTurboMode"], mode);
}

/// Its policy allows changes of settings and firmware at the next start.
pub(super) async fn allow_on_reboot(env: &TestEnv, name: &str) {
    let policy = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostUpdatePolicy", "metadata": {"name": name},
        "spec": {"firmwareSettings": "onReboot", "firmwareUpdates": "onReboot"},
    });
    env.namespace.apply(&policy.to_string()).await;
}

/// A host that somebody else has deployed, and that may be changed at its restarts.
pub(super) async fn take_over(env: &TestEnv, number: usize) -> String {
    let name = env
        .apply_host(number, |host| host["spec"]["externallyProvisioned"] = json!(true))
        .await;
    env.expect(&name, "is taken over", is_external_and_running).await;
    allow_on_reboot(env, &name).await;
    name
}

pub(super) fn is_external_and_running(host: &BareMetalHost) -> bool {
    let told = status(host);
    let is_well = told.operational_status == OperationalStatus::Ok && told.powered_on && told.error_type.is_none();
    let restarts = host.annotations().contains_key(REBOOT);
    state(host) == ProvisioningState::ExternallyProvisioned && is_well && !restarts && waits_for_nothing(host)
}

/// The update of a BIOS. The lab raises the version whatever the file is.
pub(super) fn update() -> Value {
    json!({"updates": [{"component": "bios", "url": "http://127.0.0.1:1/bios-1.1.0.bin"}]})
}

/// Waits until the update is recorded with its version, and nothing is left to change.
pub(super) async fn expect_updated(env: &TestEnv, name: &str) {
    let components = env.namespace.api::<HostFirmwareComponents>();
    eventually(LIMIT, "the update is recorded", || async {
        let object = components.get(name).await.map_err(|e| e.to_string())?;
        let status = object.status.clone().unwrap_or_default();
        let is_done = verdict(&status.conditions, object.metadata.generation) == Some((false, true));
        let versions = status
            .components
            .iter()
            .map(|found| (found.component.as_str(), found.current_version.as_str()));
        if is_done
            && status.updates == object.spec.updates
            && versions.into_iter().any(|found| found == ("bios", "1.1.0"))
        {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        }
    })
    .await;
    assert_eq!(bios_version(env, name).await, "1.1.0");
}

/// How many requests of this method and path the BMC has been sent.
pub(super) fn count(machine: &Machine, method: &str, path: &str) -> u64 {
    let those = machine
        .counters
        .bmc_requests
        .iter()
        .filter(|(request, _)| request.starts_with(method) && request.contains(path));
    those.map(|(_, count)| count).sum()
}

/// The BIOS settings that Ironic knows of a host.
pub(super) async fn bios(env: &TestEnv, name: &str) -> serde_json::Map<String, Value> {
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
        // One of them is read-only: nothing is done, and the object says why.
        let wanted = json!({"settings": {"ProcTurboMode": "Disabled", "NumCores": 12}});
        edit::<HostFirmwareSettings>(&env, &name, wanted).await;
        let object = expect_settings(&env, &name, (true, false)).await;
        let conditions = object.status.unwrap_or_default().conditions;
        let valid = conditions.iter().find(|condition| condition.type_ == "Valid");
        let message = valid.map(|valid| valid.message.as_str()).unwrap_or_default();
        assert!(
            message.contains("spec.settings[NumCores]: it is read-only"),
            "{message}"
        );
        assert!(is_available_and_on(&env.host(&name).await));
        let wanted = json!({"settings": {"ProcTurboMode": "Disabled", "QuietBoot": "true", "NumCores": null}});
        edit::<HostFirmwareSettings>(&env, &name, wanted).await;
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
        expect_settings(&env, &name, (false, true)).await;

        edit::<HostFirmwareComponents>(&env, &name, update()).await;
        expect_updated(&env, &name).await;
        env.expect(&name, "is available again", is_available_and_on).await;

        let machine = env.machine(0).await;
        assert_eq!(count(&machine, "PATCH", "/BIOS/Settings"), 1, "{machine:?}");
        assert_eq!(count(&machine, "POST", "SimpleUpdate"), 1, "{machine:?}");
        let host = env.host(&name).await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
    });
}

#[test]
fn settings_of_a_host_in_use_are_changed_at_its_next_start_where_its_policy_allows_it() {
    run(async {
        // Only an edit ends a back-off.
        let mut env = TestEnv::shared_with(namespace!().await, &IRONIC, 1, without_retries).await;
        let name = env.apply_host(0, deployed_at_once(env.image())).await;
        env.expect(&name, "runs", is_running).await;
        allow_on_reboot(&env, &name).await;
        let wanted = json!({"settings": {"ProcTurboMode": "Disabled"}});
        edit::<HostFirmwareSettings>(&env, &name, wanted).await;
        // Ironic ejects it when a servicing fails (OWN 31xe).
        let disc = format!("{}?for={name}", env.ironic.ramdisk_iso_url());
        apply_disc(&env, &name, &disc).await;

        let annotation = json!({"metadata": {"annotations": {REBOOT: ""}}});
        env.patch(&name, annotation).await;
        let host = env
            .expect_waiting(&name, "Servicing", &["while its system is down"])
            .await;
        assert_eq!(status(&host).operational_status, OperationalStatus::Servicing);
        assert_eq!(status(&host).provisioning.state, ProvisioningState::Provisioned);
        expect_serviced(&env, &name, "Disabled").await;
        let (deploys, is_on, has_disc) = (1, true, true);
        env.expect_machine(0, deploys, is_on, has_disc).await;
        an_update_fails_is_given_up_and_is_made(&mut env, &name).await;
        env.expect_machine(0, deploys, is_on, has_disc).await;
        let machine = env.machine(0).await;
        assert_eq!((machine.deploys, machine.cleans(), machine.runs_image), (1, 0, true));
    });
}

/// An update that the BMC refuses at the host's restart: the host and its object say so, and it runs on once the change is taken
/// out. The BMC accepts the next attempt. An operator that finds the failure leaves it at that.
async fn an_update_fails_is_given_up_and_is_made(env: &mut TestEnv, name: &str) {
    let reboot = json!({"metadata": {"annotations": {REBOOT: ""}}});
    env.bmc(0, json!({"updates_refused": true})).await;
    edit::<HostFirmwareComponents>(env, name, update()).await;
    env.patch(name, reboot.clone()).await;
    let words = ["servicing error", "to abandon the change, remove it from the spec"];
    let host = env.expect_waiting(name, "BackOff", &words).await;
    let told = status(&host);
    assert_eq!(
        (told.error_type, told.operational_status, told.provisioning.state),
        (
            Some(ErrorType::Servicing),
            OperationalStatus::Error,
            ProvisioningState::Provisioned
        )
    );
    assert!(
        told.error_message.contains("Servicing failed"),
        "{}",
        told.error_message
    );
    env.expect_event(name, "ServicingError", "Servicing failed").await;
    expect_not_updated(env, name).await;
    let refused = count(&env.machine(0).await, "POST", "SimpleUpdate");
    find_the_failure_again(env, name).await;

    edit::<HostFirmwareComponents>(env, name, json!({"updates": []})).await;
    let host = env.expect(name, "runs as before", is_running).await;
    assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
    assert_eq!(env.node(name).await["provision_state"], "active");
    assert!(env.machine(0).await.runs_image);
    assert_eq!(bios_version(env, name).await, "1.0.0");

    env.bmc(0, json!({})).await;
    edit::<HostFirmwareComponents>(env, name, update()).await;
    env.patch(name, reboot).await;
    expect_updated(env, name).await;
    env.expect(name, "runs again", is_running).await;
    assert_eq!(count(&env.machine(0).await, "POST", "SimpleUpdate"), refused + 1);
}

/// Checks that an update is possible and still to be made.
pub async fn expect_not_updated(env: &TestEnv, name: &str) {
    let components = env.namespace.api::<HostFirmwareComponents>();
    let object = components.get(name).await.expect("it is there");
    let seen = object.status.unwrap_or_default();
    assert_eq!(
        verdict(&seen.conditions, object.metadata.generation),
        Some((true, true)),
        "{seen:?}"
    );
    assert!(seen.updates.is_empty(), "{seen:?}");
}

/// The operator is killed. The next one reads the node, and neither asks for another servicing nor counts the failure again.
async fn find_the_failure_again(env: &mut TestEnv, name: &str) {
    let before = env.host(name).await;
    let (_, mark) = env.ironic.requests(Mark::default()).expect("the log");
    env.kill_operator();
    env.start_operator().await;
    let of_node = || {
        let (requests, _) = env.ironic.requests(mark).expect("the log");
        let node = id(&before);
        requests.into_iter().filter(move |request| request.member == node)
    };
    eventually(LIMIT, "the operator reads the node", || async {
        of_node().next().map(drop).ok_or("not yet")
    })
    .await;
    env.expect_waiting(name, "BackOff", &["servicing error", "failure 1 in a row"])
        .await;
    assert_eq!(status(&env.host(name).await), status(&before));
    assert_eq!(of_node().find(|request| request.method != "GET"), None);
}

#[test]
fn a_host_that_is_deleted_while_its_firmware_is_written_leaves_nothing() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let written = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareComponents",
            "metadata": {"name": env.server(0).name}, "spec": update(),
        });
        env.namespace.apply(&written.to_string()).await;
        let name = env.apply_host(0, at_once).await;
        eventually(LIMIT, "the firmware is written", || async {
            let machine = env.machine(0).await;
            match count(&machine, "POST", "SimpleUpdate") {
                0 => Err(format!("{machine:?}")),
                _ => Ok(()),
            }
        })
        .await;
        let host = env.host(&name).await;
        assert_eq!(state(&host), ProvisioningState::Preparing);
        env.delete(&name).await;
        env.expect_gone(&name).await;
        let machine = env.machine(0).await;
        assert_eq!(count(&machine, "POST", "SimpleUpdate"), 1);
        assert!(!machine.is_on);
        // There is no garbage collector here: nothing but the owner keeps them.
        left_to_garbage::<HostFirmwareSettings>(&env, &host).await;
        left_to_garbage::<HostFirmwareComponents>(&env, &host).await;
        env.namespace
            .api::<HostFirmwareSettings>()
            .delete(&name, &DeleteParams::default())
            .await
            .expect("it is deleted");
        eventually(LIMIT, "the schema goes with the last settings", || async {
            let schemas = env.namespace.api::<FirmwareSchema>().list(&ListParams::default()).await;
            let left = schemas.map_err(|error| error.to_string())?.items;
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            }
        })
        .await;
    });
}

/// An object that goes with the host: owned by it, and held by nobody.
pub(super) async fn left_to_garbage<K>(env: &TestEnv, host: &BareMetalHost)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let object = env.namespace.api::<K>().get(&host.name_any()).await;
    let object = object.expect("it is there");
    let owners: Vec<_> = object
        .owner_references()
        .iter()
        .map(|owner| owner.uid.clone())
        .collect();
    assert_eq!(owners, [host.uid().expect("it has one")], "{object:?}");
    assert!(object.finalizers().is_empty(), "{object:?}");
}

#[test]
fn a_failed_servicing_is_given_up_when_its_change_is_taken_back() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = take_over(&env, 0).await;
        env.bmc(0, json!({"settings_refused": true})).await;
        let wanted = json!({"settings": {"ProcTurboMode": "Disabled"}});
        edit::<HostFirmwareSettings>(&env, &name, wanted).await;
        env.patch(&name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
            .await;
        let host = env
            .expect_waiting(
                &name,
                "BackOff",
                &["servicing error", "to abandon the change, remove it from the spec"],
            )
            .await;
        assert_eq!(status(&host).error_type, Some(ErrorType::Servicing));

        let taken_back = json!({"settings": {"ProcTurboMode": null}});
        edit::<HostFirmwareSettings>(&env, &name, taken_back).await;
        let host = env
            .expect(&name, "is as before", |host| {
                status(host).operational_status == OperationalStatus::Ok
                    && status(host).powered_on
                    && waits_for_nothing(host)
            })
            .await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
        assert_eq!(env.node(&name).await["provision_state"], "active");
        assert_eq!(bios(&env, &name).await["ProcTurboMode"], "Enabled");

        // The same change again, by a BMC that accepts it.
        env.bmc(0, json!({})).await;
        let wanted = json!({"settings": {"ProcTurboMode": "Disabled"}});
        edit::<HostFirmwareSettings>(&env, &name, wanted).await;
        expect_settings(&env, &name, (true, true)).await;
        env.patch(&name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
            .await;
        env.expect(&name, "is serviced", |host| {
            status(host).operational_status == OperationalStatus::Servicing
        })
        .await;
        env.expect(&name, "is done", |host| {
            status(host).operational_status == OperationalStatus::Ok
                && status(host).powered_on
                && waits_for_nothing(host)
        })
        .await;
        expect_settings(&env, &name, (false, true)).await;
        assert_eq!(bios(&env, &name).await["ProcTurboMode"], "Disabled");
    });
}
