//! Comparisons of JSON.

use metal3_api::capi::names::annotation::CONVERSION_DATA;
use metal3_api::infra::names::annotation::V1BETA1_DATA;
use serde_json::Value;

/// Without the annotations that each version carries for the other.
pub fn bare(mut object: Value) -> Value {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return object;
    };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(CONVERSION_DATA);
        annotations.remove(V1BETA1_DATA);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    if metadata.is_empty()
        && let Some(object) = object.as_object_mut()
    {
        object.remove("metadata");
    }
    object
}

/// Without fields that are null.
pub fn without_null(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(key, value)| (key, without_null(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_null).collect()),
        other => other,
    }
}

/// Without what means the same as its absence: empty texts, lists and structures, null, zero and false.
pub fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), without_empty(value)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        _ => value.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
