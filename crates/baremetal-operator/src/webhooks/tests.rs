//! The kinds beside BareMetalHost: each rule with an object that breaks it and a similar one that does not.

use metal3_api::metal3::BareMetalHost;
use metal3_runtime::webhook::{FieldError, Rules};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn object<K: DeserializeOwned + kube::Resource<DynamicType = ()>>(spec: &Value) -> K {
    serde_json::from_value(json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": "a", "namespace": "n"}, "spec": spec,
    }))
    .unwrap()
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Expects the first object to break one rule, and the second none.
fn expect<K: DeserializeOwned + kube::Resource<DynamicType = ()>>(
    rules: &Rules<K>,
    wrong: &Value,
    right: &Value,
    error: &str,
) {
    let errors = texts(&(rules.shape)(&object(wrong)));
    assert!(
        matches!(errors.as_slice(), [one] if one.starts_with(error)),
        "{error}: {errors:?}"
    );
    assert_eq!(texts(&(rules.shape)(&object(right))), <[&str; 0]>::default());
}

fn subscribed(patch: &Value) -> Value {
    let mut spec = json!({"hostName": "h", "destination": "https://events/"});
    json_patch::merge(&mut spec, patch);
    spec
}

#[rstest]
#[case(json!({"hostName": ""}), json!({}), "spec.hostName: is required")]
#[case(json!({"destination": ""}), json!({}), "spec.destination: is required")]
#[case(json!({"destination": "events"}), json!({"destination": "/events"}), "spec.destination: is neither")]
#[case(json!({"destination": "http://events"}), json!({"destination": "snmp://events/"}), "spec.destination: needs a path")]
#[case(json!({"destination": "mailto:me"}), json!({"destination": "http://events/?a"}), "spec.destination: needs a path")]
#[case(json!({"httpHeadersRef": {"name": "s"}}), json!({"httpHeadersRef": {"name": "s", "namespace": "n"}}),
    "spec.httpHeadersRef.namespace: \"\" must be the object's own namespace (\"n\")")]
#[case(json!({"httpHeadersRef": {"name": "s", "namespace": "o"}}), json!({"httpHeadersRef": null}), "spec.httpHeadersRef.namespace: ")]
fn subscriptions(#[case] wrong: Value, #[case] right: Value, #[case] error: &str) {
    expect(&subscription::RULES, &subscribed(&wrong), &subscribed(&right), error);
}

#[rstest]
#[case(json!({"context": "c"}))]
#[case(json!({"hostName": "other"}))]
#[case(json!({"httpHeadersRef": {"name": "s", "namespace": "n"}}))]
fn subscriptions_cannot_change(#[case] patch: Value) {
    let (old, new) = (object(&subscribed(&json!({}))), object(&subscribed(&patch)));
    let change = subscription::RULES.change;
    assert!(texts(&change(&old, &new))[0].starts_with("spec: cannot be changed"));
    assert_eq!(change(&new, &new), []);
}

#[test]
fn data_images() {
    let of = |url: &str| json!({ "url": url });
    let error = "spec.url: scheme \"nfs\" cannot be used; it must be one of http, https, ftp, gopher, oci";
    expect(
        &firmware::DATA_IMAGE_RULES,
        &of("nfs://h/a"),
        &of("https://h/a.iso"),
        error,
    );
    let warnings = (firmware::DATA_IMAGE_RULES.warnings)(&object(&of("http:a")));
    assert!(texts(&warnings)[0].starts_with("spec.url: cannot be used: "));
}

#[test]
fn firmware_components() {
    let of = |component: &str, url: &str| json!({"updates": [{"component": "bmc", "url": "http://h/a"}, {"component": component, "url": url}]});
    let rules = firmware::COMPONENTS_RULES;
    let error = "spec.updates[1].url: is neither an absolute URL";
    expect(&rules, &of("bios", "a.bin"), &of("gpu", "http://h/a.bin"), error);
    let warnings = |component: &str| texts(&(rules.warnings)(&object(&of(component, "http://h/a"))));
    assert!(warnings("gpu")[0].starts_with("spec.updates[1].component: \"gpu\" is unknown"));
    assert_eq!(warnings("nic:1"), <[&str; 0]>::default());
}

fn selecting(operator: &str, values: &[&str]) -> Value {
    json!({"poweredOn": true, "hostSelector": {"matchExpressions": [{"key": "a/b", "operator": operator, "values": values}]}})
}

#[rstest]
#[case("=", &[], &["v"], "values: exactly one value is needed")]
#[case("==", &["v", "w"], &[""], "values: exactly one value is needed")]
#[case("!=", &["-"], &["v"], "values: \"-\" cannot be the value of a label")]
#[case("in", &[], &["v", "w"], "values: at least one value is needed")]
#[case("notin", &[], &["v"], "values: at least one value is needed")]
#[case("exists", &["v"], &[], "values: must be empty")]
#[case("!", &["v"], &[], "values: must be empty")]
fn operators_of_claims(#[case] operator: &str, #[case] wrong: &[&str], #[case] right: &[&str], #[case] words: &str) {
    let error = format!("spec.hostSelector.matchExpressions[0].{words}");
    expect(
        &claim::RULES,
        &selecting(operator, wrong),
        &selecting(operator, right),
        &error,
    );
}

#[rstest]
#[case("In")]
#[case("Exists")]
#[case("gt")]
fn other_operators_of_claims_are_refused(#[case] operator: &str) {
    let error = format!("spec.hostSelector.matchExpressions[0].operator: {operator:?} is unknown");
    expect(
        &claim::RULES,
        &selecting(operator, &["1"]),
        &selecting("in", &["1"]),
        &error,
    );
}

#[rstest]
#[case(json!({"hostSelector": {"matchLabels": {"a b": "c"}}}), json!({"hostSelector": {"matchLabels": {"a/b": "c"}}}),
    "spec.hostSelector.matchLabels[a b]: \"a b\" cannot be the key")]
#[case(json!({"hostSelector": {"matchLabels": {"a": "b c"}}}), json!({"hostSelector": {"matchLabels": {"a": ""}}}),
    "spec.hostSelector.matchLabels[a]: \"b c\" cannot be the value")]
#[case(json!({"hostSelector": {"matchExpressions": [{"key": "", "operator": "exists", "values": []}]}}), json!({}),
    "spec.hostSelector.matchExpressions[0].key: ")]
#[case(json!({"image": {"url": "http://h/i"}}), json!({"image": {"url": "oci://h/i"}}), "spec.image.checksum: is required")]
fn claims(#[case] wrong: Value, #[case] right: Value, #[case] error: &str) {
    expect(&claim::RULES, &wrong, &right, error);
}

#[test]
fn reboots_of_claims() {
    let mut claim: metal3_api::metal3::HostClaim = object(&json!({}));
    claim.metadata.annotations = Some([("reboot.metal3.io".to_owned(), "now".to_owned())].into());
    let errors = texts(&(claim::RULES.shape)(&claim));
    assert!(
        errors[0].starts_with("metadata.annotations[reboot.metal3.io]: "),
        "{errors:?}"
    );
}

fn vlans(mode: &str, vlans: &[&str]) -> Value {
    json!({"mode": mode, "nativeVLAN": 1, "allowedVLANs": vlans})
}

#[rstest]
#[case("trunk", &["0"], &["1", "4094"], "[0]: \"0\" must be a VLAN id")]
#[case("trunk", &["4095"], &["200-203"], "[0]: ")]
#[case("hybrid", &["1", "203-200"], &["0001-2"], "[1]: ")]
#[case("trunk", &["5-5"], &["5-6"], "[0]: ")]
#[case("trunk", &["+5"], &["5"], "[0]: ")]
#[case("trunk", &["1-2-3"], &["1-2"], "[0]: ")]
#[case("access", &["5"], &[], ": must be empty in mode access")]
fn attachments(#[case] mode: &str, #[case] wrong: &[&str], #[case] right: &[&str], #[case] words: &str) {
    let error = format!("spec.allowedVLANs{words}");
    expect(&attachment::RULES, &vlans(mode, wrong), &vlans(mode, right), &error);
}

#[rstest]
#[case::own_namespace(json!({"name": "a"}), true)]
#[case::named_namespace(json!({"name": "a", "namespace": "n"}), true)]
#[case::another_namespace(json!({"name": "a", "namespace": "o"}), false)]
#[case::another(json!({"name": "b"}), false)]
#[case::none(json!({}), false)]
fn users_of_an_attachment(#[case] reference: Value, #[case] uses: bool) {
    let interfaces = json!([
        {"name": "eth0", "hostNetworkAttachment": reference},
        {"macAddress": "52:54:00:12:34:56", "hostNetworkAttachment": reference},
    ]);
    let host: BareMetalHost = object(&json!({"online": true, "networkInterfaces": interfaces}));
    let found = attachment::users(
        &host.metadata,
        &host.spec.network_interfaces,
        &object(&vlans("access", &[])),
    );
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    let expected = ["n/a[eth0]", "n/a[52:54:00:12:34:56]"];
    assert_eq!(found, if uses { expected.to_vec() } else { Vec::new() });
}
