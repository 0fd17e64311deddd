//! Objects that are hardly any.

use super::{CONVERSION_DATA, NEW, OLD, V1BETA1_DATA, down, up};
use metal3_api::infra::{ConversionError, convert};
use rstest::rstest;
use serde_json::{Value, json};
use std::error::Error as _;

fn machine(version: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": version, "kind": "Metal3Machine",
        "metadata": { "name": "m", "annotations": annotations },
        "spec": { "image": { "url": "http://a" } },
    })
}

#[test]
fn what_is_no_object_of_ours_is_refused() {
    assert!(matches!(convert(json!([]), NEW), Err(ConversionError::NotAnObject)));
    assert!(matches!(
        convert(json!({ "kind": "Metal3Data" }), NEW),
        Err(ConversionError::NotAnObject)
    ));
    let unknown = convert(json!({ "apiVersion": OLD, "kind": "Metal3Moon" }), NEW).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "infrastructure.cluster.x-k8s.io/v1beta1 Metal3Moon is no kind that can be converted"
    );
    let foreign = json!({ "apiVersion": "example.org/v1beta1", "kind": "Metal3Data" });
    assert!(matches!(
        convert(foreign, NEW),
        Err(ConversionError::UnknownKind { .. })
    ));
    let data = json!({ "apiVersion": OLD, "kind": "Metal3Data" });
    for version in ["infrastructure.cluster.x-k8s.io/v1", "v1beta2", ""] {
        let outcome = convert(data.clone(), version);
        assert!(matches!(outcome, Err(ConversionError::UnknownVersion(_))), "{version}");
    }
}

#[test]
fn a_field_of_a_wrong_type_is_named() {
    let object = json!({
        "apiVersion": OLD,
        "kind": "Metal3Machine",
        "metadata": { "namespace": "metal3", "name": "worker-0" },
        "spec": { "image": { "url": 1 } },
    });
    let error = convert(object, NEW).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Metal3Machine metal3/worker-0 has a field of the wrong type"
    );
    let cause = error.source().unwrap().to_string();
    assert_eq!(cause, "spec.image.url: invalid type: integer `1`, expected a string");
}

#[rstest]
fn an_object_without_anything_converts(
    #[values(
        "Metal3Cluster",
        "Metal3ClusterTemplate",
        "Metal3Machine",
        "Metal3MachineTemplate",
        "Metal3DataTemplate",
        "Metal3DataClaim",
        "Metal3Data",
        "Metal3Remediation",
        "Metal3RemediationTemplate"
    )]
    kind: &str,
    #[values(json!(null), json!({}))] part: Value,
) {
    for (from, to) in [(OLD, NEW), (NEW, OLD)] {
        let mut object = json!({ "apiVersion": from, "kind": kind });
        if part.is_object() {
            object["spec"] = part.clone();
            object["status"] = part.clone();
        }
        let converted = convert(object.clone(), to).unwrap();
        assert_eq!(converted["apiVersion"], to);
        assert_eq!(convert(object.clone(), from).unwrap(), object, "nothing to do");
    }
}

#[rstest]
#[case::no_json(json!("nonsense"))]
#[case::no_object(json!("[]"))]
#[case::wrong_types(json!(r#"{"spec":{"image":"x"}}"#))]
#[case::no_text(json!(7))]
fn what_we_cannot_read_in_our_annotations_is_dropped(#[case] value: Value) {
    let new = up(&machine(OLD, &json!({ CONVERSION_DATA: value, "a": "b" })));
    assert_eq!(new["metadata"]["annotations"], json!({ "a": "b" }));
    assert_eq!(new["spec"], json!({ "image": { "url": "http://a" } }));
    let old = down(&machine(NEW, &json!({ V1BETA1_DATA: value })));
    let keys: Vec<_> = old["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(keys, [CONVERSION_DATA]);
    assert_eq!(old["spec"], json!({ "image": { "url": "http://a" } }));
}

/// An object that could not be stored would be worse than one without what only the other version knows.
#[test]
fn annotations_do_not_outgrow_their_limit() {
    let with = |size: usize| machine(NEW, &json!({ "big": "x".repeat(size) }));
    let carried = |object: &Value| object["metadata"]["annotations"].get(CONVERSION_DATA).is_some();
    assert!(carried(&down(&with(200 << 10))));
    assert!(!carried(&down(&with((256 << 10) - 40))));
}

/// v1beta1 numbers have 64 bits there, and none of them keeps an object from being read.
#[test]
fn numbers_that_do_not_fit_become_the_nearest_and_come_back() {
    let old = json!({
        "apiVersion": OLD, "kind": "Metal3DataTemplate", "metadata": { "name": "t" },
        "spec": {
            "clusterName": "c",
            "metaData": { "indexes": [{ "key": "k", "offset": 9_999_999_999_i64, "step": -9_999_999_999_i64 }] },
        },
        "status": { "indexes": { "a": 9_999_999_999_i64 } },
    });
    let new = up(&old);
    let index = &new["spec"]["metaData"]["indexes"][0];
    assert_eq!((&index["offset"], &index["step"]), (&json!(i32::MAX), &json!(i32::MIN)));
    assert_eq!(new["status"]["indexes"], json!([{ "name": "a", "index": i32::MAX }]));
    let back = down(&new);
    assert_eq!((&back["spec"], &back["status"]), (&old["spec"], &old["status"]));
}

/// Upstream's v1beta1 has references without kind and name where there are none.
#[test]
fn a_reference_to_no_pool_is_none() {
    let empty = json!({ "kind": "", "name": "" });
    let route = json!({ "network": "10.0.0.0", "gateway": { "fromIPPool": "p", "fromPoolRef": empty } });
    let network =
        json!({ "id": "n", "link": "l", "ipAddressFromIPPool": "p", "fromPoolRef": empty, "routes": [route] });
    let object = json!({
        "apiVersion": OLD,
        "kind": "Metal3DataTemplate",
        "spec": { "networkData": { "networks": { "ipv4": [network] } } },
    });
    let text = convert(object, NEW).unwrap()["spec"].to_string();
    assert!(text.contains("\"p\"") && !text.contains("fromPoolRef"), "{text}");
}

#[test]
fn an_empty_choice_is_none_in_either_version() {
    for (from, to, format) in [(OLD, NEW, "format"), (NEW, OLD, "diskFormat")] {
        let object = json!({
            "apiVersion": from,
            "kind": "Metal3Machine",
            "spec": { "automatedCleaningMode": "", "image": { "url": "u", "checksumType": "", format: "" } },
        });
        let spec = convert(object, to).unwrap()["spec"].to_string();
        for field in ["automatedCleaningMode", "checksumType", "ormat"] {
            assert!(!spec.contains(field), "{field}: {spec}");
        }
    }
}

// OWN 30wc: a template with failure domains that was written in v1beta1 under upstream's definition could not be read.
#[rstest]
#[case::as_stored(json!({}), json!({}), json!([]))]
#[case::whole(
    json!({ "b": { "controlPlane": true }, "a": { "attributes": { "row": "1" } } }),
    json!({ "b": { "controlPlane": true }, "a": { "attributes": { "row": "1" } } }),
    json!([{ "name": "a", "attributes": { "row": "1" } }, { "name": "b", "controlPlane": true }])
)]
fn a_map_of_failure_domains_that_was_stored_as_a_list_is_read(
    #[case] stored: Value,
    #[case] shown: Value,
    #[case] listed: Value,
) {
    let spec =
        |domains: &Value| json!({ "controlPlaneEndpoint": { "host": "h", "port": 6443 }, "failureDomains": domains });
    let template = json!({
        "apiVersion": NEW, "kind": "Metal3ClusterTemplate", "metadata": { "name": "t" },
        "spec": { "template": { "spec": spec(&stored) } },
    });
    let old = down(&template);
    let domains = |object: &Value| object["spec"]["template"]["spec"].get("failureDomains").cloned();
    assert_eq!(domains(&old).unwrap_or_else(|| json!({})), shown);
    let mut new = up(&old);
    assert_eq!(domains(&new).unwrap_or_else(|| json!([])), listed);
    // What its owner writes in v1beta1 replaces it.
    let mut edited = old;
    edited["spec"]["template"]["spec"]["failureDomains"] = json!({ "c": { "controlPlane": true } });
    new = up(&edited);
    assert_eq!(domains(&new).unwrap(), json!([{ "name": "c", "controlPlane": true }]));
}
