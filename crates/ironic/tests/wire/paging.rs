//! Lists that come in pages.

use std::time::Duration;

use metal3_ironic::{Client, ClientConfig, ErrorClass};
use serde_json::{Value, json};

use crate::server::{Server, respond, root};

fn page(nodes: &[&str], next: Option<&str>) -> Value {
    let nodes: Vec<_> = nodes
        .iter()
        .map(|uuid| json!({"uuid": uuid, "provision_state": "active"}))
        .collect();
    json!({"nodes": nodes, "next": next})
}

#[tokio::test]
async fn every_page_is_followed_on_the_configured_server() {
    // D3 of upstream's: of long lists the first page is read.
    let server = Server::start(|seen, _| {
        // Ironic behind a proxy may call itself by an address that leads elsewhere, or nowhere.
        let next = |marker| format!("http://192.0.2.1:6385/v1/nodes?limit=2&fields=uuid&marker={marker}");
        let answer = match seen.query.rsplit_once("marker=") {
            None => page(&["a", "b"], Some(&next("b"))),
            // A node was removed meanwhile, so that one comes twice.
            Some((_, "b")) => page(&["b", "c"], Some(&next("c"))),
            _ => page(&["d"], None),
        };
        respond(200, &answer)
    })
    .await;
    let client = Client::new(ClientConfig {
        page_limit: 2,
        ..server.config()
    })
    .unwrap();
    let nodes = client.nodes().await.unwrap();
    assert_eq!(
        nodes.iter().map(|node| node.uuid.as_str()).collect::<Vec<_>>(),
        ["a", "b", "c", "d"]
    );
    assert!(nodes.iter().all(|node| node.detail.is_none()));
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|seen| seen.header("authorization").is_some()));
    let fields = "uuid,name,provision_state,target_provision_state,power_state,target_power_state,last_error,maintenance,\
        maintenance_reason,fault,reservation,instance_uuid,boot_interface,provision_updated_at,health";
    assert_eq!(seen[0].query, format!("fields={}&limit=2", fields.replace(',', "%2C")));
}

/// `health` is asked for only where it is known.
#[tokio::test]
async fn old_servers_are_not_asked_for_health() {
    let server = Server::start_bare(|seen, _| {
        (
            Duration::ZERO,
            respond(
                200,
                &if seen.path == "/" {
                    root("1.108")
                } else {
                    page(&[], None)
                },
            ),
        )
    })
    .await;
    assert!(server.client().nodes().await.unwrap().is_empty());
    assert!(!server.all_seen()[1].query.contains("health"));
}

#[tokio::test]
async fn a_list_without_end_is_an_error() {
    let server = Server::start(|seen, _| {
        let key = if seen.path == "/v1/nodes" { "nodes" } else { "ports" };
        let item = json!({"uuid": "a", "address": "52:54:00:00:00:01", "node_uuid": "a"});
        respond(200, &json!({key: [item], "next": format!("/v1/{key}?marker=a")}))
    })
    .await;
    let client = server.client();
    let error = client.nodes().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Protocol);
    assert!(error.to_string().contains("nothing new"), "{error}");
    let error = client.ports_of("a").await.unwrap_err();
    assert!(error.to_string().contains("nowhere new"), "{error}");
    assert_eq!(server.seen().len(), 4);
}
