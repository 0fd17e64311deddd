//! What was attempted last: failures are counted for that alone.
//!
//! The status has a field for the image, and none for the way in which it is deployed. Upstream counts the image only: there the
//! failures of one custom deploy are held against the next, or never end. Ours is in a condition.

use metal3_api::condition::ConditionStatus;
use metal3_runtime::conditions::{self, Claim};

use crate::host::builder::PlanBuilder;
use crate::host::instance::Deployment;

/// Our own condition, there from the first attempt to deploy something until it runs, or is not wanted any more. Its reason names the
/// attempt that failures are counted for; its message tells people how it is deployed.
const ATTEMPTED: &str = "DeploymentAttempted";
/// How such a reason begins.
const ATTEMPT: &str = "Attempt_";

/// This is what is attempted now. Failures of something else do not count for it.
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

/// It runs, or nothing is wanted.
pub(super) fn forget(plan: &mut PlanBuilder<'_>) {
    conditions::remove(&mut plan.status.conditions, ATTEMPTED);
}

/// The failures that are counted were those of something else.
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

/// What a user reads of something that is not attempted any more.
pub(super) fn given_up(wanted: Deployment<'_>, limit: i32) -> String {
    format!(
        "{} failed {limit} times; it is tried again when spec.image or spec.customDeploy changes",
        wanted.name()
    )
}
