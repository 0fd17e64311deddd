//! A value that is written as a number or as a text.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A number or a text.
///
/// Our own type, because the one of k8s-openapi fails on numbers beyond 32 bits, which API servers accept, and with it
/// the whole list that contains the object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number, kept as it was written.
    Int(serde_json::Number),

    /// A text, which may well consist of digits.
    String(String),
}

impl From<i64> for IntOrString {
    fn from(number: i64) -> Self {
        Self::Int(number.into())
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

/// The number in decimal digits, or the text as it is: what comparisons with texts are made by.
impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl JsonSchema for IntOrString {
    fn schema_name() -> Cow<'static, str> {
        "IntOrString".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case::number(json!(7), 7.into(), "7")]
    #[case::negative(json!(-1), (-1).into(), "-1")]
    #[case::beyond_32_bits(json!(1_i64 << 40), (1_i64 << 40).into(), "1099511627776")]
    #[case::digits(json!("0123"), "0123".into(), "0123")]
    #[case::empty(json!(""), "".into(), "")]
    fn both_forms_come_through(#[case] wire: Value, #[case] value: IntOrString, #[case] text: &str) {
        let read: IntOrString = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(read, value);
        assert_eq!(read.to_string(), text);
        assert_eq!(serde_json::to_value(read).unwrap(), wire);
    }

    #[test]
    fn a_number_beyond_64_bits_stops_nothing() {
        let read: IntOrString = serde_json::from_value(json!(1e19)).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), json!(1e19));
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(serde_json::from_value::<IntOrString>(json!(true)).is_err());
    }
}
