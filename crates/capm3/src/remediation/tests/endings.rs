//! Retries, giving up, and cleaning up completely.

use super::*;
use rstest::rstest;

#[test]
fn an_attempt_that_has_not_helped_is_followed_by_the_next() {
    let mut scene = in_phase("Waiting", 599, 0);
    scene.set("remediation", &json!({"metadata": {"finalizers": []}}));
    assert_eq!(waits(&plan(&scene)), "WaitingForHealth");
    let mut scene = in_phase("Waiting", 600, 0);
    scene.set("remediation", &json!({"metadata": {"finalizers": []}}));
    let next = plan(&scene);
    assert_eq!(
        status(&next),
        json!({"phase": "Running", "retryCount": 1, "lastRemediated": NOW})
    );
    assert_eq!(told(&next), ["AttemptFailed"]);
    let words = "attempt 1 of 2 has failed after 600 s: the machine is not healthy yet; attempt 2 of 2 begins";
    assert_eq!(next.report.events[0].message, words);
}

/// Upstream writes only the deprecated condition, which Cluster API 1.14 does not act on: the Machine is never replaced.
#[test]
fn when_all_have_failed_the_machine_is_to_be_replaced() {
    let mut scene = in_phase("Waiting", 600, 1);
    let mark = plan(&scene);
    assert_eq!(
        patch(&mark)["metadata"]["annotations"],
        json!({UNHEALTHY: "capm3/UnhealthyNode"})
    );
    scene.set("host", patch(&mark));
    let ask = plan(&scene);
    assert_eq!(label(&ask), "ask for a replacement of the Machine");
    let words = "2 power cycles of BareMetalHost h have not helped: the machine is not healthy yet";
    let conditions = &patch(&ask)["status"]["conditions"];
    assert_eq!(conditions[0]["type"], "Ready", "the others stay as they are");
    let standard = json!({"type": "OwnerRemediated", "status": "False", "reason": "WaitingForRemediation",
        "message": words, "lastTransitionTime": NOW});
    assert_eq!(conditions[1], standard);
    let deprecated = json!([{"type": "OwnerRemediated", "status": "False", "severity": "Warning",
        "reason": "WaitingForRemediation", "message": words, "lastTransitionTime": NOW}]);
    assert_eq!(patch(&ask)["status"]["deprecated"]["v1beta1"]["conditions"], deprecated);
    assert_eq!(status(&ask)["phase"], "Deleting machine");
    assert_eq!(told(&ask), ["GivenUp"], "its owner may delete the Machine at once");
    // If only the Machine was written.
    scene.set("machine", patch(&ask));
    let end = plan(&scene);
    assert_eq!(end.effects, []);
    assert_eq!(status(&end)["phase"], "Deleting machine");
    assert_eq!(told(&end), ["GivenUp"]);
    assert!(
        end.report.events[0]
            .message
            .ends_with("its owner is asked to replace the Machine")
    );
    scene.set("machine", &json!({"metadata": {"ownerReferences": null}}));
    assert!(
        plan(&scene).report.events[0]
            .message
            .ends_with("nobody owns the Machine who could replace it: delete it")
    );
}

/// A host marked before, under either key, is unmarked under that same key.
#[rstest]
#[case("capm3.metal3.io/unhealthy")]
#[case("capi.metal3.io/unhealthy")]
fn a_host_that_is_marked_already_is_not_marked_again(#[case] key: &str) {
    let mut scene = in_phase("Waiting", 600, 1);
    scene.set("host", &json!({"metadata": {"annotations": {key: "x"}}}));
    assert_eq!(label(&plan(&scene)), "ask for a replacement of the Machine");
}

/// Upstream compares for equality: if the limit is lowered meanwhile, it retries for ever.
#[test]
fn a_limit_that_was_lowered_is_used_up() {
    let scene = in_phase("Waiting", 600, 7);
    assert_eq!(label(&plan(&scene)), "mark the host as unhealthy");
}

#[test]
fn a_host_that_does_not_go_off_is_let_go_when_given_up() {
    let mut scene = in_phase("Running", 600, 1);
    held(&mut scene, true);
    let annotations = json!({REQUEST: null, UNHEALTHY: "capm3/UnhealthyNode"});
    assert_eq!(patch(&plan(&scene))["metadata"]["annotations"], annotations);
}

#[test]
fn somebody_elses_host_is_not_marked() {
    let mut scene = in_phase("Running", 600, 1);
    scene.set("host", &json!({"spec": {"consumerRef": {"name": "x"}}}));
    assert_eq!(label(&plan(&scene)), "ask for a replacement of the Machine");
}

#[rstest]
#[case("")]
#[case("Running")]
#[case("Waiting")]
fn a_host_that_its_user_has_switched_off_stays_off(#[case] phase: &str) {
    let mut scene = in_phase("Running", 10, 0);
    let phase = if phase.is_empty() { Value::Null } else { json!(phase) };
    scene.set("remediation", &json!({"status": {"phase": phase}}));
    scene.set("host", &json!({"spec": {"online": false}}));
    let failed = plan(&scene);
    assert_eq!(
        (status(&failed)["phase"].as_str(), told(&failed)),
        (Some("Failed"), vec!["HostSwitchedOff"])
    );
}

/// Upstream's last phases do nothing at all: a finalizer still set then stays for ever.
#[rstest]
#[case::given_up("Deleting machine")]
#[case::failed("Failed")]
fn after_the_end_everything_is_undone(#[case] phase: &str) {
    let mut scene = in_phase(phase, 600, 1);
    held(&mut scene, false);
    scene.set(
        "node",
        &json!({"spec": {"taints": [{"key": TAINT, "effect": "NoExecute"}]}}),
    );
    let release = plan(&scene);
    assert_eq!(patch(&release)["metadata"]["annotations"], json!({REQUEST: null}));
    scene.set("host", patch(&release));
    let untaint = plan(&scene);
    assert_eq!(
        patch(&untaint)["spec"]["taints"],
        json!([]),
        "whether its kubelet is heard of or not"
    );
    scene.set("node", patch(&untaint));
    assert_eq!(label(&plan(&scene)), "remove the finalizer");
    scene.set("remediation", &json!({"metadata": {"finalizers": []}}));
    assert!(is_nothing(&scene));
}

/// Upstream continues a deleted remediation through its phases, and without its Machine fails for ever.
#[rstest]
#[case::healthy("Waiting")]
#[case::cancelled("Running")]
fn a_deleted_remediation_lets_everything_go(#[case] phase: &str) {
    let mut scene = in_phase(phase, 6000, 1);
    scene.delete("remediation", "2026-01-01T00:59:00Z");
    assert_eq!(label(&plan(&scene)), "remove the finalizer");
    held(&mut scene, false);
    assert_eq!(label(&plan(&scene)), "let the host be switched on");
    // The Machine was deleted with its Metal3Machine: the host is found by the annotation.
    scene.objects.remove("machine");
    scene.objects.remove("metal3machine");
    let release = plan(&scene);
    assert_eq!(patch(&release)["metadata"]["annotations"], json!({REQUEST: null}));
    scene.set("host", patch(&release));
    assert_eq!(label(&plan(&scene)), "remove the finalizer");
}

#[test]
fn the_node_of_a_machine_that_goes_needs_nothing_back() {
    let mut scene = in_phase("Running", 60, 0);
    held(&mut scene, false);
    scene.set(
        "machine",
        &json!({"metadata": {"deletionTimestamp": NOW, "finalizers": ["x"]}}),
    );
    scene.set(
        "node",
        &json!({"spec": {"taints": [{"key": TAINT, "effect": "NoExecute"}]}}),
    );
    assert_eq!(label(&plan(&scene)), "let the host be switched on");
    scene.set("host", &json!({"metadata": {"annotations": null}}));
    assert_eq!(label(&plan(&scene)), "remove the finalizer");
}

/// A new Machine of the same name is a different one.
#[test]
fn a_namesake_of_the_machine_is_not_remedied() {
    let mut scene = in_phase("Running", 60, 0);
    scene.set("machine", &json!({"metadata": {"uid": "u-other"}}));
    assert_eq!(label(&plan(&scene)), "remove the finalizer");
}

/// Deletion waits for an unreachable workload cluster as long as an attempt lasts, and then reports what is left to do.
#[test]
fn an_unreachable_cluster_does_not_hold_a_deletion_for_ever() {
    for (deleted, is_over) in [("2026-01-01T00:50:01Z", false), ("2026-01-01T00:50:00Z", true)] {
        let mut scene = in_phase("Waiting", 700, 0);
        scene.unreachable = Some(crate::workload::Unreachable::NoKubeconfig(
            metal3_runtime::store::ObjectKey::new("ns", "c-kubeconfig"),
        ));
        scene.delete("remediation", deleted);
        let plan = plan(&scene);
        if is_over {
            assert_eq!(
                (label(&plan), told(&plan)),
                ("remove the finalizer", vec!["NodeNotRestored"])
            );
            assert!(plan.report.events[0].message.contains("take it off by hand"));
        } else {
            assert_eq!(waits(&plan), "WorkloadClusterKubeconfigMissing");
            assert_eq!(plan.next, after(1));
        }
    }
}
