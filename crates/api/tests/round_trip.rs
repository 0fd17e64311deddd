//! Any object that our schema admits comes through our types as it was.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helper functions too"
)]

#[allow(dead_code, unused_imports, reason = "each test program uses its own part")]
mod objects;

use metal3_api::crd;
use objects::{Kind, generate, written};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// With a field that nobody knows in every structure. Maps are not structures: each of their keys is known.
fn with_unknown_fields(value: &Value, schema: &Value) -> Value {
    match value {
        _ if schema["x-kubernetes-preserve-unknown-fields"] == true => value.clone(),
        Value::Object(fields) if schema["additionalProperties"].is_object() => {
            let below = &schema["additionalProperties"];
            let fields = fields.iter().map(|(k, v)| (k.clone(), with_unknown_fields(v, below)));
            Value::Object(fields.collect())
        }
        Value::Object(fields) => {
            let below = |key: &str| &schema["properties"][key];
            let fields = fields
                .iter()
                .map(|(k, v)| (k.clone(), with_unknown_fields(v, below(k))));
            let mut fields: Map<_, _> = fields.collect();
            fields.insert("fromTheFuture".to_owned(), json!([{ "a": null }]));
            Value::Object(fields)
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| with_unknown_fields(item, &schema["items"]));
            Value::Array(items.collect())
        }
        _ => value.clone(),
    }
}

/// With every text of an enum replaced by one that nobody knows.
fn with_unknown_texts(value: &Value, schema: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let below = |key: &str| match &schema["properties"][key] {
                Value::Null => &schema["additionalProperties"],
                property => property,
            };
            Value::Object(
                fields
                    .iter()
                    .map(|(k, v)| (k.clone(), with_unknown_texts(v, below(k))))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(|v| with_unknown_texts(v, &schema["items"])).collect()),
        Value::String(text) if schema["enum"].is_array() => json!(format!("{text} from the future")),
        _ => value.clone(),
    }
}

/// Paths of the nulls in a value, but for those that the schema takes for values.
fn nulls(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Null if schema["nullable"] == true => {}
        Value::Null => found.push(path.to_owned()),
        Value::Array(items) => {
            for item in items {
                nulls(item, &schema["items"], &format!("{path}/*"), found);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                let below = match &schema["properties"][key] {
                    Value::Null => &schema["additionalProperties"],
                    property => property,
                };
                nulls(value, below, &format!("{path}/{key}"), found);
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check(kind: &Kind, object: &Value) -> Result<(), TestCaseError> {
    let once = kind.rewrite(object);
    let mut found = Vec::new();
    nulls(&once, kind.schema(), "", &mut found);
    prop_assert!(found.is_empty(), "nulls at {:?}", found);
    prop_assert_eq!(kind.meaning(&once), kind.meaning(object));
    prop_assert_eq!(&kind.rewrite(&once), &once);
    prop_assert_eq!(&kind.rewrite(&with_unknown_fields(object, kind.schema())), &once);
    let odd = with_unknown_texts(object, kind.schema());
    prop_assert_eq!(kind.meaning(&kind.rewrite(&odd)), kind.meaning(&odd));
    Ok(())
}

#[test]
fn any_object_comes_through_as_it_was() {
    for kind in objects::all() {
        let mut runner = TestRunner::new(ProptestConfig {
            cases: 24,
            source_file: Some(file!()),
            ..ProptestConfig::default()
        });
        let result = runner.run(&generate::of(&kind, 0.5), |object| check(&kind, &object));
        result.unwrap_or_else(|error| panic!("{} {}: {error}", kind.api_version(), kind.name()));
    }
}

/// Exactly, down to which fields are there, where we wrote the object ourselves; in its meaning where a Go client did.
#[test]
fn written_objects_come_through_as_they_were() {
    for kind in objects::all() {
        for (name, object) in written(&kind) {
            let what = format!("{} {} {name}", kind.api_version(), kind.name());
            let once = kind.rewrite(&object);
            if name.starts_with("go-") {
                assert_eq!(kind.meaning(&once), kind.meaning(&object), "{what}");
            } else if name == "minimal" {
                assert_eq!(kind.defaulted(&once), kind.defaulted(&object), "{what}");
            } else {
                assert_eq!(once, object, "{what}");
            }
        }
    }
}

#[test]
fn written_objects_have_every_field() {
    for kind in objects::all() {
        let objects = written(&kind);
        for name in ["full", "minimal", "go-empty"] {
            assert!(
                objects.iter().any(|(n, _)| n == name),
                "{} has no object {name}",
                kind.name()
            );
        }
        let ours = objects
            .iter()
            .filter(|(name, _)| name != "minimal" && !name.starts_with("go-"));
        let ours: Vec<_> = ours.map(|(_, object)| object).collect();
        let mut missing = Vec::new();
        objects::walk(kind.schema(), "", &mut |path, _| {
            if ours.iter().all(|object| objects::at(object, path).is_empty()) {
                missing.push(path.to_owned());
            }
        });
        assert!(
            missing.is_empty(),
            "{} {}: {missing:?}",
            kind.api_version(),
            kind.name()
        );
    }
}

/// A default changes what is stored, so each one is named in the table.
#[test]
fn the_schemas_have_no_defaults_but_those_in_the_table() {
    for kind in objects::all() {
        let mut found = Vec::new();
        objects::walk(kind.schema(), "", &mut |path, schema| {
            if let Some(default) = schema.get("default") {
                found.push((path.to_owned(), default.clone()));
            }
        });
        let named = kind
            .defaults()
            .iter()
            .map(|(path, value)| ((*path).to_owned(), value.clone()));
        let (found, named): (BTreeSet<_>, BTreeSet<_>) = (
            found
                .into_iter()
                .map(|(path, value)| (path, value.to_string()))
                .collect(),
            named.map(|(path, value)| (path, value.to_string())).collect(),
        );
        assert_eq!(found, named, "{} {}", kind.api_version(), kind.name());
    }
}

#[test]
fn defaults_serialise_without_nulls() {
    for kind in objects::all() {
        let mut found = Vec::new();
        nulls(&kind.default_object(), kind.schema(), "", &mut found);
        assert!(found.is_empty(), "{} {}: {found:?}", kind.api_version(), kind.name());
    }
}

/// No version of a kind is left out of the table.
#[test]
fn the_table_is_complete() {
    let table: BTreeSet<_> = objects::all()
        .iter()
        .map(|kind| format!("{}/{}", kind.api_version(), kind.name()))
        .collect();
    for crd in crd::all().unwrap() {
        let spec = &crd.manifest()["spec"];
        for version in spec["versions"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (group, version, kind) = (
                text(&spec["group"]),
                text(&version["name"]),
                text(&spec["names"]["kind"]),
            );
            let row = format!("{group}/{version}/{kind}");
            assert!(table.contains(&row), "tests/objects has no row for {row}");
        }
    }
}
