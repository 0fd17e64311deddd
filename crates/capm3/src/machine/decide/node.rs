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

/// The provider ID of a machine whose host is provisioned, or why it has none yet, as reason and message. Only a cloud
/// provider's has to be waited for: ours is known before there is a Node, and infrastructure that is complete is not held
/// back by a workload cluster that cannot be asked.
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
            // What was refused last time stays said until it is not: else it would be news with each attempt.
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
        // Said at every start of the provider, and over in a moment.
        NodeView::Unreachable(Unreachable::Connecting(_)) => stored.is_some(),
        // What the Node carries it keeps, whether or not it can be asked.
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
