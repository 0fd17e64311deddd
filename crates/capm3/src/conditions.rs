//! Conditions in both styles: the standard ones, and those of contract v1beta1 for older clients.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::infra::v1beta2::LegacyCondition;
use metal3_runtime::conditions::{self, Claim, whole_seconds};

/// Severity of a false v1beta1 condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacySeverity {
    /// It needs a change by the user.
    Error,
    /// An error that may resolve itself.
    Warning,
    /// It is in progress and needs no action.
    Info,
}

impl LegacySeverity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Warning => "Warning",
            Self::Info => "Info",
        }
    }
}

/// Sets conditions of one object at one point in time.
#[derive(Clone, Copy, Debug)]
pub struct Setter {
    /// The generation they are computed from.
    pub generation: Option<i64>,
    /// The time.
    pub now: Timestamp,
}

impl Setter {
    /// Sets a standard condition.
    pub fn set(&self, list: &mut Vec<Condition>, type_: &str, holds: bool, reason: &str, message: &str) {
        let status = if holds {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        };
        let claim = Claim {
            type_,
            status,
            reason,
            message,
        };
        conditions::set(list, &claim, self.generation, self.now);
    }

    /// Sets a v1beta1 condition to true, or to false with a reason. Ready comes first, the rest in order.
    pub fn legacy(&self, list: &mut Vec<LegacyCondition>, type_: &str, failed: Option<(LegacySeverity, &str, &str)>) {
        let status = if failed.is_none() { "True" } else { "False" };
        let before = list.iter().find(|condition| condition.type_ == type_);
        let since = before.filter(|before| before.status == status);
        let since = since.map_or_else(|| Time(whole_seconds(self.now)), |c| c.last_transition_time.clone());
        let (severity, reason, message) = failed.map_or(("", "", ""), |(severity, reason, message)| {
            (severity.as_str(), reason, message)
        });
        let condition = LegacyCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            severity: severity.to_owned(),
            last_transition_time: since,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        list.retain(|condition| condition.type_ != type_);
        list.push(condition);
        list.sort_by_key(|condition| (condition.type_ != conditions::READY, condition.type_.clone()));
    }
}

/// Moves the observed generation to the one our own spec write created. Otherwise the next pass would write a status only to
/// update that number.
pub fn carry_over(list: &mut [Condition], judged: Option<i64>, now: Option<i64>) {
    for condition in list.iter_mut().filter(|c| c.observed_generation == judged) {
        condition.observed_generation = now;
    }
}

/// Truncates a text to at most this many bytes, at a character boundary.
pub fn cut(text: &mut String, bytes: usize) {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_is_cut_between_characters() {
        for (bytes, left) in [(0, ""), (1, "a"), (2, "a"), (3, "aß"), (9, "aß")] {
            let mut text = "aß".to_owned();
            super::cut(&mut text, bytes);
            assert_eq!(text, left);
        }
    }

    use super::*;

    #[test]
    fn what_was_judged_holds_for_what_we_made_of_it_and_nothing_else_does() {
        let mut list = Vec::new();
        for (generation, type_) in [(3, "A"), (4, "B")] {
            let set = Setter {
                generation: Some(generation),
                now: Timestamp::UNIX_EPOCH,
            };
            set.set(&mut list, type_, true, "Why", "");
        }
        carry_over(&mut list, Some(4), Some(5));
        let generations: Vec<_> = list.iter().map(|c| c.observed_generation).collect();
        assert_eq!(generations, [Some(3), Some(5)]);
    }

    #[test]
    fn the_older_style_keeps_its_time_while_the_status_stays() {
        let at = |text: &str| Setter {
            generation: Some(1),
            now: text.parse().unwrap(),
        };
        let mut list = Vec::new();
        let failed = Some((LegacySeverity::Error, "Why", "words"));
        at("2026-01-01T00:00:01.5Z").legacy(&mut list, "B", failed);
        at("2026-01-01T00:00:02Z").legacy(&mut list, "Ready", failed);
        at("2026-01-01T00:00:09Z").legacy(&mut list, "B", Some((LegacySeverity::Info, "Other", "")));
        assert_eq!((list[0].type_.as_str(), list[1].type_.as_str()), ("Ready", "B"));
        assert_eq!(list[1].last_transition_time.0, "2026-01-01T00:00:01Z".parse().unwrap());
        assert_eq!((list[1].severity.as_str(), list[1].reason.as_str()), ("Info", "Other"));
        at("2026-01-01T00:00:10Z").legacy(&mut list, "B", None);
        assert_eq!(list[1].last_transition_time.0, "2026-01-01T00:00:10Z".parse().unwrap());
        assert_eq!((list[1].severity.as_str(), list[1].reason.as_str()), ("", ""));
    }
}
