//! Conversion between v1beta1 and v1beta2.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helper functions too"
)]

#[path = "../objects/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each test program uses its own part")]
mod objects;

mod absent;
mod edits;
mod examples;
mod generate;
mod misfits;
mod odd;
mod properties;

use metal3_api::capi::names::annotation::CONVERSION_DATA;
use metal3_api::crd::Crd;
use metal3_api::infra::convert;
use metal3_api::infra::names::annotation::V1BETA1_DATA;
use serde_json::{Map, Value, json};

const OLD: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const NEW: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

fn up(object: &Value) -> Value {
    convert(object.clone(), NEW).unwrap()
}

fn down(object: &Value) -> Value {
    convert(object.clone(), OLD).unwrap()
}

/// The same without what either version carries for the other.
fn bare(mut object: Value) -> Value {
    if let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(CONVERSION_DATA);
        annotations.remove(V1BETA1_DATA);
        if annotations.is_empty() {
            object["metadata"].as_object_mut().unwrap().remove("annotations");
        }
    }
    object
}

/// The definitions of this group.
fn crds() -> Vec<Crd> {
    let all = metal3_api::crd::all().unwrap().into_iter();
    let ours: Vec<_> = all
        .filter(|crd| crd.manifest()["spec"]["group"] == "infrastructure.cluster.x-k8s.io")
        .collect();
    assert_eq!(ours.len(), 9);
    ours
}

/// The schema of one version of a kind.
fn schema<'a>(crd: &'a Crd, version: &str) -> &'a Value {
    let versions = crd.manifest()["spec"]["versions"].as_array().unwrap();
    let found = versions.iter().find(|candidate| candidate["name"] == version).unwrap();
    &found["schema"]["openAPIV3Schema"]
}

/// Without what means the same as its absence: empty texts, lists and structures, zero and false.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), without_empty(value)));
            Value::Object(fields.filter(|(_, value)| !objects::is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        _ => value.clone(),
    }
}

/// With a field that nobody knows in every structure of the schema, and beside spec and status.
fn with_unknown_fields(crd: &Crd, object: &Value) -> Value {
    fn below(schema: &Value, value: &Value) -> Value {
        match value {
            Value::Object(fields) if schema["properties"].is_object() => {
                let known = |key: &str| &schema["properties"][key];
                let fields = fields
                    .iter()
                    .map(|(key, value)| (key.clone(), below(known(key), value)));
                let mut fields: Map<_, _> = fields.collect();
                fields.insert("fromTheFuture".to_owned(), json!([{ "a": 1 }]));
                Value::Object(fields)
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| below(&schema["items"], item)).collect()),
            _ => value.clone(),
        }
    }
    let (_, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let schema = schema(crd, version);
    let mut odd = object.clone();
    for part in ["spec", "status"] {
        if let Some(value) = object.get(part) {
            odd[part] = below(&schema["properties"][part], value);
        }
    }
    odd["fromTheFuture"] = json!("x");
    odd
}
