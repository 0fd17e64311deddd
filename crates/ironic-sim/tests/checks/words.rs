//! What is said without a server: versions, errors, records, lists, ports.

use serde_json::{Value, json};

use super::{TestEnv, VERSION};

pub async fn all(env: &TestEnv) {
    versions(env).await;
    strangers(env).await;
    refusals(env).await;
    creation(env).await;
    let nodes = [
        env.enroll(0, "check~0", None).await,
        env.enroll(1, "check~1", None).await,
        env.enroll(2, "check~2", None).await,
    ];
    records(env, &nodes[0]).await;
    pages(env, &nodes).await;
    ports(env, &nodes).await;
    patches(env, &nodes).await;
    for node in &nodes {
        env.delete(node).await;
    }
}

async fn versions(env: &TestEnv) {
    for path in ["/", "/v1"] {
        let answer = env.http.get(format!("{}{path}", env.url)).send().await.unwrap();
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
    let answer = env.call("GET", "/v1/drivers", Value::Null).await;
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
        let answer = env.call_as(wrong, "GET", "/v1/nodes", Value::Null).await;
        assert_eq!(answer.status, 406, "{wrong}: {}", answer.body);
    }
    // A field is there from its version on.
    for (version, status) in [("1.108", 406), ("1.109", 200)] {
        let answer = env
            .call_as(version, "GET", "/v1/nodes?fields=uuid,health", Value::Null)
            .await;
        assert_eq!(answer.status, status, "{version}: {}", answer.body);
    }
    let node = json!({"driver": "redfish", "name": "check~old", "disable_power_off": false});
    assert_eq!(env.call_as("1.94", "POST", "/v1/nodes", node).await.status, 406);
}

async fn strangers(env: &TestEnv) {
    let path = format!("{}/v1/nodes", env.url);
    for user in [None, Some("somebody")] {
        let mut request = env.http.get(&path).header("X-OpenStack-Ironic-API-Version", VERSION);
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

async fn refusals(env: &TestEnv) {
    let answer = env.call("GET", "/v1/nodes/nobody", Value::Null).await;
    env.is_refusal(&answer, 404, "Node nobody could not be found.", "an unknown node");
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
        env.refused(status, words, method, path, body).await;
    }
}

async fn creation(env: &TestEnv) {
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
        env.refused(400, words, "POST", "/v1/nodes", node).await;
    }
    let uuid = "11111111-2222-4333-8444-555555555555";
    let mut node = env.node(0, "check~same", None);
    node["uuid"] = json!(uuid);
    assert_eq!(env.expect(201, "POST", "/v1/nodes", node.clone()).await["uuid"], uuid);
    env.refused(
        409,
        "A node with name check~same already exists.",
        "POST",
        "/v1/nodes",
        env.node(0, "check~same", None),
    )
    .await;
    node["name"] = json!("check~other");
    env.refused(409, "already exists.", "POST", "/v1/nodes", node).await;
    env.delete("check~same").await;
}

async fn records(env: &TestEnv, node: &str) {
    let record = env.get(&format!("/v1/nodes/{node}")).await;
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
        env.same(&format!("{field} of a new node"), &record[field], &value);
    }
    assert_eq!(record["driver_info"]["redfish_password"], "******");
    assert_eq!(record["driver_info"]["redfish_username"], env.servers[0].username);
    assert_eq!(env.get("/v1/nodes/check~0").await["uuid"], node, "by name");
    // What is not named is not there, but for links.
    let narrow = env.get(&format!("/v1/nodes/{node}?fields=uuid,provision_state")).await;
    let mut keys: Vec<&String> = narrow.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["links", "provision_state", "uuid"]);
    let wrong = "/v1/nodes?fields=uuid,updated_at";
    env.refused(400, "updated_at is not a valid field", "GET", wrong, Value::Null)
        .await;
    let old = env
        .call_as("1.50", "GET", &format!("/v1/nodes/{node}"), Value::Null)
        .await
        .body;
    assert!(
        old.get("health").is_none() && old.get("network_data").is_none(),
        "{old}"
    );
}

async fn pages(env: &TestEnv, nodes: &[String]) {
    let listed = |page: &Value| -> Vec<String> {
        let nodes = page["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["uuid"].as_str().unwrap().to_owned()).collect()
    };
    let all = env.get("/v1/nodes").await;
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
    let first = env.get("/v1/nodes?fields=uuid,name&limit=2").await;
    assert_eq!(listed(&first), nodes[..2]);
    let next = first["next"].as_str().unwrap();
    assert!(next.starts_with(&env.url), "{next}");
    assert!(
        ["limit=2", "fields=uuid,name", nodes[1].as_str()]
            .iter()
            .all(|part| next.contains(part)),
        "{next}"
    );
    let second = env.get(&next[env.url.len()..]).await;
    assert_eq!((listed(&second), second.get("next")), (vec![nodes[2].clone()], None));
    let full = env.get("/v1/nodes?limit=3").await;
    assert!(
        full["next"].is_string(),
        "a full page has a next one, even if that is empty"
    );
    let rest = env.get(&full["next"].as_str().unwrap()[env.url.len()..]).await;
    assert_eq!(rest["nodes"], json!([]));
    let changed_last = "/v1/nodes?fields=uuid,name&sort_key=updated_at&sort_dir=desc";
    for last in [&nodes[1], &nodes[0], &nodes[1]] {
        env.patch(last, json!([{"op": "add", "path": "/extra/changed", "value": true}]))
            .await;
        assert_eq!(
            listed(&env.get(&format!("{changed_last}&limit=1")).await),
            *std::slice::from_ref(last)
        );
    }
    let order = [1, 0, 2].map(|number: usize| nodes[number].clone());
    assert_eq!(
        listed(&env.get(changed_last).await),
        order,
        "what never changed comes last"
    );
    for node in &nodes[..2] {
        env.patch(node, json!([{"op": "remove", "path": "/extra/changed"}]))
            .await;
    }
    let (words, path) = ("is an invalid field for sorting", "/v1/nodes?sort_key=telepathy");
    env.refused(400, words, "GET", path, Value::Null).await;
    env.refused(
        404,
        "could not be found",
        "GET",
        "/v1/nodes?marker=00000000-0000-4000-8000-00000000dead",
        Value::Null,
    )
    .await;
    assert!(env.get("/v1/nodes?detail=True").await["nodes"][0]["driver_info"].is_object());
    for (filter, count) in [
        ("provision_state=enroll", 3),
        ("provision_state=active", 0),
        ("maintenance=True", 0),
        ("driver=redfish", 3),
        ("associated=True", 0),
    ] {
        assert_eq!(
            listed(&env.get(&format!("/v1/nodes?{filter}")).await).len(),
            count,
            "{filter}"
        );
    }
}

async fn ports(env: &TestEnv, nodes: &[String]) {
    let port = |node: &str, mac: &str| json!({"node_uuid": node, "address": mac, "pxe_enabled": false});
    let (one, two) = ("52:54:00:AA:00:01", "52:54:00:aa:00:02");
    let made = env.expect(201, "POST", "/v1/ports", port(&nodes[0], one)).await;
    assert_eq!(
        (&made["address"], &made["pxe_enabled"]),
        (&json!("52:54:00:aa:00:01"), &json!(false))
    );
    let taken = "A port with MAC address 52:54:00:aa:00:01 already exists.";
    env.refused(409, taken, "POST", "/v1/ports", port(&nodes[1], "52:54:00:aa:00:01"))
        .await;
    env.refused(
        400,
        "could not be found",
        "POST",
        "/v1/ports",
        port("00000000-0000-4000-8000-00000000dead", two),
    )
    .await;
    env.refused(400, "", "POST", "/v1/ports", port(&nodes[0], "no address"))
        .await;
    env.expect(201, "POST", "/v1/ports", port(&nodes[0], two)).await;
    let listed = |page: &Value| page["ports"].as_array().unwrap().len();
    let of_node = env
        .get(&format!(
            "/v1/ports?node_uuid={}&fields=node_uuid,uuid,address,pxe_enabled",
            nodes[0]
        ))
        .await;
    assert_eq!(listed(&of_node), 2);
    assert_eq!(of_node["ports"][0]["node_uuid"], json!(nodes[0]));
    assert_eq!(listed(&env.get(&format!("/v1/ports?node_uuid={}", nodes[1])).await), 0);
    assert_eq!(listed(&env.get("/v1/ports?address=52:54:00:aa:00:02").await), 1);
    assert_eq!(listed(&env.get("/v1/ports?address=52:54:00:aa:00:03").await), 0);
    assert_eq!(listed(&env.get(&format!("/v1/nodes/{}/ports", nodes[0])).await), 2);
    let page = env.get("/v1/ports?limit=1").await;
    assert!(page["next"].as_str().unwrap().contains("marker="), "{page}");
    let id = made["uuid"].as_str().unwrap();
    let enabled = json!([{"op": "replace", "path": "/pxe_enabled", "value": true}]);
    assert_eq!(
        env.expect(200, "PATCH", &format!("/v1/ports/{id}"), enabled).await["pxe_enabled"],
        true
    );
    env.expect(204, "DELETE", &format!("/v1/ports/{id}"), Value::Null).await;
    env.refused(404, "", "GET", &format!("/v1/ports/{id}"), Value::Null)
        .await;
}

async fn patches(env: &TestEnv, nodes: &[String]) {
    let instance = "99999999-2222-4333-8444-555555555555";
    let node = nodes[0].as_str();
    let add = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let record = env
        .patch(node, add("/instance_info/image_source", json!("http://a/b")))
        .await;
    assert_eq!(
        record["instance_info"]["image_source"], "http://a/b",
        "the answer is the whole node"
    );
    let record = env
        .patch(node, json!([{"op": "remove", "path": "/instance_info/image_source"}]))
        .await;
    assert_eq!(record["instance_info"], json!({}));
    assert_eq!(
        env.patch(node, add("/automated_clean", json!(false))).await["automated_clean"],
        false
    );
    let record = env
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
        env.no_patch(400, words, node, ops).await;
    }
    // One that fails undoes those before it.
    let half = json!([
        {"op": "add", "path": "/extra/a", "value": 1},
        {"op": "remove", "path": "/extra/b"},
    ]);
    env.no_patch(400, "Couldn't apply patch", node, half).await;
    assert_eq!(env.get(&format!("/v1/nodes/{node}")).await["extra"], json!({}));
    env.no_patch(409, "already exists", node, add("/name", json!("check~1")))
        .await;
    env.patch(node, add("/instance_uuid", json!(instance))).await;
    let words = format!("Instance {instance} is already associated with a node");
    env.no_patch(409, &words, &nodes[1], add("/instance_uuid", json!(instance)))
        .await;
    let other = add("/instance_uuid", json!("88888888-2222-4333-8444-555555555555"));
    env.no_patch(409, "is associated with instance", node, other).await;
    assert_eq!(
        env.get(&format!("/v1/nodes?instance_uuid={instance}")).await["nodes"][0]["uuid"],
        node
    );
    env.no_delete("is associated with instance", node).await;
    env.patch(node, json!([{"op": "remove", "path": "/instance_uuid"}]))
        .await;
    env.patch(node, add("/name", json!("check~renamed"))).await;
    assert_eq!(env.get("/v1/nodes/check~renamed").await["uuid"], node);
    env.refused(404, "", "GET", "/v1/nodes/check~0", Value::Null).await;
    let fast = env.patch(node, add("/inspect_interface", json!("redfish"))).await;
    assert_eq!(fast["inspect_interface"], "redfish");
    let back = env
        .patch(node, json!([{"op": "remove", "path": "/inspect_interface"}]))
        .await;
    assert_eq!(back["inspect_interface"], "agent", "none is the default");
}
