//! What happens to nodes, in virtual time: no test waits for anything.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

use std::time::Duration;

use metal3_ironic_sim::{Config, Faults, Pace, Sim};
use serde_json::{Value, json};

const IMAGE: &str = "http://images/a.img";

fn sim(servers: u32) -> Sim {
    Sim::new(Config {
        servers,
        pace: Pace::Manual,
        ..Config::default()
    })
}

fn call(sim: &Sim, method: &str, path: &str, body: Value) -> Value {
    let (status, answer) = sim.call(method, path, 110, body);
    assert!(status < 300, "{method} {path}: {status} {answer}");
    answer
}

fn refused(sim: &Sim, method: &str, path: &str, body: Value) -> (u16, String) {
    let (status, answer) = sim.call(method, path, 110, body);
    (status, Sim::refusal(&answer).unwrap_or_else(|| answer.to_string()))
}

/// Enrolls a server as a node with its server's name.
fn enroll(sim: &Sim, number: u32) -> String {
    let server = sim.server(number);
    let access = json!({
        "redfish_address": format!("http://{}", server.ip), "redfish_system_id": "/redfish/v1/Systems/1",
        "redfish_username": server.credentials.username, "redfish_password": server.credentials.password,
    });
    let node = json!({
        "driver": "redfish", "name": server.name, "driver_info": access, "boot_interface": "redfish-virtual-media",
    });
    call(sim, "POST", "/v1/nodes", node);
    server.name
}

fn go(sim: &Sim, node: &str, verb: &str) {
    call(
        sim,
        "PUT",
        &format!("/v1/nodes/{node}/states/provision"),
        json!({"target": verb}),
    );
}

fn show(sim: &Sim, node: &str) -> Value {
    call(sim, "GET", &format!("/v1/nodes/{node}"), Value::Null)
}

fn state(sim: &Sim, node: &str) -> String {
    show(sim, node)["provision_state"].as_str().unwrap().to_owned()
}

/// Lets time pass until a node is in a state, and says how long that took.
fn rest(sim: &Sim, node: &str, wanted: &str) -> Duration {
    let begin = sim.now();
    for _ in 0..20_000 {
        let record = show(sim, node);
        if record["provision_state"] == wanted && record["reservation"].is_null() {
            return sim.now().saturating_sub(begin);
        }
        sim.advance(Duration::from_millis(100));
    }
    panic!("never {wanted}: {}", show(sim, node));
}

fn available(sim: &Sim, number: u32) -> String {
    let node = enroll(sim, number);
    for (verb, state) in [
        ("manage", "manageable"),
        ("inspect", "manageable"),
        ("provide", "available"),
    ] {
        go(sim, &node, verb);
        rest(sim, &node, state);
    }
    node
}

fn with_image(sim: &Sim, node: &str) {
    let info = json!({"image_source": IMAGE, "image_os_hash_algo": "sha256", "image_os_hash_value": "ab"});
    let patch = json!([{"op": "add", "path": "/instance_info", "value": info}]);
    call(sim, "PATCH", &format!("/v1/nodes/{node}"), patch);
}

#[test]
fn a_node_lives() {
    let sim = sim(1);
    let node = available(&sim, 0);
    assert_eq!(show(&sim, &node)["power_state"], "power off");
    with_image(&sim, &node);
    go(&sim, &node, "active");
    assert_eq!(show(&sim, &node)["reservation"], "sim-conductor");
    rest(&sim, &node, "active");
    assert!(sim.is_on(0));
    go(&sim, &node, "deleted");
    rest(&sim, &node, "available");
    assert_eq!(show(&sim, &node)["instance_info"], json!({}));
    call(&sim, "DELETE", &format!("/v1/nodes/{node}"), Value::Null);
    let went = sim.counters(0);
    let counts = [
        went.creates,
        went.verifies,
        went.inspections,
        went.cleans,
        went.deploys,
        went.undeploys,
        went.deletes,
    ];
    assert_eq!(counts, [1, 1, 1, 2, 1, 1, 1]);
}

#[test]
fn a_wrong_password_is_told_after_a_while() {
    let sim = sim(1);
    sim.set_faults(
        0,
        Faults {
            password: Some("other".to_owned()),
            ..Faults::default()
        },
    );
    let node = enroll(&sim, 0);
    go(&sim, &node, "manage");
    sim.advance(Duration::from_secs(5));
    assert_eq!(state(&sim, &node), "verifying");
    rest(&sim, &node, "enroll");
    let error = show(&sim, &node)["last_error"].to_string();
    assert!(error.contains("returned code 401"), "{error}");
}

#[test]
fn a_failed_deployment_loses_its_error_unless_told_otherwise() {
    for keep in [false, true] {
        let sim = Sim::new(Config {
            pace: Pace::Manual,
            keep_last_error: keep,
            ..Config::default()
        });
        let node = available(&sim, 0);
        with_image(&sim, &node);
        let failing = Faults {
            deploy_error: Some("no disk".to_owned()),
            failures: Some(1),
            ..Faults::default()
        };
        sim.set_faults(0, failing);
        go(&sim, &node, "active");
        rest(&sim, &node, "deploy failed");
        let error = show(&sim, &node)["last_error"].clone();
        assert_eq!(error.to_string().contains("no disk"), keep, "{error}");
        // The failure was to happen once.
        go(&sim, &node, "active");
        rest(&sim, &node, "active");
    }
}

#[test]
fn a_failed_cleaning_puts_into_maintenance() {
    let sim = sim(1);
    let node = available(&sim, 0);
    go(&sim, &node, "manage");
    sim.set_faults(
        0,
        Faults {
            clean_error: Some("no disk".to_owned()),
            ..Faults::default()
        },
    );
    go(&sim, &node, "provide");
    rest(&sim, &node, "clean failed");
    let record = show(&sim, &node);
    assert_eq!(
        (&record["maintenance"], &record["fault"]),
        (&json!(true), &json!("clean failure"))
    );
    assert_eq!(record["target_provision_state"], "available");
    call(&sim, "DELETE", &format!("/v1/nodes/{node}/maintenance"), Value::Null);
    assert_eq!(show(&sim, &node)["fault"], Value::Null);
    go(&sim, &node, "manage");
    assert_eq!(state(&sim, &node), "manageable");
}

#[test]
fn a_dead_agent_is_given_up_at_the_next_look_after_its_timeout() {
    let sim = sim(1);
    let node = available(&sim, 0);
    with_image(&sim, &node);
    sim.set_faults(
        0,
        Faults {
            agent_dead: true,
            ..Faults::default()
        },
    );
    go(&sim, &node, "active");
    let took = rest(&sim, &node, "deploy failed");
    assert!(
        (Duration::from_secs(300)..Duration::from_secs(335)).contains(&took),
        "{took:?}"
    );
    let error = show(&sim, &node)["last_error"].to_string();
    assert!(error.contains("Timeout reached while waiting for callback"), "{error}");
}

#[test]
fn settings_that_never_come_into_force_are_given_up_after_the_timeout() {
    let sim = sim(1);
    let node = available(&sim, 0);
    with_image(&sim, &node);
    go(&sim, &node, "active");
    rest(&sim, &node, "active");
    sim.set_faults(
        0,
        Faults {
            settings_ignored: true,
            ..Faults::default()
        },
    );
    let settings = [json!({"name": "ProcTurboMode", "value": "Disabled"})];
    let step = json!({"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}});
    let path = format!("/v1/nodes/{node}/states/provision");
    call(
        &sim,
        "PUT",
        &path,
        json!({"target": "service", "service_steps": [step]}),
    );
    rest(&sim, &node, "service failed");
    let record = show(&sim, &node);
    let error = record["last_error"].to_string();
    assert!(
        error.contains("Timeout reached while servicing") && error.contains("apply_configuration"),
        "{error}"
    );
    assert_eq!(record["power_state"], "power off");
    let setting = call(
        &sim,
        "GET",
        &format!("/v1/nodes/{node}/bios/ProcTurboMode"),
        Value::Null,
    );
    assert_eq!(setting["ProcTurboMode"]["value"], "Enabled");
}

#[test]
fn a_node_without_ports_is_not_listened_to() {
    let sim = sim(1);
    let node = enroll(&sim, 0);
    go(&sim, &node, "manage");
    rest(&sim, &node, "manageable");
    go(&sim, &node, "provide");
    rest(&sim, &node, "clean failed");
    assert_eq!(show(&sim, &node)["maintenance"], false, "no step was at work");
}

#[test]
fn a_lost_bmc_is_noticed_and_found_again() {
    let sim = sim(1);
    let node = available(&sim, 0);
    sim.set_faults(
        0,
        Faults {
            bmc_down: true,
            ..Faults::default()
        },
    );
    sim.advance(Duration::from_secs(130));
    assert_eq!(show(&sim, &node)["maintenance"], false);
    sim.advance(Duration::from_secs(60));
    let record = show(&sim, &node);
    assert_eq!(
        (&record["fault"], &record["power_state"]),
        (&json!("power failure"), &Value::Null)
    );
    sim.clear_faults(0);
    sim.advance(Duration::from_secs(30));
    let record = show(&sim, &node);
    assert_eq!(
        (&record["fault"], &record["power_state"]),
        (&Value::Null, &json!("power off"))
    );
    assert!(record["last_error"].is_string(), "it stays");
    sim.push_button(0, true);
    sim.advance(Duration::from_secs(61));
    assert_eq!(show(&sim, &node)["power_state"], "power on");
}

#[test]
fn a_crash_fails_what_is_under_way_and_a_wipe_forgets_all() {
    let sim = sim(2);
    let one = available(&sim, 0);
    let two = enroll(&sim, 1);
    go(&sim, &two, "manage");
    with_image(&sim, &one);
    go(&sim, &one, "active");
    sim.crash();
    assert_eq!(
        (state(&sim, &one), state(&sim, &two)),
        ("deploy failed".to_owned(), "enroll".to_owned())
    );
    assert_eq!(show(&sim, &one)["reservation"], Value::Null);
    sim.wipe();
    assert_eq!(call(&sim, "GET", "/v1/nodes", Value::Null), json!({"nodes": []}));
    assert_eq!(call(&sim, "GET", "/v1/ports", Value::Null), json!({"ports": []}));
    sim.advance(Duration::from_secs(600));
    enroll(&sim, 0);
    assert_eq!(sim.counters(0).creates, 2);
}

#[test]
fn an_abort_waits_for_a_step_that_cannot_be_broken_off() {
    let sim = sim(1);
    let node = available(&sim, 0);
    go(&sim, &node, "manage");
    let path = format!("/v1/nodes/{node}/states/provision");
    let steps = json!([{"interface": "bios", "step": "apply_configuration", "args": {"settings": [{"name": "NumCores", "value": 12}]}}]);
    call(&sim, "PUT", &path, json!({"target": "clean", "clean_steps": steps}));
    while show(&sim, &node)["clean_step"]["step"] != "apply_configuration" {
        sim.advance(Duration::from_millis(50));
    }
    go(&sim, &node, "abort");
    assert_eq!(state(&sim, &node), "clean wait");
    rest(&sim, &node, "clean failed");
    let record = show(&sim, &node);
    assert!(record["last_error"].to_string().contains("aborted"), "{record}");
    assert_eq!(record["target_provision_state"], "manageable");
}

#[test]
fn steps_change_the_server() {
    let sim = sim(1);
    let node = available(&sim, 0);
    go(&sim, &node, "manage");
    let disks = json!({"logical_disks": [{"size_gb": "MAX", "raid_level": "1"}]});
    call(&sim, "PUT", &format!("/v1/nodes/{node}/states/raid"), disks.clone());
    let steps = json!([
        {"interface": "bios", "step": "apply_configuration", "args": {"settings": [{"name": "NumCores", "value": 12}]}},
        {"interface": "firmware", "step": "update", "args": {"settings": [{"component": "bios", "url": "http://f/1"}]}},
        {"interface": "raid", "step": "create_configuration"},
    ]);
    call(
        &sim,
        "PUT",
        &format!("/v1/nodes/{node}/states/provision"),
        json!({"target": "clean", "clean_steps": steps}),
    );
    rest(&sim, &node, "manageable");
    let one = call(&sim, "GET", &format!("/v1/nodes/{node}/bios/NumCores"), Value::Null);
    assert_eq!(one["NumCores"]["value"], "12");
    let firmware = call(&sim, "GET", &format!("/v1/nodes/{node}/firmware"), Value::Null);
    assert_eq!(firmware["firmware"][0]["current_version"], "1.1.0");
    assert_eq!(
        show(&sim, &node)["raid_config"]["logical_disks"],
        disks["logical_disks"]
    );
}

#[test]
fn limits_of_the_server_are_503() {
    let sim = Sim::new(Config {
        servers: 2,
        pace: Pace::Manual,
        max_concurrent_deploy: 1,
        ..Config::default()
    });
    let nodes = [available(&sim, 0), available(&sim, 1)];
    for node in &nodes {
        with_image(&sim, node);
    }
    go(&sim, &nodes[0], "active");
    let path = format!("/v1/nodes/{}/states/provision", nodes[1]);
    assert_eq!(refused(&sim, "PUT", &path, json!({"target": "active"})).0, 503);
    rest(&sim, &nodes[0], "active");
    go(&sim, &nodes[1], "active");
}

/// Everything that one event costs is the same in a fleet of any size.
#[test]
fn ten_thousand_nodes_fit() {
    let sim = sim(10_000);
    let nodes: Vec<String> = (0..10_000).map(|number| enroll(&sim, number)).collect();
    for node in &nodes {
        go(&sim, node, "manage");
    }
    sim.advance(Duration::from_secs(2));
    assert_eq!(sim.states(), [("manageable", 10_000)].into());
    let mut marker = String::new();
    let mut seen = 0;
    loop {
        let page = call(
            &sim,
            "GET",
            &format!("/v1/nodes?fields=uuid,provision_state&limit=1000{marker}"),
            Value::Null,
        );
        let listed = page["nodes"].as_array().unwrap();
        seen += listed.len();
        let Some(last) = listed.last() else { break };
        marker = format!("&marker={}", last["uuid"].as_str().unwrap());
    }
    assert_eq!(seen, 10_000);
}
