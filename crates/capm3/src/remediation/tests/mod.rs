//! Decisions about Metal3Remediations, on a scene of one unhealthy machine.

mod endings;
mod nodes;
mod scene;
mod steps;
mod walk;

use serde_json::{Value, json};

use self::scene::Scene;
use super::decide::{Decision, Effect, Need, Plan, decide};
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

/// What is decided at [`NOW`] when every look has been answered by the scene.
fn plan(scene: &Scene) -> Plan {
    let mut seen = scene.seen();
    loop {
        match decide(&seen, NOW.parse().unwrap()) {
            Decision::Do(plan) => return *plan,
            Decision::Look(need) => scene.answer(&mut seen, need),
            Decision::Nothing => panic!("nothing is decided"),
        }
    }
}

fn is_nothing(scene: &Scene) -> bool {
    matches!(decide(&scene.seen(), NOW.parse().unwrap()), Decision::Nothing)
}

/// The reason of what is waited for, where that is all.
fn waits(plan: &Plan) -> &'static str {
    assert_eq!((&plan.effect, &plan.status), (&None, &None));
    plan.wait.as_ref().expect("it is said what is waited for").reason
}

/// Reasons of the events.
fn told(plan: &Plan) -> Vec<&'static str> {
    plan.notes.iter().map(|note| note.reason).collect()
}

fn label(plan: &Plan) -> &'static str {
    plan.effect.as_ref().expect("a write").label()
}

/// The patch that is written.
fn patch(plan: &Plan) -> &Value {
    match plan.effect.as_ref().expect("a write") {
        Effect::Host { patch, .. }
        | Effect::Node { patch, .. }
        | Effect::Machine { patch, .. }
        | Effect::Keep { patch, .. } => patch,
        other => panic!("no patch: {other:?}"),
    }
}

/// The status that is stored.
fn status(plan: &Plan) -> Value {
    serde_json::to_value(plan.status.as_ref().expect("a status is stored")).unwrap()
}

/// In this phase since some seconds, with the finalizer. Where the server is on again, that is noted.
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

/// The host is kept off, and is off or still on.
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

fn looks(scene: &Scene) -> Option<Need> {
    match decide(&scene.seen(), NOW.parse().unwrap()) {
        Decision::Look(need) => Some(need),
        Decision::Do(_) | Decision::Nothing => None,
    }
}

fn seen_at(seen: &Observed, now: &str) -> Decision {
    decide(seen, now.parse().unwrap())
}
