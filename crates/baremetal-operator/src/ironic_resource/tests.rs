use k8s_openapi::ByteString;
use metal3_testkit::leaks::{CANARY, expect_none_in};
use rstest::rstest;
use serde_json::json;

use super::*;

fn reference() -> Reference {
    Reference {
        namespace: "metal3".into(),
        name: "ironic".into(),
    }
}

/// An answer that shows nothing from a Secret, however it is logged.
fn told<T: fmt::Debug>(answer: Result<T, String>) -> Result<T, String> {
    expect_none_in("what is told", &format!("{answer:?}"));
    answer
}

#[rstest]
#[case::error(Err("no account has secret-of-api".to_owned()))]
#[case::answer(Ok("secret-of-api"))]
#[should_panic(expected = "a secret was emitted")]
fn a_secret_that_is_told_fails_its_test(#[case] answer: Result<&str, String>) {
    told(answer).ok();
}

fn ironic(spec: &Value, conditions: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "ironic.metal3.io/v1alpha1", "kind": "Ironic",
        "metadata": {"name": "ironic", "namespace": "metal3", "generation": 3},
        "spec": spec, "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn is_ready() -> Value {
    json!([
        {"type": "Available", "status": "False", "observedGeneration": 1},
        {"type": "Ready", "status": "True", "observedGeneration": 3, "reason": "DeploymentAvailable", "message": ""},
    ])
}

#[rstest]
#[case(json!({"apiCredentialsName": "api"}), "http://ironic.metal3.svc/", None)]
#[case(json!({"apiCredentialsName": "api", "tls": {"certificateName": ""}}), "http://ironic.metal3.svc/", None)]
#[case(json!({"apiCredentialsName": "api", "tls": {"certificateName": "cert"}}), "https://ironic.metal3.svc/", Some("cert"))]
fn a_ready_resource_tells_where_ironic_is(
    #[case] spec: Value,
    #[case] endpoint: &str,
    #[case] certificate: Option<&str>,
) {
    let told = announced(&reference(), Some(&ironic(&spec, &is_ready()))).unwrap();
    let expected = Announced {
        endpoint: Url::parse(endpoint).unwrap(),
        credentials: "api".into(),
        certificate: certificate.map(str::to_owned),
    };
    assert_eq!(told, expected);
}

#[rstest]
#[case(json!([]), "has no condition Ready yet")]
#[case(json!(null), "has no condition Ready yet")]
#[case(json!([{"type": "Ready", "status": "True", "observedGeneration": 2}]), "generation 2 of 3")]
#[case(json!([{"type": "Ready", "status": "True"}]), "generation 0 of 3")]
#[case(json!([{"type": "Ready", "status": "False", "observedGeneration": 3, "reason": "InProgress", "message": "one pod is missing"}]),
    "Ironic metal3/ironic is not ready: InProgress: one pod is missing")]
#[case(json!([{"type": "Ready", "status": "Unknown", "observedGeneration": 3}]), "it does not say why")]
fn one_that_is_not_ready_tells_what_is_waited_for(#[case] conditions: Value, #[case] part: &str) {
    // D1 of upstream's: an `Ironic` resource that is not ready is an error.
    let object = ironic(&json!({"apiCredentialsName": "api"}), &conditions);
    let why = told(announced(&reference(), Some(&object))).unwrap_err();
    assert!(why.contains(part), "{why}");
}

#[test]
fn a_missing_resource_and_missing_credentials_are_named() {
    let why = announced(&reference(), None).unwrap_err();
    assert!(why.starts_with("Ironic metal3/ironic, which IRONIC_NAME"), "{why}");
    let why = announced(&reference(), Some(&ironic(&json!({}), &is_ready()))).unwrap_err();
    assert!(
        why.starts_with("spec.apiCredentialsName of Ironic metal3/ironic is empty"),
        "{why}"
    );
}

/// A Secret. Every value has the mark at its end, except for the user's name and what is empty.
fn secret(keys: &[(&str, &[u8])]) -> Secret {
    let marked = |key, value: &[u8]| match (key, value) {
        ("username", value) | (_, value @ []) => value.to_vec(),
        (_, value) => [value, CANARY.as_bytes()].concat(),
    };
    let data = keys
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(marked(*key, value))));
    Secret {
        data: Some(data.collect()),
        ..Secret::default()
    }
}

#[test]
fn credentials_are_taken_to_the_byte() {
    let found = secret(&[("username", b"admin"), ("password", b" with blanks\n")]);
    let expected = Auth::Basic {
        username: "admin".into(),
        password: format!(" with blanks\n{CANARY}"),
    };
    assert_eq!(told(credentials(&reference(), "api", Some(&found))).unwrap(), expected);
}

#[test]
fn a_certificate_is_taken_to_the_byte() {
    let found = secret(&[("tls.crt", b"a\n")]);
    // A certificate is no secret, and an operator may show which one it trusts.
    let certificate = authorities(&reference(), "cert", Some(&found)).unwrap();
    assert_eq!(certificate, format!("a\n{CANARY}"));
    let found = secret(&[("tls.key", b"a"), ("tls.crt", b"\xff")]);
    let why = told(authorities(&reference(), "cert", Some(&found))).unwrap_err();
    assert!(why.contains("has no text under its key tls.crt"), "{why}");
}

#[rstest]
#[case(
    None,
    "Secret metal3/api, which spec.apiCredentialsName of Ironic metal3/ironic names, does not exist"
)]
#[case(Some(secret(&[("username", b"admin")])), "has nothing under its key password")]
#[case(Some(secret(&[("username", b""), ("password", b"x")])), "has nothing under its key username")]
#[case(Some(secret(&[("username", b"a"), ("password", b"\xff")])), "has no text under its key password")]
fn unusable_secrets_are_named_with_their_key(#[case] found: Option<Secret>, #[case] part: &str) {
    let why = told(credentials(&reference(), "api", found.as_ref())).unwrap_err();
    assert!(why.contains(part) && why.contains("Secret metal3/api"), "{why}");
}
