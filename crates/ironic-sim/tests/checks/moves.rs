//! A server whose BMC is tried with a wrong password, taken over as it is, switched on and off, and kept busy.

use serde_json::{Value, json};

use super::{LOCKED, TestEnv, service};

pub async fn all(env: &TestEnv, server: usize) {
    let node = env.enroll(server, "check~moves", Some("a-wrong-password")).await;
    env.go(&node, "manage").await;
    let record = env
        .until(&node, "refused by its BMC", |r| {
            r["provision_state"] == "enroll" && r["reservation"].is_null()
        })
        .await;
    assert_eq!(record["target_provision_state"], Value::Null);
    assert!(record["last_error"].as_str().unwrap().contains("401"), "{record}");
    let right = json!([{"op": "add", "path": "/driver_info/redfish_password", "value": env.servers[server].password}]);
    env.patch(&node, right).await;
    env.go(&node, "manage").await;
    let record = env.rest(&node, "manageable").await;
    assert_eq!(record["last_error"], Value::Null, "a new attempt forgets the last one");

    maintenance(env, &node).await;
    power(env, &node).await;
    media(env, &node).await;
    subscriptions(env, &node).await;
    steps(env, server, &node).await;
    locks(env, server, &node).await;
    adoption(env, &node).await;
}

async fn maintenance(env: &TestEnv, node: &str) {
    let path = format!("/v1/nodes/{node}/maintenance");
    env.expect(202, "PUT", &path, json!({"reason": "a look inside"})).await;
    let record = env.get(&format!("/v1/nodes/{node}")).await;
    assert_eq!(
        (&record["maintenance"], &record["maintenance_reason"]),
        (&json!(true), &json!("a look inside"))
    );
    let steps = json!([{"interface": "deploy", "step": "erase_devices_metadata"}]);
    let states = format!("/v1/nodes/{node}/states/provision");
    let body = json!({"target": "clean", "clean_steps": steps});
    env.refused(400, "in maintenance mode", "PUT", &states, body).await;
    env.no_go(400, "in maintenance mode", node, "active").await;
    let listed = env.get("/v1/nodes?maintenance=True&fields=uuid").await;
    assert!(
        listed["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["uuid"] == node),
        "{listed}"
    );
    env.expect(202, "DELETE", &path, Value::Null).await;
    let record = env.get(&format!("/v1/nodes/{node}")).await;
    assert_eq!(
        (&record["maintenance"], &record["maintenance_reason"]),
        (&json!(false), &Value::Null)
    );
}

async fn power(env: &TestEnv, node: &str) {
    let path = format!("/v1/nodes/{node}/states/power");
    for (words, body) in [
        ("can not be performed on node", json!({"target": "sideways"})),
        ("positive integer", json!({"target": "power on", "timeout": 0})),
    ] {
        env.refused(400, words, "PUT", &path, body).await;
    }
    for (target, reached) in [
        ("power on", "power on"),
        ("rebooting", "power on"),
        ("soft power off", "power off"),
        ("power on", "power on"),
        ("power off", "power off"),
    ] {
        env.power(node, target, reached).await;
    }
    let never = json!([{"op": "add", "path": "/disable_power_off", "value": true}]);
    assert_eq!(env.patch(node, never).await["disable_power_off"], true);
    let answer = env.call("PUT", &path, json!({"target": "power off"})).await;
    assert!(answer.status >= 400, "never to be switched off: {}", answer.status);
    env.patch(
        node,
        json!([{"op": "add", "path": "/disable_power_off", "value": false}]),
    )
    .await;
}

async fn media(env: &TestEnv, node: &str) {
    let path = format!("/v1/nodes/{node}/vmedia");
    let answer = env.call_as("1.92", "GET", &path, Value::Null).await;
    assert_eq!(answer.status, 404, "{}", answer.body);
    let image = |url: &str, device: &str| json!({"device_type": device, "image_url": url});
    env.refused(400, "URL scheme", "POST", &path, image("ftp://a/b.iso", "cdrom"))
        .await;
    env.refused(400, "", "POST", &path, image("http://a/b.iso", "punched tape"))
        .await;
    env.attach(node, "manageable").await;
    env.expect(204, "DELETE", &format!("{path}?device_types=cdrom"), Value::Null)
        .await;
    env.inserted(node, "manageable", false).await;
}

/// Subscriptions to the events of a BMC.
async fn subscriptions(env: &TestEnv, node: &str) {
    let path = |method: &str| format!("/v1/nodes/{node}/vendor_passthru?method={method}");
    let wanted = json!({"Destination": "http://192.0.2.9/events", "Context": "a", "HttpHeaders": [{"X-A": "b"}]});
    let nowhere = json!({"Destination": "events"});
    env.refused(400, "not a valid URI", "POST", &path("create_subscription"), nowhere)
        .await;
    env.refused(400, "", "GET", &path("create_subscription"), Value::Null)
        .await;
    let made = env.expect(200, "POST", &path("create_subscription"), wanted).await;
    let id = made["Id"].as_str().unwrap();
    env.same("its context", &made["Context"], &json!("a"));
    env.same("its headers", &made["HttpHeaders"], &Value::Null);
    let all = env
        .expect(200, "GET", &path("get_all_subscriptions"), Value::Null)
        .await;
    let link = all["Members"][0]["@odata.id"].as_str().unwrap_or_default();
    env.check(link.ends_with(id), || format!("members: {all}"));
    let in_query = path(&format!("get_subscription&id={id}"));
    env.refused(400, "Unexpected arguments", "GET", &in_query, Value::Null)
        .await;
    let end = json!({ "id": id });
    let shown = env.expect(200, "GET", &path("get_subscription"), end.clone()).await;
    env.same("the same subscription", &shown, &made);
    env.expect(200, "DELETE", &path("delete_subscription"), end.clone())
        .await;
    env.refused(
        404,
        "delete_subscription failed",
        "DELETE",
        &path("delete_subscription"),
        end,
    )
    .await;
    env.refused(400, "", "DELETE", &path("delete_subscription"), json!({}))
        .await;
    let left = env
        .expect(200, "GET", &path("get_all_subscriptions"), Value::Null)
        .await;
    env.same("no members", &left["Members"], &json!([]));
}

/// Cleaning by hand.
async fn steps(env: &TestEnv, server: usize, node: &str) {
    let path = format!("/v1/nodes/{node}/states/provision");
    for body in [
        json!({"target": "clean"}),
        json!({"target": "clean", "clean_steps": [{"interface": "telepathy", "step": "x"}]}),
        json!({"target": "clean", "clean_steps": [{"interface": "bios", "step": "x", "colour": "blue"}]}),
        json!({"target": "provide", "clean_steps": [{"interface": "bios", "step": "factory_reset"}]}),
    ] {
        env.refused(400, "", "PUT", &path, body).await;
    }
    // Ironic looks at the name before it looks whether there is one.
    let nameless = json!({"target": "clean", "clean_steps": [{"interface": "bios"}]});
    env.refused(500, "'step'", "PUT", &path, nameless).await;
    env.refused(
        400,
        "",
        "PUT",
        &format!("/v1/nodes/{node}/states/raid"),
        json!({"disks": []}),
    )
    .await;
    env.add_port(server, node).await;
    let steps = json!([{"interface": "deploy", "step": "erase_devices_metadata"}]);
    env.attach(node, "manageable").await;
    let settings = json!({"settings": [{"name": "QuietBoot", "value": "false"}]});
    let by_the_bmc = json!([{"interface": "bios", "step": "apply_configuration", "args": settings}]);
    env.go_with(node, json!({"target": "clean", "clean_steps": by_the_bmc}))
        .await;
    // The BMC does it by itself, and nothing switches the server off.
    let record = env.rest(node, "manageable").await;
    env.same(
        "the power after a cleaning without a ramdisk",
        &record["power_state"],
        &json!("power on"),
    );
    env.inserted(node, "manageable", true).await;
    env.go_with(node, json!({"target": "clean", "clean_steps": steps}))
        .await;
    let record = env.rest(node, "manageable").await;
    env.inserted(node, "manageable", false).await;
    assert_eq!(
        (&record["last_error"], &record["clean_step"]),
        (&Value::Null, &json!({})),
        "{record}"
    );
    firmware(env, node).await;
}

/// For an update of firmware a ramdisk boots, which a service does without.
async fn firmware(env: &TestEnv, node: &str) {
    env.same(
        "the version before",
        &service::version(env, node).await,
        &json!("1.0.0"),
    );
    env.attach(node, "manageable").await;
    env.go_with(node, json!({"target": "clean", "clean_steps": [service::update()]}))
        .await;
    let record = env
        .until(node, "cleaned", |record| record["provision_state"] == "clean wait")
        .await;
    let target = json!("manageable");
    env.same("the target of a cleaning", &record["target_provision_state"], &target);
    let record = env.rest(node, "manageable").await;
    for (field, value) in [
        ("target_provision_state", Value::Null),
        ("power_state", json!("power off")),
        ("last_error", Value::Null),
        ("clean_step", json!({})),
        ("maintenance", json!(false)),
    ] {
        env.same(&format!("{field} after an update"), &record[field], &value);
    }
    env.inserted(node, "manageable", false).await;
    env.same("the version after", &service::version(env, node).await, &json!("1.1.0"));
}

/// While the BMC thinks, its node is locked.
async fn locks(env: &TestEnv, server: usize, node: &str) {
    (env.slow)(server).await;
    env.expect(
        202,
        "PUT",
        &format!("/v1/nodes/{node}/states/power"),
        json!({"target": "power on"}),
    )
    .await;
    let record = env.get(&format!("/v1/nodes/{node}")).await;
    assert!(record["reservation"].is_string(), "{record}");
    assert_eq!(record["target_power_state"], "power on");
    let listed = env.get("/v1/nodes?fields=uuid,reservation").await;
    let of_it = listed["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["uuid"] == node);
    assert_eq!(of_it.unwrap()["reservation"], record["reservation"]);
    // A verb that the state does not allow is a conflict as long as there is a lock.
    env.no_go(409, LOCKED, node, "active").await;
    let (own, provision) = (
        format!("/v1/nodes/{node}"),
        format!("/v1/nodes/{node}/states/provision"),
    );
    let (patch, verb) = (
        env.call("PATCH", &own, json!([{"op": "add", "path": "/extra/x", "value": 1}])),
        env.call("PUT", &provision, json!({"target": "provide"})),
    );
    let (patch, verb) = futures::join!(patch, verb);
    env.is_refusal(&patch, 409, LOCKED, "a patch of a locked node");
    env.is_refusal(&verb, 409, LOCKED, "a move of a locked node");
    (env.heal)(server).await;
    let record = env
        .until(node, "free", |r| {
            r["reservation"].is_null() && r["target_power_state"].is_null()
        })
        .await;
    assert_eq!(record["provision_state"], "manageable");
}

/// A server that runs is taken over, and given back without a trace.
async fn adoption(env: &TestEnv, node: &str) {
    env.power(node, "power on", "power on").await;
    env.set_image(node).await;
    env.go(node, "adopt").await;
    let record = env.rest(node, "active").await;
    assert_eq!(
        (&record["power_state"], &record["last_error"]),
        (&json!("power on"), &Value::Null),
        "{record}"
    );
    env.no_delete("Can not delete node", node).await;
    env.remove(node).await;
}
