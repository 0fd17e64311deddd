//! The provider ID, by which Cluster API finds the Node of a machine.

use kube::ResourceExt;
use metal3_runtime::conditions;
use metal3_runtime::events::Event;

use super::builder::PlanBuilder;
use crate::machine::decide::plan::Effect;
use crate::machine::names::{NODE, NODE_REFUSED};
use crate::machine::node::{NodeView, ProviderIdPatch};
use crate::workload::Unreachable;
use crate::workload::provider_id::{self, Answer};

const WAITING: &str = "WaitingForNode";
const CONFLICT: &str = "NodeConflict";

/// The provider ID of a machine whose host is provisioned, or reason and message why it has none yet. Only an ID set by a cloud
/// provider must be awaited: ours is known before the Node exists, and an unreachable workload cluster must not delay complete
/// infrastructure.
pub(super) fn follow(builder: &mut PlanBuilder<'_>, host: &str) -> Result<String, (&'static str, String)> {
    let seen = builder.seen;
    let key = seen.key();
    let own = || provider_id::of(&key.namespace, host, &key.name);
    let present = Some(seen.machine.spec.provider_id.clone()).filter(|id| !id.is_empty());
    let (reason, message): (&'static str, String) = match &seen.node {
        NodeView::NotAsked => return Ok(present.unwrap_or_else(own)),
        NodeView::Answered(Answer::Known(id)) => {
            builder.node(true, "ProviderIDSet", "");
            return Ok(id.clone());
        }
        NodeView::Answered(Answer::Give { id, node, uid }) => {
            // Keeps reporting the last rejection until it is resolved; otherwise each attempt would record a new event.
            if builder.is_new_reason(NODE, NODE_REFUSED) {
                let message = format!("node {node} gets its provider ID");
                builder.node(false, "SettingProviderID", &message);
            }
            builder.afterwards.push(Effect::ProviderId(ProviderIdPatch {
                node: node.clone(),
                uid: uid.clone(),
                id: id.clone(),
            }));
            return Ok(id.clone());
        }
        NodeView::Answered(Answer::Early { message, .. } | Answer::Wait(message)) => (WAITING, message.clone()),
        NodeView::Answered(Answer::Conflict(message)) => {
            builder.event_once(NODE, Event::warning(CONFLICT, message.clone()));
            (CONFLICT, message.clone())
        }
        NodeView::Unreachable(why) => (why.reason(), why.to_string()),
    };
    let stored = conditions::get(&builder.status.conditions, NODE);
    let is_kept = match &seen.node {
        // Occurs at every start of the provider, for a moment only.
        NodeView::Unreachable(Unreachable::Connecting(_)) => stored.is_some(),
        // The Node keeps its provider ID whether or not the cluster is reachable.
        NodeView::Unreachable(_) => conditions::is_true(&builder.status.conditions, NODE),
        NodeView::NotAsked | NodeView::Answered(_) => false,
    };
    if !is_kept {
        builder.node(false, reason, &message);
    }
    match present {
        Some(id) => Ok(id),
        None if seen.has_cloud_provider() => {
            let name = seen.machine.name_any();
            Err((
                reason,
                format!("Metal3Machine {name} takes its provider ID from its node: {message}"),
            ))
        }
        None => Ok(own()),
    }
}
