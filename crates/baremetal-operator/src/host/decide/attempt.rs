//! What was attempted last: failures are counted for that alone.
//!
//! The status has a field for the image, and none for the way in which it is deployed. Upstream counts the image only: there the
//! failures of one custom deploy are held against the next, or never end. Ours is in a condition.

use metal3_api::condition::ConditionStatus;
use metal3_runtime::conditions::{self, Claim};

use crate::host::draft::Draft;
use crate::host::instance::Deployment;

/// Our own condition, there from the first attempt to deploy something until it runs, or is not wanted any more: which way of
/// deployment the failures are counted for.
const ATTEMPTED: &str = "DeploymentAttempted";

/// This is what is attempted now.
pub(super) fn remember(draft: &mut Draft<'_>, wanted: Deployment<'_>) {
    draft.status.last_attempted_image = draft.spec().wanted_image().cloned();
    let claim = Claim {
        type_: ATTEMPTED,
        status: ConditionStatus::True,
        reason: "Attempted",
        message: &way(wanted),
    };
    let generation = draft.seen.host.metadata.generation;
    conditions::set(&mut draft.status.conditions, &claim, generation, draft.now);
}

/// It runs, or nothing is wanted.
pub(super) fn forget(draft: &mut Draft<'_>) {
    conditions::remove(&mut draft.status.conditions, ATTEMPTED);
}

/// The failures that are counted were those of something else.
pub(super) fn is_another(draft: &Draft<'_>, wanted: Deployment<'_>) -> bool {
    let is_another_way = if let Some(attempted) = conditions::get(&draft.status.conditions, ATTEMPTED) {
        attempted.message != way(wanted)
    } else {
        // Stored by an operator that does not write the condition; the refusal names what was attempted.
        let refused = &draft.status.error_message;
        refused.ends_with(AGAIN) && !refused.starts_with(&failed(wanted))
    };
    is_another_way || draft.status.last_attempted_image.as_ref() != draft.spec().wanted_image()
}

/// What a user reads of something that is not attempted any more.
pub(super) fn given_up(wanted: Deployment<'_>, limit: i32) -> String {
    format!("{}{limit} times; {AGAIN}", failed(wanted))
}

const AGAIN: &str = "it is tried again when spec.image or spec.customDeploy changes";

fn failed(wanted: Deployment<'_>) -> String {
    format!("{} failed ", wanted.name())
}

/// How it is deployed, whatever the image.
fn way(wanted: Deployment<'_>) -> String {
    match wanted {
        Deployment::Custom { method, .. } => format!("custom deploy {method}"),
        Deployment::Disk(_) | Deployment::LiveIso(_) => "image".to_owned(),
    }
}
