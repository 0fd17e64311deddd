//! What is said without a server: versions, errors, records, lists, ports.

use serde_json::{Value, json};

use super::{Site, VERSION};

pub async fn all(site: &Site) {
    versions(site).await;
    strangers(site).await;
    refusals(site).await;
    creation(site).await;
    let nodes = [
        site.enroll(0, "check~0", None).await,
        site.enroll(1, "check~1", None).await,
        site.enroll(2, "check~2", None).await,
    ];
    records(site, &nodes[0]).await;
    pages(site, &nodes).await;
    ports(site, &nodes).await;
    patches(site, &nodes).await;
    for node in &nodes {
        site.delete(node).await;
    }
}

async fn versions(site: &Site) {
    for path in ["/", "/v1"] {
        let answer = site.http.get(format!("{}{path}", site.url)).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{path} needs no credentials");
        let document: Value = answer.json().await.unwrap();
        let offer = if path == "/" {
            &document["versions"][0]
        } else {
            &document["version"]
        };
        assert_eq!(
            (&offer["id"], &offer["min_version"]),
            (&json!("v1"), &json!("1.1")),
            "{document}"
        );
        assert_eq!(offer["version"], "1.115", "{document}");
    }
    let answer = site.call("GET", "/v1/drivers", Value::Null).await;
    assert_eq!(answer.headers["x-openstack-ironic-api-maximum-version"], "1.115");
    let names: Vec<&str> = answer.body["drivers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["name"].as_str().unwrap())
        .collect();
    assert!(
        ["redfish", "idrac", "ipmi"].iter().all(|name| names.contains(name)),
        "{names:?}"
    );
    for wrong in ["1.9999", "2.1", "nonsense"] {
        let answer = site.call_as(wrong, "GET", "/v1/nodes", Value::Null).await;
        assert_eq!(answer.status, 406, "{wrong}: {}", answer.body);
    }
    // A field is there from its version on.
    for (version, status) in [("1.108", 406), ("1.109", 200)] {
        let answer = site
            .call_as(version, "GET", "/v1/nodes?fields=uuid,health", Value::Null)
            .await;
        assert_eq!(answer.status, status, "{version}: {}", answer.body);
    }
    let node = json!({"driver": "redfish", "name": "check~old", "disable_power_off": false});
    assert_eq!(site.call_as("1.94", "POST", "/v1/nodes", node).await.status, 406);
}

async fn strangers(site: &Site) {
    let path = format!("{}/v1/nodes", site.url);
    for user in [None, Some("somebody")] {
        let mut request = site.http.get(&path).header("X-OpenStack-Ironic-API-Version", VERSION);
        if let Some(user) = user {
            request = request.basic_auth(user, Some("wrong-password"));
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 401);
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["error"]["code"], 401, "{body}");
        assert!(body["error"]["message"].is_string(), "{body}");
    }
}

async fn refusals(site: &Site) {
    let answer = site.call("GET", "/v1/nodes/nobody", Value::Null).await;
    site.is_refusal(&answer, 404, "Node nobody could not be found.", "an unknown node");
    let fault: Value = serde_json::from_str(answer.body["error_message"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&fault["faultcode"], &fault["debuginfo"]),
        (&json!("Client"), &Value::Null)
    );
    for (status, words, method, path, body) in [
        (404, "", "GET", "/v1/telepathy", Value::Null),
        (404, "could not be found", "DELETE", "/v1/nodes/nobody", Value::Null),
        (
            404,
            "could not be found",
            "PATCH",
            "/v1/nodes/nobody",
            json!([{"op": "add", "path": "/extra/a", "value": 1}]),
        ),
        (
            404,
            "could not be found",
            "PUT",
            "/v1/nodes/nobody/states/provision",
            json!({"target": "manage"}),
        ),
        (
            404,
            "could not be found",
            "PUT",
            "/v1/nodes/nobody/states/power",
            json!({"target": "power on"}),
        ),
        (
            404,
            "could not be found",
            "PUT",
            "/v1/nodes/nobody/maintenance",
            json!({"reason": "x"}),
        ),
        (
            404,
            "could not be found",
            "GET",
            "/v1/nodes/nobody/inventory",
            Value::Null,
        ),
        (
            404,
            "could not be found",
            "GET",
            "/v1/nodes/nobody/validate",
            Value::Null,
        ),
        (
            404,
            "",
            "GET",
            "/v1/ports/00000000-0000-4000-8000-00000000dead",
            Value::Null,
        ),
        (400, "must be positive", "GET", "/v1/nodes?limit=0", Value::Null),
        (400, "", "GET", "/v1/nodes?limit=many", Value::Null),
        (400, "sort direction", "GET", "/v1/nodes?sort_dir=sideways", Value::Null),
    ] {
        site.refused(status, words, method, path, body).await;
    }
}

async fn creation(site: &Site) {
    for (words, node) in [
        ("No valid host was found", json!({"driver": "telepathy"})),
        ("'driver' is a required property", json!({"name": "check~x"})),
        ("invalid name", json!({"driver": "redfish", "name": "check x"})),
        ("was unexpected", json!({"driver": "redfish", "colour": "blue"})),
        (
            "is not supported by hardware type",
            json!({"driver": "idrac", "inspect_interface": "redfish"}),
        ),
        (
            "Could not find the following interface",
            json!({"driver": "redfish", "boot_interface": "telepathy"}),
        ),
        (
            "Expected UUID for uuid: one",
            json!({"driver": "redfish", "uuid": "one"}),
        ),
    ] {
        site.refused(400, words, "POST", "/v1/nodes", node).await;
    }
    let uuid = "11111111-2222-4333-8444-555555555555";
    let mut node = site.node(0, "check~same", None);
    node["uuid"] = json!(uuid);
    assert_eq!(site.expect(201, "POST", "/v1/nodes", node.clone()).await["uuid"], uuid);
    site.refused(
        409,
        "A node with name check~same already exists.",
        "POST",
        "/v1/nodes",
        site.node(0, "check~same", None),
    )
    .await;
    node["name"] = json!("check~other");
    site.refused(409, "already exists.", "POST", "/v1/nodes", node).await;
    site.delete("check~same").await;
}

async fn records(site: &Site, node: &str) {
    let record = site.get(&format!("/v1/nodes/{node}")).await;
    for (field, value) in [
        ("name", json!("check~0")),
        ("provision_state", json!("enroll")),
        ("target_provision_state", Value::Null),
        ("power_state", Value::Null),
        ("reservation", Value::Null),
        ("last_error", Value::Null),
        ("maintenance", json!(false)),
        ("fault", Value::Null),
        ("instance_uuid", Value::Null),
        ("instance_info", json!({})),
        ("automated_clean", Value::Null),
        ("disable_power_off", json!(false)),
        ("network_data", json!({})),
        ("driver", json!("redfish")),
        ("boot_interface", json!("redfish-virtual-media")),
        ("deploy_interface", json!("autodetect")),
        ("inspect_interface", json!("agent")),
        ("power_interface", json!("redfish")),
        ("clean_step", json!({})),
        ("provision_updated_at", Value::Null),
        ("properties", json!({"capabilities": "boot_mode:uefi"})),
    ] {
        site.same(&format!("{field} of a new node"), &record[field], &value);
    }
    assert_eq!(record["driver_info"]["redfish_password"], "******");
    assert_eq!(record["driver_info"]["redfish_username"], site.servers[0].username);
    assert_eq!(site.get("/v1/nodes/check~0").await["uuid"], node, "by name");
    // What is not named is not there, but for links.
    let narrow = site.get(&format!("/v1/nodes/{node}?fields=uuid,provision_state")).await;
    let mut keys: Vec<&String> = narrow.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["links", "provision_state", "uuid"]);
    let wrong = "/v1/nodes?fields=uuid,updated_at";
    site.refused(400, "updated_at is not a valid field", "GET", wrong, Value::Null)
        .await;
    let old = site
        .call_as("1.50", "GET", &format!("/v1/nodes/{node}"), Value::Null)
        .await
        .body;
    assert!(
        old.get("health").is_none() && old.get("network_data").is_none(),
        "{old}"
    );
}

async fn pages(site: &Site, nodes: &[String]) {
    let listed = |page: &Value| -> Vec<String> {
        let nodes = page["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["uuid"].as_str().unwrap().to_owned()).collect()
    };
    let all = site.get("/v1/nodes").await;
    assert_eq!(listed(&all), nodes, "in the order of their creation");
    assert!(all.get("next").is_none());
    let mut brief: Vec<&String> = all["nodes"][0].as_object().unwrap().keys().collect();
    brief.sort();
    assert_eq!(
        brief,
        [
            "instance_uuid",
            "links",
            "maintenance",
            "name",
            "power_state",
            "provision_state",
            "uuid"
        ]
    );
    let first = site.get("/v1/nodes?fields=uuid,name&limit=2").await;
    assert_eq!(listed(&first), nodes[..2]);
    let next = first["next"].as_str().unwrap();
    assert!(next.starts_with(&site.url), "{next}");
    assert!(
        ["limit=2", "fields=uuid,name", nodes[1].as_str()]
            .iter()
            .all(|part| next.contains(part)),
        "{next}"
    );
    let second = site.get(&next[site.url.len()..]).await;
    assert_eq!((listed(&second), second.get("next")), (vec![nodes[2].clone()], None));
    let full = site.get("/v1/nodes?limit=3").await;
    assert!(
        full["next"].is_string(),
        "a full page has a next one, even if that is empty"
    );
    let rest = site.get(&full["next"].as_str().unwrap()[site.url.len()..]).await;
    assert_eq!(rest["nodes"], json!([]));
    let changed_last = "/v1/nodes?fields=uuid,name&sort_key=updated_at&sort_dir=desc";
    for last in [&nodes[1], &nodes[0], &nodes[1]] {
        site.patch(last, json!([{"op": "add", "path": "/extra/changed", "value": true}]))
            .await;
        assert_eq!(
            listed(&site.get(&format!("{changed_last}&limit=1")).await),
            *std::slice::from_ref(last)
        );
    }
    let order = [1, 0, 2].map(|number: usize| nodes[number].clone());
    assert_eq!(
        listed(&site.get(changed_last).await),
        order,
        "what never changed comes last"
    );
    for node in &nodes[..2] {
        site.patch(node, json!([{"op": "remove", "path": "/extra/changed"}]))
            .await;
    }
    let (words, path) = ("is an invalid field for sorting", "/v1/nodes?sort_key=telepathy");
    site.refused(400, words, "GET", path, Value::Null).await;
    site.refused(
        404,
        "could not be found",
        "GET",
        "/v1/nodes?marker=00000000-0000-4000-8000-00000000dead",
        Value::Null,
    )
    .await;
    assert!(site.get("/v1/nodes?detail=True").await["nodes"][0]["driver_info"].is_object());
    for (filter, count) in [
        ("provision_state=enroll", 3),
        ("provision_state=active", 0),
        ("maintenance=True", 0),
        ("driver=redfish", 3),
        ("associated=True", 0),
    ] {
        assert_eq!(
            listed(&site.get(&format!("/v1/nodes?{filter}")).await).len(),
            count,
            "{filter}"
        );
    }
}

async fn ports(site: &Site, nodes: &[String]) {
    let port = |node: &str, mac: &str| json!({"node_uuid": node, "address": mac, "pxe_enabled": false});
    let (one, two) = ("52:54:00:AA:00:01", "52:54:00:aa:00:02");
    let made = site.expect(201, "POST", "/v1/ports", port(&nodes[0], one)).await;
    assert_eq!(
        (&made["address"], &made["pxe_enabled"]),
        (&json!("52:54:00:aa:00:01"), &json!(false))
    );
    let taken = "A port with MAC address 52:54:00:aa:00:01 already exists.";
    site.refused(409, taken, "POST", "/v1/ports", port(&nodes[1], "52:54:00:aa:00:01"))
        .await;
    site.refused(
        400,
        "could not be found",
        "POST",
        "/v1/ports",
        port("00000000-0000-4000-8000-00000000dead", two),
    )
    .await;
    site.refused(400, "", "POST", "/v1/ports", port(&nodes[0], "no address"))
        .await;
    site.expect(201, "POST", "/v1/ports", port(&nodes[0], two)).await;
    let listed = |page: &Value| page["ports"].as_array().unwrap().len();
    let of_node = site
        .get(&format!(
            "/v1/ports?node_uuid={}&fields=node_uuid,uuid,address,pxe_enabled",
            nodes[0]
        ))
        .await;
    assert_eq!(listed(&of_node), 2);
    assert_eq!(of_node["ports"][0]["node_uuid"], json!(nodes[0]));
    assert_eq!(listed(&site.get(&format!("/v1/ports?node_uuid={}", nodes[1])).await), 0);
    assert_eq!(listed(&site.get("/v1/ports?address=52:54:00:aa:00:02").await), 1);
    assert_eq!(listed(&site.get("/v1/ports?address=52:54:00:aa:00:03").await), 0);
    assert_eq!(listed(&site.get(&format!("/v1/nodes/{}/ports", nodes[0])).await), 2);
    let page = site.get("/v1/ports?limit=1").await;
    assert!(page["next"].as_str().unwrap().contains("marker="), "{page}");
    let id = made["uuid"].as_str().unwrap();
    let enabled = json!([{"op": "replace", "path": "/pxe_enabled", "value": true}]);
    assert_eq!(
        site.expect(200, "PATCH", &format!("/v1/ports/{id}"), enabled).await["pxe_enabled"],
        true
    );
    site.expect(204, "DELETE", &format!("/v1/ports/{id}"), Value::Null)
        .await;
    site.refused(404, "", "GET", &format!("/v1/ports/{id}"), Value::Null)
        .await;
}

async fn patches(site: &Site, nodes: &[String]) {
    let instance = "99999999-2222-4333-8444-555555555555";
    let node = nodes[0].as_str();
    let add = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let record = site
        .patch(node, add("/instance_info/image_source", json!("http://a/b")))
        .await;
    assert_eq!(
        record["instance_info"]["image_source"], "http://a/b",
        "the answer is the whole node"
    );
    let record = site
        .patch(node, json!([{"op": "remove", "path": "/instance_info/image_source"}]))
        .await;
    assert_eq!(record["instance_info"], json!({}));
    assert_eq!(
        site.patch(node, add("/automated_clean", json!(false))).await["automated_clean"],
        false
    );
    let record = site
        .patch(node, add("/driver_info/redfish_password", json!("battery-staple")))
        .await;
    assert_eq!(record["driver_info"]["redfish_password"], "******");
    for (words, ops) in [
        ("Cannot patch", add("/provision_state", json!("active"))),
        (
            "Couldn't apply patch",
            json!([{"op": "remove", "path": "/driver_info/not_there"}]),
        ),
        ("Couldn't apply patch", add("/driver_info/not_there/deeper", json!(1))),
        ("", add("/instance_uuid", json!("not-a-uuid"))),
        ("", add("/driver_info", json!("text"))),
        ("", add("/network_data", json!({"links": []}))),
        ("No valid host was found", add("/driver", json!("telepathy"))),
        ("", json!({"op": "add"})),
        ("", json!([{"op": "explode", "path": "/extra/a"}])),
    ] {
        site.no_patch(400, words, node, ops).await;
    }
    // One that fails undoes those before it.
    let half = json!([
        {"op": "add", "path": "/extra/a", "value": 1},
        {"op": "remove", "path": "/extra/b"},
    ]);
    site.no_patch(400, "Couldn't apply patch", node, half).await;
    assert_eq!(site.get(&format!("/v1/nodes/{node}")).await["extra"], json!({}));
    site.no_patch(409, "already exists", node, add("/name", json!("check~1")))
        .await;
    site.patch(node, add("/instance_uuid", json!(instance))).await;
    let words = format!("Instance {instance} is already associated with a node");
    site.no_patch(409, &words, &nodes[1], add("/instance_uuid", json!(instance)))
        .await;
    let other = add("/instance_uuid", json!("88888888-2222-4333-8444-555555555555"));
    site.no_patch(409, "is associated with instance", node, other).await;
    assert_eq!(
        site.get(&format!("/v1/nodes?instance_uuid={instance}")).await["nodes"][0]["uuid"],
        node
    );
    site.no_delete("is associated with instance", node).await;
    site.patch(node, json!([{"op": "remove", "path": "/instance_uuid"}]))
        .await;
    site.patch(node, add("/name", json!("check~renamed"))).await;
    assert_eq!(site.get("/v1/nodes/check~renamed").await["uuid"], node);
    site.refused(404, "", "GET", "/v1/nodes/check~0", Value::Null).await;
    let fast = site.patch(node, add("/inspect_interface", json!("redfish"))).await;
    assert_eq!(fast["inspect_interface"], "redfish");
    let back = site
        .patch(node, json!([{"op": "remove", "path": "/inspect_interface"}]))
        .await;
    assert_eq!(back["inspect_interface"], "agent", "none is the default");
}
