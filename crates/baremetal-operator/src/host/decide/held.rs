//! The Secrets that carry our marks for the host: noted before they are marked, let go when it has no use for them any more.

use std::collections::BTreeSet;

use metal3_api::metal3::names::{annotation, finalizer};

use crate::host::annotations;
use crate::host::builder::PlanBuilder;
use crate::host::held;
use crate::host::observed::Unreleased;
use crate::host::plan::{Effect, Then, Wait, WaitReason};
use metal3_runtime::timing::operator::RELEASE;

/// Whether it is known of the Secret that it may carry our marks: also from the status, as an operator before this one left it.
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

/// To stand before whatever marks a Secret.
pub(super) fn note(plan: &mut PlanBuilder<'_>, name: &str) {
    if !is_noted(plan, name) {
        plan.effects.push(Effect::NoteSecrets(held::all(&plan.seen.host)));
    }
}

/// Lets go what the host has no use for, where it comes to rest or waits anyway: nothing else depends on it. What cannot be let
/// go is told, and tried again after a while.
pub(super) fn let_go(plan: &PlanBuilder<'_>, then: &mut Then) -> Vec<Effect> {
    let goes_on = then.is_at_once() || matches!(then, Then::Again | Then::Gone);
    // Of a moved host nobody knows what it uses before its status is taken over; one that is deleted lets go everything.
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
    if !plan.effects.is_empty() {
        return Vec::new();
    }
    let due = unused.into_iter().filter(|name| {
        let refused = plan.seen.memory.unreleased.get(name);
        refused.is_none_or(|refused| refused.is_due(plan.now))
    });
    due.map(Effect::ReleaseFormerSecret).collect()
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
