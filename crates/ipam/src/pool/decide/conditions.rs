//! A pool's status: numbers and conditions.

use jiff::Timestamp;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::ipam::{IPPool, PoolUsage};
use metal3_runtime::conditions;

use crate::alloc::{Problem, Severity, Usage};

/// The numbers of the status.
pub(super) fn usage(usage: Usage, waiting: usize) -> PoolUsage {
    let number = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
    PoolUsage {
        size: number(usage.total),
        used: number(usage.used),
        reserved: number(usage.reserved),
        free: number(usage.free),
        waiting: i64::try_from(waiting).unwrap_or(i64::MAX),
    }
}

/// Condition: the pool's spec is valid.
pub const SPEC_VALID: &str = "SpecValid";
/// Condition: two objects have one address, or one claim has two.
pub const CONSISTENT: &str = "Consistent";

/// A pool's conditions, next to those set by others.
pub(super) fn pool_conditions(
    pool: &IPPool,
    problems: &[Problem],
    usage: PoolUsage,
    rivals: &[String],
    now: Timestamp,
) -> Vec<Condition> {
    let status = pool.status.as_ref();
    let mut list = status.map(|status| status.conditions.clone()).unwrap_or_default();
    let mut set = |type_, holds: bool, reason, message: &str| {
        let message = &bounded(message);
        let status = if holds {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        };
        let claim = conditions::Claim {
            type_,
            status,
            reason,
            message,
        };
        conditions::set(&mut list, &claim, pool.metadata.generation, now);
    };
    let say = |problem: &Problem, sign: &str| format!("{}{sign} {}", problem.field, problem.message);
    let error = problems.iter().find(|problem| problem.severity == Severity::Error);
    if usage.size == 0 {
        let first = error.map(|error| format!(": {}", say(error, ""))).unwrap_or_default();
        let message = format!("no address can be had from this pool{first}");
        set(conditions::READY, false, "NoAddresses", &message);
    } else if usage.free == 0 {
        let message = "every address is in use or kept for a claim";
        set(conditions::READY, false, "PoolExhausted", message);
    } else {
        set(conditions::READY, true, "Ready", "");
    }
    let all: Vec<String> = problems.iter().map(|problem| say(problem, ":")).collect();
    let reason = match (error, problems) {
        (Some(_), _) => "Invalid",
        (None, []) => "Valid",
        (None, [_, ..]) => "Questionable",
    };
    set(SPEC_VALID, error.is_none(), reason, &all.join("; "));
    if rivals.is_empty() {
        conditions::remove(&mut list, CONSISTENT);
    } else {
        let names = rivals.join(", ");
        let message = format!("spec.address or spec.claim is another address's, too: {names}");
        set(CONSISTENT, false, "Rivals", &message);
    }
    list
}

/// Truncated to the schema's limit.
pub(super) fn bounded(text: &str) -> String {
    const MOST: usize = 4096;
    text.chars().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use metal3_runtime::conditions::get;

    use super::*;

    #[test]
    fn two_objects_for_one_address_are_named_until_one_is_gone() {
        let mut pool = IPPool::default();
        let mut conditions_with = |rivals: &[&str]| {
            let rivals: Vec<String> = rivals.iter().map(|name| (*name).to_owned()).collect();
            let list = pool_conditions(&pool, &[], PoolUsage::default(), &rivals, Timestamp::UNIX_EPOCH);
            pool.status.get_or_insert_default().conditions.clone_from(&list);
            get(&list, CONSISTENT).cloned()
        };
        assert_eq!(conditions_with(&[]), None);
        let told = conditions_with(&[
            "ipam.metal3.io/v1alpha1 IPAddress a",
            "ipam.metal3.io/v1alpha1 IPAddress b",
        ]);
        let told = told.unwrap();
        assert_eq!((told.status, told.reason.as_str()), (ConditionStatus::False, "Rivals"));
        assert!(
            told.message
                .ends_with("IPAddress a, ipam.metal3.io/v1alpha1 IPAddress b"),
            "{}",
            told.message
        );
        assert_eq!(conditions_with(&[]), None);
    }
}
