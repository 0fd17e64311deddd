//! Interprets the response to a request. Some look like a success or a change and are neither.

use metal3_api::ipam::IPPool;
use metal3_runtime::conditions;

use super::effect::{Effect, Outcome};
use super::objects::{Claim, version};
use super::reservation::Reservation;

/// An interpreted response.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The write succeeded.
    Seen(Outcome),
    /// The request failed.
    Failed(String),
    /// The API server has pruned what was written, because its CRD is too old.
    Dropped(&'static str),
}

/// Without these status fields, two managers, or one before and after a crash, could allocate an address twice.
const WITHOUT_RESERVATIONS: &str = "the CustomResourceDefinition of IPPool is older than this manager: it drops status.allocating, \
     without which no address can be given; apply the definitions of this version (config/crd)";

/// If this is missing afterwards, it would be written again and again.
const WITHOUT_CONDITIONS: &str = "the CustomResourceDefinition of IPClaim is older than this manager: it drops status.conditions, so \
     that claims cannot say what they wait for; apply the definitions of this version (config/crd)";

/// Interprets the outcome of an effect.
pub fn judge(effect: &Effect, outcome: Outcome) -> Answer {
    let is_of_pool = effect.claim().is_none();
    match outcome {
        Outcome::Failed(why) => Answer::Failed(why),
        // The watch will show that the pool is deleted or replaced.
        Outcome::Absent if is_of_pool => Answer::Failed("the pool is gone".to_owned()),
        Outcome::Stale(there) if is_of_pool && *there == Outcome::Absent => {
            Answer::Failed("the pool is gone".to_owned())
        }
        Outcome::Stale(there) if is_no_news(effect, &there) => {
            Answer::Failed("refused although nothing has changed".to_owned())
        }
        Outcome::Pool(pool) if is_dropped(effect, &pool) => Answer::Dropped(WITHOUT_RESERVATIONS),
        Outcome::Claim(claim) if is_unsaid(effect, &claim) => Answer::Dropped(WITHOUT_CONDITIONS),
        outcome => Answer::Seen(outcome),
    }
}

/// Whether the server has pruned what was written into the pool's status.
fn is_dropped(effect: &Effect, there: &IPPool) -> bool {
    let Effect::Record(record) = effect else {
        return false;
    };
    let status = there.status.clone().unwrap_or_default();
    let has_all = status.usage == record.usage && status.conditions.len() >= record.conditions.len();
    !has_all || Reservation::all(there) != record.reservations
}

/// Whether the server has pruned why a claim has no address.
fn is_unsaid(effect: &Effect, there: &Claim) -> bool {
    let said = conditions::get(&there.conditions, conditions::READY);
    matches!(effect, Effect::Report(_, report) if report.address.is_none()) && said.is_none()
}

/// Whether a conflict has no visible cause. It would recur, so it counts as a failure.
fn is_no_news(effect: &Effect, there: &Outcome) -> bool {
    match (effect, there) {
        (Effect::AddFinalizer(seen) | Effect::Report(seen, _) | Effect::Release(seen), Outcome::Claim(now)) => {
            seen.meta.is_same_view(&now.meta)
        }
        (Effect::Own(seen, _) | Effect::Unlock(seen) | Effect::Delete(seen), Outcome::Address(now)) => {
            seen.meta.is_same_view(&now.meta)
        }
        (effect, Outcome::Pool(now)) => effect.pool_version() == Some(version(&now.metadata)),
        _ => false,
    }
}
