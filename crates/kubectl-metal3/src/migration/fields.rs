//! Fields of schemas.

use std::collections::BTreeSet;

use serde_json::Value;

/// Fields of one definition that another one does not have, as `version: path`. Only versions that both have are compared. Of a field
/// that is missing, those below it are not named.
pub fn missing(from: &Value, other: &Value) -> Vec<String> {
    let versions = from["spec"]["versions"].as_array().into_iter().flatten();
    let mut found = Vec::new();
    for version in versions {
        let theirs = other["spec"]["versions"].as_array().into_iter().flatten();
        let Some(theirs) = theirs.into_iter().find(|theirs| theirs["name"] == version["name"]) else {
            continue;
        };
        let [ours, theirs] = [version, theirs].map(|version| &version["schema"]["openAPIV3Schema"]);
        let mut paths = BTreeSet::new();
        compare(ours, theirs, "", &mut paths);
        let version = version["name"].as_str().unwrap_or_default();
        found.extend(paths.iter().map(|path| format!("{version}: {path}")));
    }
    found
}

fn compare(schema: &Value, other: &Value, path: &str, found: &mut BTreeSet<String>) {
    if other["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match &other["properties"][name] {
            // What is any map takes any field.
            Value::Null if other["additionalProperties"].is_null() => drop(found.insert(path)),
            Value::Null => {}
            below => compare(field, below, &path, found),
        }
    }
    for (part, suffix) in [("items", "[]"), ("additionalProperties", ".*")] {
        if schema[part].is_object() {
            compare(&schema[part], &other[part], &format!("{path}{suffix}"), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(schema: &Value) -> Value {
        json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
    }

    #[test]
    fn a_field_that_the_other_definition_does_not_have_is_named_once() {
        let leaf = json!({"type": "string"});
        let new = json!({"properties": {"a": leaf, "b": {"properties": {"c": leaf}}}});
        let from = json!({"properties": {
            "metadata": {"type": "object"},
            "spec": {"properties": {"old": leaf, "new": new, "any": {"properties": {"x": leaf}}}},
            "list": {"items": {"properties": {"old": leaf, "new": leaf}}},
            "map": {"additionalProperties": {"properties": {"new": leaf}}},
        }});
        let other = json!({"properties": {
            "metadata": {"type": "object"},
            "spec": {"properties": {"old": leaf, "any": {"x-kubernetes-preserve-unknown-fields": true}}},
            "list": {"items": {"properties": {"old": leaf}}},
            "map": {"additionalProperties": {"properties": {"old": leaf}}},
        }});
        let [from, other] = [from, other].map(|schema| definition(&schema));
        assert_eq!(
            missing(&from, &other),
            ["v1: list[].new", "v1: map.*.new", "v1: spec.new"]
        );
        assert_eq!(missing(&other, &other), <[&str; 0]>::default());
    }
}
