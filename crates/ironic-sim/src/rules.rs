//! Rules that make requests fail.

use serde::{Deserialize, Serialize};

/// Makes some requests go wrong. The first rule that applies decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Only requests with this method.
    pub method: Option<String>,
    /// Only requests with a path like this; `*` stands for any text: `/v1/nodes/*/states/provision`.
    pub path: Option<String>,
    /// So many such requests pass first.
    pub skip: u32,
    /// So many go wrong after that. None: all.
    pub count: Option<u32>,
    /// The share of those that count which do go wrong, 0 to 1. Which ones follows from the simulator's seed.
    pub probability: f64,
    /// Whether the request is done, and only its answer goes wrong.
    pub after: bool,
    /// What happens.
    pub action: Action,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            method: None,
            path: None,
            skip: 0,
            count: None,
            probability: 1.0,
            after: false,
            action: Action::Stall,
        }
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// It is refused.
    Refuse {
        /// The HTTP status.
        status: u16,
        /// The text of the fault.
        text: String,
        /// The header `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u32>,
    },
    /// A gateway in front answers it with a web page of its own.
    Page {
        /// The HTTP status.
        status: u16,
    },
    /// It is answered so many milliseconds of simulated time later.
    Delay {
        /// How many.
        ms: u64,
    },
    /// It is never answered; the connection stays open.
    Stall,
    /// Half of the answer's body comes, then the connection ends.
    Half,
}

#[derive(Debug)]
struct Held {
    rule: Rule,
    seen: u32,
    done: u32,
}

/// The rules in force.
#[derive(Debug)]
pub(crate) struct Rules {
    held: Vec<Held>,
    random: fastrand::Rng,
}

impl Rules {
    pub fn new(seed: u64) -> Self {
        Self {
            held: Vec::new(),
            // Not the series that durations come from, so that rules do not change those.
            random: fastrand::Rng::with_seed(seed ^ 0x5eed),
        }
    }

    pub fn add(&mut self, rule: Rule) {
        self.held.push(Held { rule, seen: 0, done: 0 });
    }

    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// What is to happen to a request, and whether only after it was done.
    pub fn choose(&mut self, method: &str, path: &str) -> Option<(Action, bool)> {
        for held in &mut self.held {
            let rule = &held.rule;
            let is_method = rule
                .method
                .as_deref()
                .is_none_or(|wanted| wanted.eq_ignore_ascii_case(method));
            if !is_method || !rule.path.as_deref().is_none_or(|pattern| is_like(pattern, path)) {
                continue;
            }
            held.seen += 1;
            if held.seen <= rule.skip || rule.count.is_some_and(|count| held.done >= count) {
                continue;
            }
            if self.random.f64() < rule.probability {
                held.done += 1;
                return Some((rule.action.clone(), rule.after));
            }
        }
        None
    }
}

/// Whether a text is like a pattern in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text
            .strip_prefix(head)
            .is_some_and(|rest| (0..=rest.len()).any(|at| rest.is_char_boundary(at) && is_like(tail, &rest[at..]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("/v1/nodes", "/v1/nodes", true),
            ("/v1/nodes", "/v1/nodes/a", false),
            ("/v1/nodes/*", "/v1/nodes/a/states/power", true),
            ("/v1/nodes/*/states/*", "/v1/nodes/a/states/power", true),
            ("/v1/nodes/*/states", "/v1/nodes/a/states/power", false),
            ("*", "", true),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn counts_and_skips() {
        let mut rules = Rules::new(1);
        rules.add(Rule {
            method: Some("PUT".to_owned()),
            skip: 1,
            count: Some(2),
            ..Rule::default()
        });
        let seen: Vec<bool> = (0..5).map(|_| rules.choose("PUT", "/v1/x").is_some()).collect();
        assert_eq!(seen, [false, true, true, false, false]);
        assert_eq!(rules.choose("GET", "/v1/x"), None);
    }

    #[test]
    fn a_share_follows_from_the_seed() {
        let series = |seed| {
            let mut rules = Rules::new(seed);
            rules.add(Rule {
                probability: 0.3,
                ..Rule::default()
            });
            (0..1000)
                .map(|_| rules.choose("GET", "/").is_some())
                .collect::<Vec<bool>>()
        };
        assert_eq!(series(7), series(7));
        assert_ne!(series(7), series(8));
        let share = series(7).iter().filter(|hit| **hit).count();
        assert!((200..400).contains(&share), "{share}");
    }
}
