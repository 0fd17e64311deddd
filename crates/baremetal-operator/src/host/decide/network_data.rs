//! The network data that the ramdisk starts with. Ironic passes it to the ramdisk; it does not affect a deployed
//! system.

use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_ironic::{Diff, NodeDetail, PatchOp};
use serde_json::Value;

use super::held;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::observed::NetworkDataView;
use crate::host::plan::{Effect, EventReason, Read, WaitReason};

/// Whether no ramdisk is started for the host, or none that uses its network data.
fn is_out_of_use(plan: &PlanBuilder<'_>) -> bool {
    // A ramdisk built for the host contains its network data.
    plan.is_deleting()
        || plan.seen.settings.builds_ramdisks
        || matches!(
            plan.state(),
            ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned
        )
}

/// Whether the node has the data of the Secret, as far as this is known without reading either.
pub(super) fn is_settled(plan: &PlanBuilder<'_>) -> bool {
    if plan.spec().preprovisioning_network_data_name.is_empty() || is_out_of_use(plan) {
        return true;
    }
    let version = plan.seen.network_data.version();
    version.is_some() && version == plan.seen.memory.network_data.as_deref()
}

/// Marks the Secret, so that it stays for as long as the host may need it, whether Ironic or a ramdisk builder uses it.
/// Returns `Continue` once it is marked, or if there is nothing to mark.
pub(super) fn claim(plan: &mut PlanBuilder<'_>) -> Step {
    let name = plan.spec().preprovisioning_network_data_name.as_str();
    if name.is_empty() || plan.is_deleting() {
        return Step::Continue;
    }
    match &plan.seen.network_data {
        NetworkDataView::NotLooked {
            version: Some(version),
            claimed: false,
        } if plan.seen.memory.network_data.as_ref() != Some(version) => Step::Fetch(Read::NetworkData),
        NetworkDataView::Found { claimed: false, .. } => {
            held::note(plan, name);
            plan.effects.push(Effect::ClaimNetworkData);
            Step::Again
        }
        // Marked for another host, or by an earlier operator.
        NetworkDataView::NotLooked { claimed: true, .. } | NetworkDataView::Found { .. }
            if !held::is_noted(plan, name) =>
        {
            held::note(plan, name);
            Step::Again
        }
        NetworkDataView::NotLooked { .. }
        | NetworkDataView::Missing
        | NetworkDataView::Unusable { .. }
        | NetworkDataView::WithoutKey { .. }
        | NetworkDataView::Found { .. } => Step::Continue,
    }
}

/// The changes of the node.
pub(super) fn configure(plan: &mut PlanBuilder<'_>, detail: &NodeDetail) -> Result<Option<PatchOp>, Step> {
    let name = plan.spec().preprovisioning_network_data_name.as_str();
    if is_out_of_use(plan) || is_settled(plan) && !name.is_empty() {
        return Ok(None);
    }
    let wanted = match &plan.seen.network_data {
        _ if name.is_empty() => Value::Object(serde_json::Map::new()),
        // As without a name.
        NetworkDataView::WithoutKey { .. } => Value::Object(serde_json::Map::new()),
        NetworkDataView::NotLooked { .. } => return Err(Step::Fetch(Read::NetworkData)),
        NetworkDataView::Missing => return Err(missing(plan)),
        NetworkDataView::Unusable { why, .. } => {
            let message = format!("{} cannot be used: {why}", about(plan));
            return Err(refuse(plan, message));
        }
        NetworkDataView::Found { description, .. } => Value::clone(description),
    };
    let mut diff = Diff::default();
    let current = Value::Object(detail.network_data.0.clone());
    diff.set("", "network_data", Some(wanted), Some(&current));
    Ok(diff.into_ops().pop())
}

/// The Secret is needed now but does not exist.
pub(super) fn missing(plan: &mut PlanBuilder<'_>) -> Step {
    let message = format!("{} does not exist: create it to go on", about(plan));
    refuse(plan, message)
}

fn about(plan: &PlanBuilder<'_>) -> String {
    let namespace = plan.seen.host.metadata.namespace.as_deref().unwrap_or_default();
    let name = &plan.spec().preprovisioning_network_data_name;
    format!("Secret {namespace}/{name}, named by spec.preprovisioningNetworkDataName,")
}

fn refuse(plan: &mut PlanBuilder<'_>, message: String) -> Step {
    plan.refuse(
        ErrorType::Registration,
        WaitReason::NetworkDataIncomplete,
        EventReason::RegistrationError,
        message,
    )
}
