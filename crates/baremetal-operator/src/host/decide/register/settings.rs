//! The operator's settings may have changed since a host was registered. Nobody looks at a host at rest for that; whatever
//! starts a ramdisk does, because it has read the node anyway.

use metal3_bmc::BmcAddress;
use metal3_ironic::Node;

use super::changes::target;
use super::media::media_url;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::decide::ramdisk;
use crate::host::node_spec;
use crate::host::plan::Effect;

/// What comes before work that starts a ramdisk on this node: the node is given what the settings of now say, where it has
/// something else. How Ironic reaches the BMC is left as it is: that follows the specification, not the settings.
pub(in crate::host::decide) fn follow(plan: &mut PlanBuilder<'_>, node: &Node) -> Option<Step> {
    let detail = node.detail.as_ref()?;
    // One that cannot be read was refused, or is that of a host that is deleted all the same.
    let address = BmcAddress::parse(&plan.spec().bmc.address).ok()?;
    let media = match media_url(plan, &address, Some(node)) {
        Ok(media) => media,
        Err(step) => return Some(step),
    };
    // What is built for the host was given to the node while it registered: that is looked at after every start.
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
