//! The alerts and the dashboard: what they compute, and that what they name exists.

use std::collections::BTreeSet;
use std::fs;

use baremetal_operator::reference::WAITS;
use metal3_lab::binaries;
use serde_json::Value;

use super::{Tool, root};

const ALERTS: &str = "charts/metal3/alerts.yaml";
const DASHBOARD: &str = "charts/metal3/dashboard.json";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Prometheus' own tool computes them from the samples that `alerts.yaml` beside this file has.
#[tokio::test]
async fn alerts_fire_when_they_should() {
    let promtool = tokio::task::spawn_blocking(binaries::ensure_promtool).await.unwrap();
    let promtool = Tool::new(promtool.unwrap(), None);
    let [alerts, samples] = ["alerts.yaml", "samples.yaml"].map(|name| promtool.file(name));
    fs::write(&alerts, read(ALERTS)).unwrap();
    fs::write(&samples, read("crates/xtask/tests/install/alerts.yaml")).unwrap();
    promtool
        .expect(&["check", "rules", "--lint=all", "--lint-fatal", &alerts])
        .await;
    promtool.expect(&["test", "rules", &samples]).await;
}

/// The metrics that an expression names.
fn metrics(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let prefixes = ["metal3_", "workqueue_", "controller_runtime_", "process_"];
    let named = words.filter(move |word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
    named.map(|name| name.strip_suffix("_bucket").unwrap_or(name))
}

#[test]
fn every_metric_of_alerts_and_the_dashboard_exists() {
    let (alerts, known) = (read(ALERTS), read("docs/metrics.md"));
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let shown: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let named: BTreeSet<&str> = shown.into_iter().chain([alerts.as_str()]).flat_map(metrics).collect();
    assert!(named.len() > 20, "{named:?}");
    let unknown: Vec<_> = named
        .iter()
        .filter(|name| !known.contains(&format!("`{name}`")))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_reason_that_an_alert_tells_of_exists() {
    let alerts = read(ALERTS);
    let (_, reasons) = alerts.split_once(r#"metal3_hosts_waiting{reason=~""#).unwrap();
    let reasons: BTreeSet<&str> = reasons.split('"').next().unwrap().split('|').collect();
    let known: BTreeSet<&str> = WAITS.iter().map(|reason| reason.as_str()).collect();
    assert!(reasons.len() > 10 && reasons.is_subset(&known), "{reasons:?}");
}
