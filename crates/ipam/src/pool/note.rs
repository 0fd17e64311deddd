//! What users are told by events.

use std::sync::Arc;

use metal3_runtime::events::{Note, Severity};

use super::seen::{Claim, ClaimKey};

/// A note, and what it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The claim; nothing for the pool.
    pub claim: Option<Arc<Claim>>,
    /// What happened.
    pub note: Note,
}

/// Events of one round beyond so many are told as one, on the pool.
pub const MANY: usize = 32;

/// A claim got its address.
pub const ALLOCATED: &str = "AddressAllocated";
/// A claim is gone, and its address is free.
pub const RELEASED: &str = "AddressReleased";
/// No address is left for a claim.
pub const EXHAUSTED: &str = "PoolExhausted";
/// A claim cannot be served.
pub const FAILED: &str = "AllocationFailed";
/// A claim waits for its pool, or a pool cannot be read or written.
pub const WAITING: &str = "PoolNotReady";
/// A pool or a claim waits for its Cluster. Reason of their conditions, too.
pub const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";
/// An address without a claim was removed.
pub const ORPHANED: &str = "OrphanedAddressRemoved";
/// The pool's definition lacks what this version needs.
pub const OUTDATED: &str = "DefinitionOutdated";

/// Puts many notes of one reason together, so that a burst of claims does not become a burst of events.
pub fn gathered(told: Vec<Told>) -> Vec<Told> {
    if told.len() <= MANY {
        return told;
    }
    let mut reasons: Vec<&'static str> = told.iter().map(|told| told.note.reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let mut gathered = Vec::new();
    for reason in reasons {
        let of_reason = told.iter().filter(|told| told.note.reason == reason);
        let (of_claims, of_pool): (Vec<&Told>, Vec<&Told>) = of_reason.partition(|told| told.claim.is_some());
        gathered.extend(of_pool.into_iter().cloned());
        match of_claims.first() {
            Some(first) if of_claims.len() > 2 => {
                let keys = of_claims.iter().filter_map(|told| Some(&told.claim.as_ref()?.key));
                let message = format!("{} claims at once, among them {}", of_claims.len(), some(keys));
                gathered.push(about_pool(reason, first.note.severity, message));
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

/// A note about a claim.
pub fn about(claim: &Arc<Claim>, reason: &'static str, severity: Severity, message: String) -> Told {
    Told {
        claim: Some(claim.clone()),
        note: Note {
            reason,
            message,
            severity,
        },
    }
}

/// A note about the pool itself.
pub fn about_pool(reason: &'static str, severity: Severity, message: String) -> Told {
    Told {
        claim: None,
        note: Note {
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

    fn told(number: usize, reason: &'static str) -> Told {
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

    fn orphan(number: usize) -> Told {
        about_pool(ORPHANED, Severity::Warning, format!("orphan {number}"))
    }

    fn messages(told: Vec<Told>) -> Vec<String> {
        assert!(told.iter().all(|told| told.claim.is_none()), "all are about the pool");
        told.into_iter().map(|told| told.note.message).collect()
    }

    #[test]
    fn a_few_events_are_told_one_by_one() {
        let few: Vec<Told> = (0..MANY).map(|number| told(number, ALLOCATED)).collect();
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
        let orphans: Vec<Told> = (0..=MANY).map(orphan).collect();
        assert_eq!(gathered(orphans.clone()), orphans);

        let mut both: Vec<Told> = (0..MANY).map(|number| told(number, WAITING)).collect();
        both.push(about_pool(WAITING, Severity::Warning, "of the pool".to_owned()));
        let messages = messages(gathered(both));
        assert_eq!(messages[0], "of the pool");
        assert!(messages[1].starts_with("32 claims at once, "), "{messages:?}");
        assert_eq!(messages.len(), 2);
    }

    #[test]
    fn a_rare_reason_is_not_lost_in_a_burst_of_another() {
        let mut both: Vec<Told> = (0..=MANY).map(|number| told(number, ALLOCATED)).collect();
        both.push(told(99, EXHAUSTED));
        let gathered = gathered(both);
        assert!(gathered.contains(&told(99, EXHAUSTED)), "{gathered:?}");
        assert_eq!(gathered.len(), 2);
    }
}
