//! A server in use whose settings and firmware are changed by steps of a service.

use serde_json::{Value, json};

use super::TestEnv;

pub async fn all(env: &TestEnv, server: usize) {
    let node = &env.enroll(server, "check~service", None).await;
    env.add_port(server, node).await;
    env.set_image(node).await;
    env.go(node, "manage").await;
    env.rest(node, "manageable").await;
    env.no_go(400, "can not be performed on node", node, "service").await;
    env.go(node, "adopt").await;
    env.rest(node, "active").await;
    refusals(env, node).await;
    (env.refuse)(server).await;
    fails(env, node, ["Enabled", "Disabled"]).await;
    (env.heal)(server).await;
    // From a failure another service leads on.
    (env.revert)(server).await;
    is_taken_back(env, node).await;
    (env.heal)(server).await;
    by_the_bmc(env, node).await;
    by_a_ramdisk(env, node).await;
    is_aborted_in_a_step(env, node).await;
    (env.silence)(server).await;
    is_aborted_before_its_ramdisk_reports(env, node).await;
    (env.heal)(server).await;
    (env.refuse)(server).await;
    fails(env, node, ["Disabled", "Enabled"]).await;
    (env.heal)(server).await;
    // Nobody switches it on again.
    is_aborted(env, node, "power off").await;
    env.remove(node).await;
}

/// A request for these steps.
fn service(steps: &[Value]) -> Value {
    json!({"target": "service", "service_steps": steps})
}

fn settings(mode: &str) -> Value {
    let settings = [json!({"name": "ProcTurboMode", "value": mode})];
    json!({"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}})
}

pub fn update() -> Value {
    let settings = [json!({"component": "bios", "url": "http://127.0.0.1:1/bios.bin"})];
    json!({"interface": "firmware", "step": "update", "args": {"settings": settings}})
}

async fn refusals(env: &TestEnv, node: &str) {
    let path = format!("/v1/nodes/{node}/states/provision");
    for body in [
        json!({"target": "service"}),
        service(&[json!({"interface": "telepathy", "step": "x"})]),
        json!({"target": "service", "clean_steps": [settings("Disabled")]}),
    ] {
        env.refused(400, "", "PUT", &path, body).await;
    }
    let answer = env
        .call_as("1.86", "PUT", &path, service(&[settings("Disabled")]))
        .await;
    env.check(answer.status == 406, || {
        format!("service before its version: {answer:?}")
    });
    env.no_go(400, "can not be performed on node", node, "abort").await;
}

async fn mode(env: &TestEnv, node: &str) -> Value {
    env.get(&format!("/v1/nodes/{node}/bios/ProcTurboMode")).await["ProcTurboMode"]["value"].clone()
}

pub async fn version(env: &TestEnv, node: &str) -> Value {
    let all = env.get(&format!("/v1/nodes/{node}/firmware")).await;
    let mut all = all["firmware"].as_array().unwrap().iter();
    all.find(|one| one["component"] == "bios").unwrap()["current_version"].clone()
}

/// What a BMC takes back after Ironic has seen it in force is done all the same, and Ironic knows the value that it has.
async fn is_taken_back(env: &TestEnv, node: &str) {
    under_way(env, node, &[settings("Disabled")]).await;
    is_done(env, node).await;
    env.same(
        "the mode that was taken back",
        &mode(env, node).await,
        &json!("Enabled"),
    );
}

/// What a BMC does by itself needs no ramdisk: the disc stays in the drive.
async fn by_the_bmc(env: &TestEnv, node: &str) {
    env.same("the version before", &version(env, node).await, &json!("1.0.0"));
    env.attach(node, "active").await;
    let steps = [settings("Disabled"), update()];
    let record = under_way(env, node, &steps).await;
    env.check(record["service_step"]["interface"].is_string(), || {
        format!("the step under way: {record}")
    });
    is_done(env, node).await;
    env.inserted(node, "active", true).await;
    env.same("the mode after", &mode(env, node).await, &json!("Disabled"));
    env.same("the version after", &version(env, node).await, &json!("1.1.0"));
}

/// For its ramdisk Ironic ejects what is in the drive.
async fn by_a_ramdisk(env: &TestEnv, node: &str) {
    let step = json!({"interface": "deploy", "step": "burnin_cpu"});
    under_way(env, node, &[step]).await;
    let media = env.get(&format!("/v1/nodes/{node}/vmedia")).await;
    let image = media[0]["image"].as_str().unwrap_or_default();
    env.check(image.contains("boot-"), || format!("the ramdisk in its drive: {media}"));
    is_done(env, node).await;
    env.inserted(node, "active", false).await;
}

/// Waits for a service to begin.
async fn under_way(env: &TestEnv, node: &str, steps: &[Value]) -> Value {
    env.go_with(node, service(steps)).await;
    let record = env
        .until(node, "serviced", |record| record["provision_state"] == "service wait")
        .await;
    env.same(
        "the target of a service",
        &record["target_provision_state"],
        &json!("active"),
    );
    record
}

/// Waits for a service to end well.
async fn is_done(env: &TestEnv, node: &str) {
    let record = env.rest(node, "active").await;
    for (field, value) in [
        ("target_provision_state", Value::Null),
        ("power_state", json!("power on")),
        ("last_error", Value::Null),
        ("service_step", json!({})),
        ("maintenance", json!(false)),
        ("fault", Value::Null),
    ] {
        env.same(&format!("{field} after a service"), &record[field], &value);
    }
}

/// The BMC refuses to change the mode.
async fn fails(env: &TestEnv, node: &str, [is, wanted]: [&str; 2]) {
    env.attach(node, "active").await;
    env.go_with(node, service(&[settings(wanted)])).await;
    let record = env.rest(node, "service failed").await;
    for (field, value) in [
        ("target_provision_state", json!("active")),
        ("power_state", json!("power off")),
        ("service_step", json!({})),
        ("maintenance", json!(true)),
        ("fault", json!("service failure")),
    ] {
        env.same(&format!("{field} after a failed service"), &record[field], &value);
    }
    let error = record["last_error"].as_str().unwrap_or_default();
    env.check(error.contains("failed") && error.contains(node), || {
        format!("error of a failed service: {record}")
    });
    env.same(
        "why it is in maintenance",
        &record["maintenance_reason"],
        &record["last_error"],
    );
    env.inserted(node, "service failed", false).await;
    env.same("the mode after a failure", &mode(env, node).await, &json!(is));
    env.no_go(409, "while it is in maintenance mode", node, "abort").await;
    let path = format!("/v1/nodes/{node}/states/provision");
    let again = service(&[settings(wanted)]);
    env.refused(400, "in maintenance mode", "PUT", &path, again).await;
    out_of_maintenance(env, node).await;
}

/// What the BMC does cannot be aborted. It is made, and what was to follow is not.
async fn is_aborted_in_a_step(env: &TestEnv, node: &str) {
    let record = under_way(env, node, &[update(), settings("Enabled")]).await;
    env.same(
        "the step that is aborted",
        &record["service_step"]["step"],
        &json!("update"),
    );
    env.go(node, "abort").await;
    let record = env.get(&format!("/v1/nodes/{node}")).await;
    if record["provision_state"] == "service wait" {
        env.same(
            "the mark of an abort",
            &record["service_step"]["abort_after"],
            &json!(true),
        );
    }
    let record = env.rest(node, "service failed").await;
    for (field, value) in [
        ("target_provision_state", json!("active")),
        ("power_state", json!("power on")),
        ("service_step", json!({})),
        ("maintenance", json!(false)),
        ("fault", Value::Null),
    ] {
        env.same(
            &format!("{field} of a service aborted in a step"),
            &record[field],
            &value,
        );
    }
    let words =
        "By request, the service operation was aborted during or after the completion of step \"firmware.update\"";
    env.same(
        "why a service aborted in a step failed",
        &record["last_error"],
        &json!(words),
    );
    env.same("the version that was made", &version(env, node).await, &json!("1.2.0"));
    env.same("the mode that was not", &mode(env, node).await, &json!("Disabled"));
    is_aborted(env, node, "power on").await;
}

/// Nothing has begun yet, and the node is active again at once.
async fn is_aborted_before_its_ramdisk_reports(env: &TestEnv, node: &str) {
    let step = json!({"interface": "deploy", "step": "burnin_cpu"});
    under_way(env, node, &[step]).await;
    env.go(node, "abort").await;
    let record = env.rest(node, "active").await;
    for (field, value) in [
        ("target_provision_state", Value::Null),
        ("power_state", json!("power on")),
        ("service_step", json!({})),
        ("maintenance", json!(false)),
        ("last_error", json!("By request, the service operation was aborted")),
    ] {
        env.same(&format!("{field} of a service aborted early"), &record[field], &value);
    }
    env.inserted(node, "active", false).await;
}

/// A failed service is given up.
async fn is_aborted(env: &TestEnv, node: &str, power: &str) {
    env.go(node, "abort").await;
    let record = env.get(&format!("/v1/nodes/{node}")).await;
    env.same("the state at once", &record["provision_state"], &json!("active"));
    let record = env.rest(node, "active").await;
    for (field, value) in [
        ("target_provision_state", Value::Null),
        ("power_state", json!(power)),
        ("service_step", json!({})),
        ("maintenance", json!(false)),
        // Of the deploy interface `autodetect`.
        (
            "last_error",
            json!("Failed to tear down service after aborting the operation"),
        ),
    ] {
        env.same(&format!("{field} of a service given up"), &record[field], &value);
    }
}

async fn out_of_maintenance(env: &TestEnv, node: &str) {
    env.expect(202, "DELETE", &format!("/v1/nodes/{node}/maintenance"), Value::Null)
        .await;
    let record = env.get(&format!("/v1/nodes/{node}")).await;
    env.same(
        "the state out of maintenance",
        &record["provision_state"],
        &json!("service failed"),
    );
    env.same("the fault out of maintenance", &record["fault"], &Value::Null);
}
