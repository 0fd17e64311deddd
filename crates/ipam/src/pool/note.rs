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
        let of_reason: Vec<&Told> = told.iter().filter(|told| told.note.reason == reason).collect();
        // What is told of the pool itself has no claims to name.
        if of_reason.len() <= 2 || of_reason.iter().all(|told| told.claim.is_none()) {
            gathered.extend(of_reason.into_iter().cloned());
            continue;
        }
        let keys = of_reason
            .iter()
            .filter_map(|told| told.claim.as_ref())
            .map(|claim| &claim.key);
        gathered.extend(of_reason.first().map(|first| Told {
            claim: None,
            note: Note {
                reason,
                message: format!("{} claims at once, among them {}", of_reason.len(), some(keys)),
                severity: first.note.severity,
            },
        }));
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
