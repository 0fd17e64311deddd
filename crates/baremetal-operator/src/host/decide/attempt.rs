//! The last deployment attempt: failures count for that attempt only.
//!
//! The status has a field for the image, but none for the deploy method. Upstream compares the image only, so the
//! failures of one custom deploy count for the next, or never end. We store the attempt in a condition.

use metal3_api::condition::ConditionStatus;
use metal3_runtime::conditions::{self, Claim};

use crate::host::builder::PlanBuilder;
use crate::host::instance::Deployment;

/// Our own condition. It exists from the first attempt to deploy something until that runs or is no longer wanted. Its
/// reason identifies the attempt that failures count for; its message describes the deployment to users.
const ATTEMPTED: &str = "DeploymentAttempted";
/// The prefix of such a reason.
const ATTEMPT: &str = "Attempt_";

/// Records the current attempt. Failures of a different one do not count for it.
pub(super) fn remember(plan: &mut PlanBuilder<'_>, wanted: Deployment<'_>) {
    if is_another(plan, wanted) {
        plan.status.provisioning_fail_count = 0;
        if plan.status.error_type.is_none() {
            plan.status.error_count = 0;
        }
    }
    plan.status.last_attempted_image = plan.spec().wanted_image().cloned();
    let claim = Claim {
        type_: ATTEMPTED,
        status: ConditionStatus::True,
        reason: &reason(wanted),
        message: &wanted.way(),
    };
    let generation = plan.seen.host.metadata.generation;
    conditions::set(&mut plan.status.conditions, &claim, generation, plan.now);
}

/// The deployment runs, or is no longer wanted.
pub(super) fn forget(plan: &mut PlanBuilder<'_>) {
    conditions::remove(&mut plan.status.conditions, ATTEMPTED);
}

/// Whether the counted failures belong to a different attempt.
fn is_another(plan: &PlanBuilder<'_>, wanted: Deployment<'_>) -> bool {
    let attempted = conditions::get(&plan.status.conditions, ATTEMPTED);
    match attempted.filter(|condition| condition.reason.starts_with(ATTEMPT)) {
        Some(attempted) => attempted.reason != reason(wanted),
        // Stored by an operator that does not name attempts.
        None => plan.status.last_attempted_image.as_ref() != plan.spec().wanted_image(),
    }
}

fn reason(wanted: Deployment<'_>) -> String {
    format!("{ATTEMPT}{}", wanted.attempt())
}

/// The message about an attempt that has been given up.
pub(super) fn given_up(wanted: Deployment<'_>, limit: i32) -> String {
    format!(
        "{} failed {limit} times; it is tried again when spec.image or spec.customDeploy changes",
        wanted.name()
    )
}
