//! Plans as text for snapshots: what a reviewer wants to see, in as few words as possible.

use std::time::Duration;

use baremetal_operator::host::WAITING;
use baremetal_operator::host::plan::{Effect, Then, Wake};
use baremetal_operator::reference::wait_help;
use metal3_api::metal3::BareMetalHostStatus;
use metal3_ironic::Op;
use metal3_testkit::leaks::expect_none_in;

use crate::world::{Outcome, Plan};

pub fn effect(effect: &Effect) -> String {
    match effect {
        Effect::CreateNode(body) => {
            let interface = body.deploy_interface.as_ref();
            let interface = interface.map_or_else(String::new, |i| format!(", {i}"));
            format!("create node {} ({}{interface})", body.name, body.driver)
        }
        Effect::CreatePort { mac, .. } => format!("create port {mac}"),
        Effect::PatchNode { ops, .. } => {
            let op = |op: &metal3_ironic::PatchOp| match op.op {
                Op::Add => op.path.clone(),
                Op::Remove => format!("-{}", op.path),
            };
            format!("patch {}", ops.iter().map(op).collect::<Vec<_>>().join(" "))
        }
        Effect::Provision { request, .. } => {
            let steps = request.clean_steps.iter().chain(&request.service_steps);
            let steps = steps.map(|s| format!(" {}.{}", s.interface, s.step));
            let own = request
                .deploy_steps
                .iter()
                .map(|s| format!(" {}.{}", s.interface, s.step));
            format!("ask for {}{}", request.target, steps.chain(own).collect::<String>())
        }
        Effect::Power { target, .. } => format!("ask for {target}"),
        Effect::SetPortBoot { port, pxe_enabled, .. } => {
            format!("{} {port}", if *pxe_enabled { "enable" } else { "disable" })
        }
        Effect::DeletePort { port, .. } => format!("delete {port}"),
        Effect::RemoveAnnotation { key, .. } => format!("remove annotation {key}"),
        Effect::ConfirmHost { .. } => "confirm host".to_owned(),
        Effect::NoteSecrets(secrets) => {
            let names: Vec<&str> = secrets.iter().map(String::as_str).collect();
            format!("note secrets {}", names.join(" "))
        }
        Effect::ReleaseFormerSecret(name) => format!("release former secret {name}"),
        other => other.label().to_owned(),
    }
}

pub fn then(then: &Then) -> String {
    match then {
        Then::Idle => "settled".into(),
        Then::Gone => "gone".into(),
        Then::Again => "again".into(),
        Then::Wait(wait) => {
            let wake = match &wait.wake {
                Wake::Node => "node".to_owned(),
                Wake::NodeOr(after) => format!("node or {}s", after.as_secs()),
                Wake::Change => "change".to_owned(),
                Wake::Ironic => "Ironic".to_owned(),
                Wake::Kubernetes => "the API server".to_owned(),
                Wake::After(after) => format!("{}s", after.as_secs()),
            };
            format!("wait {} until {wake}", wait.reason.as_str())
        }
    }
}

fn error(status: &BareMetalHostStatus) -> String {
    status.error_type.as_ref().map_or_else(
        || format!("{} count {}", status.operational_status, status.error_count),
        |kind| format!("{} ×{}: {}", kind, status.error_count, status.error_message),
    )
}

/// One line: reads in brackets, effects, the state if it changes, the error if it changes, what follows.
pub fn line(outcome: &Outcome) -> String {
    let before = outcome.seen.host.status.clone().unwrap_or_default();
    let Plan {
        status,
        effects,
        then: after,
        ..
    } = &outcome.plan;
    let mut parts = Vec::new();
    if !outcome.reads.is_empty() {
        let reads: Vec<_> = outcome.reads.iter().map(|need| format!("{need:?}")).collect();
        parts.push(format!("[{}]", reads.join(" ")));
    }
    parts.extend(effects.iter().map(|e| format!("{};", effect(e))));
    if status.provisioning.state != before.provisioning.state {
        parts.push(format!("→ {};", status.provisioning.state));
    }
    if error(&before) != error(status) {
        parts.push(format!("{};", error(status)));
    }
    parts.push(then(after));
    parts.join(" ")
}

/// What is wrong with how a plan tells when its host is looked at again.
pub fn next_check(plan: &Plan) -> Option<String> {
    let Then::Wait(wait) = &plan.then else { return None };
    if !wait.is_shown {
        let is_short = wait.longest() <= Duration::from_secs(5);
        return (!is_short).then(|| format!("a wait of {:?} is not told", wait.longest()));
    }
    let told = plan.status.conditions.iter().find(|c| c.type_ == WAITING);
    let told = told.map_or("", |condition| condition.message.as_str());
    let help = wait_help(wait.reason);
    let checks = told.matches("; next check: ").count();
    if told != wait.told() || checks != 1 || wait.message.is_empty() {
        Some(format!("no next check, or more than one: {told:?}"))
    } else if !help.latest.contains(&wait.latest()) {
        Some(format!(
            "the runbook says {:?} of {:?}, which waits {:?}",
            help.latest,
            wait.reason,
            wait.latest()
        ))
    } else {
        None
    }
}

fn cut(text: &str) -> String {
    text.chars().take(600).collect()
}

/// The whole: the line, then the words that a user reads. A log may have all of it: what goes to Ironic is hidden there.
pub fn full(outcome: &Outcome) -> String {
    expect_none_in("a plan", &format!("{:?}", outcome.plan));
    let mut lines = vec![cut(&line(outcome))];
    if let Then::Wait(wait) = &outcome.plan.then {
        // What is the same for every wait of a kind is left out: `next_check` sees to it.
        let told = wait.until.map_or_else(|| wait.message.clone(), |_| wait.told());
        lines.push(format!("  says: {}", cut(&told)));
    }
    for note in &outcome.plan.events {
        lines.push(format!("  event {}: {}", note.reason, cut(&note.message)));
    }
    lines.join("\n")
}
