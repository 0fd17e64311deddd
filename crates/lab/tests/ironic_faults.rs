//! What each fault looks like through Ironic's API. One instance, one server for each fault, all at the same time.

#![expect(
    clippy::unwrap_used,
    clippy::many_single_char_names,
    reason = "test code; clippy knows only test functions as such"
)]

mod ironic_support;

use std::time::{Duration, Instant};

use ironic_support::{ask, call, choose_image, enroll, go, make_available, wait_for, wait_for_error};
use metal3_lab::ironic::{Credentials, Host, IronicConfig, IronicLab, Timeouts};
use reqwest::Method;
use serde_json::{Value, json};

/// Longer than the retries of Ironic and a timeout together, on a busy machine.
const LIMIT: Duration = Duration::from_secs(150);

fn error_of(node: &Value) -> &str {
    node["last_error"].as_str().unwrap_or_default()
}

/// Asks for `manage` and waits until Ironic has given up; the node and its error.
async fn fail_to_manage(lab: &IronicLab, host: &Host) -> (String, String) {
    let node = enroll(lab, host).await;
    let begin = Instant::now();
    ask(lab, &node, json!({"target": "manage"})).await;
    let error = wait_for_error(lab, &node, "enroll", LIMIT).await;
    println!("{}: enroll after {:.1?}: {error}", host.name, begin.elapsed());
    (node, error)
}

async fn wrong_password(lab: &IronicLab, host: &Host) {
    lab.set_bmc_faults(host, &json!({"credentials": Credentials::new("admin", "changed")}))
        .await
        .unwrap();
    let (node, error) = fail_to_manage(lab, host).await;
    assert!(error.contains("401"), "{error}");
    lab.set_bmc_faults(host, &json!({})).await.unwrap();
    go(lab, &node, "manage", "manageable").await;
}

async fn bmc_down(lab: &IronicLab, host: &Host) {
    lab.set_bmc_faults(host, &json!({"down": true})).await.unwrap();
    let (node, error) = fail_to_manage(lab, host).await;
    assert!(error.contains("Unable to connect"), "{error}");
    lab.set_bmc_faults(host, &json!({})).await.unwrap();
    go(lab, &node, "manage", "manageable").await;
}

async fn bmc_unavailable(lab: &IronicLab, host: &Host) {
    lab.set_bmc_faults(host, &json!({"status": 503})).await.unwrap();
    let (_, error) = fail_to_manage(lab, host).await;
    assert!(error.contains("503"), "{error}");
}

async fn power_ignored(lab: &IronicLab, host: &Host) {
    let node = enroll(lab, host).await;
    go(lab, &node, "manage", "manageable").await;
    lab.set_bmc_faults(host, &json!({"power_ignored": true})).await.unwrap();
    let path = format!("/v1/nodes/{node}/states/power");
    call(
        lab,
        Method::PUT,
        &path,
        Some(json!({"target": "power on", "timeout": 5})),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = wait_for_error(lab, &node, "manageable", LIMIT).await;
    assert!(error.contains("Failed to change power state"), "{error}");
    let machine = lab.machine(host).await.unwrap();
    assert_eq!(
        (machine.times_switched_on(), machine.counters.power_requests["On"]),
        (0, 1)
    );
}

async fn no_virtual_media(lab: &IronicLab, host: &Host) {
    lab.set_bmc_faults(host, &json!({"no_virtual_media": true}))
        .await
        .unwrap();
    let node = enroll(lab, host).await;
    go(lab, &node, "manage", "manageable").await;
    ask(lab, &node, json!({"target": "inspect"})).await;
    let error = wait_for_error(lab, &node, "inspect failed", LIMIT).await;
    assert!(error.contains("irtual media"), "{error}");
}

async fn inspection_error(lab: &IronicLab, host: &Host) {
    lab.set_agent_faults(host, &json!({"inspection_error": "no disks to be seen"}))
        .await
        .unwrap();
    let node = enroll(lab, host).await;
    go(lab, &node, "manage", "manageable").await;
    ask(lab, &node, json!({"target": "inspect"})).await;
    let error = wait_for_error(lab, &node, "inspect failed", LIMIT).await;
    println!("{}: inspect failed: {error}", host.name);
    assert!(error.contains("no disks to be seen"), "{error:?}");
}

async fn never_boots(lab: &IronicLab, host: &Host) {
    lab.set_agent_faults(host, &json!({"never": "boot"})).await.unwrap();
    let node = enroll(lab, host).await;
    go(lab, &node, "manage", "manageable").await;
    ask(lab, &node, json!({"target": "inspect"})).await;
    let error = wait_for_error(lab, &node, "inspect failed", LIMIT).await;
    // As with a failed deployment, switching the server off may take the text away.
    assert!(
        error.is_empty() || error.contains("Timeout reached while inspecting"),
        "{error}"
    );
}

async fn different_hardware(lab: &IronicLab, host: &Host) {
    let inventory = json!({
        "nics": 3, "disks": [{"name": "/dev/vda", "size": 42_u64 << 30, "rotational": true}],
        "architecture": "aarch64", "vendor": "Contoso", "memory_mib": 4096,
        "merge": {"hostname": "odd", "cpu": {"model_name": "Odd CPU"}},
    });
    lab.set_agent_faults(host, &json!({"inventory": inventory}))
        .await
        .unwrap();
    let node = enroll(lab, host).await;
    go(lab, &node, "manage", "manageable").await;
    go(lab, &node, "inspect", "manageable").await;
    let answer = call(lab, Method::GET, &format!("/v1/nodes/{node}/inventory"), None).await;
    let inventory = &answer["inventory"];
    assert_eq!(inventory["disks"][0]["size"], 42_u64 << 30);
    assert_eq!(inventory["disks"].as_array().unwrap().len(), 1);
    assert_eq!(inventory["system_vendor"]["manufacturer"], "Contoso");
    assert_eq!(
        (&inventory["hostname"], &inventory["cpu"]["count"]),
        (&json!("odd"), &json!(8))
    );
    assert_eq!(inventory["cpu"]["model_name"], "Odd CPU");
    let ports = call(lab, Method::GET, &format!("/v1/ports?node_uuid={node}"), None).await;
    assert_eq!(ports["ports"].as_array().unwrap().len(), 3);
    assert_eq!(
        ironic_support::node(lab, &node).await["properties"]["cpu_arch"],
        "aarch64"
    );
}

/// Deploys with a fault and returns the node once it has failed.
async fn fail_to_deploy(lab: &IronicLab, host: &Host, faults: Value, checksum: &str) -> Value {
    let node = make_available(lab, host).await;
    lab.set_agent_faults(host, &faults).await.unwrap();
    choose_image(lab, &node, checksum).await;
    let begin = Instant::now();
    ask(lab, &node, json!({"target": "active"})).await;
    let seen = wait_for(lab, &node, &["deploy failed", "active"], LIMIT).await;
    println!(
        "{}: {} after {:.1?}: {}",
        host.name,
        seen["provision_state"],
        begin.elapsed(),
        seen["last_error"]
    );
    assert_eq!(seen["provision_state"], "deploy failed");
    assert_eq!(lab.machine(host).await.unwrap().deploys, 0);
    seen
}

async fn deploy_error(lab: &IronicLab, host: &Host) {
    let faults = json!({"fails_step": {"write_image": "the disk is on fire"}});
    let seen = fail_to_deploy(lab, host, faults, &lab.image().unwrap().sha256).await;
    // Ironic loses the text on the way to the failed state, unless the lab repairs that.
    assert!(
        error_of(&seen).is_empty() || error_of(&seen).contains("the disk is on fire"),
        "{}",
        seen["last_error"]
    );
    let agent = lab.machine(host).await.unwrap().agent.unwrap();
    let failed = agent
        .commands
        .iter()
        .find(|command| command.status == "FAILED")
        .unwrap();
    assert_eq!(failed.step.as_deref(), Some("write_image"));
}

async fn wrong_checksum(lab: &IronicLab, host: &Host) {
    fail_to_deploy(lab, host, json!({}), &"0".repeat(64)).await;
}

async fn agent_dies(lab: &IronicLab, host: &Host) {
    let faults = json!({"dies_in_step": "write_image"});
    let seen = fail_to_deploy(lab, host, faults, &lab.image().unwrap().sha256).await;
    // Ironic misses it either when it asks for the result of the step, or when no heartbeat comes.
    let error = error_of(&seen);
    assert!(
        error.contains("Timeout reached while waiting for callback") || error.contains("Connection to agent failed"),
        "{error}"
    );
}

async fn wrong_token(lab: &IronicLab, host: &Host) {
    let faults = json!({"wrong_token": true});
    let seen = fail_to_deploy(lab, host, faults, &lab.image().unwrap().sha256).await;
    assert!(error_of(&seen).contains("Timeout reached"), "{}", seen["last_error"]);
}

async fn step_hangs(lab: &IronicLab, host: &Host) {
    let node = enroll(lab, host).await;
    go(lab, &node, "manage", "manageable").await;
    go(lab, &node, "inspect", "manageable").await;
    lab.set_agent_faults(host, &json!({"hangs_in_step": "erase_devices_metadata"}))
        .await
        .unwrap();
    ask(lab, &node, json!({"target": "provide"})).await;
    let begin = Instant::now();
    // Longer than the timeout: heartbeats renew it.
    while begin.elapsed() < Duration::from_secs(35) {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let state = ironic_support::node(lab, &node).await["provision_state"].clone();
        assert!(["cleaning", "clean wait"].contains(&state.as_str().unwrap()), "{state}");
    }
    lab.set_agent_faults(host, &json!({})).await.unwrap();
    wait_for(lab, &node, &["available"], LIMIT).await;
}

async fn ipmi_works_and_fails(lab: &IronicLab, host: &Host) {
    lab.set_bmc_faults(host, &json!({"credentials": Credentials::new("admin", "changed")}))
        .await
        .unwrap();
    let (node, error) = fail_to_manage(lab, host).await;
    assert!(error.contains("power"), "{error}");
    lab.set_bmc_faults(host, &json!({})).await.unwrap();
    go(lab, &node, "manage", "manageable").await;
    go(lab, &node, "inspect", "manageable").await;
    go(lab, &node, "provide", "available").await;
    choose_image(lab, &node, &lab.image().unwrap().sha256).await;
    ask(lab, &node, json!({"target": "active"})).await;
    wait_for(lab, &node, &["active"], LIMIT).await;
    let machine = lab.machine(host).await.unwrap();
    assert_eq!((machine.deploys, machine.is_on), (1, true));
    assert!(machine.counters.bmc_requests["power status"] > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_shows_in_ironic_as_on_real_servers() {
    let config = IronicConfig {
        hosts: 13,
        ipmi_hosts: 1,
        timeouts: Timeouts {
            // It counts from the request, of which a busy machine takes most to boot so many ramdisks. When it passes first,
            // what a ramdisk has to report is never heard, and of the time-out itself Ironic keeps no words.
            inspection: Duration::from_secs(60),
            ..Timeouts::short()
        },
        heartbeat_limit: Duration::from_secs(8),
        ..IronicConfig::default()
    };
    let lab = &IronicLab::start(config).await.unwrap();
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, ipmi] = lab.hosts() else {
        panic!("fourteen hosts")
    };
    tokio::join!(
        wrong_password(lab, a),
        bmc_down(lab, b),
        bmc_unavailable(lab, c),
        power_ignored(lab, d),
        no_virtual_media(lab, e),
        inspection_error(lab, f),
        never_boots(lab, g),
        different_hardware(lab, h),
        deploy_error(lab, i),
        wrong_checksum(lab, j),
        agent_dies(lab, k),
        wrong_token(lab, l),
        step_hangs(lab, m),
        ipmi_works_and_fails(lab, ipmi),
    );
    lab.clear_faults().await.unwrap();
    let begin = Instant::now();
    let node = call(lab, Method::GET, &format!("/v1/nodes/{}", c.name), None).await;
    go(lab, node["uuid"].as_str().unwrap(), "manage", "manageable").await;
    println!("healthy again after {:.1?}", begin.elapsed());
}
