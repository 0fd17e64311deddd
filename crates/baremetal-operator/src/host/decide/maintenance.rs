//! Ironic takes no work for a node in maintenance.

use metal3_ironic::Node;

use crate::host::builder::{PlanBuilder, Step};
use crate::host::plan::{Effect, Wait, WaitReason};

/// What Ironic notes on a node whose BMC does not answer any more. It takes the node out of maintenance when the BMC does.
const BMC_LOST: &str = "power failure";

/// What comes before work on a node in maintenance, whoever has put it there. While Ironic cannot reach the BMC, nothing is
/// begun: it would fail, and be held back for long when the BMC is back. A deletion does not wait for that.
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
