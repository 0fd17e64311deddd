//! Objects that a version's schema admits, and some that it only nearly does.

use super::schema;
use metal3_api::crd::Crd;
use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::{Value, json};

/// Objects of a kind in one version. `fullness` is how likely each optional field is there, from 0 to 1.
pub fn of(crd: &Crd, version: &str, fullness: f64) -> BoxedStrategy<Value> {
    let api_version = format!("infrastructure.cluster.x-k8s.io/{version}");
    let kind = crd.manifest()["spec"]["names"]["kind"].clone();
    let mut schema = schema(crd, version).clone();
    for property in ["apiVersion", "kind", "metadata"] {
        schema["properties"].as_object_mut().unwrap().remove(property);
    }
    let annotations = prop::option::of(Just(json!({ "a": "b" })));
    (structures(&schema, fullness), annotations)
        .prop_map(move |(mut object, annotations)| {
            object["apiVersion"] = json!(api_version);
            object["kind"] = kind.clone();
            object["metadata"] = json!({ "name": "h", "namespace": "n", "uid": "u", "labels": { "l": "m" } });
            if let Some(annotations) = annotations {
                object["metadata"]["annotations"] = annotations;
            }
            object
        })
        .boxed()
}

fn values(name: &str, schema: &Value, fullness: f64) -> BoxedStrategy<Value> {
    if let Some(texts) = schema["enum"].as_array() {
        return prop::sample::select(texts.clone()).boxed();
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return anything(schema["type"] == "object");
    }
    let bound = |keyword: &str, otherwise: i64| schema[keyword].as_i64().unwrap_or(otherwise);
    match schema["type"].as_str().unwrap() {
        "object" if schema["additionalProperties"].is_object() => {
            let value = values("", &schema["additionalProperties"], fullness);
            prop::collection::btree_map("[a-c]{1,2}", value, 0..3)
                .prop_map(|map| json!(map))
                .boxed()
        }
        "object" => structures(schema, fullness),
        "array" => {
            let sizes = usize::try_from(bound("minItems", 0)).unwrap()..3;
            prop::collection::vec(values("", &schema["items"], fullness), sizes)
                .prop_map(Value::Array)
                .boxed()
        }
        "string" => texts(name, schema),
        "integer" => (bound("minimum", -9)..=bound("maximum", 1 << 20))
            .prop_map(Value::from)
            .boxed(),
        "boolean" => any::<bool>().prop_map(Value::Bool).boxed(),
        other => panic!("no values of type {other}"),
    }
}

/// Any JSON, or any structure.
fn anything(structure: bool) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        (-3..9).prop_map(Value::from),
        "[a-z]{1,3}".prop_map(Value::from)
    ];
    let any = leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]", inner, 1..3).prop_map(|map| json!(map)),
        ]
    });
    if structure {
        prop::collection::btree_map("[a-c]", any, 1..3)
            .prop_map(|map| json!(map))
            .boxed()
    } else {
        any.boxed()
    }
}

fn texts(name: &str, schema: &Value) -> BoxedStrategy<Value> {
    let select = |texts: &'static [&'static str]| prop::sample::select(texts).prop_map(Value::from).boxed();
    if schema["format"] == "date-time" {
        return (0..60_u8)
            .prop_map(|s| json!(format!("2026-02-03T04:05:{s:02}Z")))
            .boxed();
    }
    if name == "timeout" {
        return select(&["10m0s", "600s", "1.5h", "1ms", "-1m", "soon", ""]);
    }
    match schema["pattern"].as_str() {
        // Few keys, so that some of them meet.
        None if schema["minLength"] == 1 => string_regex("[ab]{1,2}").unwrap().prop_map(Value::from).boxed(),
        None => string_regex("[abé]{0,2}").unwrap().prop_map(Value::from).boxed(),
        Some(pattern) if pattern.contains("25[0-5]") => select(&["0.0.0.0", "192.0.2.1", "198.51.100.0"]),
        Some(pattern) if pattern.contains("a-fA-F") => select(&["::", "2001:db8::1"]),
        Some(pattern) => {
            let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
            string_regex(pattern).unwrap().prop_map(Value::from).boxed()
        }
    }
}

fn structures(schema: &Value, fullness: f64) -> BoxedStrategy<Value> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let fields: Vec<_> = properties
        .map(|(name, schema)| {
            let (key, value) = (name.clone(), values(name, schema, fullness));
            let value = if required.contains(&json!(name)) {
                value.prop_map(Some).boxed()
            } else {
                prop::option::weighted(fullness, value).boxed()
            };
            value.prop_map(move |value| value.map(|value| (key.clone(), value)))
        })
        .collect();
    fields
        .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
        .boxed()
}
