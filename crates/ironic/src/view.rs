//! Reading JSON without ever failing: a missing, null or oddly typed value is simply absent. Ironic allows null for
//! every scalar, and one odd value must not cost us the rest of an inventory.

use serde_json::Value;

/// A place in a JSON document, which may not exist.
#[derive(Clone, Copy)]
pub(crate) struct View<'a>(Option<&'a Value>);

impl<'a> View<'a> {
    pub fn of(value: &'a Value) -> Self {
        Self(Some(value))
    }

    pub fn at(self, key: &str) -> Self {
        Self(self.0.and_then(|value| value.get(key)))
    }

    /// Whether there is anything but null here.
    pub fn is_present(self) -> bool {
        self.0.is_some_and(|value| !value.is_null())
    }

    /// A text that is not empty. Numbers are taken as their digits: BMCs publish serial numbers both ways.
    pub fn text(self, key: &str) -> Option<String> {
        match self.at(key).0? {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// A whole number, also out of a text of digits or a number with a fraction.
    pub fn integer(self, key: &str) -> Option<i64> {
        match self.at(key).0? {
            Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub fn boolean(self, key: &str) -> Option<bool> {
        match self.at(key).0? {
            Value::Bool(value) => Some(*value),
            Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }

    pub fn object(self, key: &str) -> Option<&'a serde_json::Map<String, Value>> {
        self.at(key).0?.as_object()
    }

    /// The objects of a list; anything else in it is skipped.
    pub fn list(self, key: &str) -> impl Iterator<Item = View<'a>> + use<'a> {
        let items = self.at(key).0.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        items.iter().filter(|item| item.is_object()).map(View::of)
    }

    pub fn texts(self, key: &str) -> Vec<String> {
        let items = self.at(key).0.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

/// A finite number without its fraction, if it fits.
pub(crate) fn whole(number: f64) -> Option<i64> {
    // 2^53 and below is exact in a float; sizes and counts beyond that do not come with a fraction.
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    let number = number.trunc();
    #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
    (number.abs() <= LIMIT).then_some(number as i64)
}
