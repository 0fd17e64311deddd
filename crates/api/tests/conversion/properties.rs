//! What holds for every object of every kind.

use super::{
    CONVERSION_DATA, V1BETA1_DATA, bare, crds, down, generate, misfits, schema, up, with_unknown_fields, without_empty,
};
use metal3_api::crd::Crd;
use metal3_api::infra::v1beta2;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Runs a property for all kinds, from sparse to full objects.
fn for_every_kind(version: &str, property: impl Fn(&Crd, Value) -> TestCaseResult) {
    for crd in crds() {
        for fullness in [0.2, 0.5, 0.95] {
            let config = ProptestConfig {
                cases: 24,
                failure_persistence: None,
                ..ProptestConfig::default()
            };
            let objects = generate::of(&crd, version, fullness);
            let outcome = TestRunner::new(config).run(&objects, |object| property(&crd, object));
            outcome.unwrap_or_else(|error| panic!("{}: {error}", crd.name()));
        }
    }
}

#[test]
fn the_newer_version_comes_back_exactly() {
    for_every_kind("v1beta2", |crd, object| {
        prop_assert_eq!(&up(&down(&object)), &object);
        let odd = with_unknown_fields(crd, &object);
        prop_assert_eq!(&up(&down(&odd)), &odd);
        Ok(())
    });
}

#[test]
fn the_older_version_comes_back_as_it_can_be_read() {
    for_every_kind("v1beta1", |crd, object| {
        let back = bare(down(&up(&object)));
        prop_assert_eq!(without_empty(&back), without_empty(&object));
        let odd = with_unknown_fields(crd, &object);
        prop_assert_eq!(without_empty(&bare(down(&up(&odd)))), without_empty(&odd));
        Ok(())
    });
}

/// So a change made in one version and shown in the other is not changed again by the next conversion.
#[test]
fn a_second_way_there_and_back_changes_nothing() {
    for_every_kind("v1beta1", |_, object| {
        let there = up(&object);
        let again = up(&down(&there));
        prop_assert_eq!(again, there);
        Ok(())
    });
}

/// The API server refuses a conversion that touches anything else.
#[test]
fn of_metadata_only_our_annotations_change() {
    let others = |object: &Value| bare(object.clone())["metadata"].clone();
    for_every_kind("v1beta2", |_, object| {
        prop_assert_eq!(others(&down(&object)), others(&object));
        Ok(())
    });
    for_every_kind("v1beta1", |_, object| {
        let converted = up(&object);
        prop_assert_eq!(others(&converted), others(&object));
        let carried = converted["metadata"]["annotations"].get(CONVERSION_DATA);
        prop_assert_eq!(carried, None);
        Ok(())
    });
}

/// No field of the other version, no empty text where a choice is to be made, nothing missing that must be there, no text that
/// the version does not admit but what the user has written.
#[test]
fn what_comes_out_has_the_shape_of_its_version() {
    let check = |crd: &Crd, version: &str, given: &Value, object: &Value| {
        let mut schema = schema(crd, version).clone();
        schema["properties"]["metadata"] = json!({ "x-kubernetes-preserve-unknown-fields": true });
        let mut found = misfits::of(&schema, object, given);
        // v1beta1 admits any text where v1beta2 has a choice, and parameters that are no structures.
        found.retain(|misfit| version == "v1beta1" || (!misfit.contains(".phase is") && !misfit.contains(".type is")));
        prop_assert!(found.is_empty(), "{:?} in {:#}", found, object);
        Ok(())
    };
    for_every_kind("v1beta2", |crd, object| check(crd, "v1beta1", &object, &down(&object)));
    for_every_kind("v1beta1", |crd, object| check(crd, "v1beta2", &object, &up(&object)));
}

/// Without annotations nothing is lost but what v1beta1 has no place for.
#[test]
fn annotations_are_only_needed_for_what_has_no_place() {
    for_every_kind("v1beta2", |_, object| {
        let back = up(&bare(down(&object)));
        let (back, object) = (written(&bare(back)), written(&object));
        prop_assert_eq!(placed(&back), placed(&object));
        Ok(())
    });
}

/// As our types write it.
fn written(object: &Value) -> Value {
    fn through<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
        let read: K = serde_json::from_value(object.clone()).unwrap();
        serde_json::to_value(read).unwrap()
    }
    match object["kind"].as_str().unwrap() {
        "Metal3Cluster" => through::<v1beta2::Metal3Cluster>(object),
        "Metal3ClusterTemplate" => through::<v1beta2::Metal3ClusterTemplate>(object),
        "Metal3Machine" => through::<v1beta2::Metal3Machine>(object),
        "Metal3MachineTemplate" => through::<v1beta2::Metal3MachineTemplate>(object),
        "Metal3DataTemplate" => through::<v1beta2::Metal3DataTemplate>(object),
        "Metal3DataClaim" => through::<v1beta2::Metal3DataClaim>(object),
        "Metal3Data" => through::<v1beta2::Metal3Data>(object),
        "Metal3Remediation" => through::<v1beta2::Metal3Remediation>(object),
        "Metal3RemediationTemplate" => through::<v1beta2::Metal3RemediationTemplate>(object),
        other => panic!("{other}"),
    }
}

/// What v1beta1 has a place for: no metadata in templates, and lists that are maps there with one entry for each name, in
/// the order of the names.
fn placed(object: &Value) -> Value {
    fn below(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| {
                    let value = match (key.as_str(), value) {
                        ("failureDomains" | "parameters" | "indexes", Value::Array(items))
                            if items.iter().all(|item| item["name"].is_string()) =>
                        {
                            let by_name: BTreeMap<_, _> = items
                                .iter()
                                .map(|item| (item["name"].to_string(), below(item)))
                                .collect();
                            Value::Array(by_name.into_values().collect())
                        }
                        _ => below(value),
                    };
                    (key.clone(), value)
                });
                Value::Object(fields.collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(below).collect()),
            _ => value.clone(),
        }
    }
    let mut object = below(object);
    if let Some(template) = object.pointer_mut("/spec/template").and_then(Value::as_object_mut) {
        template.remove("metadata");
    }
    without_empty(&object)
}

/// An edit in either version is seen there, whatever the other version knows.
#[test]
fn an_edit_in_one_version_outweighs_what_is_kept_of_the_other() {
    for crd in crds() {
        for (version, there, back) in [
            ("v1beta1", up as fn(&Value) -> Value, down as fn(&Value) -> Value),
            ("v1beta2", down, up),
        ] {
            let objects = generate::of(&crd, version, 0.5);
            let config = ProptestConfig {
                cases: 32,
                failure_persistence: None,
                ..ProptestConfig::default()
            };
            let pairs = (objects.clone(), objects);
            let outcome = TestRunner::new(config).run(&pairs, |(first, second)| {
                // A client puts the second object in the place of the first, with all annotations of the first.
                let mut edited = there(&first);
                let second = there(&second);
                for part in ["spec", "status"] {
                    edited[part] = second[part].clone();
                }
                let edited = without_null(edited);
                let seen = |edited: &Value| bare(there(&bare(back(edited))));
                prop_assert_eq!(seen(&edited), seen(&bare(edited.clone())));
                Ok(())
            });
            outcome.unwrap_or_else(|error| panic!("{} {version}: {error}", crd.name()));
        }
    }
}

fn without_null(mut object: Value) -> Value {
    object.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    object
}

/// Upstream has the annotation on these four kinds, and it is a burden on every answer elsewhere.
#[test]
fn clusters_and_machines_always_carry_their_newer_form() {
    for_every_kind("v1beta2", |crd, object| {
        let old = down(&object);
        let carried = &old["metadata"]["annotations"][CONVERSION_DATA];
        let always = [
            "metal3clusters",
            "metal3clustertemplates",
            "metal3machines",
            "metal3machinetemplates",
        ];
        if always
            .iter()
            .any(|plural| crd.name().starts_with(&format!("{plural}.")))
        {
            let carried: Value = serde_json::from_str(carried.as_str().unwrap()).unwrap();
            let mut wanted = object.clone();
            for part in ["apiVersion", "kind", "metadata"] {
                wanted.as_object_mut().unwrap().remove(part);
            }
            prop_assert_eq!(carried, wanted);
        }
        prop_assert!(old["metadata"]["annotations"].get(V1BETA1_DATA).is_none());
        Ok(())
    });
}
