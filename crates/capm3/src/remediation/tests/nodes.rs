//! The Node, while its server is off and when it is on again.

use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;

use super::*;
use crate::remediation::node::{Drain, has_to_leave};
use crate::workload::Unreachable;
use metal3_runtime::store::ObjectKey;

fn off(seconds: i64) -> Scene {
    let mut scene = in_phase("Running", seconds, 0);
    held(&mut scene, false);
    scene
}

fn silent() -> Unreachable {
    Unreachable::Silent {
        cluster: ObjectKey::new("ns", "c"),
        cause: "refused".to_owned(),
    }
}

#[test]
fn the_node_is_out_of_service_until_it_is_empty() {
    let mut scene = off(30);
    scene.set(
        "node",
        &json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    );
    let taint = plan(&scene);
    let ours = json!({"key": TAINT, "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": NOW});
    assert_eq!(
        patch(&taint)["spec"]["taints"],
        json!([{"key": "a", "effect": "NoSchedule"}, ours])
    );
    assert_eq!(told(&taint), ["NodeOutOfService"]);
    scene.set("node", &json!({"spec": {"taints": [ours]}}));
    for drain in [Drain { pods: 1, volumes: 0 }, Drain { pods: 0, volumes: 2 }] {
        scene.drain = drain;
        let wait = plan(&scene);
        assert_eq!(waits(&wait), "WaitingForNodeToEmpty");
        assert_eq!(wait.next, after(5));
    }
    scene.drain = Drain::default();
    assert_eq!(status(&plan(&scene))["phase"], "Waiting");
}

/// A lagging watch could show a host off that is on by now: its Pods would be killed under a running kubelet.
#[test]
fn nothing_is_done_to_a_node_on_a_view_that_could_be_late() {
    for knows in [true, false] {
        let mut scene = off(30);
        scene.knows_taint = Ok(knows);
        scene.set(
            "remediation",
            &json!({"metadata": {"annotations": {
            OF_LABELS: r#"{"role":"worker"}"#, OF_ANNOTATIONS: r#"{"note":"x"}"#}}}),
        );
        if knows {
            scene.set("remediation", &json!({"metadata": {"annotations": null}}));
        }
        let mut seen = scene.seen();
        seen.looks.knows_taint = Some(Ok(knows));
        assert!(matches!(seen_at(&seen, NOW), Decision::Fetch(Read::Fresh)));
    }
}

/// Upstream checks the version of the management cluster.
#[test]
fn a_cluster_that_does_not_know_the_taint_loses_the_node_and_gets_it_back() {
    let mut scene = off(30);
    scene.knows_taint = Ok(false);
    let keep = plan(&scene);
    let kept = json!({OF_LABELS: r#"{"role":"worker"}"#, OF_ANNOTATIONS: r#"{"note":"x"}"#});
    assert_eq!(patch(&keep)["metadata"]["annotations"], kept);
    scene.set("remediation", &json!({"metadata": {"annotations": kept}}));
    let delete = plan(&scene);
    assert_eq!(
        (label(&delete), told(&delete)),
        ("delete the Node", vec!["NodeDeleted"])
    );
    scene.objects.remove("node");
    assert_eq!(status(&plan(&scene))["phase"], "Waiting");
    let is_noted = json!({"annotations": {ATTEMPTS: "1 done"}});
    scene.set(
        "remediation",
        &json!({"metadata": is_noted, "status": {"phase": "Waiting"}}),
    );
    scene.set(
        "host",
        &json!({"metadata": {"annotations": null}, "status": {"poweredOn": true}}),
    );
    assert_eq!(waits(&plan(&scene)), "WaitingForNode");
    // It re-registered with some of its labels: those stay.
    let node =
        json!({"metadata": {"name": "n", "uid": "u-2", "resourceVersion": "9", "labels": {"role": "new", "os": "x"}}});
    scene.objects.insert("node", node);
    let back = plan(&scene);
    assert_eq!(
        patch(&back)["metadata"],
        json!({"resourceVersion": "9", "labels": {}, "annotations": {"note": "x"}})
    );
    scene.set("node", &json!({"metadata": {"annotations": {"note": "x"}}}));
    let drop = plan(&scene);
    assert_eq!(
        patch(&drop)["metadata"]["annotations"],
        json!({OF_LABELS: null, OF_ANNOTATIONS: null})
    );
}

/// In a second attempt the Node may have re-registered without being fully restored.
#[test]
fn what_is_kept_is_not_overwritten_by_less() {
    let mut scene = off(30);
    scene.set(
        "node",
        &json!({"metadata": {"labels": {"role": null, "os": "x"}, "annotations": null}}),
    );
    scene.set(
        "remediation",
        &json!({"metadata": {"annotations": {
        OF_LABELS: r#"{"role":"worker"}"#, OF_ANNOTATIONS: "null"}}}),
    );
    let kept = json!({OF_LABELS: r#"{"os":"x","role":"worker"}"#, OF_ANNOTATIONS: "{}"});
    assert_eq!(patch(&plan(&scene))["metadata"]["annotations"], kept);
}

/// Upstream never powers the host on again while the API server is unreachable, even if it runs on that host.
#[rstest]
#[case::worker(json!({}), 299, Some("WorkloadClusterUnreachable"))]
#[case::worker_late(json!({}), 300, None)]
#[case::control_plane(json!({"metadata": {"labels": {"cluster.x-k8s.io/control-plane": ""}}}), 1, None)]
fn an_unreachable_cluster_is_waited_for_until_half_of_the_time(
    #[case] machine: Value,
    #[case] seconds: i64,
    #[case] reason: Option<&str>,
) {
    let mut scene = off(seconds);
    scene.unreachable = Some(silent());
    scene.set("machine", &machine);
    let plan = plan(&scene);
    match reason {
        Some(reason) => {
            assert_eq!(waits(&plan), reason);
            assert_eq!(plan.next, after(1));
        }
        None => assert_eq!(status(&plan)["phase"], "Waiting"),
    }
}

#[test]
fn the_power_cycle_begins_whether_the_cluster_can_be_asked_or_not() {
    let mut scene = in_phase("Running", 1, 0);
    scene.unreachable = Some(silent());
    assert_eq!(told(&plan(&scene)), ["SwitchingOff"]);
}

#[test]
fn pods_that_do_not_go_hold_the_host_off_for_half_of_the_time() {
    let mut scene = off(300);
    scene.set(
        "node",
        &json!({"spec": {"taints": [{"key": TAINT, "effect": "NoExecute"}]}}),
    );
    scene.drain = Drain { pods: 1, volumes: 0 };
    assert_eq!(status(&plan(&scene))["phase"], "Waiting");
    let mut scene = off(300);
    assert_eq!(status(&plan(&scene))["phase"], "Waiting", "it is too late to begin");
    scene.knows_taint = Err("forbidden".to_owned());
    scene.set("remediation", &json!({"status": {"lastRemediated": NOW}}));
    assert_eq!(waits(&plan(&scene)), "WaitingForWorkloadCluster");
}

/// Upstream removes the taint when the host has power, before its kubelet runs.
#[test]
fn the_node_is_in_service_again_when_its_kubelet_is_heard_of() {
    let mut scene = in_phase("Waiting", 60, 0);
    scene.set(
        "node",
        &json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"},
        {"key": TAINT, "value": "nodeshutdown", "effect": "NoExecute"}]}}),
    );
    assert_eq!(waits(&plan(&scene)), "WaitingForKubelet");
    // For example, not ready because the taint keeps its network away.
    scene.set(
        "node",
        &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    );
    let untaint = plan(&scene);
    assert_eq!(
        patch(&untaint)["spec"]["taints"],
        json!([{"key": "a", "effect": "NoSchedule"}])
    );
    assert_eq!(told(&untaint), ["NodeInService"]);
    scene.unreachable = Some(silent());
    assert_eq!(
        waits(&plan(&scene)),
        "WorkloadClusterUnreachable",
        "what is not known to be restored is not forgotten"
    );
}

/// Upstream waits only for Pods being deleted: a Node whose eviction has not begun looks empty.
#[rstest]
#[case::to_go(json!({}), true)]
#[case::going(json!({"metadata": {"deletionTimestamp": NOW}, "spec": {"tolerations": [{"operator": "Exists"}]}}), true)]
#[case::tolerates_all(json!({"spec": {"tolerations": [{"operator": "Exists"}]}}), false)]
#[case::tolerates_it(json!({"spec": {"tolerations": [{"key": TAINT, "operator": "Equal", "value": "nodeshutdown",
    "effect": "NoExecute"}]}}), false)]
#[case::tolerates_another_value(json!({"spec": {"tolerations": [{"key": TAINT, "value": "x"}]}}), true)]
#[case::tolerates_no_schedule(json!({"spec": {"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}}), true)]
#[case::tolerates_unreachable(json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/unreachable",
    "operator": "Exists", "effect": "NoExecute"}]}}), true)]
#[case::done(json!({"status": {"phase": "Succeeded"}}), false)]
#[case::static_pod(json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}), false)]
fn pods_that_have_to_leave(#[case] other: Value, #[case] leaves: bool) {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}});
    json_patch::merge(&mut pod, &other);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    assert_eq!(has_to_leave(&pod), leaves);
}
