//! The Secrets that carry our marks for the host: recorded before they are marked, released when the host no longer
//! uses them.

use std::collections::BTreeSet;

use metal3_api::metal3::names::{annotation, finalizer};

use crate::host::annotations;
use crate::host::builder::PlanBuilder;
use crate::host::held;
use crate::host::observed::Unreleased;
use crate::host::plan::{Effect, Then, Wait, WaitReason, Wake};
use metal3_runtime::timing::operator::RELEASE;

/// Whether it is recorded that the Secret may carry our marks; the status of an earlier operator counts too.
pub(super) fn is_noted(plan: &PlanBuilder<'_>, name: &str) -> bool {
    let in_this_plan = plan.effects.iter().any(|effect| {
        matches!(effect, Effect::AddFinalizer { secrets } | Effect::NoteSecrets(secrets) if secrets.contains(name))
    });
    let host = &plan.seen.host;
    in_this_plan
        || held::names(host).contains(name)
        || held::given(host).any(|given| given == name)
        || !held::is_name(name)
}

/// Call this before anything that marks a Secret.
pub(super) fn note(plan: &mut PlanBuilder<'_>, name: &str) {
    if !is_noted(plan, name) {
        plan.effects.push(Effect::NoteSecrets(held::all(&plan.seen.host)));
    }
}

/// Releases unused Secrets when the host comes to rest or waits anyway, as nothing else depends on it. A failed release
/// is reported, and retried later.
pub(super) fn let_go(plan: &PlanBuilder<'_>, then: &mut Then) -> Vec<Effect> {
    let goes_on = then.is_at_once() || matches!(then, Then::Again | Then::Gone);
    // It is not known what a moved host uses before its status is restored. A deleted host releases everything.
    let is_unknown = annotations::value(&plan.seen.host, annotation::STATUS).is_some();
    if goes_on || is_unknown || plan.is_deleting() {
        return Vec::new();
    }
    let unused = unused(plan);
    for name in &unused {
        if let Some(refused) = plan.seen.memory.unreleased.get(name) {
            tell(plan, then, name, refused);
        }
    }
    let due = unused.into_iter().filter(|name| {
        let refused = plan.seen.memory.unreleased.get(name);
        refused.is_none_or(|refused| refused.is_due(plan.now))
    });
    let due: Vec<_> = due.map(Effect::ReleaseFormerSecret).collect();
    if plan.effects.is_empty() {
        return due;
    }
    let rests = match &then {
        Then::Idle => true,
        Then::Wait(wait) => wait.wake == Wake::Change,
        Then::Again | Then::Gone => false,
    };
    if rests && !due.is_empty() {
        // Nothing would lead to the next pass.
        *then = Then::Again;
    }
    Vec::new()
}

fn unused(plan: &PlanBuilder<'_>) -> BTreeSet<String> {
    let mut names = held::names(&plan.seen.host);
    let given = [&plan.status.good_credentials, &plan.status.tried_credentials];
    let given = given.into_iter().filter_map(held::name_of);
    for used in held::wanted(&plan.seen.host).chain(given) {
        names.remove(used);
    }
    names
}

fn tell(plan: &PlanBuilder<'_>, then: &mut Then, name: &str, refused: &Unreleased) {
    let namespace = plan.seen.host.metadata.namespace.as_deref().unwrap_or_default();
    let message = format!(
        "Secret {namespace}/{name}, which the host does not use any more, cannot be let go: {}. Let the operator write it, or take \
         finalizer {} off by hand",
        refused.why,
        finalizer::SECRET
    );
    if let Then::Wait(wait) = then {
        wait.message.push_str("; besides, ");
        wait.message.push_str(&message);
    } else {
        *then = Then::Wait(Wait::for_time(WaitReason::KubernetesFailing, RELEASE, message));
    }
}
