//! A server whose BMC is tried with a wrong password, taken over as it is, switched on and off, and kept busy.

use serde_json::{Value, json};

use super::{LOCKED, Site};

pub async fn all(site: &Site, server: usize) {
    let node = site.enroll(server, "check~moves", Some("a-wrong-password")).await;
    site.go(&node, "manage").await;
    let record = site
        .until(&node, "refused by its BMC", |r| {
            r["provision_state"] == "enroll" && r["reservation"].is_null()
        })
        .await;
    assert_eq!(record["target_provision_state"], Value::Null);
    assert!(record["last_error"].as_str().unwrap().contains("401"), "{record}");
    let right = json!([{"op": "add", "path": "/driver_info/redfish_password", "value": site.servers[server].password}]);
    site.patch(&node, right).await;
    site.go(&node, "manage").await;
    let record = site.rest(&node, "manageable").await;
    assert_eq!(record["last_error"], Value::Null, "a new attempt forgets the last one");

    maintenance(site, &node).await;
    power(site, &node).await;
    media(site, &node).await;
    steps(site, server, &node).await;
    locks(site, server, &node).await;
    adoption(site, &node).await;
}

async fn maintenance(site: &Site, node: &str) {
    let path = format!("/v1/nodes/{node}/maintenance");
    site.expect(202, "PUT", &path, json!({"reason": "a look inside"})).await;
    let record = site.get(&format!("/v1/nodes/{node}")).await;
    assert_eq!(
        (&record["maintenance"], &record["maintenance_reason"]),
        (&json!(true), &json!("a look inside"))
    );
    let steps = json!([{"interface": "deploy", "step": "erase_devices_metadata"}]);
    let states = format!("/v1/nodes/{node}/states/provision");
    let body = json!({"target": "clean", "clean_steps": steps});
    site.refused(400, "in maintenance mode", "PUT", &states, body).await;
    site.no_go(400, "in maintenance mode", node, "active").await;
    let listed = site.get("/v1/nodes?maintenance=True&fields=uuid").await;
    assert!(
        listed["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["uuid"] == node),
        "{listed}"
    );
    site.expect(202, "DELETE", &path, Value::Null).await;
    let record = site.get(&format!("/v1/nodes/{node}")).await;
    assert_eq!(
        (&record["maintenance"], &record["maintenance_reason"]),
        (&json!(false), &Value::Null)
    );
}

async fn power(site: &Site, node: &str) {
    let path = format!("/v1/nodes/{node}/states/power");
    for (words, body) in [
        ("can not be performed on node", json!({"target": "sideways"})),
        ("positive integer", json!({"target": "power on", "timeout": 0})),
    ] {
        site.refused(400, words, "PUT", &path, body).await;
    }
    for (target, reached) in [
        ("power on", "power on"),
        ("rebooting", "power on"),
        ("soft power off", "power off"),
        ("power on", "power on"),
        ("power off", "power off"),
    ] {
        site.power(node, target, reached).await;
    }
    let never = json!([{"op": "add", "path": "/disable_power_off", "value": true}]);
    assert_eq!(site.patch(node, never).await["disable_power_off"], true);
    let answer = site.call("PUT", &path, json!({"target": "power off"})).await;
    assert!(answer.status >= 400, "never to be switched off: {}", answer.status);
    site.patch(
        node,
        json!([{"op": "add", "path": "/disable_power_off", "value": false}]),
    )
    .await;
}

async fn media(site: &Site, node: &str) {
    let path = format!("/v1/nodes/{node}/vmedia");
    let answer = site.call_as("1.92", "GET", &path, Value::Null).await;
    assert_eq!(answer.status, 404, "{}", answer.body);
    let image = |url: &str, device: &str| json!({"device_type": device, "image_url": url});
    site.refused(400, "URL scheme", "POST", &path, image("ftp://a/b.iso", "cdrom"))
        .await;
    site.refused(400, "", "POST", &path, image("http://a/b.iso", "punched tape"))
        .await;
    site.expect(204, "POST", &path, image(&site.ramdisk, "cdrom")).await;
    inserted(site, node, true).await;
    site.expect(204, "DELETE", &format!("{path}?device_types=cdrom"), Value::Null)
        .await;
    inserted(site, node, false).await;
}

async fn inserted(site: &Site, node: &str, wanted: bool) {
    let begin = std::time::Instant::now();
    loop {
        let media = site.get(&format!("/v1/nodes/{node}/vmedia")).await;
        if media
            .as_array()
            .unwrap()
            .iter()
            .any(|medium| medium["inserted"] == true)
            == wanted
        {
            break;
        }
        assert!(begin.elapsed() < super::LIMIT, "never inserted = {wanted}: {media}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    site.rest(node, "manageable").await;
}

/// Cleaning by hand.
async fn steps(site: &Site, server: usize, node: &str) {
    let path = format!("/v1/nodes/{node}/states/provision");
    for body in [
        json!({"target": "clean"}),
        json!({"target": "clean", "clean_steps": [{"interface": "telepathy", "step": "x"}]}),
        json!({"target": "clean", "clean_steps": [{"interface": "bios", "step": "x", "colour": "blue"}]}),
        json!({"target": "provide", "clean_steps": [{"interface": "bios", "step": "factory_reset"}]}),
    ] {
        site.refused(400, "", "PUT", &path, body).await;
    }
    // Ironic looks at the name before it looks whether there is one.
    let nameless = json!({"target": "clean", "clean_steps": [{"interface": "bios"}]});
    site.refused(500, "'step'", "PUT", &path, nameless).await;
    site.refused(
        400,
        "",
        "PUT",
        &format!("/v1/nodes/{node}/states/raid"),
        json!({"disks": []}),
    )
    .await;
    site.add_port(server, node).await;
    let steps = json!([{"interface": "deploy", "step": "erase_devices_metadata"}]);
    site.go_with(node, json!({"target": "clean", "clean_steps": steps}))
        .await;
    let record = site.rest(node, "manageable").await;
    assert_eq!(
        (&record["last_error"], &record["clean_step"]),
        (&Value::Null, &json!({})),
        "{record}"
    );
}

/// While the BMC thinks, its node is locked.
async fn locks(site: &Site, server: usize, node: &str) {
    (site.slow)(server).await;
    site.expect(
        202,
        "PUT",
        &format!("/v1/nodes/{node}/states/power"),
        json!({"target": "power on"}),
    )
    .await;
    let record = site.get(&format!("/v1/nodes/{node}")).await;
    assert!(record["reservation"].is_string(), "{record}");
    assert_eq!(record["target_power_state"], "power on");
    let listed = site.get("/v1/nodes?fields=uuid,reservation").await;
    let of_it = listed["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["uuid"] == node);
    assert_eq!(of_it.unwrap()["reservation"], record["reservation"]);
    // A verb that the state does not allow is a conflict as long as there is a lock.
    site.no_go(409, LOCKED, node, "active").await;
    let (own, provision) = (
        format!("/v1/nodes/{node}"),
        format!("/v1/nodes/{node}/states/provision"),
    );
    let (patch, verb) = (
        site.call("PATCH", &own, json!([{"op": "add", "path": "/extra/x", "value": 1}])),
        site.call("PUT", &provision, json!({"target": "provide"})),
    );
    let (patch, verb) = futures::join!(patch, verb);
    site.is_refusal(&patch, 409, LOCKED, "a patch of a locked node");
    site.is_refusal(&verb, 409, LOCKED, "a move of a locked node");
    (site.heal)(server).await;
    let record = site
        .until(node, "free", |r| {
            r["reservation"].is_null() && r["target_power_state"].is_null()
        })
        .await;
    assert_eq!(record["provision_state"], "manageable");
}

/// A server that runs is taken over, and given back without a trace.
async fn adoption(site: &Site, node: &str) {
    site.power(node, "power on", "power on").await;
    site.set_image(node).await;
    site.go(node, "adopt").await;
    let record = site.rest(node, "active").await;
    assert_eq!(
        (&record["power_state"], &record["last_error"]),
        (&json!("power on"), &Value::Null),
        "{record}"
    );
    site.no_delete("Can not delete node", node).await;
    site.expect(
        202,
        "PUT",
        &format!("/v1/nodes/{node}/maintenance"),
        json!({"reason": "on its way out"}),
    )
    .await;
    site.delete(node).await;
}
