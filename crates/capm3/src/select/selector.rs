//! A machine's parsed label selector for hosts.

use metal3_api::infra::v1beta2::HostSelector;
pub use metal3_api::labels::selector::{Expression, Requirement, Selector, SelectorError};

/// Parses the selector of a machine. Without one, every host matches.
pub fn parse(selector: Option<&HostSelector>) -> Result<Selector, Vec<SelectorError>> {
    let Some(selector) = selector else {
        return Ok(Selector::default());
    };
    let expressions = selector.match_expressions.iter().map(|expression| Expression {
        key: &expression.key,
        operator: &expression.operator,
        values: &expression.values,
    });
    Selector::parse(&selector.match_labels, expressions)
}

#[cfg(test)]
mod tests;
