//! Changes of settings and firmware that are refused, edited while Ironic makes them, or whose host is deleted meanwhile.

use kube::ResourceExt;
use kube::api::DeleteParams;
use metal3_api::metal3::names::annotation::REBOOT;
use metal3_api::metal3::{
    BMCEventSubscription, BareMetalHost, ErrorType, HostFirmwareComponents, HostFirmwareSettings, OperationalStatus,
    ProvisioningState,
};
use metal3_scenarios::{
    LIMIT, TestEnv, at_once, deployed_at_once, is_available_and_on, is_running, run, state, status,
};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

use super::IRONIC;
use super::data_image::apply_disc;
use super::firmware::{
    allow_on_reboot, bios, count, edit, expect_not_updated, expect_settings, expect_updated, is_external_and_running,
    left_to_garbage, take_over, update, verdict,
};

/// The servers of the scenario.
const EDITED: usize = 0;
const SERVED: usize = 1;
const DELETED_PREPARING: usize = 2;
const DELETED_IN_USE: usize = 3;
const DELETED_EXTERNAL: usize = 4;
const UPDATED: usize = 5;
const DELETED_FAILED: usize = 6;

fn first() -> Value {
    json!({"settings": {"ProcTurboMode": "Disabled"}})
}

/// How Ironic reports a boolean setting that is `false`.
const NO: &str = "0";

fn second() -> Value {
    json!({"settings": {"ProcTurboMode": "Enabled", "QuietBoot": "false"}})
}

#[test]
fn changes_that_are_refused_edited_or_whose_host_is_deleted_end_well() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 7).await;
        tokio::join!(
            refused_and_edited_while_preparing(&env),
            update_refused_and_edited_while_preparing(&env),
            edited_while_served(&env),
            deleted_while_preparing(&env),
            deleted_while_served(&env),
            deleted_after_a_failed_servicing(&env),
            external_deleted_while_served(&env),
        );
    });
}

/// Writes the settings of a host that does not exist yet.
async fn write_settings(env: &TestEnv, number: usize, spec: Value) {
    write(env, "HostFirmwareSettings", number, spec).await;
}

async fn write(env: &TestEnv, kind: &str, number: usize, spec: Value) {
    let object = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": kind,
        "metadata": {"name": env.server(number).name}, "spec": spec,
    });
    env.namespace.apply(&object.to_string()).await;
}

async fn restart(env: &TestEnv, name: &str) {
    env.patch(name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
        .await;
}

/// Waits until the BMC has been asked so often to write settings.
async fn expect_written(env: &TestEnv, number: usize, times: u64) {
    expect_asked(env, number, "PATCH", "/BIOS/Settings", times).await;
}

async fn expect_asked(env: &TestEnv, number: usize, method: &str, path: &str, times: u64) {
    let what = format!("the BMC of server {number} gets {times} {method} {path}");
    eventually(LIMIT, &what, || async {
        match count(&env.machine(number).await, method, path) {
            now if now >= times => Ok(()),
            now => Err(now.to_string()),
        }
    })
    .await;
}

/// The settings that the object reports.
fn reported(object: &HostFirmwareSettings, setting: &str) -> String {
    let status = object.status.clone().unwrap_or_default();
    status.settings.get(setting).cloned().unwrap_or_default()
}

async fn refused_and_edited_while_preparing(env: &TestEnv) {
    write_settings(env, EDITED, first()).await;
    env.bmc(EDITED, json!({"settings_refused": true})).await;
    let name = env.apply_host(EDITED, at_once).await;
    let host = env
        .expect(&name, "says that its settings are refused", |host| {
            status(host).error_type == Some(ErrorType::Preparation)
        })
        .await;
    let told = status(&host);
    assert_eq!(told.operational_status, OperationalStatus::Error);
    assert!(
        told.error_message.starts_with("Preparing the host failed: "),
        "{}",
        told.error_message
    );
    println!("{}", told.error_message);
    assert_eq!(state(&host), ProvisioningState::Preparing);
    env.expect_event(&name, "PreparationError", "Preparing the host failed")
        .await;
    // It can be had, and the host does not have it.
    expect_settings(env, &name, (true, true)).await;

    env.bmc(EDITED, json!({})).await;
    let refused = count(&env.machine(EDITED).await, "PATCH", "/BIOS/Settings");
    expect_written(env, EDITED, refused + 1).await;
    edit::<HostFirmwareSettings>(env, &name, second()).await;
    let host = env.expect(&name, "is available and on", is_available_and_on).await;
    assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
    let object = expect_settings(env, &name, (false, true)).await;
    assert_eq!(reported(&object, "ProcTurboMode"), "Enabled");
    assert_eq!(reported(&object, "QuietBoot"), NO);
    let now = bios(env, &name).await;
    assert_eq!(
        (&now["ProcTurboMode"], &now["QuietBoot"]),
        (&json!("Enabled"), &json!(NO))
    );
    let written = count(&env.machine(EDITED).await, "PATCH", "/BIOS/Settings");
    assert_eq!(written, refused + 2, "each value once");
}

/// The BMC refuses the update of a host that is not available yet. The host and the object say so; another update is made instead.
async fn update_refused_and_edited_while_preparing(env: &TestEnv) {
    write(env, "HostFirmwareComponents", UPDATED, update()).await;
    env.bmc(UPDATED, json!({"updates_refused": true})).await;
    let name = env.apply_host(UPDATED, at_once).await;
    let words = [
        "preparation error",
        "Preparing the host failed",
        "to abandon the change, ",
    ];
    let host = env.expect_waiting(&name, "BackOff", &words).await;
    let told = status(&host);
    println!("{}", told.error_message);
    assert_eq!(
        (told.error_type, told.operational_status, told.provisioning.state),
        (
            Some(ErrorType::Preparation),
            OperationalStatus::Error,
            ProvisioningState::Preparing
        )
    );
    env.expect_event(&name, "PreparationError", "Preparing the host failed")
        .await;
    expect_not_updated(env, &name).await;

    let other = json!({"updates": [{"component": "bios", "url": "http://127.0.0.1:1/bios-other.bin"}]});
    edit::<HostFirmwareComponents>(env, &name, other).await;
    env.bmc(UPDATED, json!({})).await;
    let host = env.expect(&name, "is available and on", is_available_and_on).await;
    assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
    // Each one that is written raises the version.
    expect_updated(env, &name).await;
}

/// Settings and firmware of a host that somebody else has deployed. What is edited meanwhile waits for the next start.
async fn edited_while_served(env: &TestEnv) {
    let name = take_over(env, SERVED).await;
    edit::<HostFirmwareSettings>(env, &name, first()).await;
    edit::<HostFirmwareComponents>(env, &name, update()).await;
    // Ironic ejects it for the servicing.
    apply_disc(env, &name, &format!("{}?for={name}", env.ironic.ramdisk_iso_url())).await;
    restart(env, &name).await;
    expect_written(env, SERVED, 1).await;
    let host = env.host(&name).await;
    assert_eq!(status(&host).operational_status, OperationalStatus::Servicing);
    edit::<HostFirmwareSettings>(env, &name, second()).await;

    env.expect(&name, "runs again", is_external_and_running).await;
    expect_updated(env, &name).await;
    expect_settings(env, &name, (true, true)).await;
    let settings = env.namespace.api::<HostFirmwareSettings>();
    eventually(LIMIT, "the first value is reported", || async {
        let object = settings.get(&name).await.map_err(|error| error.to_string())?;
        match &*reported(&object, "ProcTurboMode") {
            "Disabled" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    assert_eq!(bios(env, &name).await["ProcTurboMode"], "Disabled");
    let (deploys, is_on, has_disc) = (0, true, true);
    env.expect_machine(SERVED, deploys, is_on, has_disc).await;

    restart(env, &name).await;
    env.expect(&name, "runs with the second value", is_external_and_running)
        .await;
    let object = settings.get(&name).await.expect("the settings are there");
    let conditions = object.status.clone().unwrap_or_default().conditions;
    assert_eq!(
        verdict(&conditions, object.metadata.generation),
        Some((false, true)),
        "{conditions:?}"
    );
    assert_eq!(reported(&object, "ProcTurboMode"), "Enabled");
    assert_eq!(reported(&object, "QuietBoot"), NO);
    let machine = env.expect_machine(SERVED, deploys, is_on, has_disc).await;
    assert_eq!(count(&machine, "PATCH", "/BIOS/Settings"), 2, "each value once");
    assert_eq!(count(&machine, "POST", "SimpleUpdate"), 1);
    assert_eq!(env.node(&name).await["provision_state"], "active");
}

async fn deleted_while_preparing(env: &TestEnv) {
    write_settings(env, DELETED_PREPARING, first()).await;
    let name = env.apply_host(DELETED_PREPARING, at_once).await;
    expect_written(env, DELETED_PREPARING, 1).await;
    let host = env.host(&name).await;
    assert_eq!(state(&host), ProvisioningState::Preparing);
    delete(env, DELETED_PREPARING, &host).await;
}

/// Deletes a host and waits until nothing is left that keeps an object of it.
async fn delete(env: &TestEnv, number: usize, host: &BareMetalHost) {
    let name = host.name_any();
    env.delete(&name).await;
    env.expect_gone(&name).await;
    left_to_garbage::<HostFirmwareSettings>(env, host).await;
    left_to_garbage::<HostFirmwareComponents>(env, host).await;
    let machine = env.machine(number).await;
    assert!(!machine.is_on, "{machine:?}");
    assert_eq!(count(&machine, "PATCH", "/BIOS/Settings"), 1, "{machine:?}");
}

/// Its BMC has a subscription to its events.
async fn deleted_while_served(env: &TestEnv) {
    let image = env.image();
    let name = env.apply_host(DELETED_IN_USE, deployed_at_once(image)).await;
    let object = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BMCEventSubscription", "metadata": {"name": "events"},
        "spec": {"hostName": name, "destination": "http://192.0.2.1/events"},
    });
    env.namespace.apply(&object.to_string()).await;
    env.expect(&name, "runs", is_running).await;
    allow_on_reboot(env, &name).await;
    edit::<HostFirmwareSettings>(env, &name, first()).await;
    edit::<HostFirmwareComponents>(env, &name, update()).await;
    restart(env, &name).await;
    expect_written(env, DELETED_IN_USE, 1).await;
    let host = env.host(&name).await;
    assert_eq!(status(&host).operational_status, OperationalStatus::Servicing);
    assert_eq!(env.machine(DELETED_IN_USE).await.event_subscriptions, 1);
    delete(env, DELETED_IN_USE, &host).await;
    let machine = env.machine(DELETED_IN_USE).await;
    assert_eq!(count(&machine, "POST", "SimpleUpdate"), 1, "it is not cut off");

    // Nobody has ended it, and both say so.
    let subscriptions = env.namespace.api::<BMCEventSubscription>();
    eventually(LIMIT, "the subscription says that its host is gone", || async {
        let found = subscriptions.get("events").await.map_err(|error| error.to_string())?;
        let told = found.status.unwrap_or_default().error;
        if told.ends_with("does not exist") {
            Ok(())
        } else {
            Err(told)
        }
    })
    .await;
    let deleted = subscriptions.delete("events", &DeleteParams::default()).await;
    deleted.expect("it is deleted");
    env.namespace.expect_gone::<BMCEventSubscription>("events").await;
    env.expect_event(
        "events",
        "SubscriptionLeftOnBMC",
        "until the subscription is deleted there",
    )
    .await;
    assert_eq!(machine.event_subscriptions, 1);
}

/// Its servicing has failed, and nobody gives that up before the host is deleted.
async fn deleted_after_a_failed_servicing(env: &TestEnv) {
    let name = env.apply_host(DELETED_FAILED, deployed_at_once(env.image())).await;
    env.expect(&name, "runs", is_running).await;
    allow_on_reboot(env, &name).await;
    env.bmc(DELETED_FAILED, json!({"updates_refused": true})).await;
    edit::<HostFirmwareComponents>(env, &name, update()).await;
    restart(env, &name).await;
    env.expect_waiting(&name, "BackOff", &["servicing error"]).await;
    let host = env.host(&name).await;
    assert_eq!(env.node(&name).await["provision_state"], "service failed");
    env.delete(&name).await;
    env.expect_gone(&name).await;
    left_to_garbage::<HostFirmwareSettings>(env, &host).await;
    left_to_garbage::<HostFirmwareComponents>(env, &host).await;
    let machine = env.machine(DELETED_FAILED).await;
    assert!(!machine.is_on && !machine.virtual_cd, "{machine:?}");
}

async fn external_deleted_while_served(env: &TestEnv) {
    let name = take_over(env, DELETED_EXTERNAL).await;
    edit::<HostFirmwareSettings>(env, &name, first()).await;
    restart(env, &name).await;
    expect_written(env, DELETED_EXTERNAL, 1).await;
    let host = env.host(&name).await;
    assert_eq!(status(&host).operational_status, OperationalStatus::Servicing);
    delete(env, DELETED_EXTERNAL, &host).await;
}
