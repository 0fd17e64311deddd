//! A server whose BMC refuses a password, and whose ramdisk never reports: everything that waits for it is aborted.

use serde_json::{Value, json};

use super::TestEnv;

pub async fn all(env: &TestEnv, server: usize) {
    let node = env.enroll(server, "check~trouble", None).await;
    env.go(&node, "manage").await;
    env.rest(&node, "manageable").await;
    credentials(env, server, &node).await;
    (env.silence)(server).await;
    inspection(env, &node).await;
    cleaning(env, &node).await;
    deployment(env, &node).await;
    (env.heal)(server).await;
    env.patch(
        &node,
        json!([{"op": "add", "path": "/instance_uuid", "value": "66666666-2222-4333-8444-555555555555"}]),
    )
    .await;
    env.no_delete("is associated with instance", &node).await;
    env.remove(&node).await;
}

/// By another node of the same BMC, which nothing is done with, its answer to other credentials is learnt.
async fn credentials(env: &TestEnv, server: usize, node: &str) {
    let boot_device = |node: &str| format!("/v1/nodes/{node}/management/boot_device");
    let told = env.get(&boot_device(node)).await;
    env.check(told["boot_device"].is_string(), || told.to_string());
    for (password, status) in [(Some("wrong"), 500), (None, 200)] {
        let probe = env.enroll(server, "check~credentials", password).await;
        let answer = env.call("GET", &boot_device(&probe), Value::Null).await;
        env.check(answer.status == status, || format!("{password:?}: {answer:?}"));
        env.delete(&probe).await;
    }
    env.rest(node, "manageable").await;
}

async fn inspection(env: &TestEnv, node: &str) {
    env.go(node, "inspect").await;
    let record = env.rest(node, "inspect wait").await;
    assert_eq!(
        (&record["target_provision_state"], &record["power_state"]),
        (&json!("manageable"), &json!("power on"))
    );
    env.no_delete("Can not delete node", node).await;
    // Here a patch is allowed, even of interfaces.
    let fast = |name: &str| json!([{"op": "add", "path": "/inspect_interface", "value": name}]);
    env.patch(node, fast("redfish")).await;
    env.patch(node, fast("agent")).await;
    env.go(node, "abort").await;
    let record = env.rest(node, "inspect failed").await;
    assert_eq!(record["last_error"], "Inspection was aborted by request.");
    assert_eq!(record["target_provision_state"], "manageable");
    env.no_patch(409, "unless it is in one of allowed", node, fast("redfish"))
        .await;
    env.patch(node, json!([{"op": "add", "path": "/extra/x", "value": 1}]))
        .await;
    env.no_go(400, "can not be performed on node", node, "provide").await;
    env.no_delete("Can not delete node", node).await;
    env.go(node, "manage").await;
    let record = env.rest(node, "manageable").await;
    assert!(record["last_error"].is_string(), "it stays until something new begins");
    assert_eq!(record["target_provision_state"], Value::Null);
    // By this an inventory is told from one of an inspection that has failed.
    assert_eq!(record["inspection_finished_at"], Value::Null);
}

async fn cleaning(env: &TestEnv, node: &str) {
    env.go(node, "provide").await;
    let record = env.rest(node, "clean wait").await;
    assert_eq!(
        (&record["target_provision_state"], &record["last_error"]),
        (&json!("available"), &Value::Null)
    );
    let progress = "can not be updated while a state transition is in progress";
    env.no_patch(
        409,
        progress,
        node,
        json!([{"op": "add", "path": "/extra/y", "value": 1}]),
    )
    .await;
    let power = format!("/v1/nodes/{node}/states/power");
    let words = "while it is in state \"clean wait\"";
    env.refused(400, words, "PUT", &power, json!({"target": "power off"}))
        .await;
    env.no_go(400, "can not be performed on node", node, "manage").await;
    env.no_delete("Can not delete node", node).await;
    env.go(node, "abort").await;
    let record = env.rest(node, "clean failed").await;
    let error = record["last_error"].as_str().unwrap();
    assert!(error.contains("By request, the clean operation was aborted"), "{error}");
    assert_eq!(
        (&record["maintenance"], &record["fault"]),
        (&json!(false), &Value::Null),
        "no step was at work"
    );
    assert_eq!(record["target_provision_state"], "available");
    env.no_go(400, "can not be performed on node", node, "provide").await;
    env.no_delete("Can not delete node", node).await;
    env.go(node, "manage").await;
    env.rest(node, "manageable").await;

    // By hand the way leads back.
    let steps = json!([{"interface": "deploy", "step": "erase_devices_metadata"}]);
    env.go_with(node, json!({"target": "clean", "clean_steps": steps}))
        .await;
    assert_eq!(
        env.rest(node, "clean wait").await["target_provision_state"],
        "manageable"
    );
    env.go(node, "abort").await;
    assert_eq!(
        env.rest(node, "clean failed").await["target_provision_state"],
        "manageable"
    );
    env.go(node, "manage").await;
    env.rest(node, "manageable").await;

    // Without cleaning no ramdisk is needed.
    env.patch(node, json!([{"op": "add", "path": "/automated_clean", "value": false}]))
        .await;
    env.go(node, "provide").await;
    env.rest(node, "available").await;
}

async fn deployment(env: &TestEnv, node: &str) {
    env.set_image(node).await;
    env.go(node, "active").await;
    let record = env.rest(node, "wait call-back").await;
    assert_eq!(
        (&record["target_provision_state"], &record["power_state"]),
        (&json!("active"), &json!("power on"))
    );
    let path = format!("/v1/nodes/{node}/states/provision");
    let answer = env.call_as("1.109", "PUT", &path, json!({"target": "abort"})).await;
    assert_eq!(answer.status, 406, "{}", answer.body);
    env.go(node, "abort").await;
    let record = env.rest(node, "deploy failed").await;
    let error = record["last_error"].as_str().unwrap();
    assert!(
        error.contains("By request, the deploy operation was aborted"),
        "{error}"
    );
    assert_eq!(record["target_provision_state"], "active");
    env.no_delete("Can not delete node", node).await;
    env.no_go(400, "can not be performed on node", node, "manage").await;
    env.patch(
        node,
        json!([{"op": "add", "path": "/instance_info/extra_note", "value": "x"}]),
    )
    .await;

    // Once more, and taken down in the middle.
    env.go(node, "active").await;
    env.rest(node, "wait call-back").await;
    env.go(node, "deleted").await;
    let record = env.rest(node, "available").await;
    assert_eq!(
        (&record["instance_info"], &record["last_error"]),
        (&json!({}), &Value::Null),
        "{record}"
    );
}
