//! What is decided for the components of one host.

use std::sync::Arc;

use jiff::Timestamp;
use metal3_runtime::controller::Next;
use metal3_runtime::timing::operator::PROOF_AGAIN;
use rstest::rstest;
use serde_json::{Value, json};

use super::decide::{Decision, Effect, Observed, Read, decide};
use crate::companion::Surroundings;
use crate::fleet::NodeView;
use crate::host::record;

const UID: &str = "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01";
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A host in this state, with its node in that one, and without an object.
fn seen(state: &str, node: &str) -> Observed {
    let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h", "namespace": "n", "uid": UID}, "spec": {"online": true},
        "status": {"provisioning": {"state": state, "ID": UID}, "operationalStatus": "OK"}});
    let node = json!({"uuid": UID, "name": "n~h", "provision_state": node, "provision_updated_at": "1"});
    Observed {
        around: Surroundings {
            host: Arc::new(serde_json::from_value(host).unwrap()),
            node: NodeView::Listed(Arc::new(serde_json::from_value(node).unwrap())),
            last_look: None,
            is_unproven: false,
        },
        object: None,
        policy: None,
        components: None,
        settings: Arc::default(),
    }
}

/// An available host that was looked at, with what its object requests and what was said of it.
fn with_object(owner: &str, change: &Value) -> Observed {
    let owners = json!([{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "h", "uid": owner}]);
    let mut object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareComponents",
        "metadata": {"name": "h", "namespace": "n", "generation": 2, "ownerReferences": if owner.is_empty() { json!([]) } else { owners }},
        "spec": {"updates": []}});
    json_patch::merge(&mut object, change);
    let mut seen = seen("available", "manageable");
    seen.around.last_look = Some(format!("{UID} manageable 1"));
    seen.object = Some(Arc::new(serde_json::from_value(object).unwrap()));
    seen
}

fn found(seen: Observed, components: &[&str]) -> Observed {
    let components = components
        .iter()
        .map(|name| json!({"component": name, "initialVersion": "1.0.0", "currentVersion": "1.0.0"}));
    let components = serde_json::from_value(components.collect()).unwrap();
    Observed {
        components: Some(components),
        ..seen
    }
}

/// The status after a look at a BIOS, by an object of this generation.
fn judged(generation: i64) -> Value {
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "OK", "message": "", "observedGeneration": generation,
            "lastTransitionTime": "1970-01-01T00:00:00Z"})
    };
    let components = json!([{"component": "bios", "initialVersion": "1.0.0", "currentVersion": "1.0.0"}]);
    json!({"components": components, "conditions": [condition("ChangeDetected", "False"), condition("Valid", "True")]})
}

/// What is done, in words.
fn outcome(seen: &Observed) -> String {
    let plan = match decide(seen, NOW) {
        Decision::Fetch(Read::Components) => return "look".to_owned(),
        Decision::Act(plan) => *plan,
    };
    let effects = plan.effects.iter().chain(&plan.afterwards).map(|effect| match effect {
        Effect::Create => "create".to_owned(),
        Effect::Adopt => "adopt".to_owned(),
        Effect::DeleteFormer => "delete".to_owned(),
        Effect::Note(_) => "note".to_owned(),
        Effect::Remember(look) => {
            assert_eq!(*look, format!("{UID} manageable 1"));
            "remember".to_owned()
        }
    });
    let status = plan.report.status.map(|status| {
        let conditions = status.conditions.iter();
        let words = conditions.map(|condition| {
            assert_eq!(condition.observed_generation, Some(2));
            format!("{}={} {}", condition.type_, condition.status.as_str(), condition.reason)
        });
        words.collect::<Vec<_>>().join(", ")
    });
    let events = plan.report.events.iter().map(|event| event.reason.to_owned());
    effects.chain(status).chain(events).collect::<Vec<_>>().join("; ")
}

fn update(component: &str) -> Value {
    json!({"component": component, "url": "http://firmware/1"})
}

/// The status after an update of the BIOS.
fn made() -> Value {
    let mut status = judged(2);
    status["updates"] = json!([update("bios")]);
    status
}

/// An object with a made update that was created again without its status.
fn moved(change: &Value) -> Value {
    let with_status = with_object(UID, &json!({"status": made(), "spec": {"updates": [update("bios")]}}));
    let note = record::noted(with_status.object.as_deref().unwrap()).unwrap();
    let annotations = &note["metadata"]["annotations"];
    let mut object = json!({"metadata": {"annotations": annotations}, "spec": {"updates": [update("bios")]}});
    json_patch::merge(&mut object, change);
    object
}

#[rstest]
#[case::of_an_unmanaged_host(seen("unmanaged", "manageable"), "")]
#[case::none_yet(seen("available", "manageable"), "look")]
#[case::a_bmc_that_reports_none(found(seen("available", "manageable"), &[]), "remember")]
#[case::a_bmc_that_reports_some(found(seen("available", "manageable"), &["bios"]), "create")]
#[case::of_an_earlier_host(with_object("gone", &json!({})), "delete")]
#[case::written_before_the_host(with_object("", &json!({})), "adopt")]
#[case::in_deletion(with_object("gone", &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), "")]
#[case::new(with_object(UID, &json!({})), "look")]
#[case::new_and_looked_at(found(with_object(UID, &json!({})), &["bios"]), "remember; ChangeDetected=False OK, Valid=True OK")]
#[case::judged(with_object(UID, &json!({"status": judged(2)})), "")]
#[case::edited(with_object(UID, &json!({"status": judged(1), "spec": {"updates": [update("bios")]}})), "look")]
#[case::edited_and_looked_at(
    found(with_object(UID, &json!({"status": judged(1), "spec": {"updates": [update("bios")]}})), &["bios"]),
    "remember; ChangeDetected=True OK, Valid=True OK"
)]
#[case::impossible(
    found(with_object(UID, &json!({"status": judged(1), "spec": {"updates": [update("cpld")]}})), &["bios"]),
    "remember; ChangeDetected=True OK, Valid=False InvalidComponent; ValidationFailed"
)]
#[case::the_same_as_stored(found(with_object(UID, &json!({"status": judged(2)})), &["bios"]), "")]
// OWN 31mb: clusterctl move creates the object without its status, and the updates that were made were lost.
#[case::made_updates(with_object(UID, &json!({"status": made(), "spec": {"updates": [update("bios")]}})), "note")]
#[case::made_updates_noted(with_object(UID, &moved(&json!({"status": made()}))), "")]
#[case::removed_updates(with_object(UID, &moved(&json!({"status": judged(2), "spec": {"updates": []}}))), "note")]
#[case::moved(with_object(UID, &moved(&json!({}))), "look")]
#[case::moved_and_looked_at(
    found(with_object(UID, &moved(&json!({}))), &["bios"]),
    "remember; ChangeDetected=False OK, Valid=True OK"
)]
fn components(#[case] seen: Observed, #[case] expected: &str) {
    assert_eq!(outcome(&seen), expected);
}

/// What a pending update waits for is told anew when that has changed, without a look at the components, and once.
#[test]
fn a_pending_update_is_told_anew() {
    let mut status = judged(2);
    status["conditions"][0]["status"] = json!("True");
    let mut seen = with_object(UID, &json!({"status": status, "spec": {"updates": [update("bios")]}}));
    assert_eq!(outcome(&seen), "ChangeDetected=True OK, Valid=True OK");
    let Decision::Act(plan) = decide(&seen, NOW) else {
        panic!("nothing is read")
    };
    let status = plan.report.status.unwrap();
    assert!(
        status.conditions[0].message.contains("while it is prepared"),
        "{status:?}"
    );
    let mut object = (**seen.object.as_ref().unwrap()).clone();
    object.status = Some(*status);
    seen.object = Some(Arc::new(object));
    assert_eq!(outcome(&seen), "");
}

/// Nothing is written when a new look shows what is stored.
#[test]
fn a_look_without_news_is_remembered_alone() {
    let mut seen = found(with_object(UID, &json!({"status": judged(2)})), &["bios"]);
    seen.around.last_look = None;
    assert_eq!(outcome(&seen), "remember");
    let newer = found(seen, &["bios", "bmc"]);
    assert_eq!(outcome(&newer), "remember; ChangeDetected=False OK, Valid=True OK");
}

#[test]
fn an_object_with_many_impossible_updates_makes_few_events() {
    let updates: Vec<_> = (0..50).map(|number| update(&format!("part {number}"))).collect();
    let seen = found(
        with_object(UID, &json!({"status": judged(1), "spec": {"updates": updates}})),
        &["bios"],
    );
    assert_eq!(outcome(&seen).matches("ValidationFailed").count(), 10);
}

// OWN 30fi: the object of a host that is inspected appeared only when the inspection was over.
#[rstest]
#[case::during_inspection("inspecting", "inspecting", true)]
#[case::between_registration_and_inspection("registering", "manageable", true)]
#[case::not_verified("registering", "verifying", false)]
fn a_host_without_components_is_looked_at_once_it_is_verified(
    #[case] state: &str,
    #[case] node: &str,
    #[case] is_due: bool,
) {
    let mut seen = seen(state, node);
    let looks = |seen: &Observed| decide(seen, NOW) == Decision::Fetch(Read::Components);
    assert_eq!(looks(&seen), is_due);
    seen.around.last_look = Some("the node at another time".to_owned());
    assert_eq!(looks(&seen), is_due && state == "registering", "looked at before");
}

#[test]
fn a_node_that_is_not_proven_is_looked_at_again_later() {
    for mut seen in [seen("available", "manageable"), with_object(UID, &json!({}))] {
        seen.around.node = NodeView::Gone;
        for (is_unproven, next) in [(false, Next::Change), (true, Next::After(PROOF_AGAIN))] {
            seen.around.is_unproven = is_unproven;
            let Decision::Act(plan) = decide(&seen, Timestamp::UNIX_EPOCH) else {
                panic!("a read")
            };
            assert_eq!((plan.next, plan.effects.len()), (next, 0));
        }
    }
}
