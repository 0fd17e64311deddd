//! One power cycle, step by step.

use super::*;
use rstest::rstest;

#[test]
fn a_remediation_begins_with_the_first_attempt() {
    let scene = Scene::new();
    let plan = plan(&scene);
    assert_eq!(plan.effects, []);
    assert_eq!(status(&plan), json!({"phase": "Running", "lastRemediated": NOW}));
    assert_eq!(told(&plan), ["RemediationStarted"]);
    assert!(
        plan.report.events[0]
            .message
            .starts_with("attempt 1 of 2: BareMetalHost h "),
        "{:?}",
        plan.report.events
    );
}

#[rstest]
#[case::first("1", 0, "attempt 1 of 2")]
#[case::last("2", 1, "attempt 2 of 2")]
#[case::of_a_greater_limit("9", 1, "attempt 2 of 2")]
#[case::unreadable("-", 0, "attempt 1 of 2")]
fn an_attempt_that_was_moved_here_begins_anew_and_is_counted(
    #[case] begun: &str,
    #[case] retries: i64,
    #[case] words: &str,
) {
    let moved = with("remediation", &json!({"metadata": {"annotations": {ATTEMPTS: begun}}}));
    let plan = plan(&moved);
    assert_eq!(status(&plan)["retryCount"].as_i64().unwrap_or_default(), retries);
    assert!(
        plan.report.events[0].message.starts_with(words),
        "{:?}",
        plan.report.events
    );
}

/// A server that has just come back is not powered off again.
#[rstest]
#[case::in_its_attempt("1 done", json!({"phase": "Waiting", "lastRemediated": NOW}))]
#[case::in_the_last("2 done", json!({"phase": "Waiting", "lastRemediated": NOW, "retryCount": 1}))]
#[case::unreadable("x done", json!({"phase": "Running", "lastRemediated": NOW}))]
fn a_power_cycle_that_was_done_before_a_move_is_not_done_again(#[case] begun: &str, #[case] expected: Value) {
    let mut moved = with("remediation", &json!({"metadata": {"annotations": {ATTEMPTS: begun}}}));
    let begin = plan(&moved);
    assert_eq!(
        (status(&begin), told(&begin)),
        (expected.clone(), vec!["RemediationStarted"])
    );
    moved.set("remediation", &json!({"status": expected}));
    if expected["phase"] == "Waiting" {
        assert_eq!(waits(&plan(&moved)), "WaitingForHealth");
    }
}

#[test]
fn the_finalizer_comes_before_the_request_and_the_request_once() {
    let mut scene = in_phase("Running", 10, 0);
    scene.set("remediation", &json!({"metadata": {"finalizers": []}}));
    assert_eq!(label(&plan(&scene)), "add the finalizer");
    scene.set(
        "remediation",
        &json!({"metadata": {"finalizers": [FINALIZER], "annotations": {ATTEMPTS: "x"}}}),
    );
    let counted = plan(&scene);
    assert_eq!(label(&counted), "count the attempt");
    assert_eq!(patch(&counted)["metadata"]["annotations"], json!({ATTEMPTS: "1"}));
    scene.set("remediation", &json!({"metadata": {"annotations": {ATTEMPTS: "1"}}}));
    assert_eq!(
        looks(&scene),
        Some(Read::Fresh),
        "no request on a view that could be late"
    );
    let request = plan(&scene);
    let annotations = json!({REQUEST: ASKED});
    assert_eq!(patch(&request)["metadata"]["annotations"], annotations);
    assert_eq!(patch(&request)["metadata"]["resourceVersion"], "1");
    assert_eq!((told(&request), &request.report.status), (vec!["SwitchingOff"], &None));
    held(&mut scene, true);
    assert_eq!(waits(&plan(&scene)), "WaitingForPowerOff");
}

/// The annotation contains a UID, which `clusterctl move` changes: upstream leaves the old one on the host, which stays off for
/// ever.
#[test]
fn a_request_from_before_a_move_is_replaced() {
    let mut scene = in_phase("Running", 10, 0);
    let old = "reboot.metal3.io/metal3-remediation-u-old";
    let annotations = json!({old: ASKED, "reboot.metal3.io/mine": ""});
    scene.set("host", &json!({"metadata": {"annotations": annotations}}));
    assert_eq!(
        patch(&plan(&scene))["metadata"]["annotations"],
        json!({REQUEST: ASKED, old: null})
    );
    let mut scene = in_phase("Waiting", 10, 0);
    scene.set(
        "host",
        &json!({"metadata": {"annotations": annotations}, "status": {"poweredOn": false}}),
    );
    assert_eq!(patch(&plan(&scene))["metadata"]["annotations"], json!({old: null}));
}

#[test]
fn a_host_that_is_off_is_switched_on_when_its_node_is_empty() {
    let mut scene = in_phase("Running", 30, 0);
    held(&mut scene, false);
    scene.set("machine", &json!({"status": {"nodeRef": {"name": ""}}}));
    let next = plan(&scene);
    assert_eq!(
        (next.effects.len(), status(&next)["phase"].as_str()),
        (0, Some("Waiting"))
    );
    scene.set("remediation", &json!({"status": {"phase": "Waiting"}}));
    let on = plan(&scene);
    assert_eq!(patch(&on)["metadata"]["annotations"], json!({REQUEST: null}));
    assert_eq!(told(&on), ["SwitchingOn"]);
    scene.set("host", &json!({"metadata": {"annotations": {REQUEST: null}}}));
    let wait = plan(&scene);
    assert_eq!(waits(&wait), "WaitingForPowerOn");
    assert_eq!(wait.next, after(570), "the end of the attempt");
    scene.set("host", &json!({"status": {"poweredOn": true}}));
    let noted = plan(&scene);
    assert_eq!(patch(&noted)["metadata"]["annotations"], json!({ATTEMPTS: "1 done"}));
    scene.set(
        "remediation",
        &json!({"metadata": {"annotations": {ATTEMPTS: "1 done"}}}),
    );
    assert_eq!(label(&plan(&scene)), "remove the finalizer");
    scene.set("remediation", &json!({"metadata": {"finalizers": []}}));
    assert_eq!(waits(&plan(&scene)), "WaitingForHealth");
}

/// It is never observed off, and keeping it off would reboot it again and again.
#[test]
fn a_host_that_must_not_be_off_is_restarted_once() {
    let mut scene = in_phase("Running", 10, 0);
    scene.set("host", &json!({"spec": {"disablePowerOff": true}}));
    let plan = plan(&scene);
    let annotations = patch(&plan)["metadata"]["annotations"].clone();
    let mark = &annotations["infrastructure.cluster.x-k8s.io/restarted-for"];
    assert_eq!(annotations["reboot.metal3.io"], ASKED);
    assert!(mark.as_str().is_some_and(|mark| mark.ends_with("/0")), "{mark}");
    assert_eq!(status(&plan)["phase"], "Waiting");

    // The host has followed, but the status was not stored.
    let followed = json!({"metadata": {"annotations": {"infrastructure.cluster.x-k8s.io/restarted-for": mark}}});
    scene.set("host", &followed);
    let plan = super::plan(&scene);
    assert_eq!(plan.effects, []);
    assert_eq!(status(&plan)["phase"], "Waiting");
    // The next attempt has another value.
    let mut next = in_phase("Running", 10, 1);
    next.set("host", &json!({"spec": {"disablePowerOff": true}}));
    next.set("host", &followed);
    assert_eq!(
        patch(&super::plan(&next))["metadata"]["annotations"]["reboot.metal3.io"],
        ASKED
    );
}

/// Upstream waits for ever; it would even power off a host being deployed while its node joins.
#[rstest]
#[case::deploying(json!({"status": {"provisioning": {"state": "provisioning"}}}), "WaitingForHost", "it is provisioning")]
#[case::stolen(json!({"spec": {"consumerRef": {"name": "x"}}}), "WaitingForHost", "is used by Metal3Machine x")]
fn a_host_that_cannot_be_switched_off_costs_the_attempt(
    #[case] host: Value,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let mut scene = in_phase("Running", 10, 0);
    scene.set("host", &host);
    let wait = plan(&scene);
    assert_eq!(waits(&wait), reason);
    assert!(waited(&wait).message.contains(words));
    let mut scene = in_phase("Running", 600, 0);
    scene.set("host", &host);
    let failed = plan(&scene);
    assert_eq!(
        status(&failed),
        json!({"phase": "Running", "retryCount": 1, "lastRemediated": NOW})
    );
    assert!(
        failed.report.events[0].message.contains(words),
        "{:?}",
        failed.report.events
    );
}

#[test]
fn a_host_that_does_not_go_off_costs_the_attempt_and_is_asked_once() {
    let mut scene = in_phase("Running", 600, 0);
    held(&mut scene, true);
    assert_eq!(status(&plan(&scene))["retryCount"], 1);
    scene.set(
        "remediation",
        &json!({"status": {"retryCount": 1, "lastRemediated": NOW}}),
    );
    assert_eq!(waits(&plan(&scene)), "WaitingForPowerOff");
}

/// The provider was down while the host was off: the host had no time to boot.
#[test]
fn a_host_that_was_forgotten_gets_its_time_to_boot() {
    let mut scene = in_phase("Running", 6000, 0);
    held(&mut scene, false);
    let waiting = json!({"phase": "Waiting", "lastRemediated": NOW});
    assert_eq!(status(&plan(&scene)), waiting);
    let mut scene = in_phase("Waiting", 6000, 0);
    held(&mut scene, false);
    let on = plan(&scene);
    assert_eq!((label(&on), status(&on)), ("let the host be switched on", waiting));
}

#[rstest]
#[case::no_owner("remediation", json!({"metadata": {"ownerReferences": []}}), "WaitingForMachine")]
#[case::no_cluster("machine", json!({"spec": {"clusterName": "x"}}), "WaitingForCluster")]
#[case::other_provider("machine", json!({"spec": {"infrastructureRef": {"kind": "X"}}}), "WaitingForMetal3Machine")]
#[case::no_metal3_machine("machine", json!({"spec": {"infrastructureRef": {"name": "x"}}}), "WaitingForMetal3Machine")]
#[case::no_host("metal3machine", json!({"metadata": {"name": "mm", "annotations": null}}), "")]
#[case::paused("remediation", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}), "Paused")]
#[case::moved("remediation", json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}}),
    "Paused")]
#[case::machine_paused("machine", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}), "Paused")]
#[case::cluster_paused("cluster", json!({"spec": {"paused": true}}), "Paused")]
#[case::strategy("remediation", json!({"spec": {"strategy": {"type": "Pray"}}}), "UnknownStrategy")]
#[case::phase("remediation", json!({"status": {"phase": "Dreaming"}}), "UnknownPhase")]
fn what_cannot_begin_says_why(#[case] kind: &'static str, #[case] change: Value, #[case] reason: &str) {
    let scene = with(kind, &change);
    if reason.is_empty() {
        // It references no host, but the host references it.
        assert_eq!(told(&plan(&scene)), ["RemediationStarted"]);
    } else {
        assert_eq!(waits(&plan(&scene)), reason);
    }
}

#[test]
fn a_machine_that_never_had_a_host_waits_and_one_that_has_lost_it_does_not() {
    let mut scene = with("metal3machine", &json!({"metadata": {"annotations": null}}));
    scene.objects.remove("host");
    assert_eq!(waits(&plan(&scene)), "WaitingForHost");
    let mut scene = Scene::new();
    scene.objects.remove("host");
    assert_eq!(told(&plan(&scene)), ["RemediationStarted"], "it is replaced in the end");
}

#[test]
fn paused_in_the_middle_means_left_as_it_is() {
    for phase in ["Running", "Waiting"] {
        let mut scene = in_phase(phase, 6000, 1);
        held(&mut scene, false);
        scene.set("cluster", &json!({"spec": {"paused": true}}));
        assert_eq!(waits(&plan(&scene)), "Paused");
        scene.delete("remediation", NOW);
        assert_eq!(waits(&plan(&scene)), "Paused", "a move deletes what it has copied");
    }
}

/// Upstream dereferences a missing strategy and crashes.
#[test]
fn without_a_strategy_the_defaults_count() {
    let mut scene = in_phase("Waiting", 599, 0);
    scene.set("remediation", &json!({"spec": {"strategy": null}}));
    assert_eq!(label(&plan(&scene)), "remove the finalizer");
    let mut scene = in_phase("Waiting", 600, 0);
    scene.set("remediation", &json!({"spec": {"strategy": null}}));
    assert_eq!(status(&plan(&scene))["retryCount"], 1);
}

// OWN 31vo: a host that its user services has its power left as it is. Two attempts failed, the Machine was replaced, and its server
// wiped once the pause ended.
#[rstest]
#[case::running("Running")]
#[case::waiting("Waiting")]
fn a_host_that_is_paused_or_detached_costs_no_attempt(
    #[case] phase: &str,
    #[values("baremetalhost.metal3.io/paused", "baremetalhost.metal3.io/detached")] annotation: &str,
) {
    let mut scene = in_phase(phase, 9000, 1);
    held(&mut scene, true);
    scene.set("host", &json!({"metadata": {"annotations": {annotation: ""}}}));
    let held = plan(&scene);
    let event = waited(&held);
    assert!(
        event.reason == "HostPaused" && event.message.contains(annotation),
        "{event:?}"
    );
    assert_eq!(held.effects, []);
    assert_eq!(status(&held), json!({"phase": phase, "retryCount": 1}));

    scene.set("remediation", &json!({"status": {"lastRemediated": null}}));
    let held = plan(&scene);
    assert_eq!((waits(&held), held.next), ("HostPaused", Next::Change));

    // The time begins anew.
    scene.set("host", &json!({"metadata": {"annotations": {annotation: null}}}));
    let resumed = plan(&scene);
    assert_eq!(
        status(&resumed),
        json!({"phase": phase, "retryCount": 1, "lastRemediated": NOW})
    );
    assert_eq!(resumed.effects, []);
}

#[test]
fn a_remediation_of_a_paused_host_does_not_begin() {
    let mut scene = Scene::new();
    scene.set(
        "host",
        &json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}),
    );
    assert_eq!(waits(&plan(&scene)), "HostPaused");
}
