//! Puts back what the other version could not say.

use super::Convert;
use super::body::Body;
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};

/// Completes a freshly converted object with what was saved of it when it was converted the other way.
///
/// `away` and `back` lead to the other version and back. What they make of the saved object shows what gets lost on the way;
/// where the object still has what came of that, it gets what was saved. `references` are put back whole or not at all:
/// the kind of one object and the name of another make no reference.
///
/// The result says in the other version exactly what `plain` says there. Where putting back would change that, and where
/// the saved object cannot be converted, `plain` stays as it is.
///
/// # Errors
///
/// `plain` cannot be converted.
pub fn restore(
    plain: Body,
    saved: Body,
    away: Convert,
    back: Convert,
    references: &[&str],
) -> Result<Body, serde_json::Error> {
    let lossy = away(&saved).and_then(|body| back(&body));
    let Ok(lossy) = lossy else {
        return Ok(plain);
    };
    let full = Value::Object(saved);
    let lossy = Value::Object(lossy);
    let now = Value::Object(plain);
    let merged = merge(Some(&now), Some(&lossy), Some(&full), "", references);
    let Value::Object(plain) = now else {
        return Ok(Body::new());
    };
    let Some(Value::Object(merged)) = merged else {
        return Ok(plain);
    };
    match away(&merged) {
        Ok(same) if same == away(&plain)? => Ok(merged),
        _ => Ok(plain),
    }
}

/// What `now` is with what `full` has over `lossy`.
fn merge(
    now: Option<&Value>,
    lossy: Option<&Value>,
    full: Option<&Value>,
    path: &str,
    references: &[&str],
) -> Option<Value> {
    if now == lossy {
        return full.cloned();
    }
    match (now, full) {
        (Some(Value::Object(now)), Some(Value::Object(full))) if !references.contains(&path) => {
            let keys: BTreeSet<&String> = now.keys().chain(full.keys()).collect();
            let lossy = |key: &str| lossy.and_then(|lossy| lossy.get(key));
            let merged = keys.into_iter().filter_map(|key| {
                let path = format!("{path}/{key}");
                let value = merge(now.get(key), lossy(key), full.get(key), &path, references)?;
                Some((key.clone(), value))
            });
            Some(Value::Object(merged.collect()))
        }
        (Some(Value::Array(now)), Some(Value::Array(full))) => {
            let lossy = lossy.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let (lossy, full) = (by_name(lossy), by_name(full));
            let merged = now.iter().map(|item| {
                // An item that either list lacks, or has twice, has no counterpart.
                let named = name(item).and_then(|name| Some(((*lossy.get(name)?)?, (*full.get(name)?)?)));
                let merged =
                    named.and_then(|(lossy, full)| merge(Some(item), Some(lossy), Some(full), path, references));
                merged.unwrap_or_else(|| item.clone())
            });
            Some(Value::Array(merged.collect()))
        }
        _ => now.cloned(),
    }
}

/// The items of a list by what names them; none where two have one name. A user decides how long the list is, so looking for each
/// item in the whole list would take the square of the time.
fn by_name(list: &[Value]) -> HashMap<&Value, Option<&Value>> {
    let mut items = HashMap::new();
    for item in list {
        if let Some(name) = name(item) {
            items
                .entry(name)
                .and_modify(|other| *other = None)
                .or_insert(Some(item));
        }
    }
    items
}

/// What tells an item of a list from the others.
fn name(item: &Value) -> Option<&Value> {
    ["id", "key", "name", "network", "type"]
        .into_iter()
        .find_map(|field| item.get(field))
}

/// The parts of an object that `view`, the same object after a way there and back, does not show. What only looks empty
/// counts as absent: v1beta1 cannot tell the two apart.
pub fn inexpressible(object: &Body, view: &Body) -> Body {
    let lost = object.iter().filter(|(part, value)| {
        let seen = view.get(*part).and_then(without_empty);
        without_empty(value) != seen
    });
    lost.map(|(part, value)| (part.clone(), value.clone())).collect()
}

/// A value without what means the same as its absence.
fn without_empty(value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            let items = items.iter().map(|item| without_empty(item).unwrap_or_default());
            Some(Value::Array(items.collect()))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(key, value)| {
                // Its absence lets noCloudProvider decide, its `false` does not.
                let is_choice = key == "cloudProviderEnabled" && value.is_boolean();
                let value = if is_choice {
                    value.clone()
                } else {
                    without_empty(value)?
                };
                Some((key.clone(), value))
            });
            let fields: Map<String, Value> = fields.collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        _ => Some(value.clone()),
    }
}
