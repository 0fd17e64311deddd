//! Who wrote which field, as API servers record it.

use serde_json::{Map, Value, json};

/// The fields of a value, in the form of `fieldsV1`.
fn fields(value: &Value) -> Value {
    let mut below = Map::new();
    match value {
        Value::Object(map) => below.extend(map.iter().map(|(key, value)| (format!("f:{key}"), fields(value)))),
        // Only lists of conditions are merged item by item; all others are one field.
        Value::Array(items) => {
            for item in items {
                if let Some(type_) = item.get("lastTransitionTime").and(item.get("type")) {
                    let key = format!("k:{}", json!({ "type": type_ }));
                    let mut item = fields(item);
                    item["."] = json!({});
                    below.insert(key, item);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Value::Object(below)
}

fn entry(manager: &str, subresource: Option<&str>, fields: &Value) -> Value {
    let mut entry = json!({
        "apiVersion": "metal3.io/v1alpha1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": manager,
        "operation": "Update",
        "time": "2026-02-03T04:05:06Z",
    });
    if let Some(subresource) = subresource {
        entry["subresource"] = json!(subresource);
    }
    entry
}

/// Gives an object what the writes of a user and a controller leave behind in its metadata.
pub fn record(mut object: Value) -> Value {
    let applied = json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": { "annotations": {}, "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"] },
        "spec": object["spec"],
    });
    object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!(applied.to_string());
    written_by("kubectl-client-side-apply", object)
}

/// The same for an object that a controller has made.
pub fn made(object: Value) -> Value {
    written_by("controller", object)
}

fn written_by(author: &str, mut object: Value) -> Value {
    let mut metadata = object["metadata"].clone();
    for system in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
    ] {
        metadata[system] = Value::Null;
    }
    let metadata: Map<_, _> = metadata
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let first = json!({ "f:metadata": fields(&Value::Object(metadata)), "f:spec": fields(&object["spec"]) });
    let mut entries = vec![entry(author, None, &first)];
    if object["status"].is_object() {
        entries.push(entry(
            "controller",
            Some("status"),
            &json!({ "f:status": fields(&object["status"]) }),
        ));
    }
    object["metadata"]["managedFields"] = json!(entries);
    object
}
