//! Trouble with the calls themselves is told on the host, as well as it can be.

use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_ironic_sim::{Action as Trouble, Rule};
use metal3_runtime::error::{Class, Classified as _};
use metal3_testkit::played::Request;
use serde_json::{Value, json};

use crate::site::{Life, Site, pause};

/// The condition `Waiting`: its reason and message.
fn waiting(host: Option<&BareMetalHost>) -> (String, String) {
    let status = host.and_then(|host| host.status.clone()).unwrap_or_default();
    let waiting = status.conditions.into_iter().find(|c| c.type_ == "Waiting");
    waiting.map(|c| (c.reason, c.message)).unwrap_or_default()
}

fn refusing(path: &str, status: u16, text: &str) -> Rule {
    Rule {
        path: Some(path.to_owned()),
        action: Trouble::Refuse {
            status,
            text: text.to_owned(),
            retry_after: None,
        },
        ..Rule::default()
    }
}

async fn look(site: &Site, life: &Life) {
    life.reconcile(site.host().unwrap()).await.unwrap().ok();
    pause().await;
}

/// A status that the API server refuses leaves the old one, which says so.
#[tokio::test]
async fn a_refused_status_is_told_in_the_condition() {
    let site = Site::new(&json!({"bmc": null})).await;
    let life = site.begin(None);
    life.listed().await;
    site.cluster.keep_state(true);
    let is_told = || waiting(site.host().as_ref()).1.contains("cannot store the status");
    for _ in 0..20 {
        look(&site, &life).await;
        if is_told() {
            break;
        }
    }
    let (reason, message) = waiting(site.host().as_ref());
    assert_eq!(reason, "KubernetesFailing", "{message}");
    assert!(message.contains("refused by the test's server"), "{message}");
    assert!(message.ends_with("; next check: at least every 60 s"), "{message}");
    let versions = site.cluster.versions().len();
    look(&site, &life).await;
    assert_eq!(site.cluster.versions().len(), versions, "it is told once");

    site.cluster.keep_state(false);
    let is_stored = |host: Option<&BareMetalHost>| waiting(host).0 == "NotWaiting";
    assert!(site.until(&life, "stored", is_stored).await);
    assert_eq!(site.status().provisioning.state, ProvisioningState::Unmanaged);
}

/// Where no status can be stored at all, an event tells it.
#[tokio::test]
async fn a_status_that_cannot_be_stored_at_all_is_told_by_an_event() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    life.listed().await;
    site.cluster.fail_status_writes(std::iter::repeat(500));
    let mut told = Vec::<Value>::new();
    for _ in 0..20 {
        look(&site, &life).await;
        let events = site
            .cluster
            .requests()
            .into_iter()
            .filter(|r| r.below_namespace() == "events");
        told.extend(
            events
                .map(|r| r.body)
                .filter(|event| event["reason"] == "StatusNotStored"),
        );
        if !told.is_empty() {
            break;
        }
    }
    let words = told.first().map(|event| event["message"].clone().to_string());
    assert!(
        words.is_some_and(|words| words.contains("cannot store the status")),
        "{told:?}"
    );
    site.cluster.recover();
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
}

/// An old copy of the host is no status that cannot be stored.
#[tokio::test]
async fn a_status_that_was_overtaken_is_no_alarm() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    life.listed().await;
    let is_status = |request: &Request| request.below_namespace().ends_with("/status");
    let tells = |request: &Request| request.body.to_string().contains("cannot store the status");
    site.cluster
        .refuse(move |request| is_status(request).then(|| if tells(request) { 409 } else { 500 }));
    let mut asked = Vec::new();
    for _ in 0..20 {
        look(&site, &life).await;
        asked.extend(site.cluster.requests());
    }
    let told = asked.iter().filter(|r| is_status(r) && tells(r)).count();
    assert!(told > 1, "it tried to tell: {asked:?}");
    let alarms = asked.iter().filter(|r| r.body["reason"] == "StatusNotStored");
    assert_eq!(alarms.count(), 0);
    site.cluster.recover();
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
}

/// Somebody writes the host whenever we do, or the watch is stuck and shows an old copy: the loop, which repeats such passes less
/// and less often, has to know it.
#[tokio::test]
async fn clashes_are_known_as_such() {
    // OWN 14a: It was twenty times a second, without end.
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    life.listed().await;
    site.cluster.refuse(|request| request.is_write().then_some(409));
    for _ in 0..12 {
        life.forget_rest();
        let clash = life.reconcile(site.host().unwrap()).await.unwrap().unwrap_err();
        assert_eq!(clash.class(), Class::Stale);
    }
    site.cluster.recover();
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
}

/// A write that a policy refuses is told with the pause that it may come to, and goes on when the policy lets it.
#[tokio::test]
async fn a_refused_write_is_told_with_its_longest_pause() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    life.listed().await;
    let is_of_secret = |request: &Request| request.is_write() && request.below_namespace().starts_with("secrets/");
    site.cluster.refuse(move |request| is_of_secret(request).then_some(403));
    for _ in 0..4 {
        life.forget_rest();
        look(&site, &life).await;
        let (reason, message) = waiting(site.host().as_ref());
        assert_eq!(reason, "KubernetesFailing", "{message}");
        assert!(message.starts_with("cannot claim secret"), "{message}");
        assert!(message.ends_with("; next check: at least every 60 s"), "{message}");
    }
    site.cluster.requests();
    for _ in 0..3 {
        look(&site, &life).await;
    }
    assert!(!site.cluster.requests().iter().any(is_of_secret), "it waits");
    site.cluster.recover();
    life.forget_rest();
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
}

/// A question that Ironic refuses does not end by itself, and the host does not say so.
#[tokio::test]
async fn a_refused_question_is_told_as_such() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    site.sim
        .add_rule(refusing("/v1/ports", 400, "Invalid input for field address"));
    life.listed().await;
    let is_refused = |host: Option<&BareMetalHost>| waiting(host).0 == "IronicRefusing";
    assert!(site.until(&life, "told", is_refused).await);
    let (_, message) = waiting(site.host().as_ref());
    assert!(message.contains("Invalid input for field address"), "{message}");
    assert!(
        message.contains("does not end by itself") && !message.contains("goes on by itself"),
        "{message}"
    );
    let end = "; next check: when the specification or the Secret is edited, at least every 60 s";
    assert!(message.ends_with(end), "{message}");
    site.sim.clear_rules();
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
}

/// A host whose very first step fails is being registered: it has a state with a budget.
#[tokio::test]
async fn a_first_step_that_fails_is_a_registration() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    life.listed().await;
    let rule = Rule {
        method: Some("POST".to_owned()),
        ..refusing("/v1/nodes", 500, "database is gone")
    };
    site.sim.add_rule(rule);
    let is_told = |host: Option<&BareMetalHost>| waiting(host).0 == "IronicFailing";
    assert!(site.until(&life, "told", is_told).await);
    let status = site.status();
    assert_eq!(status.provisioning.state, ProvisioningState::Registering);
    assert!(status.conditions.iter().any(|c| c.type_ == "Overdue"), "{status:?}");
    site.sim.clear_rules();
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    assert_eq!(site.counters().creates, 1);
}
