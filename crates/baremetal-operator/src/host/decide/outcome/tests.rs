use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::Status;
use metal3_api::condition::Condition;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::events;
use serde_json::json;

use super::*;
use crate::host::budget;

const SINCE: &str = "2026-01-02T11:00:00Z";

fn host(reason: &str) -> BareMetalHost {
    serde_json::from_value(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h", "namespace": "n", "generation": 4},
        "spec": {"online": true},
        "status": {"operationalStatus": "OK", "errorMessage": "", "poweredOn": false,
            "provisioning": {"state": "registering", "ID": ""},
            "conditions": [{"type": "Waiting", "status": "True", "reason": reason, "message": "failure 1 in a row; it broke",
                "observedGeneration": 3, "lastTransitionTime": SINCE}]}
    }))
    .unwrap()
}

fn answer(words: &str, code: u16) -> kube::Error {
    let reason = if code == 409 { "Conflict" } else { "Forbidden" };
    kube::Error::Api(Box::new(Status::failure(words, reason).with_code(code)))
}

fn after(host: &BareMetalHost, wait: &Wait, now: Timestamp) -> (BareMetalHostStatus, Option<events::Event>) {
    let seen = Observed::new(host.clone(), Arc::default());
    let report = trouble(&seen, wait.clone(), now);
    (report.status.unwrap().status, report.events.into_iter().next())
}

fn waiting(status: &BareMetalHostStatus) -> &Condition {
    metal3_runtime::conditions::get(&status.conditions, WAITING).unwrap()
}

#[test]
fn what_cannot_be_read_is_told() {
    let words = "secrets \"bmc\" is forbidden: User \"bmo\" cannot get resource";
    let trouble = unreadable(&answer(words, 403).into()).unwrap();
    let (status, _) = after(&host("Verifying"), &trouble, Timestamp::UNIX_EPOCH);
    let told = waiting(&status);
    assert_eq!(told.reason, "KubernetesFailing");
    assert!(told.message.contains(words), "{}", told.message);
    assert!(
        told.message.ends_with("; next check: at least every 60 s"),
        "{}",
        told.message
    );
    assert_eq!(
        unreadable(&answer("changed", 409).into()),
        None,
        "looked at again at once"
    );
}

/// What a back-off and a place in the queue count from outlives the trouble.
#[test]
fn a_back_off_and_a_place_in_the_queue_are_kept_and_the_trouble_is_told_beside_them() {
    let now = SINCE.parse().unwrap();
    for reason in ["BackOff", "Queued"] {
        let mut host = host(reason);
        for words in ["no", "never"] {
            let trouble = unreadable(&answer(words, 403).into()).unwrap();
            let (status, _) = after(&host, &trouble, now);
            let told = waiting(&status);
            assert_eq!(told.reason, reason);
            assert_eq!(told.last_transition_time, Time(now), "{reason}");
            assert_eq!(told.observed_generation, Some(3), "an edit is still to be seen");
            let expected = format!(
                "failure 1 in a row; it broke; meanwhile: cannot read from the Kubernetes API: {words} (403 Forbidden); the host goes on by itself \
                 when this ends; next check: at least every 60 s"
            );
            assert_eq!(told.message, expected, "once, whatever was told before");
            host.status = Some(status);
        }
    }
}

#[test]
fn a_host_that_cannot_be_read_gets_overdue_all_the_same() {
    let trouble = unreadable(&answer("no", 403).into()).unwrap();
    let at = |minute: i64| Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_mins(minute);
    let mut host = host("Verifying");
    let (status, note) = after(&host, &trouble, at(0));
    assert!(note.is_none() && !budget::is_overdue(&status.conditions));
    host.status = Some(status);
    let (status, note) = after(&host, &trouble, at(16));
    assert!(note.is_some() && budget::is_overdue(&status.conditions));
    host.status = Some(status);
    let (_, note) = after(&host, &trouble, at(17));
    assert_eq!(note.map(|note| note.message), None, "told once");
}
