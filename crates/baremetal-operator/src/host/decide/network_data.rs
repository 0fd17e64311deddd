//! The network data that the ramdisk comes up with. Ironic hands it to the ramdisk; it says nothing of a deployed system.

use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_ironic::{Diff, NodeDetail, PatchOp};
use serde_json::Value;

use super::held;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::observed::NetworkDataView;
use crate::host::plan::{Effect, EventReason, Read, WaitReason};

/// No ramdisk is started for the host, or none that its network data would matter to.
fn is_out_of_use(draft: &PlanBuilder<'_>) -> bool {
    // One that is built has it built in.
    draft.is_deleting()
        || draft.seen.settings.builds_ramdisks
        || matches!(
            draft.state(),
            ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned
        )
}

/// The node carries what the Secret says, as far as is known without reading either.
pub(super) fn is_settled(draft: &PlanBuilder<'_>) -> bool {
    if draft.spec().preprovisioning_network_data_name.is_empty() || is_out_of_use(draft) {
        return true;
    }
    let version = draft.seen.network_data.version();
    version.is_some() && version == draft.seen.memory.network_data.as_deref()
}

/// The Secret carries our marks, so that it stays for as long as the host may need it: whoever uses it, Ironic or a builder
/// of ramdisks. `Continue` when it does, or when there is nothing to mark.
pub(super) fn claim(draft: &mut PlanBuilder<'_>) -> Step {
    let name = draft.spec().preprovisioning_network_data_name.as_str();
    if name.is_empty() || draft.is_deleting() {
        return Step::Continue;
    }
    match &draft.seen.network_data {
        NetworkDataView::NotLooked {
            version: Some(_),
            claimed: false,
        } => Step::Fetch(Read::NetworkData),
        NetworkDataView::Found { claimed: false, .. } => {
            held::note(draft, name);
            draft.effects.push(Effect::ClaimNetworkData);
            Step::Again
        }
        // Marked for another host, or by an operator before this one.
        NetworkDataView::NotLooked { claimed: true, .. } | NetworkDataView::Found { .. }
            if !held::is_noted(draft, name) =>
        {
            held::note(draft, name);
            Step::Again
        }
        NetworkDataView::NotLooked { .. }
        | NetworkDataView::Missing
        | NetworkDataView::Unusable(_)
        | NetworkDataView::Found { .. } => Step::Continue,
    }
}

/// What must be changed of the node.
pub(super) fn configure(draft: &mut PlanBuilder<'_>, detail: &NodeDetail) -> Result<Option<PatchOp>, Step> {
    let name = draft.spec().preprovisioning_network_data_name.as_str();
    if is_out_of_use(draft) || is_settled(draft) && !name.is_empty() {
        return Ok(None);
    }
    let wanted = match &draft.seen.network_data {
        _ if name.is_empty() => Value::Object(serde_json::Map::new()),
        NetworkDataView::NotLooked { .. } => return Err(Step::Fetch(Read::NetworkData)),
        NetworkDataView::Missing => return Err(missing(draft)),
        NetworkDataView::Unusable(why) => {
            let message = format!("{} cannot be used: {why}", about(draft));
            return Err(refuse(draft, message));
        }
        NetworkDataView::Found { description, .. } => Value::clone(description),
    };
    let mut diff = Diff::default();
    let current = Value::Object(detail.network_data.0.clone());
    diff.set("", "network_data", Some(wanted), Some(&current));
    Ok(diff.into_ops().pop())
}

/// The Secret is needed now, and there is none.
pub(super) fn missing(draft: &mut PlanBuilder<'_>) -> Step {
    let message = format!("{} does not exist: create it to go on", about(draft));
    refuse(draft, message)
}

fn about(draft: &PlanBuilder<'_>) -> String {
    let namespace = draft.seen.host.metadata.namespace.as_deref().unwrap_or_default();
    let name = &draft.spec().preprovisioning_network_data_name;
    format!("Secret {namespace}/{name}, named by spec.preprovisioningNetworkDataName,")
}

fn refuse(draft: &mut PlanBuilder<'_>, message: String) -> Step {
    draft.refuse(
        ErrorType::Registration,
        WaitReason::NetworkDataIncomplete,
        EventReason::RegistrationError,
        message,
    )
}
