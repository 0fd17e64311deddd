//! Secrets are held for as long as the host needs them, and no longer: whatever holds one holds its namespace.

use std::sync::atomic::Ordering;
use std::time::Instant;

use baremetal_operator::settings::HostSettings;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use metal3_api::metal3::names::annotation::HELD_SECRETS;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_ironic_sim::{Action as Trouble, Rule};
use metal3_testkit::played::Request;
use rstest::rstest;
use serde_json::json;

use crate::deployed;
use crate::site::{LIMIT, Life, NAME, Site, is_at_rest, pause, settings};

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
        site.write_secret(name, b"admin", format!("secret-of-{name}").as_bytes());
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
    site.write_secret("wrong", b"admin", b"secret-of-nobody");
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
    site.write_credentials("right", 0);
    name_secret(&site, "right");
    site.sim.clear_rules();
    site.delete();
    assert!(site.until(&life, "gone", |host| host.is_none()).await);
    // OWN 28a: with an owner that is gone they would be collected, whoever made them.
    for name in ["wrong", "bmc", "right"] {
        assert!(!is_held(&site, name), "{name}");
    }
}

// OWN 31we: nothing bounded what a server got from one Secret but the API server.
#[tokio::test]
async fn a_secret_that_is_larger_than_kubernetes_stores_is_refused() {
    let mut spec = deployed();
    spec["userData"] = json!({"name": "large"});
    let site = Site::new(&spec).await;
    let mut text = "secret-of-user-data".repeat(1 << 16).into_bytes();
    text.truncate((1 << 20) + 1);
    let text = k8s_openapi::ByteString(text);
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "large"}, "data": {"userData": text}});
    site.cluster.ask("POST", "secrets", secret);
    let life = site.begin(None);
    let told = "large, named by spec.userData, has 1048577 bytes under the key userData";
    let is_told = |host: Option<&BareMetalHost>| {
        let status = host.and_then(|host| host.status.as_ref());
        let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.message.contains(told))
    };
    assert!(site.until(&life, "refused", is_told).await);
}

// OWN 28b: whatever Secret a host named was given to its server, if it has anything under the key `value`.
#[rstest]
// OWN 31wf: nothing kept the key `value` of any Opaque Secret from a server.
#[case::a_users("user-data", "Opaque", "userData", false, true)]
#[case::of_bootstrap("boot", "cluster.x-k8s.io/secret", "value", false, true)]
#[case::a_users_own_bootstrap("own", "Opaque", "value", false, true)]
#[case::any("any", "example.com/other", "value", false, false)]
#[case::kubeconfig("c-kubeconfig", "cluster.x-k8s.io/secret", "value", false, false)]
#[case::a_users_where_the_type_is_asked_for("user-data", "Opaque", "userData", true, true)]
#[case::of_bootstrap_where_the_type_is_asked_for("boot", "cluster.x-k8s.io/secret", "value", true, true)]
#[case::a_users_own_bootstrap_where_the_type_is_asked_for("own", "Opaque", "value", true, false)]
#[case::kubeconfig_where_the_type_is_asked_for("c-kubeconfig", "cluster.x-k8s.io/secret", "value", true, false)]
#[tokio::test]
async fn only_what_is_meant_for_a_first_boot_is_given_to_a_server(
    #[case] name: &str,
    #[case] kind: &str,
    #[case] key: &str,
    #[case] requires_bootstrap_type: bool,
    #[case] is_given: bool,
) {
    let mut spec = deployed();
    spec["userData"] = json!({"name": name});
    let site = Site::new(&spec).await;
    let text = k8s_openapi::ByteString(b"#cloud-config\n# secret-of-user-data\n".to_vec());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind,
        "data": {key: text}});
    site.cluster.ask("POST", "secrets", secret);
    let wants = HostSettings {
        requires_bootstrap_type,
        ..settings("http://images.example/ipa.iso")
    };
    let life = site.begin_with(None, wants);
    let waits = "spec.userData, has no key userData, and its key value";
    let is_refused = |host: Option<&BareMetalHost>| {
        let conditions = host
            .and_then(|host| host.status.as_ref())
            .map(|status| &status.conditions);
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.message.contains(waits))
    };
    let is_done =
        |host: Option<&BareMetalHost>| host.is_some_and(|host| is_at_rest(host, &ProvisioningState::Provisioned));
    assert!(
        site.until(&life, "decided", |host| is_refused(host) || is_done(host))
            .await
    );
    assert_eq!(is_done(site.host().as_ref()), is_given);
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

fn name_network_data(site: &Site, host: &str, name: &str) {
    site.edit_of(host, &json!({"spec": {"preprovisioningNetworkDataName": name}}));
}

/// The message of the condition `Waiting`.
fn waits_for(host: Option<&BareMetalHost>) -> String {
    let status = host.and_then(|host| host.status.clone()).unwrap_or_default();
    let waiting = status.conditions.into_iter().find(|c| c.type_ == "Waiting");
    waiting.map(|condition| condition.message).unwrap_or_default()
}

/// A host that is renamed while the operator is dead was marked by nobody that lives.
#[rstest]
#[case::noted(1)]
#[case::marked(2)]
#[case::enrolled(3)]
#[tokio::test]
async fn a_secret_is_let_go_also_where_the_operator_died_before_it_said_so(#[case] dies_after: usize) {
    let site = Site::new(&json!({"preprovisioningNetworkDataName": "net"})).await;
    site.write_credentials("first", 0);
    site.write_network_data("net");
    name_secret(&site, "first");
    let life = site.begin(Some(dies_after));
    life.listed().await;
    assert!(!site.until_at_rest(&life, ProvisioningState::Available).await);
    name_secret(&site, "bmc");
    name_network_data(&site, NAME, "");
    let life = site.begin(None);
    life.listed().await;
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    assert_eq!(site.cluster.held_secrets(), ["bmc"]);
    let first: Secret = site.cluster.get("secrets", "first").unwrap();
    assert_eq!(first.owner_references(), []);
}

#[tokio::test]
async fn network_data_is_let_go_when_another_is_named() {
    let site = Site::new(&json!({"preprovisioningNetworkDataName": "net-a"})).await;
    for name in ["net-a", "net-b"] {
        site.write_network_data(name);
    }
    let life = site.begin(None);
    life.listed().await;
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    assert_eq!(site.cluster.held_secrets(), ["bmc", "net-a"]);
    for (name, expected) in [
        ("net-b", vec!["bmc", "net-b"]),
        ("", vec!["bmc"]),
        ("net-a", vec!["bmc", "net-a"]),
    ] {
        name_network_data(&site, NAME, name);
        assert!(
            site.until(&life, "held", |_| site.cluster.held_secrets() == expected)
                .await
        );
        assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    }
    let network_data: Secret = site.cluster.get("secrets", "net-a").unwrap();
    assert_eq!(
        network_data.owner_references(),
        [],
        "it may be there for hosts that come later"
    );
    site.delete();
    assert!(site.until(&life, "gone", |host| host.is_none()).await);
    assert_eq!(site.cluster.held_secrets(), [""; 0]);
}

/// Marked by upstream's operator, or by one that did not note it: what the specification names goes with the host, and what it
/// named while this operator looked at it is let go.
#[rstest]
#[case::deleted(None)]
#[case::renamed(Some(""))]
#[tokio::test]
async fn network_data_that_another_operator_has_marked_is_let_go(#[case] renamed: Option<&str>) {
    let site = Site::new(&json!({"preprovisioningNetworkDataName": "net"})).await;
    site.write_network_data("net");
    let life = site.begin(None);
    life.listed().await;
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    site.edit(&json!({"metadata": {"annotations": {HELD_SECRETS: null}}}));
    if let Some(name) = renamed {
        let life = site.begin(None);
        life.listed().await;
        life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
        name_network_data(&site, NAME, name);
        assert!(
            site.until(&life, "let go", |_| site.cluster.held_secrets() == ["bmc"])
                .await
        );
    }
    site.delete();
    assert!(site.until(&life, "gone", |host| host.is_none()).await);
    assert_eq!(site.cluster.held_secrets(), [""; 0]);
}

const OTHER: &str = "server-1";

/// Two hosts that have come to rest with the same network data.
async fn two_hosts_of_one_secret() -> (Site, Life) {
    let site = Site::new(&json!({"preprovisioningNetworkDataName": "net"})).await;
    site.write_network_data("net");
    site.write_credentials("bmc-1", 1);
    let spec = json!({"preprovisioningNetworkDataName": "net", "bmc": {"credentialsName": "bmc-1"}});
    site.add_host(OTHER, 1, &spec);
    let life = site.begin(None);
    life.listed().await;
    for name in [NAME, OTHER] {
        let is_available =
            |host: Option<&BareMetalHost>| host.is_some_and(|h| is_at_rest(h, &ProvisioningState::Available));
        assert!(site.until_of(name, &life, "available", is_available).await);
    }
    (site, life)
}

#[derive(Clone, Copy, Debug)]
enum Parting {
    Deleted,
    Renamed,
}

fn part(site: &Site, host: &str, parting: Parting) {
    match parting {
        Parting::Deleted => site.delete_of(host),
        Parting::Renamed => name_network_data(site, host, ""),
    }
}

fn holds_network_data(host: Option<&BareMetalHost>) -> bool {
    let annotations = host.and_then(|host| host.metadata.annotations.as_ref());
    let held = annotations.and_then(|all| all.get(HELD_SECRETS));
    held.is_some_and(|held| held.contains("net"))
}

async fn until_parted(site: &Site, life: &Life, host: &str) {
    let has_parted = |host: Option<&BareMetalHost>| !holds_network_data(host);
    assert!(site.until_of(host, life, "parted", has_parted).await);
}

/// Reconciles one host after the other until this holds.
async fn in_turns(site: &Site, life: &Life, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LIMIT, "never: {:?}", site.sim.states());
        for host in [NAME, OTHER].into_iter().filter_map(|name| site.host_of(name)) {
            // Whatever goes wrong is tried again, as the controller does it.
            life.reconcile(host).await.unwrap().ok();
        }
        pause().await;
    }
}

#[rstest]
#[tokio::test]
async fn network_data_is_held_until_the_last_of_its_hosts_has_parted_from_it(
    #[values(Parting::Deleted, Parting::Renamed)] first: Parting,
    #[values(Parting::Deleted, Parting::Renamed)] last: Parting,
) {
    let (site, life) = two_hosts_of_one_secret().await;
    let before = site.host_of(OTHER);
    part(&site, NAME, first);
    until_parted(&site, &life, NAME).await;
    assert!(
        site.cluster.held_secrets().contains(&"net".to_owned()),
        "another host uses it"
    );
    assert_eq!(site.host_of(OTHER), before, "which need not do anything for it");
    part(&site, OTHER, last);
    until_parted(&site, &life, OTHER).await;
    assert!(!site.cluster.held_secrets().contains(&"net".to_owned()));
}

/// Neither leaves it to the other, also where the pass over one sees nothing new of the other.
#[rstest]
#[tokio::test]
async fn two_hosts_that_part_at_once_leave_no_network_data_behind(
    #[values(Parting::Deleted, Parting::Renamed)] parting: Parting,
    #[values(false, true)] is_late: bool,
) {
    let (site, life) = two_hosts_of_one_secret().await;
    life.is_late.store(is_late, Ordering::Relaxed);
    for name in [NAME, OTHER] {
        part(&site, name, parting);
    }
    let has_parted = |name: &str| !holds_network_data(site.host_of(name).as_ref());
    in_turns(&site, &life, || [NAME, OTHER].into_iter().all(has_parted)).await;
    assert!(!site.cluster.held_secrets().contains(&"net".to_owned()));
}

/// A former Secret that nobody may write keeps the host from nothing, and is named.
#[tokio::test]
async fn a_secret_that_cannot_be_let_go_keeps_no_credentials_from_ironic() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    site.write_credentials("right", 0);
    site.cluster.refuse(|request| {
        let is_former = request.is_write() && request.below_namespace().starts_with("secrets/bmc");
        is_former.then_some(403)
    });
    name_secret(&site, "right");
    let is_told = |host: Option<&BareMetalHost>| waits_for(host).contains("Secret metal3/bmc");
    assert!(site.until(&life, "told", is_told).await);
    let status = site.status();
    let good = status.good_credentials.credentials.map(|secret| secret.name);
    assert_eq!(good.as_deref(), Some("right"), "{:?}", status.conditions);
    assert_eq!(status.error_type, None);
    let message = waits_for(site.host().as_ref());
    assert!(message.contains("refused by the test's server"), "{message}");
    assert!(message.ends_with("; next check: at least every 60 s"), "{message}");
    site.cluster.requests();
    for _ in 0..3 {
        life.forget_rest();
        life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
    }
    let asked = site.cluster.requests();
    assert!(asked.is_empty(), "it is tried once in a while: {asked:?}");
    // It goes on with its work meanwhile.
    site.edit(&json!({"spec": {"online": false}}));
    assert!(site.until(&life, "off", |_| !site.sim.is_on(0)).await);
    assert!(site.cluster.held_secrets().contains(&"bmc".to_owned()));

    site.cluster.recover();
    let life = site.begin(None);
    life.listed().await;
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    assert_eq!(site.cluster.held_secrets(), ["right"]);
}

/// A host does not go without its Secrets, and says which one keeps it.
#[tokio::test]
async fn a_secret_that_keeps_a_host_from_going_is_named() {
    let site = Site::new(&json!({"preprovisioningNetworkDataName": "net"})).await;
    site.write_network_data("net");
    let life = site.begin(None);
    life.listed().await;
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    site.cluster.refuse(|request| {
        let is_it = request.is_write() && request.below_namespace().starts_with("secrets/bmc");
        is_it.then_some(403)
    });
    site.delete();
    let is_told = |host: Option<&BareMetalHost>| waits_for(host).starts_with("cannot release secret metal3/bmc: ");
    assert!(site.until(&life, "told", is_told).await);
    assert_eq!(
        site.cluster.held_secrets(),
        ["bmc"],
        "the other one is let go all the same"
    );
    site.cluster.recover();
    assert!(site.until(&life, "gone", |host| host.is_none()).await);
    assert_eq!(site.cluster.held_secrets(), [""; 0]);
}

// OWN 28e: who could make a host, and not read Secrets, had any user name and password sent to a BMC of his own.
#[tokio::test]
async fn where_a_label_is_asked_for_no_other_secret_is_sent_to_a_bmc() {
    let site = Site::new(&json!({})).await;
    let wants = HostSettings {
        requires_credentials_label: true,
        ..settings("http://images.example/ipa.iso")
    };
    let life = site.begin_with(None, wants);
    let is_told = |host: Option<&BareMetalHost>| {
        let status = host.and_then(|host| host.status.as_ref());
        status.is_some_and(|status| status.error_message.contains("kubectl label secret"))
    };
    assert!(site.until(&life, "refused", is_told).await);
    assert!(marks(&site, "bmc").is_empty(), "the operator does not label it itself");
    assert_eq!(site.sim.all_counters().values().map(|c| c.creates).sum::<u32>(), 0);
    let label = json!({"metadata": {"labels": {"environment.metal3.io": "baremetal"}}});
    site.cluster.ask("PATCH", "secrets/bmc", label);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
}

// OWN 29c: the operator's own mark on network data was the label that says that a Secret is for a BMC.
#[tokio::test]
async fn network_data_are_not_labelled_as_a_secret_for_a_bmc() {
    let site = Site::new(&json!({"preprovisioningNetworkDataName": "bmc"})).await;
    let wants = HostSettings {
        requires_credentials_label: true,
        ..settings("http://images.example/ipa.iso")
    };
    let life = site.begin_with(None, wants);
    let is_told = |host: Option<&BareMetalHost>| {
        let status = host.and_then(|host| host.status.as_ref());
        status.is_some_and(|status| status.error_message.contains("kubectl label secret"))
    };
    assert!(site.until(&life, "refused", is_told).await);
    assert!(marks(&site, "bmc").is_empty(), "it has no network data");
    // It has some now, and is still not for a BMC.
    site.cluster
        .ask("PATCH", "secrets/bmc", json!({"data": {"networkData": "bGlua3M6IFtd"}}));
    assert!(site.until(&life, "marked", |_| !marks(&site, "bmc").is_empty()).await);
    assert!(site.until(&life, "refused still", is_told).await);
    let marks = marks(&site, "bmc");
    assert!(!marks.iter().any(|mark| mark.starts_with("environment")), "{marks:?}");
    assert_eq!(site.sim.all_counters().values().map(|c| c.creates).sum::<u32>(), 0);
}
