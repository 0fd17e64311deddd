//! Secrets are held for as long as the host needs them, and no longer: whatever holds one holds its namespace.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_ironic_sim::{Action as Trouble, Rule};
use metal3_testkit::played::Request;
use rstest::rstest;
use serde_json::json;

use crate::site::Site;

/// Label, owners and finalizers of a Secret, as far as there are any.
fn marks(site: &Site, name: &str) -> Vec<String> {
    let secret: Secret = site.cluster.get("secrets", name).unwrap();
    let owners = secret.owner_references().iter().map(|owner| owner.name.clone());
    let labels = secret.labels().keys().cloned();
    let finalizers = secret.finalizers().iter().cloned();
    owners.chain(labels).chain(finalizers).collect()
}

fn is_held(site: &Site, name: &str) -> bool {
    let secret: Secret = site.cluster.get("secrets", name).unwrap();
    !secret.finalizers().is_empty() || !secret.owner_references().is_empty()
}

fn name_secret(site: &Site, name: &str) {
    site.edit(&json!({"spec": {"bmc": {"credentialsName": name}}}));
}

fn is_refused(host: Option<&BareMetalHost>, name: &str) -> bool {
    let status = host.and_then(|host| host.status.as_ref());
    status.is_some_and(|status| {
        let tried = status.tried_credentials.credentials.as_ref();
        status.error_type.is_some() && tried.is_some_and(|tried| tried.name == name)
    })
}

/// The BMC refuses them, or the host is refused before anybody tries them.
#[rstest]
#[case::tried(&json!({}))]
#[case::never_tried(&json!({"hardwareProfile": "acme"}))]
#[tokio::test]
async fn a_secret_that_was_never_good_is_let_go_when_another_is_named(#[case] spec: &serde_json::Value) {
    let site = Site::new(spec).await;
    for name in ["first", "second"] {
        site.write_secret(name, b"admin", format!("wrong {name}").as_bytes());
    }
    name_secret(&site, "first");
    let life = site.begin(None);
    life.listed().await;
    for (name, former) in [("first", None), ("second", Some("first"))] {
        name_secret(&site, name);
        assert!(site.until(&life, "refused", |host| is_refused(host, name)).await);
        assert!(is_held(&site, name));
        assert!(!former.is_some_and(|former| is_held(&site, former)), "{former:?}");
    }
    site.edit(&json!({"spec": {"hardwareProfile": null, "bmc": {"credentialsName": "bmc"}}}));
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    assert_eq!([is_held(&site, "first"), is_held(&site, "second")], [false; 2]);
    assert!(is_held(&site, "bmc"));
}

/// The host goes when it has just been given another Secret in place of one that was never good: none of them stays behind.
#[tokio::test]
async fn every_secret_is_let_go_with_the_host() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    site.write_secret("wrong", b"admin", b"wrong");
    site.sim.add_rule(Rule {
        path: Some("/v1/nodes/*/management/boot_device".to_owned()),
        action: Trouble::Refuse {
            status: 500,
            text: "the BMC refuses them".to_owned(),
            retry_after: None,
        },
        ..Rule::default()
    });
    name_secret(&site, "wrong");
    assert!(site.until(&life, "refused", |host| is_refused(host, "wrong")).await);
    assert!(
        is_held(&site, "wrong") && is_held(&site, "bmc"),
        "the good one until another is good"
    );
    let credentials = &site.sim.server(0).credentials;
    site.write_secret(
        "right",
        credentials.username.as_bytes(),
        credentials.password.as_bytes(),
    );
    name_secret(&site, "right");
    site.sim.clear_rules();
    site.delete();
    assert!(site.until(&life, "gone", |host| host.is_none()).await);
    for name in ["wrong", "bmc", "right"] {
        let secret: Secret = site.cluster.get("secrets", name).unwrap();
        assert!(secret.finalizers().is_empty(), "{name}");
    }
}

/// What is no Secret with credentials was named by mistake. It is marked before it can be read, and left as it was found; also
/// where the operator dies in between.
#[rstest]
#[case::empty(b"", None)]
#[case::blank(b" \n", None)]
#[case::no_text(b"\xff\xfe", None)]
#[case::empty_and_death(b"", Some(2))]
#[tokio::test]
async fn a_secret_of_no_use_is_left_as_it_was_found(#[case] password: &[u8], #[case] dies_after: Option<usize>) {
    let site = Site::new(&json!({})).await;
    site.write_secret("bmc", b"admin", password);
    let mut life = site.begin(dies_after);
    life.listed().await;
    let is_told = |host: Option<&BareMetalHost>| {
        let status = host.and_then(|host| host.status.clone()).unwrap_or_default();
        status.error_message.contains("key password")
    };
    if !site.until(&life, "told", is_told).await {
        assert_eq!(marks(&site, "bmc").len(), 3, "it died when the Secret was marked");
        life = site.begin(None);
        life.listed().await;
        assert!(site.until(&life, "told", is_told).await);
    }
    assert_eq!(marks(&site, "bmc"), [""; 0]);
    site.cluster.requests();
    for _ in 0..3 {
        life.forget_rest();
        life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
    }
    let writes: Vec<_> = site.cluster.requests().into_iter().filter(Request::is_write).collect();
    assert!(writes.is_empty(), "marked and left again at every look: {writes:?}");

    let password = site.sim.server(0).credentials.password.clone();
    site.write_secret("bmc", b"admin", password.as_bytes());
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    assert!(is_held(&site, "bmc"));
}

/// One that Ironic was given stays marked while somebody writes it anew.
#[tokio::test]
async fn a_secret_in_use_is_held_while_it_is_of_no_use() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    site.write_secret("bmc", b"", b"");
    let is_told = |host: Option<&BareMetalHost>| {
        host.is_some_and(|host| host.status.as_ref().is_some_and(|s| s.error_type.is_some()))
    };
    assert!(site.until(&life, "told", is_told).await);
    assert_eq!(marks(&site, "bmc").len(), 3);
}
