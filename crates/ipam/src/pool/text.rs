//! Between the API's texts and what decisions work with.

use jiff::Timestamp;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::ipam::{IPPool, IPPoolSpec, PoolUsage};
use metal3_runtime::conditions;

use crate::alloc::{EntryText, Plan, PoolText, Problem, Severity, Usage};

/// A specification as the allocator reads it.
pub fn pool_text(spec: &IPPoolSpec) -> PoolText {
    let entry = |entry: &metal3_api::ipam::PoolEntry| EntryText {
        start: entry.start.clone(),
        end: entry.end.clone(),
        subnet: entry.subnet.clone(),
        prefix: entry.prefix,
        gateway: entry.gateway.clone(),
        dns_servers: entry.dns_servers.clone(),
    };
    PoolText {
        strategy: spec.allocation_strategy.as_str().to_owned(),
        entries: spec.pools.iter().map(entry).collect(),
        reserved: spec.pre_allocations.clone(),
        prefix: spec.prefix,
        gateway: spec.gateway.clone(),
        dns_servers: spec.dns_servers.clone(),
    }
}

/// What a specification means.
pub fn plan_of(spec: &IPPoolSpec) -> Plan {
    Plan::read(&pool_text(spec))
}

/// What is wrong with a specification: with what [`plan_of`] has read, and with the names that objects will get.
pub fn problems_of(spec: &IPPoolSpec, plan: &Plan) -> Vec<Problem> {
    let mut problems = plan.problems().to_vec();
    let prefix = &spec.name_prefix;
    if !is_start_of_names(prefix) {
        problems.push(Problem {
            field: "spec.namePrefix".to_owned(),
            message: format!(
                "no object can have a name that begins with {prefix:?}: it takes lower-case letters, digits, \"-\" and \".\", a \
                 letter or digit first, and {LONGEST_PREFIX} characters at most"
            ),
            severity: Severity::Error,
        });
    }
    problems
}

/// Kubernetes allows 253 characters. A `-` and the longest address take some of them.
const LONGEST_PREFIX: usize = 253 - 1 - "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".len();

fn is_start_of_names(prefix: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_allowed = |c: char| is_plain(c) || ['-', '.', ':'].contains(&c);
    prefix.starts_with(is_plain) && prefix.chars().all(is_allowed) && prefix.len() <= LONGEST_PREFIX
}

/// Numbers as the status has them.
pub fn usage(usage: Usage, waiting: usize) -> PoolUsage {
    let number = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
    PoolUsage {
        size: number(usage.total),
        used: number(usage.used),
        reserved: number(usage.reserved),
        free: number(usage.free),
        waiting: i64::try_from(waiting).unwrap_or(i64::MAX),
    }
}

/// Whether a pool's specification is as it should be.
pub const SPEC_VALID: &str = "SpecValid";
/// Whether two objects say that they have one address, or one claim two.
pub const CONSISTENT: &str = "Consistent";

/// A pool's conditions, beside those that others have put there.
pub fn pool_conditions(
    pool: &IPPool,
    problems: &[Problem],
    usage: PoolUsage,
    rivals: &[String],
    now: Timestamp,
) -> Vec<Condition> {
    let mut list = pool
        .status
        .as_ref()
        .map(|status| status.conditions.clone())
        .unwrap_or_default();
    let generation = pool.metadata.generation;
    let mut set = |type_, holds: bool, reason, message: &str| {
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
        conditions::set(&mut list, &claim, generation, now);
    };
    let errors: Vec<&Problem> = problems.iter().filter(|p| p.severity == Severity::Error).collect();
    if usage.size == 0 {
        let first = errors.first().map(|p| format!(": {} {}", p.field, p.message));
        let message = format!("no address can be had from this pool{}", first.unwrap_or_default());
        set(conditions::READY, false, "NoAddresses", &bounded(&message));
    } else if usage.free == 0 {
        set(
            conditions::READY,
            false,
            "PoolExhausted",
            "every address is in use or kept for a claim",
        );
    } else {
        set(conditions::READY, true, "Ready", "");
    }
    if problems.is_empty() {
        set(SPEC_VALID, true, "Valid", "");
    } else {
        let list: Vec<String> = problems.iter().map(|p| format!("{}: {}", p.field, p.message)).collect();
        let reason = if errors.is_empty() { "Questionable" } else { "Invalid" };
        set(SPEC_VALID, errors.is_empty(), reason, &bounded(&list.join("; ")));
    }
    if rivals.is_empty() {
        conditions::remove(&mut list, CONSISTENT);
    } else {
        let message = format!(
            "spec.address or spec.claim is another address's, too: {}",
            rivals.join(", ")
        );
        let claim = conditions::Claim {
            type_: CONSISTENT,
            status: ConditionStatus::False,
            reason: "Rivals",
            message: &bounded(&message),
        };
        conditions::set(&mut list, &claim, generation, now);
    }
    list
}

/// Within the schema's limit, whatever there is to say.
pub fn bounded(text: &str) -> String {
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
