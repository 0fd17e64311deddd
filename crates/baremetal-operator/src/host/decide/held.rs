//! The Secrets that carry our marks for the host: noted before they are marked, let go when it has no use for them any more.

use std::collections::BTreeSet;
use std::time::Duration;

use metal3_api::metal3::names::{annotation, finalizer};

use crate::host::annotations;
use crate::host::draft::Draft;
use crate::host::held;
use crate::host::observed::Unreleased;
use crate::host::plan::{Effect, Next, Wait, WaitReason, Wake};

/// Whether it is known of the Secret that it may carry our marks: also from the status, as an operator before this one left it.
pub(super) fn is_noted(draft: &Draft<'_>, name: &str) -> bool {
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
pub(super) fn note(draft: &mut Draft<'_>, name: &str) {
    if !is_noted(draft, name) {
        draft.effects.push(Effect::NoteSecrets(held::all(&draft.seen.host)));
    }
}

/// Lets go what the host has no use for, where it comes to rest or waits anyway: nothing else depends on it. What cannot be let
/// go is told, and tried again after a while.
pub(super) fn let_go(draft: &mut Draft<'_>, next: &mut Next) {
    let is_at_once = matches!(next, Next::Wait(wait) if wait.wake == Wake::After(Duration::ZERO));
    let goes_on = is_at_once || matches!(next, Next::Again | Next::Gone);
    // Of a moved host nobody knows what it uses before its status is taken over; one that is deleted lets go everything.
    let is_unknown = annotations::value(&draft.seen.host, annotation::STATUS).is_some();
    if goes_on || is_unknown || draft.is_deleting() {
        return;
    }
    let unused = unused(draft);
    for name in &unused {
        if let Some(refused) = draft.seen.memory.unreleased.get(name) {
            tell(draft, next, name, refused);
        }
    }
    if draft.effects.is_empty() {
        let due = unused.into_iter().filter(|name| {
            let refused = draft.seen.memory.unreleased.get(name);
            refused.is_none_or(|refused| refused.is_due(draft.now))
        });
        let due: Vec<_> = due.map(Effect::ReleaseFormerSecret).collect();
        draft.effects.extend(due);
    }
}

fn unused(draft: &Draft<'_>) -> BTreeSet<String> {
    let mut names = held::names(&draft.seen.host);
    let given = [&draft.status.good_credentials, &draft.status.tried_credentials];
    let given = given.into_iter().filter_map(held::name_of);
    for used in held::wanted(&draft.seen.host).chain(given) {
        names.remove(used);
    }
    names
}

fn tell(draft: &Draft<'_>, next: &mut Next, name: &str, refused: &Unreleased) {
    let namespace = draft.seen.host.metadata.namespace.as_deref().unwrap_or_default();
    let message = format!(
        "Secret {namespace}/{name}, which the host does not use any more, cannot be let go: {}. Let the operator write it, or take \
         finalizer {} off by hand",
        refused.why,
        finalizer::SECRET
    );
    match next {
        Next::Wait(wait) => {
            wait.message.push_str("; besides, ");
            wait.message.push_str(&message);
        }
        next => {
            let wait = Wait::for_time(WaitReason::KubernetesFailing, Unreleased::RETRY.unsigned_abs(), message);
            *next = Next::Wait(wait);
        }
    }
}
