//! What to do with the Node: evacuate it while the host is off, then restore what was removed from it.

use kube::ResourceExt;

use super::attempt::Attempt;
use super::plan::{Decision, Effect, Plan, Read, keep, left, wait};
use crate::remediation::node::{self, Backup};
use crate::remediation::observed::{NodeView, Observed};
use crate::workload::{Unreachable, nodes};

use k8s_openapi::api::core::v1::Node;
use metal3_runtime::events::Event;
use metal3_runtime::timing::provider::DRAIN_POLL;

/// Describes the saved Node data, for errors.
const KEEP_NODE: &str = "keep the labels and annotations of the Node";

/// The next step while the host is off. None: the host may be powered on.
///
/// Waits for an unreachable workload cluster until half of the time is over, and not at all if this Node may be the reason that
/// it is unreachable.
pub fn evacuate(attempt: &Attempt<'_>) -> Option<Decision> {
    let seen = attempt.seen;
    let is_late = attempt.now >= attempt.half();
    let until_half = left(attempt.now, attempt.half());
    let wait_with_an_end = |reason, message: String| {
        let message = format!("{message}; at {} the host is switched on all the same", attempt.half());
        (!is_late).then(|| wait(reason, message, Some(until_half)).into())
    };
    let node = match &seen.node {
        NodeView::Unnamed | NodeView::Gone(_) => return None,
        NodeView::Unreachable(why) => {
            let is_waited_for = matches!(why, Unreachable::Connecting(_)) || !seen.is_control_plane();
            let message = format!("the Pods of the Node cannot be moved away: {why}");
            return if is_waited_for {
                wait_with_an_end(why.reason(), message)
            } else {
                None
            };
        }
        NodeView::Here(node) => node,
    };
    let name = node.name_any();
    if node::is_out_of_service(node) {
        let message = match &seen.looks.drain {
            None => return Some(Decision::Fetch(Read::Drain)),
            Some(Ok(left)) if left.pods == 0 && left.volumes == 0 => return None,
            Some(Ok(left)) => format!(
                "waiting until Node {name} is empty: {} Pods and {} attached volumes are left",
                left.pods, left.volumes
            ),
            Some(Err(why)) => format!("whether Node {name} is empty cannot be told: {why}"),
        };
        let poll = wait("WaitingForNodeToEmpty", message, Some(DRAIN_POLL.min(until_half)));
        return (!is_late).then(|| poll.into());
    }
    if is_late {
        return None;
    }
    if Backup::of(&seen.remediation).is_some() {
        return Some(replace(seen, node));
    }
    match &seen.looks.knows_taint {
        None => Some(Decision::Fetch(Read::KnowsTaint)),
        // Tainting a Node whose server is on does harm.
        Some(Ok(true)) if !seen.looks.is_fresh => Some(Decision::Fetch(Read::Fresh)),
        Some(Ok(true)) => {
            let effect = Effect::Node {
                what: "taint the Node",
                patch: node::taint(node, attempt.now),
                node: name.clone(),
            };
            let message = format!("Node {name} is out of service: its Pods and volumes move to other Nodes");
            Some(Plan::of(effect).with(Event::normal("NodeOutOfService", message)).into())
        }
        Some(Ok(false)) => Some(replace(seen, node)),
        Some(Err(why)) => wait_with_an_end(
            "WaitingForWorkloadCluster",
            format!("the version of the workload cluster cannot be asked: {why}"),
        ),
    }
}

/// For a workload cluster without the out-of-service taint: deletes the Node, and saves its labels and annotations until it
/// re-registers.
fn replace(seen: &Observed, node: &Node) -> Decision {
    let kept = Backup::of(&seen.remediation);
    let wanted = kept.clone().unwrap_or_default().with(node);
    if kept.as_ref() != Some(&wanted) {
        return keep(KEEP_NODE, wanted.kept(&seen.remediation)).into();
    }
    if !seen.looks.is_fresh {
        return Decision::Fetch(Read::Fresh);
    }
    let name = node.name_any();
    let message = format!(
        "Node {name} is deleted, so that its Pods and volumes move to other Nodes; it comes again with its server"
    );
    let effect = Effect::DeleteNode {
        node: name,
        uid: node.uid(),
        version: node.resource_version(),
    };
    Plan::of(effect).with(Event::normal("NodeDeleted", message)).into()
}

/// How far the Node has been restored.
pub enum Restored {
    /// It is fully restored.
    Done,
    /// The next step.
    Step(Plan),
    /// What it waits for: reason and message.
    Wait(&'static str, String),
}

/// The next step when the host is on again. `is_awaited`: the taint is removed once the kubelet reports, and not before; until
/// then Kubernetes continues to evacuate the Node.
pub fn restore(seen: &Observed, is_awaited: bool) -> Restored {
    let kept = Backup::of(&seen.remediation);
    let node = match &seen.node {
        NodeView::Unnamed => return Restored::Done,
        NodeView::Gone(_) if kept.is_none() => return Restored::Done,
        NodeView::Unreachable(why) => {
            let message = format!("the Node cannot get back what was taken from it: {why}");
            return Restored::Wait(why.reason(), message);
        }
        NodeView::Gone(name) => {
            let message = format!("waiting until Node {name} comes again, to give it back its labels and annotations");
            return Restored::Wait("WaitingForNode", message);
        }
        NodeView::Here(node) => node,
    };
    let name = node.name_any();
    if node::is_out_of_service(node) {
        if is_awaited && !nodes::is_reporting(node) {
            let message =
                format!("waiting until the kubelet of Node {name} is heard of, to put the Node into service again");
            return Restored::Wait("WaitingForKubelet", message);
        }
        let effect = Effect::Node {
            what: "take the taint off the Node",
            patch: node::untaint(node),
            node: name.clone(),
        };
        let message = format!("Node {name} is in service again");
        return Restored::Step(Plan::of(effect).with(Event::normal("NodeInService", message)));
    }
    let Some(kept) = kept else { return Restored::Done };
    if let Some(patch) = kept.returned(node) {
        let message = format!("Node {name} has its labels and annotations back");
        let effect = Effect::Node {
            what: "give the Node its labels and annotations back",
            node: name,
            patch,
        };
        return Restored::Step(Plan::of(effect).with(Event::normal("NodeRestored", message)));
    }
    Restored::Step(keep(KEEP_NODE, Backup::dropped(&seen.remediation)))
}
