//! The operator's settings may have changed since a host was registered. A host at rest is not checked for that.
//! Operations that start a ramdisk are, because they have read the node anyway.

use metal3_bmc::BmcAddress;
use metal3_ironic::Node;

use super::changes::target;
use super::media::media_url;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::decide::ramdisk;
use crate::host::node_spec;
use crate::host::plan::Effect;

/// What precedes an operation that starts a ramdisk on this node: the node is updated to the current settings if it
/// differs. The BMC access is left unchanged: it follows the specification, not the settings.
pub(in crate::host::decide) fn follow(plan: &mut PlanBuilder<'_>, node: &Node) -> Option<Step> {
    let detail = node.detail.as_ref()?;
    // An invalid address was rejected, or belongs to a host that is deleted anyway.
    let address = BmcAddress::parse(&plan.spec().bmc.address).ok()?;
    let media = match media_url(plan, &address, Some(node)) {
        Ok(media) => media,
        Err(step) => return Some(step),
    };
    // A built ramdisk was set on the node during registration, which is checked after every start.
    let ramdisk = ramdisk::unbuilt(plan);
    let ops = node_spec::configure(&target(plan, &address, &ramdisk, media), None, detail);
    if ops.is_empty() {
        return None;
    }
    Some(plan.mutate_and_go_on(Effect::PatchNode {
        node: node.uuid.clone(),
        ops,
    }))
}
