//! Fields that are not there, or null: Go writes null for a list or a time that was never set, and old objects lack what their
//! schema requires today.

use super::{CONVERSION_DATA, NEW, OLD, bare, crds, down, generate, up};
use metal3_api::infra::convert;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// Pointers of all fields of a value, at any depth. Of a list's items the first stands for all.
fn fields(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                self::fields(value, &path, found);
                found.push(path);
            }
        }
        Value::Array(items) => {
            if let Some(item) = items.first() {
                fields(item, &format!("{path}/0"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn an_object_converts_without_any_one_of_its_fields() {
    let mut runner = TestRunner::deterministic();
    for crd in crds() {
        for (version, to) in [("v1beta1", NEW), ("v1beta2", OLD)] {
            let full = generate::of(&crd, version, 0.99)
                .new_tree(&mut runner)
                .unwrap()
                .current();
            let mut pointers = Vec::new();
            for part in ["spec", "status"] {
                fields(&full[part], &format!("/{part}"), &mut pointers);
            }
            assert!(!pointers.is_empty(), "{full:#}");
            for pointer in pointers {
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                let mut without = full.clone();
                let parent = without.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
                parent.remove(name).unwrap();
                let mut null = full.clone();
                *null.pointer_mut(&pointer).unwrap() = Value::Null;
                let what = format!("{} {version} without {pointer}", crd.name());
                let converted = convert(without, to).unwrap_or_else(|error| panic!("{what}: {error:?}"));
                let again = convert(null, to).unwrap_or_else(|error| panic!("{what}: {error:?}"));
                // A bond's parameters may be any JSON, so null is one of their values.
                if !pointer.contains("/parameters/") {
                    assert_eq!(bare(again)["spec"], bare(converted)["spec"], "{what}");
                }
            }
        }
    }
}

fn condition(rest: &Value) -> Value {
    let mut condition = json!({ "type": "Ready", "status": "True", "reason": "Ready", "message": "m" });
    for (key, value) in rest.as_object().unwrap() {
        condition[key] = value.clone();
    }
    condition
}

/// Of either kind, wherever it is kept.
#[test]
fn a_condition_without_a_time_converts_and_comes_back() {
    let timeless = condition(&json!({}));
    for condition in [timeless.clone(), condition(&json!({ "lastTransitionTime": null }))] {
        let old = json!({ "conditions": [condition], "v1beta2": { "conditions": [condition] } });
        let new = |condition: &Value| json!({ "conditions": [condition], "deprecated": { "v1beta1": { "conditions": [condition] } } });
        let object = |version: &str, status: &Value| {
            json!({
                "apiVersion": version, "kind": "Metal3Machine", "metadata": { "name": "m" },
                "spec": { "providerID": "p" }, "status": status,
            })
        };
        let never = "1970-01-01T00:00:00Z";
        let there = up(&object(OLD, &old));
        assert_eq!(there["spec"], json!({ "providerID": "p" }));
        assert_eq!(there["status"]["conditions"][0]["lastTransitionTime"], never);
        let legacy = &there["status"]["deprecated"]["v1beta1"]["conditions"][0];
        assert_eq!(legacy["lastTransitionTime"], never);
        let back = up(&down(&object(NEW, &new(&condition))));
        assert_eq!(back, object(NEW, &new(&timeless)));
    }
}

/// Go writes null for what was never set; with it nothing else may be lost.
#[test]
fn a_null_in_what_was_saved_is_a_field_that_is_not_there() {
    let saved = json!({
        "spec": {
            "nodeReuse": null,
            "template": {
                "metadata": { "labels": { "rack": "1" }, "annotations": null },
                "spec": { "image": { "url": "http://a", "diskFormat": null, "checksum": "" }, "hostSelector": null },
            },
        },
        "status": null,
    });
    let old = json!({
        "apiVersion": OLD, "kind": "Metal3MachineTemplate",
        "metadata": { "name": "t", "annotations": { CONVERSION_DATA: saved.to_string() } },
        "spec": { "template": { "spec": { "image": { "url": "http://a" }, "hostSelector": {} } } },
    });
    let spec = json!({
        "template": {
            "metadata": { "labels": { "rack": "1" } },
            "spec": { "image": { "url": "http://a", "checksum": "" } },
        },
    });
    assert_eq!(up(&old)["spec"], spec);
}
