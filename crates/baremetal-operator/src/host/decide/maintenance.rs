//! Ironic accepts no work for a node in maintenance.

use metal3_ironic::Node;

use crate::host::builder::{PlanBuilder, Step};
use crate::host::plan::{Effect, Wait, WaitReason};

/// The fault that Ironic records on a node whose BMC no longer answers. Ironic ends the maintenance when the BMC
/// answers again.
const BMC_LOST: &str = "power failure";

/// What precedes work on a node in maintenance, regardless of who set it. While Ironic cannot reach the BMC, nothing is
/// started: it would fail, and the back-off would delay the host long after the BMC is back. A deletion does not wait
/// for that.
pub(super) fn leave(plan: &mut PlanBuilder<'_>, node: &Node) -> Option<Step> {
    if !node.maintenance {
        return None;
    }
    if node.fault.as_deref() == Some(BMC_LOST) && !plan.is_deleting() {
        return Some(Step::Wait(Wait::for_node(
            WaitReason::PowerUnknown,
            format!(
                "Ironic cannot reach the BMC of node {}; the work goes on when Ironic has reached it again, which it tries \
                 every few minutes",
                node.uuid
            ),
        )));
    }
    Some(plan.mutate_and_go_on(Effect::ClearMaintenance {
        node: node.uuid.clone(),
    }))
}
