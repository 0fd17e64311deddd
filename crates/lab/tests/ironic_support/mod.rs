//! A client of Ironic's API as plain as can be, so that these tests judge the lab and nothing else.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code; clippy knows only test functions as such"
)]

use std::time::{Duration, Instant};

use metal3_lab::ironic::{Host, IronicLab, Protocol};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// Microversion of everything asked here.
const VERSION: (&str, &str) = ("X-OpenStack-Ironic-API-Version", "1.95");

/// Calls the API, again while the node is locked, and insists on success.
pub async fn call(lab: &IronicLab, method: Method, path: &str, body: Option<Value>) -> Value {
    for _ in 0..60 {
        let mut request = lab.request(method.clone(), path).header(VERSION.0, VERSION.1);
        if let Some(body) = &body {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        if status == StatusCode::CONFLICT || status == StatusCode::SERVICE_UNAVAILABLE {
            tokio::time::sleep(Duration::from_millis(300)).await;
            continue;
        }
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        return if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap()
        };
    }
    panic!("{method} {path}: locked for ever");
}

/// Makes the host's node, with no port: its MACs come with the inspection.
pub async fn enroll(lab: &IronicLab, host: &Host) -> String {
    let Protocol::Redfish = host.protocol else {
        let node = json!({
            "name": host.name, "driver": "ipmi", "boot_interface": "ipxe", "inspect_interface": "agent",
            "driver_info": {
                "ipmi_address": "127.0.0.1", "ipmi_port": host.port,
                "ipmi_username": host.credentials.username, "ipmi_password": host.credentials.password,
            },
        });
        let node = call(lab, Method::POST, "/v1/nodes", Some(node)).await["uuid"]
            .as_str()
            .unwrap()
            .to_owned();
        let port = json!({"node_uuid": node, "address": host.boot_mac(), "pxe_enabled": true});
        call(lab, Method::POST, "/v1/ports", Some(port)).await;
        return node;
    };
    let node = json!({
        "name": host.name, "driver": "redfish", "boot_interface": "redfish-virtual-media", "inspect_interface": "agent",
        "properties": {"capabilities": "boot_mode:uefi"},
        "driver_info": {
            "redfish_address": host.bmc_url(), "redfish_system_id": host.system_id(),
            "redfish_username": host.credentials.username, "redfish_password": host.credentials.password,
            "deploy_iso": lab.ramdisk_iso_url(),
        },
    });
    call(lab, Method::POST, "/v1/nodes", Some(node)).await["uuid"]
        .as_str()
        .unwrap()
        .to_owned()
}

pub async fn node(lab: &IronicLab, node: &str) -> Value {
    call(lab, Method::GET, &format!("/v1/nodes/{node}"), None).await
}

/// Asks for a change of the provision state, without waiting for it.
pub async fn ask(lab: &IronicLab, node: &str, request: Value) {
    call(
        lab,
        Method::PUT,
        &format!("/v1/nodes/{node}/states/provision"),
        Some(request),
    )
    .await;
}

/// Waits until the node is at rest (no target, no lock) in one of the states, and returns it.
pub async fn wait_for(lab: &IronicLab, uuid: &str, states: &[&str], limit: Duration) -> Value {
    let start = Instant::now();
    loop {
        let node = node(lab, uuid).await;
        let at_rest = node["reservation"].is_null() && states.contains(&node["provision_state"].as_str().unwrap());
        if at_rest {
            return node;
        }
        assert!(
            start.elapsed() < limit,
            "not {states:?} after {limit:?}: {} -> {}, {}, locked by {}",
            node["provision_state"],
            node["target_provision_state"],
            node["last_error"],
            node["reservation"]
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until the node has failed and returns its error. Ironic may turn the state a moment before it writes the
/// error; where it never does, the text is empty.
pub async fn wait_for_error(lab: &IronicLab, uuid: &str, state: &str, limit: Duration) -> String {
    let start = Instant::now();
    let mut failed = None;
    loop {
        let node = wait_for(lab, uuid, &[state], limit).await;
        if let Some(error) = node["last_error"].as_str() {
            return error.to_owned();
        }
        // A node that has not begun to fail looks the same when it fails back into the state that it was in.
        let is_certain = state.ends_with("failed")
            && *failed.get_or_insert(Instant::now()) + Duration::from_secs(5) < Instant::now();
        if is_certain {
            return String::new();
        }
        assert!(start.elapsed() < limit, "{state} without an error");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Goes to a state and returns how long that took.
pub async fn go(lab: &IronicLab, node: &str, target: &str, state: &str) -> Duration {
    let start = Instant::now();
    ask(lab, node, json!({"target": target})).await;
    // The state that is waited for may be the one it is in.
    wait_for_change(lab, node).await;
    wait_for(lab, node, &[state], Duration::from_secs(120)).await;
    start.elapsed()
}

/// Waits until Ironic has taken up a request: a target appears, or is reached already.
async fn wait_for_change(lab: &IronicLab, uuid: &str) {
    for _ in 0..20 {
        let node = node(lab, uuid).await;
        if !node["target_provision_state"].is_null() || !node["reservation"].is_null() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Says which image to deploy.
pub async fn choose_image(lab: &IronicLab, node: &str, checksum: &str) {
    let image = lab.image().unwrap();
    let set = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let patch = json!([
        set("/instance_info/image_source", json!(image.url)),
        set("/instance_info/image_os_hash_algo", json!("sha256")),
        set("/instance_info/image_os_hash_value", json!(checksum)),
        set("/instance_info/image_disk_format", json!("raw")),
        set("/instance_info/capabilities", json!({"boot_mode": "uefi"})),
    ]);
    call(lab, Method::PATCH, &format!("/v1/nodes/{node}"), Some(patch)).await;
}

/// Takes a new node to `available`.
pub async fn make_available(lab: &IronicLab, host: &Host) -> String {
    let node = enroll(lab, host).await;
    go(lab, &node, "manage", "manageable").await;
    go(lab, &node, "inspect", "manageable").await;
    go(lab, &node, "provide", "available").await;
    node
}
