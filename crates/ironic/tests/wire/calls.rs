//! What each call sends, and what it makes of the usual answer.

use std::time::Duration;

use metal3_ironic::{
    Client, ClientConfig, CreateNode, CreatePort, NewSubscription, PatchOp, PowerState, PowerTarget, ProvisionRequest,
    ProvisionState, Verb,
};
use serde_json::json;

use crate::server::{Server, config, fault, respond, root, status};

#[tokio::test]
async fn nodes_are_read() {
    let server = Server::start(|seen, _| match seen.path.as_str() {
        "/v1/nodes/ns~host" => respond(
            200,
            &json!({"uuid": "u", "name": "ns~host", "driver": "redfish", "power_state": "power off"}),
        ),
        "/v1/nodes/a%2Fb%3Fc" => respond(200, &json!({"uuid": "odd"})),
        _ => fault(404, "Node ns~gone could not be found."),
    })
    .await;
    let client = Client::new(ClientConfig {
        user_agent: "lab/7".to_owned(),
        ..server.config()
    })
    .unwrap();
    let node = client.node("ns~host").await.unwrap().unwrap();
    assert_eq!(node.power_state, Some(PowerState::Off));
    assert_eq!(node.detail.unwrap().driver.as_deref(), Some("redfish"));
    assert_eq!(client.node("ns~gone").await.unwrap(), None);
    assert_eq!(client.node("a/b?c").await.unwrap().unwrap().uuid, "odd");
    assert_eq!(server.seen()[0].header("user-agent"), Some("lab/7"));
}

// OWN 21d: of a dot, a tab and a dot the path of another request was made.
/// An identifier that would make another request of it is never sent.
#[tokio::test]
async fn senseless_identifiers_are_not_sent() {
    let server = Server::start(|_, _| status(204)).await;
    let client = server.client();
    for id in ["", ".", "..", ".\t.", "\n..", "a\r\nb", "a\u{0}"] {
        client.delete_node(id).await.unwrap_err();
        client.node(id).await.unwrap_err();
        client.power(id, PowerTarget::Off, None).await.unwrap_err();
    }
    client.ports_of("").await.unwrap_err();
    client.ports_with_address("").await.unwrap_err();
    assert!(server.seen().is_empty());
}

/// Whatever stands in an identifier stays one segment of the path.
#[tokio::test]
async fn identifiers_are_encoded() {
    let server = Server::start(|_, _| fault(404, "Node could not be found.")).await;
    let client = server.client();
    for (id, sent) in [
        ("a/../b", "a%2F..%2Fb"),
        ("../nodes", "..%2Fnodes"),
        ("%2e%2e", "%252e%252e"),
        ("%2F", "%252F"),
        ("?x=1", "%3Fx=1"),
        ("a#b", "a%23b"),
        ("a\\..", "a%5C.."),
        ("a b", "a%20b"),
        ("ä", "%C3%A4"),
    ] {
        assert_eq!(client.node(id).await.unwrap(), None);
        client.power(id, PowerTarget::Off, None).await.unwrap_err();
        let paths: Vec<_> = server.seen().into_iter().map(|seen| seen.path).collect();
        let expected = format!("/v1/nodes/{sent}");
        assert!(paths.contains(&expected), "{paths:?}");
        assert!(paths.contains(&format!("{expected}/states/power")), "{paths:?}");
    }
}

#[tokio::test]
async fn a_node_is_created_patched_and_deleted() {
    let server = Server::start(|seen, nth| match (seen.method.as_str(), nth) {
        ("POST", _) => respond(
            201,
            &json!({"uuid": "u", "name": "ns~host", "driver": "redfish", "provision_state": "enroll"}),
        ),
        ("PATCH", _) => respond(
            200,
            &json!({"uuid": "u", "driver": "redfish", "provision_state": "manageable"}),
        ),
        (_, 0) => status(204),
        _ => fault(404, "Node u could not be found."),
    })
    .await;
    let client = server.client();
    let node = CreateNode {
        driver: "redfish".to_owned(),
        name: "ns~host".to_owned(),
        driver_info: [("redfish_address", json!("https://192.0.2.7"))].into_iter().collect(),
        disable_power_off: Some(false),
        ..CreateNode::default()
    };
    assert_eq!(
        client.create_node(&node).await.unwrap().provision_state,
        ProvisionState::Enroll
    );
    let ops = [PatchOp::add("/name", "b"), PatchOp::remove("/instance_uuid")];
    assert_eq!(
        client.patch_node("u", &ops).await.unwrap().provision_state,
        ProvisionState::Manageable
    );
    client.delete_node("u").await.unwrap();
    client.delete_node("u").await.unwrap();

    let seen = server.seen();
    assert_eq!(
        server.lines(),
        [
            "POST /v1/nodes",
            "PATCH /v1/nodes/u",
            "DELETE /v1/nodes/u",
            "DELETE /v1/nodes/u"
        ]
    );
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    let info = json!({"redfish_address": "https://192.0.2.7"});
    assert_eq!(
        seen[0].body,
        json!({"driver": "redfish", "name": "ns~host", "driver_info": info, "disable_power_off": false})
    );
    assert_eq!(
        seen[1].body,
        json!([{"op": "add", "path": "/name", "value": "b"}, {"op": "remove", "path": "/instance_uuid"}])
    );
}

/// A server before 1.95 refuses to be told what it would do anyway.
#[tokio::test]
async fn old_servers_are_not_told_that_power_off_is_fine() {
    // D5 of upstream's: `disable_power_off` is sent to servers that do not know it.
    let server = Server::start_bare(|seen, _| {
        let body = if seen.path == "/" {
            root("1.94")
        } else {
            json!({"uuid": "u"})
        };
        (Duration::ZERO, respond(200, &body))
    })
    .await;
    let client = Client::new(config(&server.url)).unwrap();
    for (wish, sent) in [(Some(false), json!(null)), (Some(true), json!(true))] {
        client
            .create_node(&CreateNode {
                disable_power_off: wish,
                ..CreateNode::default()
            })
            .await
            .unwrap();
        assert_eq!(server.all_seen().last().unwrap().body["disable_power_off"], sent);
    }
}

#[tokio::test]
async fn states_power_and_maintenance_are_set() {
    let server = Server::start(|_, _| status(202)).await;
    let client = server.client();
    client.provision("u", &Verb::Manage.into()).await.unwrap();
    let configdrive = Some(json!({"meta_data": {"name": "host"}, "user_data": "#cloud-config"}));
    client
        .provision(
            "u",
            &ProvisionRequest {
                configdrive,
                ..Verb::Active.into()
            },
        )
        .await
        .unwrap();
    client
        .power("u", PowerTarget::SoftOff, Some(Duration::from_secs(180)))
        .await
        .unwrap();
    client.power("u", PowerTarget::On, None).await.unwrap();
    client.set_maintenance("u", "being deleted").await.unwrap();
    client.clear_maintenance("u").await.unwrap();
    let seen: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| (seen.line(), seen.body.clone()))
        .collect();
    let expected = [
        ("PUT /v1/nodes/u/states/provision", json!({"target": "manage"})),
        (
            "PUT /v1/nodes/u/states/provision",
            json!({"target": "active", "configdrive": {"meta_data": {"name": "host"}, "user_data": "#cloud-config"}}),
        ),
        (
            "PUT /v1/nodes/u/states/power",
            json!({"target": "soft power off", "timeout": 180}),
        ),
        ("PUT /v1/nodes/u/states/power", json!({"target": "power on"})),
        ("PUT /v1/nodes/u/maintenance", json!({"reason": "being deleted"})),
        ("DELETE /v1/nodes/u/maintenance", json!(null)),
    ];
    assert_eq!(seen, expected.map(|(line, body)| (line.to_owned(), body)));
}

#[tokio::test]
async fn ports_inventory_and_validation_are_read() {
    let port = json!({"uuid": "p", "address": "52:54:00:00:00:ab", "node_uuid": "u", "pxe_enabled": true, "links": []});
    let server = Server::start(move |seen, _| match seen.line().as_str() {
        "GET /v1/ports" => respond(200, &json!({"ports": [port]})),
        "POST /v1/ports" => respond(201, &port),
        "GET /v1/nodes/u/inventory" => respond(200, &json!({"inventory": {"hostname": "h"}, "plugin_data": {}})),
        "GET /v1/nodes/u/validate" => respond(
            200,
            &json!({"boot": {"result": true}, "deploy": {"result": false, "reason": "no image"}}),
        ),
        _ => fault(404, "Inspection data for node never could not be found."),
    })
    .await;
    let client = server.client();
    assert_eq!(client.ports_of("u").await.unwrap()[0].pxe_enabled, Some(true));
    assert_eq!(
        client.ports_with_address("52:54:00:00:00:AB").await.unwrap()[0].node_uuid,
        "u"
    );
    let wanted = CreatePort {
        node_uuid: "u".to_owned(),
        address: "52:54:00:00:00:AB".to_owned(),
        pxe_enabled: true,
        extra: serde_json::Map::new(),
    };
    assert_eq!(client.create_port(&wanted).await.unwrap().uuid, "p");
    assert_eq!(
        client.inventory("u").await.unwrap().unwrap().hostname.as_deref(),
        Some("h")
    );
    assert_eq!(client.inventory("never").await.unwrap(), None);
    assert_eq!(client.validate("u").await.unwrap().deploy.as_deref(), Some("no image"));

    let seen = server.seen();
    assert!(
        seen[0]
            .query
            .starts_with("node_uuid=u&fields=node_uuid%2Cuuid%2Caddress%2Cpxe_enabled%2Cextra&limit=")
    );
    assert!(seen[1].query.starts_with("address=52%3A54%3A00%3A00%3A00%3Aab&"));
    assert_eq!(
        seen[2].body,
        json!({"node_uuid": "u", "address": "52:54:00:00:00:ab", "pxe_enabled": true})
    );
}

#[tokio::test]
async fn discs_are_attached_seen_and_detached() {
    let server = Server::start(|seen, _| match seen.method.as_str() {
        "GET" => respond(
            200,
            &json!([{"media_types": ["CD", "DVD"], "inserted": true, "image": "http://a/b.iso"}]),
        ),
        _ => status(204),
    })
    .await;
    let client = server.client();
    client.attach_disc("u", "http://a/b.iso").await.unwrap();
    let drives = client.virtual_media("u").await.unwrap();
    assert!(drives[0].is_disc_drive() && drives[0].inserted);
    client.detach_disc("u").await.unwrap();
    assert_eq!(
        server.lines(),
        [
            "POST /v1/nodes/u/vmedia",
            "GET /v1/nodes/u/vmedia",
            "DELETE /v1/nodes/u/vmedia"
        ]
    );
    assert_eq!(server.seen()[2].query, "device_types=cdrom");
    let wanted = json!({"device_type": "cdrom", "image_url": "http://a/b.iso"});
    assert_eq!(server.seen()[0].body, wanted);
}

#[tokio::test]
async fn events_are_subscribed_to_found_again_and_ended() {
    let server = Server::start(|seen, _| match seen.query.as_str() {
        "method=create_subscription" | "method=get_subscription" => {
            respond(200, &json!({"Id": "7", "Destination": "https://e/", "Context": "c"}))
        }
        "method=get_all_subscriptions" => respond(200, &json!({"Members": [{"@odata.id": "/a/7"}]})),
        _ => respond(200, &json!(null)),
    })
    .await;
    let client = server.client();
    let wanted = NewSubscription {
        destination: "https://e/".into(),
        context: "c".into(),
        headers: vec![("A".into(), "b".into()), ("C".into(), "d".into())],
    };
    assert_eq!(client.subscribe("u", &wanted).await.unwrap(), "7");
    assert_eq!(client.subscriptions("u").await.unwrap(), ["7"]);
    assert_eq!(client.subscription("u", "7").await.unwrap().context, "c");
    client.unsubscribe("u", "7").await.unwrap();
    let path = "/v1/nodes/u/vendor_passthru";
    let lines = ["POST", "GET", "GET", "DELETE"].map(|method| format!("{method} {path}"));
    assert_eq!(server.lines(), lines);
    let seen = server.seen();
    assert_eq!(
        seen[0].body,
        json!({"Destination": "https://e/", "Context": "c", "HttpHeaders": [{"A": "b"}, {"C": "d"}]})
    );
    assert_eq!(seen[2].body, json!({"id": "7"}), "Ironic rejects it in the query");
    assert_eq!(
        (&*seen[3].query, &seen[3].body),
        ("method=delete_subscription", &json!({"id": "7"}))
    );
}

/// Before API 1.93 there is no such address, and a 404 would read as a node that is gone.
#[tokio::test]
async fn old_servers_are_not_asked_for_their_drives() {
    let server = Server::start_bare(|_, _| (Duration::ZERO, respond(200, &root("1.92")))).await;
    let error = server.client().virtual_media("u").await.unwrap_err();
    assert!(error.to_string().contains("1.93"), "{error}");
}
