use std::time::Duration;

use kube::Client;
use metal3_runtime::args::ClientArgs;
use metal3_runtime::metrics::Build;
use metal3_runtime::store::{ObjectKey, Sink};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::sim::Server;
use crate::workload::Unreachable;

const HERE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const FINALIZER: &str = "metal3machine.infrastructure.cluster.x-k8s.io";

struct Site {
    registry: Registry,
    stores: Stores,
    workloads: Workloads,
    figures: Figures,
    clock: Clock,
    stop: CancellationToken,
}

impl Site {
    fn new() -> Self {
        let registry = Registry::new(Build {
            component: "test",
            version: "1",
        });
        let (stores, stop) = (Stores::new(""), CancellationToken::new());
        let clock = Clock::manual("2026-01-01T01:00:00Z".parse().unwrap());
        let client: Client = Server::default().client();
        let limits = ClientArgs {
            kubeconfig: None,
            kube_api_qps: -1.0,
            kube_api_burst: 1,
        };
        let workloads = Workloads::new(client, limits, stop.clone());
        let figures = Figures::new(&registry, &stores, &workloads, clock.clone());
        Self {
            registry,
            stores,
            workloads,
            figures,
            clock,
            stop,
        }
    }

    fn text(&self) -> String {
        self.registry.text().unwrap()
    }

    fn has(&self, lines: &[&str]) {
        let text = self.text();
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
        }
    }

    fn lacks(&self, words: &str) {
        let text = self.text();
        assert!(!text.contains(words), "{words} is in\n{text}");
    }
}

fn parse<K: DeserializeOwned>(mut object: Value, version: u32) -> K {
    object["metadata"]["namespace"] = json!("ns");
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    serde_json::from_value(object).unwrap()
}

/// A machine created at one o'clock, at this `version`.
fn machine(version: u32, metadata: &Value, status: &Value) -> Metal3Machine {
    let mut object = json!({"apiVersion": HERE, "kind": "Metal3Machine",
        "metadata": {"name": "m", "uid": "u", "finalizers": [FINALIZER], "creationTimestamp": "2026-01-01T01:00:00Z"},
        "spec": {}, "status": status});
    json_patch::merge(&mut object["metadata"], metadata);
    parse(object, version)
}

fn condition(type_: &str, holds: bool, reason: &str, since: &str) -> Value {
    json!({"type": type_, "status": if holds { "True" } else { "False" }, "reason": reason, "message": "",
        "lastTransitionTime": since})
}

#[tokio::test]
async fn a_machine_is_counted_by_phase_and_its_time_in_each_is_measured() {
    let site = Site::new();
    site.figures.lead();
    let waits = condition("Ready", false, "AssociateBareMetalHostFailed", "2026-01-01T01:00:00Z");
    let put =
        |version, metadata: &Value, status: &Value| site.stores.metal3_machines.put(machine(version, metadata, status));
    put(1, &json!({}), &json!({"conditions": [waits]}));
    site.has(&[
        "metal3_machines{phase=\"waiting\"} 1",
        "metal3_machines{phase=\"provisioned\"} 0",
        "metal3_machines_waiting{reason=\"AssociateBareMetalHostFailed\"} 1",
    ]);

    site.clock.advance(Duration::from_secs(40));
    let (ours, not_ready) = (
        condition(
            "AssociateBareMetalHost",
            true,
            "AssociateBareMetalHostSuccess",
            "2026-01-01T01:00:40Z",
        ),
        condition("Ready", false, "NotReady", "2026-01-01T01:00:40Z"),
    );
    put(2, &json!({}), &json!({"conditions": [ours, not_ready]}));
    site.has(&[
        "metal3_machines{phase=\"provisioning\"} 1",
        "metal3_machines_waiting{reason=\"NotReady\"} 1",
        "metal3_machine_phase_seconds_sum{phase=\"waiting\"} 40.0",
    ]);
    site.lacks("AssociateBareMetalHostFailed");

    site.clock.advance(Duration::from_secs(300));
    put(
        3,
        &json!({}),
        &json!({"conditions": [ours], "initialization": {"provisioned": true}}),
    );
    site.has(&[
        "metal3_machines{phase=\"provisioned\"} 1",
        "metal3_machine_phase_seconds_sum{phase=\"provisioning\"} 300.0",
    ]);
    site.lacks("metal3_machines_waiting{");

    let deleted = json!({"deletionTimestamp": "2026-01-01T02:00:00Z"});
    put(4, &deleted, &json!({"initialization": {"provisioned": true}}));
    site.has(&["metal3_machines{phase=\"deleting\"} 1"]);
    site.lacks("seconds_sum{phase=\"provisioned\"}");
    site.clock.advance(Duration::from_secs(3600));
    site.stores.metal3_machines.remove(&ObjectKey::new("ns", "m"), "u");
    site.has(&[
        "metal3_machines{phase=\"deleting\"} 0",
        "metal3_machine_phase_seconds_count{phase=\"deleting\"} 1",
    ]);
}

// OWN 31zf: machines that came and went, none of which waited for long, made the alert of an hour.
#[tokio::test]
async fn how_long_the_oldest_of_the_machines_that_wait_has_waited_is_told() {
    let site = Site::new();
    site.figures.lead();
    let put = |name: &str, version: u32, since: &str| {
        let waits = condition("Ready", false, "NotReady", since);
        let mut machine = machine(version, &json!({}), &json!({"conditions": [waits]}));
        machine.metadata.name = Some(name.to_owned());
        machine.metadata.uid = Some(name.to_owned());
        site.stores.metal3_machines.put(machine);
    };
    site.clock.advance(Duration::from_secs(3000));
    put("a", 1, "2026-01-01T01:00:00Z");
    put("b", 2, "2026-01-01T01:40:00Z");
    let is = |number: u8, seconds: u32| {
        site.has(&[
            &format!("metal3_machines_waiting{{reason=\"NotReady\"}} {number}"),
            &format!("metal3_machines_waiting_seconds{{reason=\"NotReady\"}} {seconds}"),
        ]);
    };
    is(2, 3000);
    site.stores.metal3_machines.remove(&ObjectKey::new("ns", "a"), "a");
    site.clock.advance(Duration::from_secs(100));
    is(1, 700);
    // The clock of who wrote it is ahead of ours.
    put("b", 3, "2026-01-01T09:00:00Z");
    is(1, 0);
}

#[tokio::test]
async fn hosts_are_free_for_the_selectors_that_templates_have() {
    let site = Site::new();
    site.figures.lead();
    let host = |name: &str, rack: &str, annotations: Value| {
        let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": name, "uid": name, "labels": {"rack": rack}, "annotations": annotations}, "spec": {},
            "status": {"provisioning": {"state": "available", "ID": ""}}});
        site.stores.hosts.put(parse(host, 1));
    };
    host("a", "1", json!({}));
    host("b", "2", json!({}));
    host("c", "2", json!({}));
    host("paused", "2", json!({"baremetalhost.metal3.io/paused": ""}));
    let template = |name: &str, selector: Value| {
        let template = json!({"apiVersion": HERE, "kind": "Metal3MachineTemplate", "metadata": {"name": name, "uid": name},
            "spec": {"template": {"spec": {"hostSelector": selector}}}});
        site.stores.templates.put(parse(template, 1));
    };
    template("t-1", json!({"matchLabels": {"rack": "2"}}));
    template("t-2", json!({"matchLabels": {"rack": "2"}}));
    template(
        "t-3",
        json!({"matchExpressions": [{"key": "rack", "operator": "notin", "values": ["2", "3"]}]}),
    );
    template("t-4", json!({"matchLabels": {"rack": "9"}}));
    template(
        "t-5",
        json!({"matchExpressions": [{"key": "rack", "operator": "like"}]}),
    );
    site.has(&[
        "metal3_hosts_free{namespace=\"ns\",selector=\"\"} 3",
        "metal3_hosts_free{namespace=\"ns\",selector=\"rack=2\"} 2",
        "metal3_hosts_free{namespace=\"ns\",selector=\"rack notin (2,3)\"} 1",
        "metal3_hosts_free{namespace=\"ns\",selector=\"rack=9\"} 0",
    ]);
    assert_eq!(site.text().matches("metal3_hosts_free{").count(), 4);
    for name in ["t-1", "t-2"] {
        site.stores.templates.remove(&ObjectKey::new("ns", name), name);
    }
    site.lacks("selector=\"rack=2\"");
}

// OWN 29l: each text invented by a tenant was a series, and a search of all hosts at each scrape.
#[tokio::test]
async fn selectors_and_reasons_that_are_made_up_make_few_and_short_labels() {
    let site = Site::new();
    site.figures.lead();
    for number in 0..100_u32 {
        let name = format!("t-{number}");
        let long = "x".repeat(60);
        let labels = json!({"matchLabels": {"a": number.to_string(), "b": long, "c": long, "d": long}});
        let template = json!({"apiVersion": HERE, "kind": "Metal3MachineTemplate", "metadata": {"name": name, "uid": name},
            "spec": {"template": {"spec": {"hostSelector": labels}}}});
        site.stores
            .hosts
            .put(parse(json!({"metadata": {"name": name, "uid": name}, "spec": {}}), 1));
        site.stores.templates.put(parse(template, 1));
        let reason = format!("R{number}{}", "x".repeat(500));
        let status = json!({"conditions": [condition("Ready", false, &reason, "2026-01-01T00:00:00Z")]});
        let mut machine = machine(1, &json!({}), &status);
        machine.metadata.name = Some(name.clone());
        machine.metadata.uid = Some(name);
        site.stores.metal3_machines.put(machine);
    }
    let text = site.text();
    assert_eq!(text.matches("metal3_hosts_free{").count(), 32);
    assert_eq!(text.matches("metal3_machines_waiting{").count(), 65);
    assert!(text.lines().all(|line| line.len() < 400));
}

#[tokio::test]
async fn data_and_workload_clusters_are_counted_by_how_far_they_are() {
    let site = Site::new();
    site.lacks("metal3_machines{");
    site.figures.lead();
    for (name, status) in [("a", json!({"renderedData": {"name": "t-0"}})), ("b", json!({}))] {
        let claim = json!({"apiVersion": HERE, "kind": "Metal3DataClaim", "metadata": {"name": name, "uid": name},
            "spec": {"template": {"name": "t"}}, "status": status});
        site.stores.data_claims.put(parse(claim, 1));
    }
    let data = json!({"apiVersion": HERE, "kind": "Metal3Data", "metadata": {"name": "t-0", "uid": "d"},
        "spec": {"claim": {"name": "a"}, "template": {"name": "t"}}, "status": {"ready": true}});
    site.stores.datas.put(parse(data, 1));
    site.workloads.of(&ObjectKey::new("ns", "c")).unwrap_err();
    site.has(&[
        "metal3_data_claims{state=\"answered\"} 1",
        "metal3_data_claims{state=\"waiting\"} 1",
        "metal3_data_claims{state=\"deleting\"} 0",
        "metal3_data{state=\"ready\"} 1",
        "metal3_workload_clusters{state=\"connecting\"} 1",
        "metal3_workload_clusters{state=\"reachable\"} 0",
    ]);
    site.workloads.forget(&ObjectKey::new("ns", "c"));
    site.has(&["metal3_workload_clusters{state=\"connecting\"} 0"]);
    site.stop.cancel();
}

// OWN 31zd: a cluster that nobody expects to answer, for it is being made or deleted, counted as one that is down.
#[tokio::test]
async fn a_cluster_is_down_only_if_it_should_answer() {
    let site = Site::new();
    site.figures.lead();
    let key = ObjectKey::new("ns", "c");
    let silent = Unreachable::Silent {
        cluster: key.clone(),
        cause: "connection refused".to_owned(),
    };
    let cluster = |version: u32, metadata: Value, is_initialized: bool| {
        let mut cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "uid": "u", "finalizers": ["f"]}, "spec": {},
            "status": {"initialization": {"controlPlaneInitialized": is_initialized}}});
        json_patch::merge(&mut cluster["metadata"], &metadata);
        site.stores.clusters.put(parse(cluster, version));
    };
    let is = |expected: &str| {
        for state in ["starting", "unreachable", "leaving"] {
            let number = u8::from(state == expected);
            site.has(&[&format!("metal3_workload_clusters{{state=\"{state}\"}} {number}")]);
        }
    };
    cluster(1, json!({}), false);
    site.workloads.answered(&key, Err(silent));
    is("starting");
    cluster(2, json!({}), true);
    is("unreachable");
    cluster(3, json!({"deletionTimestamp": "2026-01-01T02:00:00Z"}), true);
    is("leaving");
    site.stores.clusters.remove(&key, "u");
    is("leaving");
    cluster(4, json!({"uid": "another"}), false);
    site.workloads.answered(&key, Err(Unreachable::TooMany(key.clone())));
    is("unreachable");
    site.stop.cancel();
}

/// The list that the reference is generated from contains exactly the exposed metrics.
#[tokio::test]
async fn the_reference_names_everything() {
    let site = Site::new();
    site.figures.lead();
    for row in rows() {
        let line = format!("# TYPE {} {}", row.name, row.kind.as_str());
        let is_empty_family = row.kind == Kind::Histogram;
        assert!(
            is_empty_family || site.text().contains(&line),
            "{line} is not in\n{}",
            site.text()
        );
    }
}
