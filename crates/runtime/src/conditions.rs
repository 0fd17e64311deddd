//! Status conditions: one way to set them, so that every controller follows the same rules.

use jiff::{SignedDuration, Timestamp, TimestampRound, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use metal3_api::condition::{Condition, ConditionStatus};

/// The condition that summarizes the others, and that lists start with.
pub const READY: &str = "Ready";

/// The wanted content of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// Which condition.
    pub type_: &'a str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One CamelCase word for programs; never empty.
    pub reason: &'a str,
    /// Text for users; may be empty.
    pub message: &'a str,
}

/// Sets one condition and leaves the others unchanged. Returns whether anything changed.
///
/// `lastTransitionTime` becomes `now`, in whole seconds as it is stored, only if the status changes. The list is kept
/// in order: `Ready` first, the rest alphabetical. Duplicates of the type are removed.
pub fn set(conditions: &mut Vec<Condition>, claim: &Claim<'_>, generation: Option<i64>, now: Timestamp) -> bool {
    let since = match get(conditions, claim.type_) {
        Some(before) if before.status == claim.status => before.last_transition_time.clone(),
        _ => Time(whole_seconds(now)),
    };
    let new = Condition {
        type_: claim.type_.to_owned(),
        status: claim.status.clone(),
        observed_generation: generation,
        last_transition_time: since,
        reason: claim.reason.to_owned(),
        message: claim.message.to_owned(),
    };
    let before = conditions.clone();
    conditions.retain(|condition| condition.type_ != claim.type_);
    conditions.push(new);
    conditions.sort_by(|a, b| order(a).cmp(&order(b)));
    *conditions != before
}

/// Removes a condition. Returns whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// The condition of this type.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether this condition is there and holds.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    get(conditions, type_).is_some_and(|condition| condition.status == ConditionStatus::True)
}

fn order(condition: &Condition) -> (bool, &str) {
    (condition.type_ != READY, &condition.type_)
}

/// Truncates to what the stored form (RFC 3339 in seconds) keeps, so that a comparison with the cache finds no spurious
/// difference.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    let floor = TimestampRound::new()
        .smallest(Unit::Second)
        .mode(jiff::RoundMode::Floor);
    time.round(floor).unwrap_or_else(|_| {
        time.saturating_sub(SignedDuration::from_nanos(i64::from(time.subsec_nanosecond())))
            .unwrap_or(time)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn claim<'a>(type_: &'a str, status: ConditionStatus, reason: &'a str) -> Claim<'a> {
        Claim {
            type_,
            status,
            reason,
            message: "",
        }
    }

    #[test]
    fn the_time_moves_only_with_the_status() {
        let mut list = Vec::new();
        let no = claim(READY, ConditionStatus::False, "NotProvisioned");
        assert!(set(&mut list, &no, Some(1), at("2026-01-01T00:00:01.9Z")));
        let first = at("2026-01-01T00:00:01Z");
        assert_eq!(list[0].last_transition_time.0, first);
        assert!(!set(&mut list, &no, Some(1), at("2026-01-02T00:00:00Z")));

        let other_reason = claim(READY, ConditionStatus::False, "Error");
        assert!(set(&mut list, &other_reason, Some(2), at("2026-01-02T00:00:00Z")));
        assert_eq!(
            (list[0].last_transition_time.0, list[0].observed_generation),
            (first, Some(2))
        );

        assert!(set(
            &mut list,
            &claim(READY, ConditionStatus::True, "Provisioned"),
            Some(2),
            at("2026-01-03T00:00:00Z")
        ));
        assert_eq!(list[0].last_transition_time.0, at("2026-01-03T00:00:00Z"));
        assert!(is_true(&list, READY));
    }

    #[test]
    fn ready_comes_first_and_the_rest_is_alphabetical() {
        let mut list = Vec::new();
        for type_ in ["Provisioned", "Healthy", READY, "AvailableForProvisioning"] {
            set(
                &mut list,
                &claim(type_, ConditionStatus::Unknown, "Why"),
                None,
                at("2026-01-01T00:00:00Z"),
            );
        }
        let types: Vec<_> = list.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, [READY, "AvailableForProvisioning", "Healthy", "Provisioned"]);
        assert!(!is_true(&list, "Healthy") && !is_true(&list, "Missing"));
        assert!(remove(&mut list, "Healthy") && !remove(&mut list, "Healthy"));
    }

    #[test]
    fn a_doubled_type_is_repaired() {
        let mut list = Vec::new();
        let no = claim(READY, ConditionStatus::False, "No");
        set(&mut list, &no, None, at("2026-01-01T00:00:00Z"));
        list.push(list[0].clone());
        assert!(set(&mut list, &no, None, at("2026-01-02T00:00:00Z")));
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].last_transition_time.0, at("2026-01-01T00:00:00Z"));
    }
}
