//! A server from enrolment to an instance and back.

use serde_json::{Value, json};

use super::TestEnv;

const INSTANCE: &str = "77777777-2222-4333-8444-555555555555";

pub async fn all(env: &TestEnv, server: usize) {
    let node = env.enroll(server, "check~life", None).await;
    let path = format!("/v1/nodes/{node}");
    verification(env, &node).await;
    inspection(env, server, &node).await;

    env.go(&node, "provide").await;
    let record = env.rest(&node, "available").await;
    assert_eq!(
        (&record["target_provision_state"], &record["power_state"]),
        (&Value::Null, &json!("power off"))
    );
    assert!(record["provision_updated_at"].is_string());
    deployment(env, server, &node).await;

    // With an instance.
    env.no_go(400, "can not be performed on node", &node, "active").await;
    env.no_go(400, "can not be performed on node", &node, "manage").await;
    env.no_delete("is associated with instance", &node).await;
    fixed_port(env, server).await;
    let interface = json!([{"op": "add", "path": "/boot_interface", "value": "ipxe"}]);
    env.no_patch(409, "unless it is in one of allowed", &node, interface)
        .await;
    env.patch(
        &node,
        json!([{"op": "add", "path": "/instance_info/extra_note", "value": "x"}]),
    )
    .await;
    env.patch(&node, json!([{"op": "remove", "path": "/instance_uuid"}]))
        .await;
    env.no_delete("Can not delete node", &node).await;

    env.patch(
        &node,
        json!([{"op": "add", "path": "/automated_clean", "value": false}]),
    )
    .await;
    env.attach(&node, "active").await;
    env.go(&node, "deleted").await;
    let record = env.rest(&node, "available").await;
    env.inserted(&node, "available", false).await;
    assert_eq!(
        (&record["instance_info"], &record["instance_uuid"]),
        (&json!({}), &Value::Null),
        "{record}"
    );
    assert_eq!(record["power_state"], "power off");
    env.go(&node, "manage").await;
    env.rest(&node, "manageable").await;
    env.delete(&path["/v1/nodes/".len()..]).await;
    let ports = env.get(&format!("/v1/ports?address={}", env.servers[server].mac)).await;
    assert_eq!(ports["ports"], json!([]), "ports go with their node");
}

/// How a server in use is connected is not changed.
async fn fixed_port(env: &TestEnv, server: usize) {
    let ports = env
        .get(&format!(
            "/v1/ports?address={}&fields=uuid,pxe_enabled",
            env.servers[server].mac
        ))
        .await;
    let port = &ports["ports"][0];
    let is_booted = port["pxe_enabled"].as_bool().unwrap();
    let change = |value: bool| json!([{"op": "replace", "path": "/pxe_enabled", "value": value}]);
    let path = format!("/v1/ports/{}", port["uuid"].as_str().unwrap());
    let words = "can not have any connectivity attributes";
    env.refused(409, words, "PATCH", &path, change(!is_booted)).await;
    env.expect(200, "PATCH", &path, change(is_booted)).await;
}

async fn verification(env: &TestEnv, node: &str) {
    for verb in [
        "provide",
        "inspect",
        "active",
        "deleted",
        "adopt",
        "abort",
        "rebuild",
        "telepathy",
    ] {
        env.no_go(400, "can not be performed on node", node, verb).await;
    }
    env.go(node, "manage").await;
    let record = env.rest(node, "manageable").await;
    assert_eq!(
        (&record["target_provision_state"], &record["last_error"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(record["power_state"], "power off", "{record}");
    let settings = env.get(&format!("/v1/nodes/{node}/bios?detail=true")).await;
    let settings = settings["bios"].as_array().unwrap();
    let cores = settings.iter().find(|setting| setting["name"] == "NumCores").unwrap();
    assert!(cores["value"].is_string(), "{cores}");
    assert!(
        ["attribute_type", "lower_bound", "read_only"]
            .iter()
            .all(|key| cores.get(*key).is_some()),
        "{cores}"
    );
    let one = env.get(&format!("/v1/nodes/{node}/bios/NumCores")).await;
    assert_eq!(one["NumCores"]["value"], cores["value"]);
    let firmware = env.get(&format!("/v1/nodes/{node}/firmware")).await;
    let names: Vec<&Value> = firmware["firmware"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["component"])
        .collect();
    assert!(
        names.contains(&&json!("bios")) && names.contains(&&json!("bmc")),
        "{firmware}"
    );
    assert_eq!(
        env.get(&format!("/v1/nodes/{node}/states")).await["power_state"],
        "power off"
    );
}

async fn inspection(env: &TestEnv, server: usize, node: &str) {
    let path = format!("/v1/nodes/{node}/inventory");
    env.refused(404, "could not be found", "GET", &path, Value::Null).await;
    env.go(node, "inspect").await;
    let record = env.rest(node, "manageable").await;
    assert_eq!(
        (&record["power_state"], &record["last_error"]),
        (&json!("power off"), &Value::Null),
        "{record}"
    );
    assert_eq!(record["properties"]["cpu_arch"], "x86_64");
    assert!(record["inspection_finished_at"].is_string());
    let found = env.get(&path).await;
    let inventory = &found["inventory"];
    assert_eq!(inventory["interfaces"][0]["mac_address"], env.servers[server].mac);
    assert!(inventory["cpu"]["frequency"].is_string(), "a text from a ramdisk");
    assert!(inventory["disks"][0]["size"].is_u64() && inventory["memory"]["physical_mb"].is_u64());
    assert!(found["plugin_data"]["all_interfaces"].is_object(), "{found}");
    let ports = env
        .get(&format!(
            "/v1/ports?address={}&fields=node_uuid,uuid,address",
            env.servers[server].mac
        ))
        .await;
    assert_eq!(ports["ports"][0]["node_uuid"], node, "inspection makes ports");
}

async fn deployment(env: &TestEnv, server: usize, node: &str) {
    // Without an image nothing begins.
    let validation = env.get(&format!("/v1/nodes/{node}/validate")).await;
    assert_eq!(validation["deploy"]["result"], false, "{validation}");
    assert!(validation["deploy"]["reason"].is_string(), "{validation}");
    assert_eq!(validation["power"]["result"], true, "{validation}");
    env.no_go(400, "Failed to validate deploy or power info", node, "active")
        .await;
    assert_eq!(env.rest(node, "available").await["target_provision_state"], Value::Null);

    env.set_image(node).await;
    let (image, _) = &env.image;
    let elsewhere = image.replace("/images/", "/redirect/302/images/");
    let secret = format!("{image}?token=abc&x=1");
    let add = |key: &str, value: &str| json!({"op": "add", "path": key, "value": value});
    let record = env
        .patch(
            node,
            json!([
                add("/instance_uuid", INSTANCE),
                add("/instance_info/image_source", &elsewhere),
                add("/instance_info/note", &secret)
            ]),
        )
        .await;
    assert_eq!(record["instance_info"]["image_source"], elsewhere);
    let hidden = format!("{image}?token=******");
    assert_eq!(record["instance_info"]["note"], hidden, "what looks like a password");
    let validation = env.get(&format!("/v1/nodes/{node}/validate")).await;
    assert_eq!(
        (&validation["deploy"]["result"], &validation["boot"]["result"]),
        (&json!(true), &json!(true)),
        "{validation}"
    );
    let drive = json!({"meta_data": {"name": "one"}, "user_data": "#cloud-config\n", "network_data": {"links": []}});
    env.go_with(node, json!({"target": "active", "configdrive": drive}))
        .await;
    let record = env.rest(node, "active").await;
    assert_eq!(record["power_state"], "power on");
    assert_eq!(
        (&record["target_provision_state"], &record["last_error"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(record["instance_uuid"], INSTANCE);
    let found = &record["instance_info"]["image_source"];
    assert_eq!(found, image, "where it was redirected");
    assert_eq!((env.user_data)(server).await.as_deref(), Some("#cloud-config\n"));
    if let Some(drive) = record["instance_info"].get("configdrive") {
        assert_eq!(drive, "******");
    }
}
