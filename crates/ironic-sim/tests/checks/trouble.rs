//! A server whose ramdisk never reports: everything that waits for it is aborted.

use serde_json::{Value, json};

use super::Site;

pub async fn all(site: &Site, server: usize) {
    let node = site.enroll(server, "check~trouble", None).await;
    site.go(&node, "manage").await;
    site.rest(&node, "manageable").await;
    (site.silence)(server).await;
    inspection(site, &node).await;
    cleaning(site, &node).await;
    deployment(site, &node).await;
    (site.heal)(server).await;
    site.patch(
        &node,
        json!([{"op": "add", "path": "/instance_uuid", "value": "66666666-2222-4333-8444-555555555555"}]),
    )
    .await;
    site.no_delete("is associated with instance", &node).await;
    site.expect(
        202,
        "PUT",
        &format!("/v1/nodes/{node}/maintenance"),
        json!({"reason": "on its way out"}),
    )
    .await;
    site.delete(&node).await;
}

async fn inspection(site: &Site, node: &str) {
    site.go(node, "inspect").await;
    let record = site.rest(node, "inspect wait").await;
    assert_eq!(
        (&record["target_provision_state"], &record["power_state"]),
        (&json!("manageable"), &json!("power on"))
    );
    site.no_delete("Can not delete node", node).await;
    // Here a patch is allowed, even of interfaces.
    let fast = |name: &str| json!([{"op": "add", "path": "/inspect_interface", "value": name}]);
    site.patch(node, fast("redfish")).await;
    site.patch(node, fast("agent")).await;
    site.go(node, "abort").await;
    let record = site.rest(node, "inspect failed").await;
    assert_eq!(record["last_error"], "Inspection was aborted by request.");
    assert_eq!(record["target_provision_state"], "manageable");
    site.no_patch(409, "unless it is in one of allowed", node, fast("redfish"))
        .await;
    site.patch(node, json!([{"op": "add", "path": "/extra/x", "value": 1}]))
        .await;
    site.no_go(400, "can not be performed on node", node, "provide").await;
    site.no_delete("Can not delete node", node).await;
    site.go(node, "manage").await;
    let record = site.rest(node, "manageable").await;
    assert!(record["last_error"].is_string(), "it stays until something new begins");
    assert_eq!(record["target_provision_state"], Value::Null);
    // By this an inventory is told from one of an inspection that has failed.
    assert_eq!(record["inspection_finished_at"], Value::Null);
}

async fn cleaning(site: &Site, node: &str) {
    site.go(node, "provide").await;
    let record = site.rest(node, "clean wait").await;
    assert_eq!(
        (&record["target_provision_state"], &record["last_error"]),
        (&json!("available"), &Value::Null)
    );
    let progress = "can not be updated while a state transition is in progress";
    site.no_patch(
        409,
        progress,
        node,
        json!([{"op": "add", "path": "/extra/y", "value": 1}]),
    )
    .await;
    let power = format!("/v1/nodes/{node}/states/power");
    let words = "while it is in state \"clean wait\"";
    site.refused(400, words, "PUT", &power, json!({"target": "power off"}))
        .await;
    site.no_go(400, "can not be performed on node", node, "manage").await;
    site.no_delete("Can not delete node", node).await;
    site.go(node, "abort").await;
    let record = site.rest(node, "clean failed").await;
    let error = record["last_error"].as_str().unwrap();
    assert!(error.contains("By request, the clean operation was aborted"), "{error}");
    assert_eq!(
        (&record["maintenance"], &record["fault"]),
        (&json!(false), &Value::Null),
        "no step was at work"
    );
    assert_eq!(record["target_provision_state"], "available");
    site.no_go(400, "can not be performed on node", node, "provide").await;
    site.no_delete("Can not delete node", node).await;
    site.go(node, "manage").await;
    site.rest(node, "manageable").await;

    // By hand the way leads back.
    let steps = json!([{"interface": "deploy", "step": "erase_devices_metadata"}]);
    site.go_with(node, json!({"target": "clean", "clean_steps": steps}))
        .await;
    assert_eq!(
        site.rest(node, "clean wait").await["target_provision_state"],
        "manageable"
    );
    site.go(node, "abort").await;
    assert_eq!(
        site.rest(node, "clean failed").await["target_provision_state"],
        "manageable"
    );
    site.go(node, "manage").await;
    site.rest(node, "manageable").await;

    // Without cleaning no ramdisk is needed.
    site.patch(node, json!([{"op": "add", "path": "/automated_clean", "value": false}]))
        .await;
    site.go(node, "provide").await;
    site.rest(node, "available").await;
}

async fn deployment(site: &Site, node: &str) {
    site.set_image(node).await;
    site.go(node, "active").await;
    let record = site.rest(node, "wait call-back").await;
    assert_eq!(
        (&record["target_provision_state"], &record["power_state"]),
        (&json!("active"), &json!("power on"))
    );
    let path = format!("/v1/nodes/{node}/states/provision");
    let answer = site.call_as("1.109", "PUT", &path, json!({"target": "abort"})).await;
    assert_eq!(answer.status, 406, "{}", answer.body);
    site.go(node, "abort").await;
    let record = site.rest(node, "deploy failed").await;
    let error = record["last_error"].as_str().unwrap();
    assert!(
        error.contains("By request, the deploy operation was aborted"),
        "{error}"
    );
    assert_eq!(record["target_provision_state"], "active");
    site.no_delete("Can not delete node", node).await;
    site.no_go(400, "can not be performed on node", node, "manage").await;
    site.patch(
        node,
        json!([{"op": "add", "path": "/instance_info/extra_note", "value": "x"}]),
    )
    .await;

    // Once more, and taken down in the middle.
    site.go(node, "active").await;
    site.rest(node, "wait call-back").await;
    site.go(node, "deleted").await;
    let record = site.rest(node, "available").await;
    assert_eq!(
        (&record["instance_info"], &record["last_error"]),
        (&json!({}), &Value::Null),
        "{record}"
    );
}
