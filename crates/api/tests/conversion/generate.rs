//! Objects that a version's schema admits, and some that it only nearly does.

use super::objects::generate::{Texts, objects, texts as admitted};
use super::schema;
use metal3_api::crd::Crd;
use proptest::prelude::*;
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
    (objects(&schema, fullness, TEXTS), annotations)
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

/// Few names, so that some of them meet; few addresses, for the same reason; and durations that are none.
const TEXTS: Texts = |name, schema| {
    let select = |texts: &'static [&'static str]| prop::sample::select(texts).prop_map(Value::from).boxed();
    match schema["pattern"].as_str() {
        None if name == "timeout" => select(&["10m0s", "600s", "1.5h", "1ms", "-1m", "soon", ""]),
        None if schema["format"] == "date-time" => admitted(name, schema),
        None if schema["minLength"] == 1 => "[ab]{1,2}".prop_map(Value::from).boxed(),
        None => "[abé]{0,2}".prop_map(Value::from).boxed(),
        Some(pattern) if pattern.contains("25[0-5]") => select(&["0.0.0.0", "192.0.2.1", "198.51.100.0"]),
        Some(pattern) if pattern.contains("a-fA-F") => select(&["::", "2001:db8::1"]),
        Some(_) => admitted(name, schema),
    }
};
