//! The Secrets that a host holds: those that carry our marks for it, or may.
//!
//! They are recorded in an annotation of the host before they are marked, and until the marks are removed. So whatever
//! happens to the operator or the specification in between, no Secret stays marked for a host that no longer uses it.
//! The first record is written together with our finalizer and costs no extra request.
//!
//! The annotation is on the host and not on the Secret: many hosts may share a Secret with network data, and each
//! change of its metadata changes its version, which would reconcile all of them and rebuild their ramdisks.

use std::collections::BTreeSet;

use kube::ResourceExt;
use metal3_api::metal3::names::annotation::HELD_SECRETS;
use metal3_api::metal3::{BareMetalHost, CredentialsStatus};
use metal3_runtime::secrets::SecretKey;
use serde_json::{Value, json};

use super::annotations;

/// The Secrets that are recorded on a host.
pub fn names(host: &BareMetalHost) -> BTreeSet<String> {
    let text = annotations::value(host, HELD_SECRETS).unwrap_or_default();
    let names = text.split(',').map(str::trim).filter(|name| is_name(name));
    names.map(str::to_owned).collect()
}

/// Whether a text can be the name of a Secret. Other texts were written by another client and are never requested.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().next().is_some_and(is_plain) && text.bytes().all(|byte| is_plain(byte) || b"-.".contains(&byte))
}

/// The Secrets that a host's specification names and that are marked.
pub fn wanted(host: &BareMetalHost) -> impl Iterator<Item = &str> {
    let spec = &host.spec;
    let names = [&spec.bmc.credentials_name, &spec.preprovisioning_network_data_name];
    names.into_iter().map(String::as_str).filter(|name| is_name(name))
}

/// The name of the Secret with these credentials.
pub fn name_of(credentials: &CredentialsStatus) -> Option<&str> {
    credentials.credentials.as_ref().map(|secret| secret.name.as_str())
}

/// The Secrets whose credentials Ironic was given, according to a host's cached status.
pub fn given(host: &BareMetalHost) -> impl Iterator<Item = &str> {
    let given = host.status.iter();
    let given = given.flat_map(|status| [&status.good_credentials, &status.tried_credentials]);
    given.filter_map(name_of)
}

/// Every Secret that a host may hold: those in its note, those that it names, and those that an earlier operator marked
/// and left in the status.
pub fn all(host: &BareMetalHost) -> BTreeSet<String> {
    let mut all = names(host);
    let others = given(host).chain(wanted(host)).filter(|name| is_name(name));
    all.extend(others.map(str::to_owned));
    all
}

/// The merge patch that records these and no others; none if the host already has them. It is conditional on the judged
/// version.
pub fn noted(host: &BareMetalHost, secrets: &BTreeSet<String>) -> Option<Value> {
    if *secrets == names(host) {
        return None;
    }
    let text = secrets.iter().map(String::as_str).collect::<Vec<_>>().join(",");
    let text = (!text.is_empty()).then_some(text);
    let version = &host.metadata.resource_version;
    Some(json!({ "metadata": { "resourceVersion": version, "annotations": { HELD_SECRETS: text } } }))
}

/// The Secrets that a host uses and will release itself, for an index of users. A host being deleted uses none, so that
/// the last of several that are deleted together finds no other user of the Secret.
pub fn used(host: &BareMetalHost) -> Vec<SecretKey> {
    if host.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let namespace = host.namespace().unwrap_or_default();
    let held = names(host);
    let used: BTreeSet<&str> = wanted(host)
        .filter(|name| held.contains(*name) || given(host).any(|given| given == *name))
        .collect();
    let key = |name: &str| SecretKey {
        namespace: namespace.clone(),
        name: name.to_owned(),
    };
    used.into_iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use metal3_api::metal3::BareMetalHostSpec;
    use rstest::rstest;

    use super::*;

    fn host(text: Option<&str>) -> BareMetalHost {
        let mut host = BareMetalHost::new("h", BareMetalHostSpec::default());
        host.metadata.namespace = Some("n".to_owned());
        host.metadata.resource_version = Some("7".to_owned());
        if let Some(text) = text {
            host.annotations_mut().insert(HELD_SECRETS.to_owned(), text.to_owned());
        }
        host
    }

    #[rstest]
    #[case::none(None, &[])]
    #[case::empty(Some(""), &[])]
    #[case::some(Some("bmc,net.1"), &["bmc", "net.1"])]
    #[case::by_hand(Some(" net ,,../pods,Net,-,bmc"), &["bmc", "net"])]
    fn only_names_are_read(#[case] text: Option<&str>, #[case] expected: &[&str]) {
        assert_eq!(names(&host(text)).into_iter().collect::<Vec<_>>(), expected);
    }

    #[rstest]
    #[case::first(None, &["bmc"], Some(json!("bmc")))]
    #[case::more(Some("bmc"), &["bmc", "net"], Some(json!("bmc,net")))]
    #[case::last(Some("bmc"), &[], Some(Value::Null))]
    #[case::same(Some("net,bmc"), &["bmc", "net"], None)]
    #[case::nothing(None, &[], None)]
    fn what_differs_is_written(#[case] text: Option<&str>, #[case] secrets: &[&str], #[case] expected: Option<Value>) {
        let secrets = secrets.iter().map(|&name| name.to_owned()).collect();
        let patch = noted(&host(text), &secrets);
        let expected =
            expected.map(|text| json!({"metadata": {"resourceVersion": "7", "annotations": {HELD_SECRETS: text}}}));
        assert_eq!(patch, expected);
    }

    #[test]
    fn a_host_counts_as_user_of_the_secrets_that_it_will_let_go() {
        let mut host = host(Some("bmc,net"));
        assert_eq!(used(&host), []);
        host.spec.preprovisioning_network_data_name = "net".to_owned();
        host.spec.bmc.credentials_name = "other".to_owned();
        let key = SecretKey {
            namespace: "n".to_owned(),
            name: "net".to_owned(),
        };
        assert_eq!(used(&host), [key]);
        host.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap();
        assert_eq!(used(&host), []);
    }
}
