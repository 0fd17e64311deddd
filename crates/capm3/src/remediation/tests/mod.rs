//! Decisions about Metal3Remediations, in a scene with one unhealthy machine.

mod endings;
mod nodes;
mod scene;
mod steps;
mod walk;

use std::time::Duration;

use metal3_runtime::controller::Next;
use metal3_runtime::events::Event;
use serde_json::{Value, json};

use self::scene::Scene;
use super::decide::{Decision, Effect, Plan, Read, decide};
use super::observed::Observed;

const NOW: &str = "2026-01-01T01:00:00Z";
const REQUEST: &str = "reboot.metal3.io/metal3-remediation-u-r";
const ASKED: &str = r#"{"mode":"hard","force":false}"#;
const FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";
const UNHEALTHY: &str = "capm3.metal3.io/unhealthy";
const TAINT: &str = "node.kubernetes.io/out-of-service";
const ATTEMPTS: &str = "infrastructure.cluster.x-k8s.io/remediation-attempts";
const OF_ANNOTATIONS: &str = "remediation.metal3.io/node-annotations-backup";
const OF_LABELS: &str = "remediation.metal3.io/node-labels-backup";

/// The decision at [`NOW`] after the scene has answered all reads.
fn plan(scene: &Scene) -> Plan {
    let mut seen = scene.seen();
    loop {
        match decide(&seen, NOW.parse().unwrap()) {
            Decision::Act(plan) => return *plan,
            Decision::Fetch(need) => scene.answer(&mut seen, need),
        }
    }
}

fn is_nothing(scene: &Scene) -> bool {
    decide(&scene.seen(), NOW.parse().unwrap()) == Decision::idle()
}

/// The wait reason, if the decision is only to wait.
fn waits(plan: &Plan) -> &'static str {
    assert_eq!((plan.effects.as_slice(), &plan.report.status), ([].as_slice(), &None));
    waited(plan).reason
}

/// What is waited for.
fn waited(plan: &Plan) -> &Event {
    match plan.afterwards.as_slice() {
        [Effect::ReportWait(event)] => event,
        other => panic!("nothing is waited for: {other:?}"),
    }
}

fn after(seconds: u64) -> Next {
    Next::After(Duration::from_secs(seconds))
}

/// Reasons of the events.
fn told(plan: &Plan) -> Vec<&'static str> {
    plan.report.events.iter().map(|event| event.reason).collect()
}

fn label(plan: &Plan) -> &'static str {
    plan.effects.first().expect("a write").label()
}

/// The patch that is written.
fn patch(plan: &Plan) -> &Value {
    match plan.effects.first().expect("a write") {
        Effect::Host { patch, .. }
        | Effect::Node { patch, .. }
        | Effect::Machine { patch, .. }
        | Effect::Keep { patch, .. } => patch,
        other => panic!("no patch: {other:?}"),
    }
}

/// The status that is stored.
fn status(plan: &Plan) -> Value {
    serde_json::to_value(plan.report.status.as_ref().expect("a status is stored")).unwrap()
}

/// In this phase for some seconds, with the finalizer. If the server is on again, that is recorded.
fn in_phase(phase: &str, seconds: i64, retries: i32) -> Scene {
    let now: jiff::Timestamp = NOW.parse().unwrap();
    let since = now - jiff::SignedDuration::from_secs(seconds);
    let mut scene = Scene::new();
    let done = if phase == "Waiting" { " done" } else { "" };
    let begun = json!({ATTEMPTS: format!("{}{done}", retries + 1)});
    scene.set(
        "remediation",
        &json!({"metadata": {"finalizers": [FINALIZER], "annotations": begun}}),
    );
    let mut status = json!({"phase": phase, "lastRemediated": since});
    if retries > 0 {
        status["retryCount"] = json!(retries);
    }
    scene.set("remediation", &json!({"status": status}));
    scene
}

/// The host is requested off, and is off or still on.
fn held(scene: &mut Scene, is_on: bool) {
    scene.set(
        "host",
        &json!({"metadata": {"annotations": {REQUEST: ASKED}}, "status": {"poweredOn": is_on}}),
    );
}

/// Nothing in the scene is of the reason for the wait but what `other` says.
fn with(kind: &'static str, other: &Value) -> Scene {
    let mut scene = Scene::new();
    scene.set(kind, other);
    scene
}

fn looks(scene: &Scene) -> Option<Read> {
    match decide(&scene.seen(), NOW.parse().unwrap()) {
        Decision::Fetch(need) => Some(need),
        Decision::Act(_) => None,
    }
}

fn seen_at(seen: &Observed, now: &str) -> Decision {
    decide(seen, now.parse().unwrap())
}
