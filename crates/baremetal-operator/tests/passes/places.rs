//! What a wait counts from outlives what comes between: the start of a back-off, and a place in the queue.

use baremetal_operator::host::queue::queued_since;
use metal3_api::condition::Condition;
use metal3_api::metal3::{OperationalStatus, names};
use metal3_ironic_sim::{Action as Trouble, Faults, Rule};
use metal3_testkit::played::Request;
use rstest::rstest;
use serde_json::{Value, json};

use crate::failures;
use crate::site::{Life, Site, pause};

fn waiting(site: &Site) -> Condition {
    let mut conditions = site.status().conditions.into_iter();
    conditions.find(|c| c.type_ == "Waiting").unwrap()
}

/// Its ramdisk comes over the provisioning network.
fn over_network(site: &Site) -> Value {
    let address = site.sim.server(0).redfish_address();
    json!({"bmc": {"address": address.replace("redfish-virtualmedia", "redfish")}})
}

/// A host that waits for a slot of none.
async fn in_the_queue() -> (Site, Life) {
    let site = Site::new(&json!({})).await;
    site.edit(&json!({"spec": over_network(&site)}));
    let life = site.begin_limited(0);
    life.listed().await;
    let is_queued = |_: Option<&_>| site.host().is_some_and(|host| queued_since(&host).is_some());
    assert!(site.until(&life, "queued", is_queued).await);
    (site, life)
}

/// A host whose inspection has failed.
async fn in_back_off() -> (Site, Life) {
    let site = Site::new(&json!({})).await;
    let faults = Faults {
        inspect_error: Some("no ramdisk".to_owned()),
        ..Faults::default()
    };
    site.sim.set_faults(0, faults);
    let life = site.begin(None);
    life.listed().await;
    assert!(site.until(&life, "failed", |host| failures(host) > 0).await);
    (site, life)
}

/// Somebody has taken the operator's label off the Secret, and a policy lets nobody put it back.
#[rstest]
#[case::back_off("BackOff")]
#[case::queue("Queued")]
#[tokio::test]
async fn a_refused_write_ends_no_wait_that_counts(#[case] reason: &str) {
    let is_queued = reason == "Queued";
    let (site, life) = if is_queued {
        in_the_queue().await
    } else {
        in_back_off().await
    };
    let before = waiting(&site);
    assert_eq!(before.reason, reason);
    let told = site.status();
    let is_of_secret = |request: &Request| request.is_write() && request.below_namespace().starts_with("secrets/");
    let label = json!({"metadata": {"labels": {names::label::ENVIRONMENT: null}}});
    site.cluster.ask("PATCH", "secrets/bmc", label);
    site.cluster.refuse(move |request| is_of_secret(request).then_some(403));
    for _ in 0..3 {
        life.forget_rest();
        life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
        let now = waiting(&site);
        assert_eq!(
            (&now.reason, &now.last_transition_time),
            (&before.reason, &before.last_transition_time)
        );
        let trouble = format!("{}; meanwhile: cannot claim secret", before.message);
        assert!(now.message.starts_with(&trouble), "{}", now.message);
        let status = site.status();
        assert_eq!(
            (status.operational_status, status.error_count),
            (told.operational_status.clone(), told.error_count)
        );
        pause().await;
    }
    assert_eq!(life.waiting(), usize::from(is_queued), "by the operator's book, too");

    site.cluster.recover();
    let is_over = |_: Option<&_>| !waiting(&site).message.contains("meanwhile");
    life.forget_rest();
    assert!(site.until(&life, "over", is_over).await);
    assert_eq!(waiting(&site), before);
    assert_eq!(site.counters().inspections, u32::from(!is_queued));
}

/// The edit waits for Ironic, and the host for its turn as before.
#[tokio::test]
async fn an_edit_while_ironic_is_away_costs_no_place_in_the_queue() {
    let (site, life) = in_the_queue().await;
    let before = waiting(&site);
    site.sim.add_rule(Rule {
        action: Trouble::Refuse {
            status: 500,
            text: "database is gone".to_owned(),
            retry_after: None,
        },
        ..Rule::default()
    });
    site.edit(&json!({"spec": {"description": "another"}}));
    let is_told = |_: Option<&_>| waiting(&site).message.contains("database is gone");
    assert!(site.until(&life, "told", is_told).await);
    let now = waiting(&site);
    assert_eq!(
        (&now.reason, &now.last_transition_time),
        (&before.reason, &before.last_transition_time)
    );
    assert!(now.message.contains("keeps its place in the queue"), "{}", now.message);
    assert_eq!(site.status().operational_status, OperationalStatus::Delayed);
    assert_eq!(life.waiting(), 1);

    // Another process knows the place from the host alone.
    let since = queued_since(&site.host().unwrap());
    assert_eq!(since, Some(before.last_transition_time.0));
    site.sim.clear_rules();
    let is_configured = |_: Option<&_>| {
        let conditions = site.status().conditions;
        let generation = site.host().unwrap().metadata.generation;
        conditions
            .iter()
            .any(|c| c.type_ == "Configured" && c.observed_generation == generation)
    };
    assert!(site.until(&life, "edited in Ironic", is_configured).await);
    let is_as_before = |_: Option<&_>| waiting(&site).message == before.message;
    assert!(site.until(&life, "as before", is_as_before).await);
    let now = waiting(&site);
    assert_eq!(
        (&now.reason, &now.last_transition_time),
        (&before.reason, &before.last_transition_time)
    );
}
