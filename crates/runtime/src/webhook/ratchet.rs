//! Which errors of a changed object are new. Pure.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use serde_json::Value;

use super::admission::FieldError;

/// The errors, each once.
pub fn distinct(errors: impl IntoIterator<Item = FieldError>) -> Vec<FieldError> {
    let (hashes, mut seen) = (RandomState::new(), HashSet::new());
    let errors = errors.into_iter();
    errors.filter(|error| seen.insert(hashes.hash_one(error))).collect()
}

/// The errors of the new object that the old one did not have. An old error excuses one new error: one with the same message,
/// at the same field, with the same value. An entry of a list is the same at any position. `objects` are the old object and
/// the new one.
pub fn new_errors(old: &[FieldError], new: Vec<FieldError>, objects: impl FnOnce() -> [Value; 2]) -> Vec<FieldError> {
    if old.is_empty() || new.is_empty() {
        return new;
    }
    let (objects, hashes) = (objects(), RandomState::new());
    let [mut before, mut after] = objects.each_ref().map(|object| Errors {
        object,
        hashes: &hashes,
        fields: HashMap::new(),
    });
    let mut excuses: HashMap<u64, usize> = HashMap::new();
    for error in old {
        *excuses.entry(before.identity(error)).or_default() += 1;
    }
    let is_new = |error: &FieldError| match excuses.get_mut(&after.identity(error)) {
        Some(left) if *left > 0 => {
            *left -= 1;
            false
        }
        _ => true,
    };
    new.into_iter().filter(is_new).collect()
}

/// The errors of one object.
struct Errors<'a> {
    object: &'a Value,
    hashes: &'a RandomState,
    /// Hashes of paths and values by their fields. Many errors may have the same field, and its value may be large.
    fields: HashMap<String, u64>,
}

impl Errors<'_> {
    fn identity(&mut self, error: &FieldError) -> u64 {
        let field = if let Some(field) = self.fields.get(&error.field) {
            *field
        } else {
            let field = self.hashes.hash_one(at(self.object, &error.field));
            self.fields.insert(error.field.clone(), field);
            field
        };
        self.hashes.hash_one((field, &error.message))
    }
}

/// The value of a field, such as `spec.pools[0].start` or `metadata.annotations[a.example/b]`, and its path without positions in
/// lists: `spec.pools[].start`. A key of a map stays, even if it is a number.
fn at<'a>(object: &'a Value, path: &str) -> (Option<&'a Value>, String) {
    let (mut value, mut rest, mut without) = (Some(object), path, String::new());
    while let Some(here) = value
        && !rest.is_empty()
    {
        let Some((key, after)) = first_key(here, rest) else {
            value = None;
            break;
        };
        let (inside, part) = match here {
            Value::Array(entries) => (key.parse().ok().and_then(|position: usize| entries.get(position)), "[]"),
            other => (other.get(key), &rest[..rest.len() - after.len()]),
        };
        without.push_str(part);
        (value, rest) = (inside, after);
    }
    without.push_str(rest);
    (value, without)
}

/// The first key of a path, and what follows it.
fn first_key<'p>(value: &Value, path: &'p str) -> Option<(&'p str, &'p str)> {
    if let Some(path) = path.strip_prefix('[') {
        return path.split_once(']');
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    // The last key may be one of a map, with dots.
    let is_last = value.get(path).is_some();
    let end = path.find(['.', '[']).filter(|_| !is_last);
    Some(path.split_at(end.unwrap_or(path.len())))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("", Some(json!({"a": [{"b": 1}], "m": {"x.y[0]": 2, "x": 3}})))]
    #[case("a[0].b", Some(json!(1)))]
    #[case("a[1].b", None)]
    #[case("a[x]", None)]
    #[case("a[0", None)]
    #[case("m.x.y[0]", Some(json!(2)))]
    #[case("m[x]", Some(json!(3)))]
    #[case("m.x.z", None)]
    #[case("m.", None)]
    fn a_field_is_found_by_its_path(#[case] path: &str, #[case] wanted: Option<Value>) {
        let object = json!({"a": [{"b": 1}], "m": {"x.y[0]": 2, "x": 3}});
        assert_eq!(at(&object, path).0, wanted.as_ref());
    }

    fn pools(starts: &[&str]) -> (Vec<FieldError>, Value) {
        let is_wrong = |(_, start): &(usize, &&str)| start.starts_with("bad");
        let wrong = starts.iter().enumerate().filter(is_wrong);
        let error = |(index, _)| FieldError::new(format!("pools[{index}].start"), "is wrong");
        let pools: Vec<Value> = starts.iter().map(|start| json!({"start": start})).collect();
        (wrong.map(error).collect(), json!({"pools": pools}))
    }

    // OWN 30l: an old error was recognized by its field and message alone.
    #[rstest]
    #[case::unchanged(&["good", "bad"], &["good", "bad"], &[])]
    #[case::moved(&["good", "bad"], &["bad"], &[])]
    #[case::another_value(&["bad"], &["bad too"], &["pools[0].start"])]
    #[case::once_more(&["bad"], &["bad", "bad"], &["pools[1].start"])]
    #[case::moved_and_new(&["good", "bad"], &["bad too", "bad"], &["pools[0].start"])]
    fn an_old_error_excuses_one_new_error_of_the_same_value(
        #[case] old: &[&str],
        #[case] new: &[&str],
        #[case] refused: &[&str],
    ) {
        let ((old, before), (new, after)) = (pools(old), pools(new));
        let errors = new_errors(&old, new, || [before, after]);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, refused);
    }

    #[test]
    fn a_number_that_is_a_key_of_a_map_is_no_position() {
        let of = |key: &str| {
            let error = FieldError::new(format!("labels[{key}]"), "is wrong");
            (vec![error], json!({"labels": {key: "bad"}}))
        };
        let ((old, before), (new, after)) = (of("1"), of("2"));
        assert_eq!(new_errors(&old, new.clone(), || [before, after.clone()]), new);
        assert_eq!(new_errors(&new, new.clone(), || [after.clone(), after]), []);
    }
}
