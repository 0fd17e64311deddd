//! A parsed label selector for hosts, as machines and HostClaims have it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{check_key, check_value};

/// Requirements that must all be met. An empty selector matches every host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector(Vec<Arc<Requirement>>);

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// The operator.
    pub test: Test,
}

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// Exists with one of these values.
    In(Vec<String>),
    /// Is absent, or has none of these values.
    NotIn(Vec<String>),
    /// Exists.
    Exists,
    /// Is absent.
    Absent,
    /// Exists, is an integer, and is greater.
    Greater(i64),
    /// Exists, is an integer, and is less.
    Less(i64),
}

/// Why a selector is invalid and matches nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.hostSelector.{path}: {problem}")]
pub struct SelectorError {
    path: String,
    problem: String,
}

/// One requirement as a user wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Expression<'a> {
    /// Key of the label.
    pub key: &'a str,
    /// The operator, in any case.
    pub operator: &'a str,
    /// The values.
    pub values: &'a [String],
}

impl Selector {
    /// Parses a selector; the schema checks neither operators nor the number of values.
    ///
    /// # Errors
    ///
    /// Every requirement that is invalid.
    pub fn parse<'a>(
        match_labels: &BTreeMap<String, String>,
        match_expressions: impl IntoIterator<Item = Expression<'a>>,
    ) -> Result<Self, Vec<SelectorError>> {
        let (mut requirements, mut errors) = (Vec::new(), Vec::new());
        for (key, value) in match_labels {
            let path = format!("matchLabels[{key}]");
            let requirement = Requirement {
                key: key.clone(),
                test: Test::In(vec![value.clone()]),
            };
            match check_key(key).and_then(|()| check_value(value)) {
                Ok(()) => requirements.push(Arc::new(requirement)),
                Err(problem) => errors.push(SelectorError { path, problem }),
            }
        }
        for (number, expression) in match_expressions.into_iter().enumerate() {
            match requirement(expression) {
                Ok(requirement) => requirements.push(Arc::new(requirement)),
                Err((field, problem)) => errors.push(SelectorError {
                    path: format!("matchExpressions[{number}].{field}"),
                    problem,
                }),
            }
        }
        if errors.is_empty() {
            Ok(Self(requirements))
        } else {
            Err(errors)
        }
    }

    /// The first requirement that these labels do not meet.
    pub fn first_unmet(&self, labels: &BTreeMap<String, String>) -> Option<&Arc<Requirement>> {
        self.0.iter().find(|requirement| !requirement.is_met(labels))
    }

    /// Labels, as key and value, that every matching host has.
    pub fn exact(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|requirement| match &requirement.test {
            Test::In(values) => match values.as_slice() {
                [value] => Some((requirement.key.as_str(), value.as_str())),
                _ => None,
            },
            _ => None,
        })
    }
}

/// In kubectl's notation; empty without requirements.
impl fmt::Display for Selector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, requirement) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(out, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl Requirement {
    fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Greater(bound) => number().is_some_and(|number| number > *bound),
            Test::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }

    /// Whether the requirement needs the label to exist.
    pub fn is_positive(&self) -> bool {
        !matches!(self.test, Test::NotIn(_) | Test::Absent)
    }
}

/// In kubectl's notation.
impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::In(values) if values.len() == 1 => write!(out, "{key}={}", values.join("")),
            Test::In(values) => write!(out, "{key} in ({})", values.join(",")),
            Test::NotIn(values) if values.len() == 1 => write!(out, "{key}!={}", values.join("")),
            Test::NotIn(values) => write!(out, "{key} notin ({})", values.join(",")),
            Test::Exists => out.write_str(key),
            Test::Absent => write!(out, "!{key}"),
            Test::Greater(bound) => write!(out, "{key}>{bound}"),
            Test::Less(bound) => write!(out, "{key}<{bound}"),
        }
    }
}

/// Field and problem.
type Problem = (&'static str, String);

fn requirement(expression: Expression<'_>) -> Result<Requirement, Problem> {
    let values = expression.values;
    check_key(expression.key).map_err(|problem| ("key", problem))?;
    let some = || {
        if values.is_empty() {
            return Err(("values", "at least one value is needed".to_owned()));
        }
        let checked = values.iter().try_for_each(|value| check_value(value));
        checked.map(|()| values.to_vec()).map_err(|problem| ("values", problem))
    };
    let one = || match values {
        [value] => check_value(value)
            .map(|()| vec![value.clone()])
            .map_err(|problem| ("values", problem)),
        _ => Err(("values", "exactly one value is needed".to_owned())),
    };
    let none = || {
        if values.is_empty() {
            Ok(())
        } else {
            Err(("values", "must be empty for this operator".to_owned()))
        }
    };
    let number = || match values {
        [value] => value
            .parse::<i64>()
            .map_err(|_| ("values", format!("{value:?} is not an integer"))),
        _ => Err(("values", "exactly one value is needed".to_owned())),
    };
    let test = match expression.operator.to_ascii_lowercase().as_str() {
        "in" => Test::In(some()?),
        "notin" => Test::NotIn(some()?),
        "=" | "==" => Test::In(one()?),
        "!=" => Test::NotIn(one()?),
        "exists" => none().map(|()| Test::Exists)?,
        "!" => none().map(|()| Test::Absent)?,
        "gt" => Test::Greater(number()?),
        "lt" => Test::Less(number()?),
        "doesnotexist" => return Err(("operator", "is written ! here".to_owned())),
        _ => {
            let operator = expression.operator;
            let known = "in, notin, =, ==, !=, exists, !, gt, lt";
            return Err(("operator", format!("{operator:?} is not known, use one of {known}")));
        }
    };
    Ok(Requirement {
        key: expression.key.to_owned(),
        test,
    })
}
