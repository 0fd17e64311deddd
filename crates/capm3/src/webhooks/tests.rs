//! The rules, asked as the API server asks.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// The errors and the warnings about an object that is created, or changed from `old`.
fn asked(kind: &str, old: Option<&Value>, new: &Value) -> (Vec<String>, Vec<String>) {
    let object = |spec: &Value| {
        json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": kind, "spec": spec,
            "metadata": {"name": "t-1", "namespace": "n"}})
    };
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let request = json!({"uid": "u", "kind": {"group": GROUP, "version": "v1beta2", "kind": kind}, "name": "t-1",
        "resource": {"group": "", "version": "", "resource": ""}, "operation": operation, "userInfo": {},
        "object": object(new), "oldObject": old.map(object)});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let path = format!(
        "/validate-infrastructure-cluster-x-k8s-io-v1beta2-{}",
        kind.to_lowercase()
    );
    let (_, answer) = all().answer(&path, review.to_string().into()).unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let response = &answer["response"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let causes = list(&response["status"]["details"]["causes"]);
    let errors: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", text(&cause["field"]), text(&cause["message"])))
        .collect();
    assert_eq!(response["allowed"], errors.is_empty(), "{answer}");
    (errors, list(&response["warnings"]).iter().map(text).collect())
}

fn created(kind: &str, spec: &Value) -> Vec<String> {
    asked(kind, None, spec).0
}

/// A specification as it is in a template.
fn of_template(spec: &Value) -> Value {
    json!({"template": {"spec": spec}})
}

fn expect_one(errors: &[String], start: &str) {
    assert!(matches!(errors, [one] if one.starts_with(start)), "{start}: {errors:?}");
}

#[rstest]
#[case(json!({}), Some("host: is required"))]
#[case(json!({"port": 1}), Some("host: is required"))]
#[case(json!({"host": "h", "port": 1}), None)]
fn endpoints(#[case] endpoint: Value, #[case] error: Option<&str>) {
    let spec = json!({"controlPlaneEndpoint": endpoint});
    let expected = |path: &str| error.map(|error| format!("{path}.controlPlaneEndpoint.{error}"));
    let errors = created("Metal3Cluster", &spec);
    assert_eq!(errors.first(), expected("spec").as_ref());
    let errors = created("Metal3ClusterTemplate", &of_template(&spec));
    assert_eq!(errors.first(), expected("spec.template.spec").as_ref());
}

#[test]
fn the_endpoint_of_a_template_needs_a_port() {
    let spec = of_template(&json!({"controlPlaneEndpoint": {"host": "h"}}));
    let errors = created("Metal3ClusterTemplate", &spec);
    expect_one(&errors, "spec.template.spec.controlPlaneEndpoint.port: is required");
}

/// Of machines, and of the templates of machines.
fn images(image: &Value) -> [(Vec<String>, &'static str); 2] {
    let spec = json!({ "image": image });
    [
        (created("Metal3Machine", &spec), "spec.image"),
        (
            created("Metal3MachineTemplate", &of_template(&spec)),
            "spec.template.spec.image",
        ),
    ]
}

#[rstest]
#[case(json!(null), ": either an image or customDeploy.method is required")]
#[case(json!({"url": "", "checksum": "a"}), ".url: is required")]
#[case(json!({"url": "i", "checksum": "a"}), ".url: is neither")]
#[case(json!({"url": "http://[::1", "checksum": "a"}), ".url: has a bracket that is not closed")]
#[case(json!({"url": "https://h/i"}), ".checksum: is required")]
#[case(json!({"url": "https://h/i", "checksum": ""}), ".checksum: is required")]
#[case(json!({"url": "https://h/i", "checksum": "https://h/%zz"}), ".checksum: has a % that")]
#[case(json!({"url": "https://h/i", "checksum": "http://h:abc/x"}), ".checksum: has a port that is not a number")]
#[case(json!({"url": "OCI://h/i", "checksum": "a"}), ".checksum: must not be set")]
#[case(json!({"url": "oci://h/i", "checksumType": "sha256"}), ".checksumType: must not be set")]
fn wrong_images_are_refused(#[case] image: Value, #[case] error: &str) {
    for (errors, path) in images(&image) {
        expect_one(&errors, &format!("{path}{error}"));
    }
}

#[rstest]
#[case(json!({"url": "https://h/i", "checksum": "a", "checksumType": "sha256"}))]
#[case(json!({"url": "https://h/i", "checksum": "https://h/sums"}))]
#[case(json!({"url": "http://h/a b", "checksum": "a b"}))]
#[case(json!({"url": "https://h/i", "diskFormat": "live-iso"}))]
#[case(json!({"url": "https://h/i", "diskFormat": "live-iso", "checksum": "https://h/%zz"}))]
#[case(json!({"url": "oci://h/i"}))]
#[case(json!({"url": "/i", "checksum": "a"}))]
fn right_images_are_admitted(#[case] image: Value) {
    for (errors, path) in images(&image) {
        assert_eq!(errors, <[&str; 0]>::default(), "{path}");
    }
}

#[test]
fn an_image_is_not_looked_at_beside_a_deploy_method() {
    let spec = json!({"image": {"url": "i"}, "customDeploy": {"method": "mine"}});
    assert_eq!(created("Metal3Machine", &spec), <[&str; 0]>::default());
}

// OWN 30s: the refusal of a machine's image quoted its URL, with the password in it.
#[rstest]
#[case(json!({"url": "https://user:se%cret@h/i", "checksum": "a"}))]
#[case(json!({"url": "https://h/i", "checksum": "https://user:se%cret@h/i"}))]
fn no_refusal_quotes_a_password(#[case] image: Value) {
    for (errors, path) in images(&image) {
        expect_one(&errors, path);
        assert!(!errors[0].contains("cret"), "{errors:?}");
    }
}

// OWN 30q: a stored template that names a Secret of another namespace could be neither moved nor restored.
#[rstest]
#[case("userData")]
#[case("metaData")]
#[case("networkData")]
fn secrets_of_other_namespaces_are_refused_to_machines_and_warned_of_in_templates(#[case] field: &str) {
    let spec = |namespace: &str| json!({"customDeploy": {"method": "m"}, field: {"name": "s", "namespace": namespace}});
    let none = (Vec::new(), Vec::new());
    for own in ["n", ""] {
        assert_eq!(asked("Metal3Machine", None, &spec(own)), none);
        assert_eq!(asked("Metal3MachineTemplate", None, &of_template(&spec(own))), none);
    }
    let other = "namespace: \"other\" is another namespace than the object's own (\"n\") for Secret \"s\"";
    assert_eq!(
        asked("Metal3Machine", None, &spec("other")),
        (vec![format!("spec.{field}.{other}")], Vec::new())
    );
    let warning = format!("spec.template.spec.{field}.{other}: machines of this template will be rejected");
    assert_eq!(
        asked("Metal3MachineTemplate", None, &of_template(&spec("other"))),
        (Vec::new(), vec![warning])
    );
}

#[rstest]
#[case(json!({"retryLimit": 1}), "type: only Reboot is known")]
#[case(json!({"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 99}), "timeoutSeconds: 99 is too short")]
#[case(json!({"type": "Reboot", "retryLimit": 1, "timeoutSeconds": -1}), "timeoutSeconds: -1 is too short")]
#[case(json!({"type": "Reboot"}), "retryLimit: 0 is too few")]
#[case(json!({"type": "Reboot", "retryLimit": -1}), "retryLimit: -1 is too few")]
fn wrong_strategies_are_refused(#[case] strategy: Value, #[case] error: &str) {
    let spec = json!({ "strategy": strategy });
    expect_one(&created("Metal3Remediation", &spec), &format!("spec.strategy.{error}"));
    expect_one(
        &created("Metal3RemediationTemplate", &of_template(&spec)),
        &format!("spec.template.spec.strategy.{error}"),
    );
}

#[rstest]
#[case(json!({"type": "Reboot", "retryLimit": 1}))]
#[case(json!({"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 100}))]
#[case(json!(null))]
fn right_strategies_are_admitted(#[case] strategy: Value) {
    let spec = json!({ "strategy": strategy });
    assert_eq!(created("Metal3Remediation", &spec), <[&str; 0]>::default());
    let errors = created("Metal3RemediationTemplate", &of_template(&spec));
    assert_eq!(errors, <[&str; 0]>::default());
}

#[rstest]
#[case("Metal3Data", json!({"index": -1}), "spec.index: must not be negative")]
#[case("Metal3Data", json!({"index": 2, "template": {"name": "t"}}), "metadata.name: \"t-1\" must be \"t-2\"")]
#[case("Metal3DataClaim", json!({}), "spec.template.name: is required")]
#[case("Metal3DataClaim", json!({"template": {"name": ""}}), "spec.template.name: is required")]
#[case("Metal3DataClaim", json!({"template": {"name": "t", "namespace": "other"}}),
    "spec.template.namespace: \"other\" is another namespace")]
#[case("Metal3DataTemplate", json!({"metaData": {"fromHostInterfaces": [{"key": "k"}]}}),
    "spec.metaData.fromHostInterfaces[0].interface: is required without fromBootMAC")]
#[case("Metal3DataTemplate", json!({"metaData": {"fromHostInterfaces": [{"key": "k", "fromBootMAC": true, "interface": "eth0"}]}}),
    "spec.metaData.fromHostInterfaces[0].interface: must not be set with fromBootMAC")]
#[case("Metal3DataTemplate", json!({"networkData": {"networks": {"ipv4": [{"id": "a", "link": "b"}]}}}),
    "spec.networkData.networks.ipv4[0]: one of fromPoolRef")]
#[case("Metal3DataTemplate", json!({"networkData": {"networks": {"ipv6": [{"id": "a", "link": "b"}]}}}),
    "spec.networkData.networks.ipv6[0]: one of fromPoolRef")]
fn wrong_data_are_refused(#[case] kind: &str, #[case] spec: Value, #[case] error: &str) {
    expect_one(&created(kind, &spec), error);
}

#[rstest]
#[case("Metal3Data", json!({"index": 1, "template": {"name": "t"}}))]
#[case("Metal3Data", json!({"index": 0}))]
#[case("Metal3Data", json!({}))]
#[case("Metal3DataClaim", json!({"template": {"name": "t", "namespace": "n"}}))]
#[case("Metal3DataTemplate", json!({"metaData": {"fromHostInterfaces": [{"key": "k", "interface": "eth0"},
    {"key": "l", "fromBootMAC": true}, {"key": "m", "fromBootMAC": false, "interface": "eth1"}]}}))]
#[case("Metal3DataTemplate", json!({"networkData": {"networks": {"ipv6": [
    {"id": "a", "link": "b", "fromPoolRef": {"name": "p"}}, {"id": "c", "link": "b", "ipAddressFromIPPool": "p"},
    {"id": "d", "link": "b", "fromPoolAnnotation": {"object": "baremetalhost", "annotation": "a"}}]}}}))]
fn right_data_are_admitted(#[case] kind: &str, #[case] spec: Value) {
    assert_eq!(created(kind, &spec), <[&str; 0]>::default());
}

/// The errors of a change, each with a specification that is merged into the old one.
fn changed(kind: &str, old: &Value, patch: &Value) -> Vec<String> {
    let mut new = old.clone();
    json_patch::merge(&mut new, patch);
    asked(kind, Some(old), &new).0
}

fn stored_data() -> Value {
    json!({"index": 1, "claim": {"name": "c", "namespace": "n"}, "template": {"name": "t", "namespace": "n"}})
}

// OWN 30p: only our definitions refused these changes, so that nothing did where upstream's were kept.
#[rstest]
#[case(json!({"index": 2}), "spec.index: cannot be changed")]
#[case(json!({"index": null}), "spec.index: cannot be changed")]
#[case(json!({"claim": {"name": "d"}}), "spec.claim: cannot be changed")]
#[case(json!({"claim": {"namespace": null}}), "spec.claim: cannot be changed")]
#[case(json!({"claim": null}), "spec.claim: cannot be changed")]
#[case(json!({"template": {"namespace": "other"}}), "spec.template: cannot be changed")]
#[case(json!({"template": null}), "spec.template: cannot be changed")]
fn what_data_are_made_for_stays(#[case] patch: Value, #[case] error: &str) {
    let errors = changed("Metal3Data", &stored_data(), &patch);
    assert!(errors[0].starts_with(error), "{errors:?}");
}

#[rstest]
#[case(json!({"index": 1}), json!({"claim": {"name": "c"}}), Some("spec.claim: cannot be changed"))]
#[case(json!({"claim": {"name": "c"}}), json!({"index": 1}), Some("spec.index: cannot be changed"))]
#[case(json!({"index": 1, "claim": {"name": "c"}}), json!({"claim": {"namespace": "n"}}), Some("spec.claim: cannot be changed"))]
#[case::upstream_takes_none_for_zero(json!({"claim": {"name": "c"}}), json!({"index": 0}), None)]
fn what_data_lack_cannot_be_added(#[case] old: Value, #[case] patch: Value, #[case] error: Option<&str>) {
    let errors = changed("Metal3Data", &old, &patch);
    assert_eq!(errors.first().map(String::as_str), error);
}

/// The controller's writes, and those of objects that were wrong before.
#[rstest]
#[case(stored_data(), json!({"metaData": {"name": "s", "namespace": "n"}, "networkData": {"name": "s"}}))]
#[case(json!({"index": -1, "template": {"name": "x"}}), json!({"metaData": {"name": "s"}}))]
fn the_secrets_of_data_may_change(#[case] old: Value, #[case] patch: Value) {
    assert_eq!(changed("Metal3Data", &old, &patch), <[&str; 0]>::default());
}

#[rstest]
#[case(json!({"template": {"name": "u"}}), Some("spec.template: cannot be changed"))]
#[case(json!({"template": {"namespace": "n"}}), Some("spec.template: cannot be changed"))]
#[case(json!({"template": null}), Some("spec.template: cannot be changed"))]
#[case(json!({}), None)]
fn what_a_claim_asks_for_stays(#[case] patch: Value, #[case] error: Option<&str>) {
    let errors = changed("Metal3DataClaim", &json!({"template": {"name": "t"}}), &patch);
    assert_eq!(errors.first().map(String::as_str), error);
}

#[test]
fn a_claim_on_another_namespace_that_is_stored_may_stay() {
    let old = json!({"template": {"name": "t", "namespace": "other"}});
    assert_eq!(changed("Metal3DataClaim", &old, &json!({})), <[&str; 0]>::default());
}

/// The specification of a template, as one version is converted to the other.
fn converted(version: &str, spec: &Value, to: &str) -> Value {
    let object = json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Metal3DataTemplate",
        "metadata": {"name": "t-1"}, "spec": spec});
    metal3_api::infra::convert(object, &format!("{GROUP}/{to}")).unwrap()["spec"].take()
}

// OWN 30wa: a manifest of v1beta1 that upstream's program had stored could not be applied again.
#[test]
fn a_manifest_of_v1beta1_that_upstream_stored_is_applied_again() {
    let routes = |prefix: &Value| json!([{"network": "0.0.0.0", "prefix": prefix, "gateway": {"fromIPPool": "p"}}]);
    let networks = |prefix: &Value| {
        json!({"ipv4": [{"id": "n", "link": "e", "ipAddressFromIPPool": "p", "routes": routes(prefix)}],
            "ipv4DHCP": [{"id": "d", "link": "e", "routes": routes(prefix)}]})
    };
    let spec = |offset: Value, is_boot: Value, prefix: Value| {
        json!({"clusterName": "c", "metaData": {"indexes": [{"key": "i", "offset": offset, "step": 1}],
                "fromHostInterfaces": [{"key": "m", "interface": "eth0", "fromBootMAC": is_boot}]},
            "networkData": {"networks": networks(&prefix)}})
    };
    let manifest = spec(json!(0), json!(null), json!(0));
    let stored = spec(json!(null), json!(false), json!(null));
    // The API server reads the stored object in the version of the request, and asks in the version of the rule.
    let old = converted("v1beta1", &converted("v1beta2", &stored, "v1beta1"), "v1beta2");
    let new = converted("v1beta1", &manifest, "v1beta2");
    assert_eq!(asked("Metal3DataTemplate", Some(&old), &new).0, <[&str; 0]>::default());
    let other = converted("v1beta1", &spec(json!(1), json!(true), json!(1)), "v1beta2");
    let errors = asked("Metal3DataTemplate", Some(&old), &other).0;
    assert!(
        errors
            .iter()
            .any(|error| error.starts_with("spec.metaData: cannot be changed")),
        "{errors:?}"
    );
    assert!(
        errors
            .iter()
            .any(|error| error.starts_with("spec.networkData: cannot be changed")),
        "{errors:?}"
    );
}

/// The lists of a schema whose entries must differ, by their paths, with the type of each.
fn keyed_lists(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    let list_type = schema["x-kubernetes-list-type"].as_str();
    if let Some(list_type) = list_type.filter(|list_type| *list_type != "atomic") {
        found.push((path.to_owned(), list_type.to_owned()));
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        assert!(keys.is_none_or(|keys| keys.len() == 1), "{path} has several keys");
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        keyed_lists(schema, &format!("{path}.{name}"), found);
    }
    if schema["items"].is_object() {
        keyed_lists(&schema["items"], &format!("{path}[0]"), found);
    }
}

/// The status is left out: its list is the controller's, which writes v1beta2.
#[test]
fn entries_that_v1beta2_cannot_tell_apart_are_warned_of_in_every_list_of_the_schema() {
    let file = "../../config/crd/infrastructure.cluster.x-k8s.io_metal3datatemplates.yaml";
    let text = std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let definition: Value = serde_saphyr::from_str(&text).unwrap();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let version = versions.iter().find(|version| version["name"] == "v1beta2").unwrap();
    let schema = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut lists = Vec::new();
    keyed_lists(schema, "spec", &mut lists);
    assert!(lists.len() > 30, "{lists:?}");
    for (path, list_type) in lists {
        // Two entries without any field have the same key.
        let entry = if list_type == "set" { json!("::1") } else { json!({}) };
        let mut object = json!([entry.clone(), entry]);
        for name in path.rsplit('.') {
            object = match name.strip_suffix("[0]") {
                Some(list) => json!({ list: [object] }),
                None => json!({ name: object }),
            };
        }
        let warnings = asked("Metal3DataTemplate", None, &object["spec"]).1;
        let start = format!("{path}[1]");
        let found = warnings.iter().filter(|warning| warning.starts_with(&start));
        assert_eq!(found.count(), 1, "{path}: {warnings:?}");
    }
}

// OWN 31ss: half a million repeated entries became hundreds of megabytes of warnings.
#[test]
fn repeated_entries_are_told_up_to_a_hundred() {
    let spec = json!({"networkData": {"services": {"dns": vec!["::1"; 10_000]}}});
    let warnings = asked("Metal3DataTemplate", None, &spec).1;
    assert!((50..=101).contains(&warnings.len()), "{}", warnings.len());
    let long = "ä".repeat(14_000);
    let spec = json!({"networkData": {"services": {"dns": vec![long; 101]}}});
    let warnings = asked("Metal3DataTemplate", None, &spec).1;
    let bytes: usize = warnings.iter().map(String::len).sum();
    assert!(warnings.len() == 100 && bytes < 50_000, "{bytes} bytes");
}

/// Under upstream's definition, failure domains of v1beta1 are stored as an empty map.
#[rstest]
#[case::in_the_new_one_too(json!({}))]
#[case::listed(json!([{"name": "a"}]))]
fn a_template_with_a_map_of_failure_domains_can_be_updated(#[case] domains: Value) {
    let spec = |domains: Value| {
        of_template(&json!({"controlPlaneEndpoint": {"host": "h", "port": 1}, "failureDomains": domains}))
    };
    let (old, new) = (spec(json!({})), spec(domains));
    assert_eq!(
        asked("Metal3ClusterTemplate", Some(&old), &new),
        (Vec::new(), Vec::new())
    );
}

// OWN 30we: the defaults of an object without a specification were a patch that cannot be applied, and its write failed with 500.
#[rstest]
#[case(json!({}))]
#[case(json!({"spec": null}))]
#[case(json!({"spec": {}}))]
#[case(json!({"spec": {"controlPlaneEndpoint": {}}}))]
fn the_defaults_of_a_cluster_can_be_applied(#[case] rest: Value) {
    let mut object =
        json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "Metal3Cluster", "metadata": {"name": "c"}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    let request = json!({"uid": "u", "kind": {"group": GROUP, "version": "v1beta2", "kind": "Metal3Cluster"},
        "name": "c", "operation": "CREATE", "object": object});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let path = "/mutate-infrastructure-cluster-x-k8s-io-v1beta2-metal3cluster";
    let (_, answer) = all().answer(path, review.to_string().into()).unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let defaults: Vec<u8> = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
    let defaults: json_patch::Patch = serde_json::from_slice(&defaults).unwrap();
    json_patch::patch(&mut object, &defaults).unwrap();
    let spec = json!({"controlPlaneEndpoint": {"port": 6443}, "cloudProviderEnabled": false});
    assert_eq!(object["spec"], spec);
}
