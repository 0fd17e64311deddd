//! BMC addresses that Ironic is not given.

use metal3_api::metal3::ErrorType;
use metal3_bmc::BmcAddress;
use metal3_ironic::NodeDetail;
use metal3_runtime::denied::FLAG;

use crate::host::builder::{PlanBuilder, Step};
use crate::host::node_spec;
use crate::host::plan::{EventReason, WaitReason};

/// What keeps Ironic from connecting to a denied address for the host. Names are not resolved. A node that has the address already
/// keeps it: a server in use is not lost to its host because the ranges have changed.
pub(super) fn denied(plan: &mut PlanBuilder<'_>, address: &BmcAddress, detail: Option<&NodeDetail>) -> Option<Step> {
    let denied = plan.seen.settings.denied_url_ranges.judge(address.host()).ok()??;
    if detail.is_some_and(|detail| node_spec::another_bmc(address, &detail.driver_info).is_none()) {
        return None;
    }
    Some(if plan.is_deleting() {
        Step::Continue
    } else {
        plan.refuse(
            ErrorType::Registration,
            WaitReason::InvalidBMCDetails,
            EventReason::BMCCredentialError,
            format!("spec.bmc.address: {denied} is in a range of addresses that BMCs may not have ({FLAG})"),
        )
    })
}
