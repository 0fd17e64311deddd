use std::sync::Arc;

use jiff::Timestamp;
use metal3_api::capi::Cluster;
use metal3_api::condition::ConditionStatus;
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3ClusterStatus};
use metal3_runtime::conditions;
use metal3_runtime::controller::{Controller, Report};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use rstest::rstest;
use serde_json::{Value, json};

use super::Metal3Clusters;
use super::decide::{ANNOTATIONS, Decision, Effect, INFRASTRUCTURE, Plan, decide};
use super::observed::{Observed, Owner, observe};
use crate::sim::{Site, owners};
use crate::stores::Stores;

const FINALIZER: &str = "metal3cluster.infrastructure.cluster.x-k8s.io";

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A complete cluster, with `other` fields merged over it.
fn seen(other: &Value) -> Observed {
    let mut object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Cluster",
        "metadata": {"namespace": "ns", "name": "c", "generation": 3, "finalizers": [FINALIZER]},
        "spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443},
            "failureDomains": [{"name": "a", "controlPlane": true}, {"name": "b"}]},
    });
    json_patch(&mut object, other);
    let cluster: Metal3Cluster = serde_json::from_value(object).unwrap();
    Observed {
        cluster: Arc::new(cluster),
        owner: owner(&json!({})),
        machines: Vec::new(),
        kept: Vec::new(),
    }
}

fn owner(spec: &Value) -> Owner {
    let cluster: Cluster = serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": spec})).unwrap();
    Owner::Found(Arc::new(cluster))
}

/// A merge patch.
fn json_patch(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    for (key, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            json_patch(&mut object[key], value);
        }
    }
}

fn planned(seen: &Observed) -> Plan {
    match decide(seen, now()) {
        Decision::Act(plan) => *plan,
        Decision::Fetch(read) => match read {},
    }
}

fn status(plan: &Plan) -> &Metal3ClusterStatus {
    plan.report.status.as_ref().expect("a status is stored")
}

fn said<'a>(status: &'a Metal3ClusterStatus, type_: &str) -> (&'a ConditionStatus, &'a str, &'a str) {
    let found = conditions::get(&status.conditions, type_).unwrap();
    assert_eq!(found.observed_generation, Some(3));
    (&found.status, &found.reason, &found.message)
}

fn legacy<'a>(status: &'a Metal3ClusterStatus, type_: &str) -> (&'a str, &'a str, &'a str) {
    let list = &status.deprecated.v1beta1.conditions;
    let found = list.iter().find(|condition| condition.type_ == type_).unwrap();
    (&found.status, &found.severity, &found.reason)
}

#[test]
fn a_complete_cluster_is_provisioned_with_conditions_in_both_styles() {
    let seen = seen(&json!({"metadata": {"finalizers": []}}));
    let plan = planned(&seen);
    assert_eq!(plan.effects, [Effect::AddFinalizer]);
    let status = status(&plan);
    assert_eq!(status.initialization.provisioned, Some(true));
    assert_eq!(status.failure_domains, seen.cluster.spec.failure_domains);
    for type_ in ["Ready", INFRASTRUCTURE] {
        assert_eq!(said(status, type_), (&ConditionStatus::True, "Ready", ""));
        assert_eq!(legacy(status, type_), ("True", "", ""));
    }
    assert_eq!(said(status, "Paused"), (&ConditionStatus::False, "NotPaused", ""));
    assert_eq!(plan.report.events.len(), 1);
}

#[test]
fn a_settled_cluster_is_left_alone() {
    let mut seen = seen(&json!({}));
    let plan = planned(&seen);
    Arc::make_mut(&mut seen.cluster).status.clone_from(&plan.report.status);
    let later = "2026-02-01T00:00:00Z".parse().unwrap();
    assert_eq!(decide(&seen, later), Decision::idle());
}

#[test]
fn an_endpoint_without_a_port_gets_the_usual_one() {
    let seen = seen(&json!({"spec": {"controlPlaneEndpoint": {"port": null}}}));
    let plan = planned(&seen);
    let [Effect::SetPort { patch }] = plan.effects.as_slice() else {
        panic!("{:?}", plan.effects)
    };
    assert_eq!(patch["spec"], json!({"controlPlaneEndpoint": {"port": 6443}}));
    assert_eq!(
        patch["metadata"]["resourceVersion"],
        json!(seen.cluster.metadata.resource_version)
    );
    assert_eq!(status(&plan).initialization.provisioned, Some(true));
}

#[rstest]
#[case(json!({"host": null}))]
#[case(json!(null))]
fn an_endpoint_without_a_host_is_named(#[case] endpoint: Value) {
    let seen = seen(&json!({"spec": {"controlPlaneEndpoint": endpoint}}));
    let plan = planned(&seen);
    let status = status(&plan);
    let (holds, reason, message) = said(status, INFRASTRUCTURE);
    assert_eq!((holds, reason), (&ConditionStatus::False, "InvalidConfiguration"));
    assert!(
        message.contains("spec.controlPlaneEndpoint.host is not set"),
        "{message}"
    );
    assert_eq!(said(status, "Ready").1, "InvalidConfiguration");
    assert_eq!(
        legacy(status, INFRASTRUCTURE),
        ("False", "Error", "ControlPlaneEndpointFailed")
    );
    assert_eq!(status.deprecated.v1beta1.failure_reason, "InvalidConfiguration");
    assert_eq!(status.initialization.provisioned, None);
    assert_eq!(plan.report.events.len(), 1);
}

#[test]
fn an_endpoint_that_the_user_or_the_control_plane_gives_to_the_cluster_is_enough() {
    let mut seen = seen(&json!({"spec": {"controlPlaneEndpoint": null}}));
    seen.owner = owner(&json!({"controlPlaneEndpoint": {"host": "192.0.2.9", "port": 6443}}));
    let plan = planned(&seen);
    assert_eq!(status(&plan).initialization.provisioned, Some(true));
}

/// Upstream never clears the v1beta1-style failure.
#[test]
fn a_failure_that_was_mended_is_cleared_and_what_was_provisioned_stays_so() {
    let mut seen = seen(&json!({}));
    let good = planned(&seen);
    let cluster = Arc::make_mut(&mut seen.cluster);
    cluster.status.clone_from(&good.report.status);
    cluster.spec.control_plane_endpoint.host.clear();
    let bad = planned(&seen);
    assert_eq!(status(&bad).initialization.provisioned, Some(true), "never taken back");
    let cluster = Arc::make_mut(&mut seen.cluster);
    cluster.status.clone_from(&bad.report.status);
    "192.0.2.1".clone_into(&mut cluster.spec.control_plane_endpoint.host);
    let mended = planned(&seen);
    let deprecated = &status(&mended).deprecated.v1beta1;
    assert_eq!(
        (deprecated.failure_reason.as_str(), deprecated.failure_message.as_str()),
        ("", "")
    );
    assert_eq!(said(status(&mended), "Ready").0, &ConditionStatus::True);
}

#[test]
fn without_an_owner_it_waits_and_holds_nothing() {
    let mut seen = seen(&json!({"metadata": {"finalizers": []}}));
    seen.owner = Owner::Unset;
    let plan = planned(&seen);
    assert_eq!((plan.effects.len(), plan.report.events.len()), (0, 0));
    assert_eq!(said(status(&plan), "Ready").1, "WaitingForClusterOwnerRef");
    seen.owner = Owner::Missing("c".to_owned());
    let plan = planned(&seen);
    assert_eq!(said(status(&plan), "Ready").1, "FailedToGetOwnerCluster");
    assert_eq!(legacy(status(&plan), INFRASTRUCTURE).2, "InternalFailureOccured");
}

#[rstest]
#[case::cluster(json!({}), json!({"paused": true}))]
#[case::annotation(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}), json!({}))]
#[case::deleting(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), json!({"paused": true}))]
fn while_paused_only_that_is_said(#[case] other: Value, #[case] spec: Value) {
    let mut seen = seen(&other);
    seen.owner = owner(&spec);
    let plan = planned(&seen);
    assert_eq!(plan.effects, []);
    let status = status(&plan);
    assert_eq!(said(status, "Paused").0, &ConditionStatus::True);
    assert_eq!((status.conditions.len(), status.failure_domains.len()), (1, 0));
}

#[test]
fn a_bad_prefix_of_labels_is_said_as_long_as_it_is_there_and_told_once() {
    let annotated = |prefixes: &str| {
        let annotations = json!({"metal3.io/metal3-label-sync-prefixes": prefixes});
        seen(&json!({"metadata": {"annotations": annotations}}))
    };
    let mut bad = annotated("a.b,Wrong_");
    let plan = planned(&bad);
    let stored = status(&plan).clone();
    let (holds, reason, message) = said(&stored, ANNOTATIONS);
    assert_eq!((holds, reason), (&ConditionStatus::False, "InvalidLabelSyncPrefixes"));
    assert!(message.contains("\"Wrong_\"") && !message.contains("a.b"), "{message}");
    assert_eq!(
        said(&stored, "Ready").0,
        &ConditionStatus::True,
        "machines can be made all the same"
    );
    let told = |plan: &Plan| {
        plan.report
            .events
            .iter()
            .any(|note| note.reason == "InvalidLabelSyncPrefixes")
    };
    assert!(told(&plan));
    Arc::make_mut(&mut bad.cluster).status = Some(stored.clone());
    let again = planned(&bad);
    assert_eq!(again.report, Report::default());
    let mut good = annotated("a.b");
    Arc::make_mut(&mut good.cluster).status = Some(stored);
    let plan = planned(&good);
    assert!(conditions::get(&status(&plan).conditions, ANNOTATIONS).is_none() && !told(&plan));
}

#[test]
fn what_somebody_else_manages_is_not_touched_even_when_it_is_deleted() {
    for deleted in [Value::Null, json!("2026-01-01T00:00:00Z")] {
        let other =
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/managed-by": "x"}, "deletionTimestamp": deleted}});
        assert_eq!(decide(&seen(&other), now()), Decision::idle());
    }
}

#[test]
fn a_cluster_that_goes_leaves_no_host_kept_for_it() {
    let mut seen = seen(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let host = json!({"metadata": {"name": "h", "resourceVersion": "7", "labels": {"infrastructure.cluster.x-k8s.io/node-reuse": "md-w"}},
        "spec": {"online": false, "consumerRef": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c"}}});
    seen.kept = vec![Arc::new(serde_json::from_value(host).unwrap())];
    let plan = planned(&seen);
    let [Effect::ReleaseHost { host, patch }, Effect::RemoveFinalizer] = plan.effects.as_slice() else {
        panic!("{:?}", plan.effects)
    };
    // OWN 31sy: `clusterctl move` would wait for ever for the annotation to go.
    let metadata = json!({"resourceVersion": "7", "labels": {"infrastructure.cluster.x-k8s.io/node-reuse": null},
        "annotations": {"clusterctl.cluster.x-k8s.io/block-move": null}});
    let wanted = json!({"metadata": metadata, "spec": {"consumerRef": null}});
    assert_eq!((host.as_str(), patch), ("h", &wanted));
    seen.machines = vec!["m".to_owned()];
    assert_eq!(planned(&seen).effects, [], "its machines may come back for it");
}

#[test]
fn a_host_that_is_kept_for_nobody_any_more_is_released_while_the_cluster_stays() {
    let mut seen = seen(&json!({}));
    let host = json!({"metadata": {"name": "h", "resourceVersion": "7"}, "spec": {"online": false}});
    seen.kept = vec![Arc::new(serde_json::from_value(host).unwrap())];
    let released = |seen: &Observed| {
        let effects = planned(seen).afterwards;
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::ReleaseHost { .. }))
    };
    assert!(released(&seen));
    let pause = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    let paused = super::tests::seen(&pause);
    seen.cluster = paused.cluster;
    assert!(!released(&seen), "nothing is touched while it is paused");
}

#[test]
fn a_deletion_waits_for_the_machines_and_names_them() {
    let mut seen = seen(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    seen.machines = ["m1", "m2", "m3", "m4"].map(str::to_owned).into();
    let plan = planned(&seen);
    assert_eq!(plan.effects, []);
    let (holds, reason, message) = said(status(&plan), "Ready");
    assert_eq!((holds, reason), (&ConditionStatus::False, "Deleting"));
    assert!(message.ends_with("4 left (m1, m2, m3, …)"), "{message}");
    seen.machines.clear();
    let plan = planned(&seen);
    assert_eq!(
        (plan.effects, plan.report.status),
        (vec![Effect::RemoveFinalizer], None)
    );
    // The Cluster may be deleted first.
    seen.owner = Owner::Missing("c".to_owned());
    assert_eq!(planned(&seen).effects, [Effect::RemoveFinalizer]);
    Arc::make_mut(&mut seen.cluster).metadata.finalizers = None;
    assert_eq!(decide(&seen, now()), Decision::idle());
}

#[tokio::test]
async fn how_far_a_cluster_is_matters_to_nobody_here() {
    let site = Site::new("", |_, _, _| None);
    let (stores, queue) = (&site.ctx.stores, Queue::new());
    let is_now = |version: &str, is_paused: bool, is_ready: bool| {
        let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": "c"});
        let cluster = json!({"metadata": {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": version},
            "spec": {"paused": is_paused, "infrastructureRef": reference},
            "status": {"initialization": {"infrastructureProvisioned": is_ready}}});
        stores.clusters.created(serde_json::from_value(cluster).unwrap());
    };
    is_now("1", false, false);
    Metal3Clusters { ctx: site.ctx.clone() }.listen(&queue);
    is_now("2", false, true);
    assert_eq!(queue.len(), 0);
    is_now("3", true, true);
    assert_eq!(queue.len(), 1);
}

#[test]
fn machines_are_only_asked_after_by_a_cluster_that_goes() {
    let stores = Stores::new("");
    for name in ["b", "a"] {
        let machine = json!({"metadata": {"namespace": "ns", "name": name,
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}}});
        stores.machines.created(serde_json::from_value(machine).unwrap());
    }
    for (deleted, machines) in [(None, vec![]), (Some("2026-01-01T00:00:00Z"), vec!["a", "b"])] {
        let version = if deleted.is_some() { "2" } else { "1" };
        let object = json!({"metadata": {"namespace": "ns", "resourceVersion": version, "deletionTimestamp": deleted,
            "ownerReferences": owners("cluster.x-k8s.io/v1beta2", "Cluster", "c", None)}});
        stores.metal3_clusters.created((*seen(&object).cluster).clone());
        assert_eq!(observe(&stores, &ObjectKey::new("ns", "c")).unwrap().machines, machines);
    }
}
