//! Settings that a BMC accepts and does not apply.

use kube::ResourceExt;
use metal3_api::metal3::names::annotation::REBOOT;
use metal3_api::metal3::{BareMetalHost, ErrorType, HostFirmwareSettings, OperationalStatus, ProvisioningState};
use metal3_lab::ironic::{IronicConfig, Timeouts};
use metal3_scenarios::{
    LIMIT, Pool, TestEnv, at_once, deployed_at_once, is_available_and_on, is_running, run, state, status,
    waits_for_nothing, without_retries,
};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

use super::IRONIC;
use super::firmware::{allow_on_reboot, bios, count, edit, expect_settings, take_over};

/// An Ironic that soon gives up waiting for settings.
static IMPATIENT: Pool = Pool::new(|| IronicConfig {
    hosts: 1,
    timeouts: Timeouts::short(),
    ..IronicConfig::default()
});

const PREPARED: usize = 0;
const IN_USE: usize = 1;

/// Both values of the setting, as messages have them.
const VALUES: &str = "ProcTurboMode is \"Enabled\" instead of \"Disabled\"";

fn wanted() -> Value {
    json!({"settings": {"ProcTurboMode": "Disabled"}})
}

// OWN 31td: the object promised the change for the next start, which never made it, and nobody was told.
#[test]
fn settings_that_a_bmc_does_not_apply_are_told_and_tried_again_when_that_is_asked_for() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 2).await;
        tokio::join!(while_prepared(&env), in_use(&env));
    });
}

async fn written(env: &TestEnv, number: usize) -> u64 {
    count(&env.machine(number).await, "PATCH", "/BIOS/Settings")
}

/// Waits until the object says that the BMC did not apply the setting.
async fn expect_not_applied(env: &TestEnv, name: &str) {
    let settings = env.namespace.api::<HostFirmwareSettings>();
    eventually(LIMIT, &format!("{name} has settings that were not applied"), || async {
        let object = settings.get(name).await.map_err(|error| error.to_string())?;
        let conditions = object.status.unwrap_or_default().conditions;
        let change = conditions.iter().find(|found| found.type_ == "ChangeDetected");
        match change {
            Some(found) if found.reason == "NotApplied" && found.message.contains(VALUES) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    expect_settings(env, name, (true, true)).await;
}

/// How often the host has reported that.
async fn reports(env: &TestEnv, name: &str) -> usize {
    let events = env.events(name).await;
    let those = events.iter().filter(|(reason, _)| reason == "SettingsNotApplied");
    those.count()
}

/// Another pass over the host, which ends as the one before.
async fn passed_again(env: &TestEnv, name: &str) {
    env.patch(name, json!({"spec": {"description": "looked at again"}}))
        .await;
    let generation = env.host(name).await.metadata.generation;
    env.expect(name, "is passed over again", |host| {
        let told = status(host).conditions;
        told.iter()
            .any(|found| found.type_ == "Configured" && found.observed_generation == generation)
            && waits_for_nothing(host)
    })
    .await;
}

async fn while_prepared(env: &TestEnv) {
    let object = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareSettings",
        "metadata": {"name": env.server(PREPARED).name}, "spec": wanted(),
    });
    env.namespace.apply(&object.to_string()).await;
    env.bmc(PREPARED, json!({"settings_reverted": true})).await;
    let name = env.apply_host(PREPARED, at_once).await;
    let host = env.expect(&name, "is available and on", is_available_and_on).await;
    assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
    expect_not_applied(env, &name).await;
    env.expect_event(&name, "SettingsNotApplied", VALUES).await;
    passed_again(env, &name).await;
    assert_eq!(state(&env.host(&name).await), ProvisioningState::Available);
    assert_eq!((written(env, PREPARED).await, reports(env, &name).await), (1, 1));

    env.bmc(PREPARED, json!({})).await;
    edit::<HostFirmwareSettings>(env, &name, json!({"settings": {"ProcTurboMode": null}})).await;
    expect_settings(env, &name, (false, true)).await;
    edit::<HostFirmwareSettings>(env, &name, wanted()).await;
    expect_settings(env, &name, (false, true)).await;
    env.expect(&name, "is available and on", is_available_and_on).await;
    assert_eq!(bios(env, &name).await["ProcTurboMode"], "Disabled");
    assert_eq!((written(env, PREPARED).await, reports(env, &name).await), (2, 1));
}

fn runs_as_before(host: &BareMetalHost) -> bool {
    let restarts = host.annotations().contains_key(REBOOT);
    is_running(host) && status(host).operational_status == OperationalStatus::Ok && !restarts
}

/// Restarts the host, and waits until its BMC was asked so often to write settings, and it runs.
async fn restart(env: &TestEnv, name: &str, times: u64) {
    env.patch(name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
        .await;
    eventually(LIMIT, &format!("settings are written {times} times"), || async {
        match written(env, IN_USE).await {
            now if now >= times => Ok(()),
            now => Err(now.to_string()),
        }
    })
    .await;
    env.expect(name, "runs again", runs_as_before).await;
    assert_eq!(written(env, IN_USE).await, times);
}

async fn in_use(env: &TestEnv) {
    let name = env.apply_host(IN_USE, deployed_at_once(env.image())).await;
    env.expect(&name, "runs", is_running).await;
    allow_on_reboot(env, &name).await;
    edit::<HostFirmwareSettings>(env, &name, wanted()).await;
    expect_settings(env, &name, (true, true)).await;
    env.bmc(IN_USE, json!({"settings_reverted": true})).await;
    restart(env, &name, 1).await;
    expect_not_applied(env, &name).await;
    env.expect_event(&name, "SettingsNotApplied", VALUES).await;
    passed_again(env, &name).await;
    assert_eq!((written(env, IN_USE).await, reports(env, &name).await), (1, 1));

    restart(env, &name, 2).await;
    expect_not_applied(env, &name).await;
    env.bmc(IN_USE, json!({})).await;
    restart(env, &name, 3).await;
    expect_settings(env, &name, (false, true)).await;
    assert_eq!(bios(env, &name).await["ProcTurboMode"], "Disabled");
}

/// Ironic waits in vain for the value, and says to look at a ramdisk, although there is none.
#[test]
fn settings_that_never_come_into_force_fail_and_are_named() {
    run(async {
        let env = TestEnv::shared_with(namespace!().await, &IMPATIENT, 1, without_retries).await;
        let name = take_over(&env, 0).await;
        env.bmc(0, json!({"settings_ignored": true})).await;
        edit::<HostFirmwareSettings>(&env, &name, wanted()).await;
        expect_settings(&env, &name, (true, true)).await;
        env.patch(&name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
            .await;
        let words = ["Ironic has not seen all of these BIOS settings in force", VALUES];
        let host = env.expect_waiting(&name, "BackOff", &words).await;
        println!("{}", status(&host).error_message);
        assert_eq!(status(&host).error_type, Some(ErrorType::Servicing));

        edit::<HostFirmwareSettings>(&env, &name, json!({"settings": {"ProcTurboMode": null}})).await;
        env.expect(&name, "is as before", |host| {
            status(host).operational_status == OperationalStatus::Ok
                && status(host).powered_on
                && waits_for_nothing(host)
        })
        .await;
        assert_eq!(env.node(&name).await["provision_state"], "active");
    });
}
