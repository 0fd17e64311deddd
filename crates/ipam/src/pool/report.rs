//! Events for users, derived from the responses of a round.

use std::sync::Arc;

use metal3_api::capi::names::reason;
use metal3_runtime::events::{Event, Severity};

use super::answer::Answer;
use super::effect::{ClaimReport, Effect, Outcome};
use super::objects::{Claim, ClaimKey};
use super::state::PoolState;

/// An event for users.
#[derive(Clone, Debug, PartialEq)]
pub struct UserEvent {
    /// The claim that it is about; nothing for the pool.
    pub claim: Option<Arc<Claim>>,
    /// What happened.
    pub event: Event,
}

/// Above this number, the events of one round are published as one, on the pool.
pub(super) const MANY: usize = 32;

/// A claim got its address.
pub(super) const ALLOCATED: &str = "AddressAllocated";
/// A claim is gone, and its address is free.
pub(super) const RELEASED: &str = "AddressReleased";
/// No address is left for a claim.
pub(super) const EXHAUSTED: &str = "PoolExhausted";
/// A claim cannot be served.
pub(super) const FAILED: &str = "AllocationFailed";
/// A claim waits for its pool, or a pool cannot be read or written.
pub(super) const WAITING: &str = "PoolNotReady";
/// A pool or a claim waits for its Cluster. Reason of their conditions, too.
pub(super) const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";
/// An address without a claim was removed.
pub(super) const ORPHANED: &str = "OrphanedAddressRemoved";
/// The pool's CRD lacks fields that this version needs.
pub(super) const OUTDATED: &str = "DefinitionOutdated";

/// The event for a response, once it is absorbed.
pub fn events(state: &PoolState, effect: &Effect, answer: &Answer) -> Option<UserEvent> {
    let name = &state.name;
    match (effect, answer) {
        (_, Answer::Dropped(why)) => Some(about_pool(OUTDATED, Severity::Warning, (*why).to_owned())),
        (_, Answer::Failed(_)) => {
            let message = state.failures.pool.message.clone();
            let is_news = effect.claim().is_none() && state.failures.is_pool_reported();
            message
                .filter(|_| is_news)
                .map(|message| about_pool(WAITING, Severity::Warning, message))
        }
        (Effect::Report(claim, report), Answer::Seen(Outcome::Claim(_))) => Some(of_report(state, claim, report)),
        (Effect::Release(claim), Answer::Seen(outcome)) if is_gone(outcome) => {
            let message = format!("the claim is gone, and what it had of IPPool {name} is free");
            Some(about(claim, RELEASED, Severity::Normal, message))
        }
        (Effect::Unlock(address) | Effect::Delete(address), Answer::Seen(outcome))
            if is_gone(outcome) && !state.claims.contains_key(&address.claim) =>
        {
            let message = format!("IPAddress {} had no claim any more: removed", address.id.name);
            Some(about_pool(ORPHANED, Severity::Warning, message))
        }
        _ => None,
    }
}

/// Whether the server has removed the object.
fn is_gone(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Absent => true,
        Outcome::Claim(claim) => claim.meta.is_gone(),
        Outcome::Address(address) => address.meta.is_gone(),
        Outcome::Pool(_) | Outcome::Snapshot(_) | Outcome::Stale(_) | Outcome::Failed(_) => false,
    }
}

fn of_report(state: &PoolState, claim: &Arc<Claim>, report: &ClaimReport) -> UserEvent {
    if let Some(address) = &report.address {
        let message = format!("IPAddress {address} of {}", state.title());
        return about(claim, ALLOCATED, Severity::Normal, message);
    }
    let reason = match report.reason {
        reason::POOL_EXHAUSTED => EXHAUSTED,
        reason::POOL_NOT_READY => WAITING,
        CLUSTER_NOT_FOUND => CLUSTER_NOT_FOUND,
        _ => FAILED,
    };
    about(claim, reason, Severity::Warning, report.message.clone())
}

/// Merges events with the same reason, so that a burst of claims does not become a burst of events.
pub fn gathered(events: Vec<UserEvent>) -> Vec<UserEvent> {
    if events.len() <= MANY {
        return events;
    }
    let mut reasons: Vec<&'static str> = events.iter().map(|event| event.event.reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let mut gathered = Vec::new();
    for reason in reasons {
        let of_reason = events.iter().filter(|event| event.event.reason == reason);
        let (of_claims, of_pool): (Vec<&UserEvent>, Vec<&UserEvent>) =
            of_reason.partition(|event| event.claim.is_some());
        gathered.extend(of_pool.into_iter().cloned());
        match of_claims.first() {
            Some(first) if of_claims.len() > 2 => {
                let keys = of_claims.iter().filter_map(|event| Some(&event.claim.as_ref()?.key));
                let message = format!("{} claims at once, among them {}", of_claims.len(), some(keys));
                gathered.push(about_pool(reason, first.event.severity, message));
            }
            _ => gathered.extend(of_claims.into_iter().cloned()),
        }
    }
    gathered
}

fn some<'a>(keys: impl Iterator<Item = &'a ClaimKey>) -> String {
    let names: Vec<String> = keys.take(5).map(ToString::to_string).collect();
    names.join(", ")
}

/// An event on a claim.
fn about(claim: &Arc<Claim>, reason: &'static str, severity: Severity, message: String) -> UserEvent {
    UserEvent {
        claim: Some(claim.clone()),
        event: Event {
            reason,
            message,
            severity,
        },
    }
}

/// An event on the pool itself.
fn about_pool(reason: &'static str, severity: Severity, message: String) -> UserEvent {
    UserEvent {
        claim: None,
        event: Event {
            reason,
            message,
            severity,
        },
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use metal3_api::ipam::IPClaim;

    use super::*;

    fn told(number: usize, reason: &'static str) -> UserEvent {
        let metadata = ObjectMeta {
            name: Some(format!("c{number}")),
            ..ObjectMeta::default()
        };
        let claim = Claim::from(&IPClaim {
            metadata,
            ..IPClaim::default()
        });
        about(&Arc::new(claim), reason, Severity::Normal, format!("of c{number}"))
    }

    fn orphan(number: usize) -> UserEvent {
        about_pool(ORPHANED, Severity::Warning, format!("orphan {number}"))
    }

    fn messages(told: Vec<UserEvent>) -> Vec<String> {
        assert!(told.iter().all(|told| told.claim.is_none()), "all are about the pool");
        told.into_iter().map(|told| told.event.message).collect()
    }

    #[test]
    fn a_few_events_are_told_one_by_one() {
        let few: Vec<UserEvent> = (0..MANY).map(|number| told(number, ALLOCATED)).collect();
        assert_eq!(gathered(few.clone()), few);
    }

    #[test]
    fn many_events_of_claims_are_told_as_one_that_names_some() {
        let many = (0..=MANY).map(|number| told(number, ALLOCATED)).collect();
        let some = "IPClaim c0, IPClaim c1, IPClaim c2, IPClaim c3, IPClaim c4";
        assert_eq!(
            messages(gathered(many)),
            [format!("33 claims at once, among them {some}")]
        );
    }

    #[test]
    fn what_is_told_of_the_pool_itself_stays_as_it_is_and_is_no_claim() {
        let orphans: Vec<UserEvent> = (0..=MANY).map(orphan).collect();
        assert_eq!(gathered(orphans.clone()), orphans);

        let mut both: Vec<UserEvent> = (0..MANY).map(|number| told(number, WAITING)).collect();
        both.push(about_pool(WAITING, Severity::Warning, "of the pool".to_owned()));
        let messages = messages(gathered(both));
        assert_eq!(messages[0], "of the pool");
        assert!(messages[1].starts_with("32 claims at once, "), "{messages:?}");
        assert_eq!(messages.len(), 2);
    }

    #[test]
    fn a_rare_reason_is_not_lost_in_a_burst_of_another() {
        let mut both: Vec<UserEvent> = (0..=MANY).map(|number| told(number, ALLOCATED)).collect();
        both.push(told(99, EXHAUSTED));
        let gathered = gathered(both);
        assert!(gathered.contains(&told(99, EXHAUSTED)), "{gathered:?}");
        assert_eq!(gathered.len(), 2);
    }
}
