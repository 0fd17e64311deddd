//! Answers that look like success or news, and are neither.

use metal3_api::ipam::IPPool;
use metal3_runtime::conditions;

use super::effect::{Effect, Explanation, Outcome, PoolMeta, Record};
use super::promise::Promises;
use super::seen::{Claim, version};

/// Answers that may come again and again without getting anybody further.
pub(super) fn is_fruitless(effect: &Effect, outcome: &Outcome) -> bool {
    matches!(
        (effect, outcome),
        (Effect::Create(_), Outcome::Stale(_)) | (Effect::LookAtClaim(..), Outcome::Claim(_))
    )
}

/// Whether the server has thrown away what was written into the pool's status.
pub(super) fn is_dropped(effect: &Effect, there: &IPPool) -> bool {
    let record = match effect {
        Effect::Record(record) => record,
        Effect::Explain(explanation) => {
            let said = there.status.as_ref().map(|status| &status.conditions[..]);
            return said.unwrap_or_default().len() < explanation.conditions.len();
        }
        _ => return false,
    };
    let has_usage = there.status.as_ref().is_some_and(|status| status.usage.is_some());
    !has_usage || Promises::of(there) != record.promises
}

/// Whether the server has thrown away why a claim has no address.
pub(super) fn is_unsaid(effect: &Effect, there: &Claim) -> bool {
    let Effect::Report(_, report) = effect else {
        return false;
    };
    let said = conditions::get(&there.conditions, conditions::READY);
    report.address.is_none() && said.is_none()
}

/// A conflict whose cause cannot be seen would be met again and again: then it counts as a failure.
pub(super) fn is_no_news(effect: &Effect, there: &Outcome) -> bool {
    match (effect, there) {
        (Effect::AddFinalizer(seen) | Effect::Report(seen, _) | Effect::Release(seen), Outcome::Claim(now)) => {
            seen.meta.is_same_view(&now.meta)
        }
        (Effect::Own(seen, _) | Effect::Unlock(seen) | Effect::Delete(seen), Outcome::Address(now)) => {
            seen.meta.is_same_view(&now.meta)
        }
        (
            Effect::Pool(PoolMeta { version: written, .. })
            | Effect::Record(Record { version: written, .. })
            | Effect::Explain(Explanation { version: written, .. }),
            Outcome::Pool(now),
        ) => *written == version(&now.metadata),
        _ => false,
    }
}
