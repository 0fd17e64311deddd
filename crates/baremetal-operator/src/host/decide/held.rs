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
pub(super) fn is_noted(draft: &PlanBuilder<'_>, name: &str) -> bool {
    let in_this_plan = draft.effects.iter().any(|effect| match effect {
        Effect::AddFinalizer { secrets } | Effect::NoteSecrets(secrets) => secrets.contains(name),
        _ => false,
    });
    let host = &draft.seen.host;
    in_this_plan
        || held::names(host).contains(name)
        || held::given(host).any(|given| given == name)
        || !held::is_name(name)
}

/// To stand before whatever marks a Secret.
pub(super) fn note(draft: &mut PlanBuilder<'_>, name: &str) {
    if !is_noted(draft, name) {
        draft.effects.push(Effect::NoteSecrets(held::all(&draft.seen.host)));
    }
}

/// Lets go what the host has no use for, where it comes to rest or waits anyway: nothing else depends on it. What cannot be let
/// go is told, and tried again after a while.
pub(super) fn let_go(draft: &PlanBuilder<'_>, then: &mut Then) -> Vec<Effect> {
    let goes_on = then.is_at_once() || matches!(then, Then::Again | Then::Gone);
    // Of a moved host nobody knows what it uses before its status is taken over; one that is deleted lets go everything.
    let is_unknown = annotations::value(&draft.seen.host, annotation::STATUS).is_some();
    if goes_on || is_unknown || draft.is_deleting() {
        return Vec::new();
    }
    let unused = unused(draft);
    for name in &unused {
        if let Some(refused) = draft.seen.memory.unreleased.get(name) {
            tell(draft, then, name, refused);
        }
    }
    if !draft.effects.is_empty() {
        return Vec::new();
    }
    let due = unused.into_iter().filter(|name| {
        let refused = draft.seen.memory.unreleased.get(name);
        refused.is_none_or(|refused| refused.is_due(draft.now))
    });
    due.map(Effect::ReleaseFormerSecret).collect()
}

fn unused(draft: &PlanBuilder<'_>) -> BTreeSet<String> {
    let mut names = held::names(&draft.seen.host);
    let given = [&draft.status.good_credentials, &draft.status.tried_credentials];
    let given = given.into_iter().filter_map(held::name_of);
    for used in held::wanted(&draft.seen.host).chain(given) {
        names.remove(used);
    }
    names
}

fn tell(draft: &PlanBuilder<'_>, then: &mut Then, name: &str, refused: &Unreleased) {
    let namespace = draft.seen.host.metadata.namespace.as_deref().unwrap_or_default();
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
