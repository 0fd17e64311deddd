//! The Node of a machine, and the provider ID that both carry.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::NodeView;
use super::{Effect, Observed, Plan, Related, said, status, stored, told, with, with_host};
use crate::machine::decide::{Refused, refused};
use crate::machine::names::NODE;
use crate::machine::node::ProviderIdPatch;
use crate::workload::Unreachable;
use crate::workload::provider_id::Answer;
use metal3_runtime::store::ObjectKey;

const OURS: &str = "metal3://ns/h/m";

/// A machine whose host is provisioned, and what is known of its Node.
fn seen(other: &Value, cloud_provider: bool, node: NodeView) -> Observed {
    let mut seen = with_host(other, &told("provisioned"));
    let cluster = json!({"apiVersion": super::HERE, "kind": "Metal3Cluster", "metadata": {"name": "c"},
        "spec": {"cloudProviderEnabled": cloud_provider}});
    seen.metal3_cluster = Related::Found(with(cluster, &json!({})));
    seen.node = node;
    seen
}

fn id(plan: &Plan) -> Option<&str> {
    plan.effects.iter().find_map(|effect| match effect {
        Effect::Machine(change) => change["spec"]["providerID"].as_str(),
        _ => None,
    })
}

fn is_provisioned(plan: &Plan) -> bool {
    status(plan).initialization.provisioned == Some(true)
}

fn silent() -> NodeView {
    NodeView::Unreachable(Unreachable::Silent {
        cluster: ObjectKey::new("ns", "c"),
        cause: "connection refused".to_owned(),
    })
}

fn connecting() -> NodeView {
    NodeView::Unreachable(Unreachable::Connecting(ObjectKey::new("ns", "c")))
}

#[test]
fn a_node_is_given_its_id_once_the_machine_has_it() {
    let answer = Answer::Give {
        id: OURS.to_owned(),
        node: "n".to_owned(),
        uid: "u-n".to_owned(),
    };
    let plan = super::plan(&seen(&json!({}), false, NodeView::Answered(answer)));
    assert_eq!((id(&plan), is_provisioned(&plan)), (Some(OURS), true));
    let patch = ProviderIdPatch {
        node: "n".to_owned(),
        uid: "u-n".to_owned(),
        id: OURS.to_owned(),
    };
    assert_eq!(plan.afterwards, [Effect::ProviderId(patch)]);
    assert_eq!(
        said(status(&plan), NODE),
        (false, "SettingProviderID", "node n gets its provider ID")
    );

    let known = NodeView::Answered(Answer::Known(OURS.to_owned()));
    let plan = super::plan(&seen(&json!({"spec": {"providerID": OURS}}), false, known));
    assert_eq!((id(&plan), plan.afterwards.len()), (None, 0));
    assert_eq!(said(status(&plan), NODE), (true, "ProviderIDSet", ""));
}

#[rstest]
#[case::no_node(NodeView::Answered(Answer::Wait("no node yet".into())), "WaitingForNode", "no node yet")]
#[case::two_nodes(NodeView::Answered(Answer::Conflict("n and o".into())), "NodeConflict", "n and o")]
#[case::no_cluster(silent(), "WorkloadClusterUnreachable", "connection refused")]
#[case::at_the_start(connecting(), "WorkloadClusterConnecting", "nodes of cluster ns/c")]
fn what_is_waited_for_holds_up_only_ids_of_others(#[case] node: NodeView, #[case] reason: &str, #[case] words: &str) {
    let plan = super::plan(&seen(&json!({}), false, node.clone()));
    assert_eq!(
        (id(&plan), is_provisioned(&plan), plan.afterwards.len()),
        (Some(OURS), true, 0)
    );
    let (holds, said_reason, message) = said(status(&plan), NODE);
    assert_eq!((holds, said_reason), (false, reason));
    assert!(message.contains(words), "{message}");
    assert_eq!(
        plan.report.events.iter().any(|event| event.reason == "NodeConflict"),
        reason == "NodeConflict"
    );

    let plan = super::plan(&seen(&json!({}), true, node));
    assert_eq!((id(&plan), is_provisioned(&plan)), (None, false));
    let (holds, said_reason, message) = said(status(&plan), "Ready");
    assert_eq!((holds, said_reason), (false, reason));
    assert!(message.contains(words), "{message}");
}

#[test]
fn a_cloud_providers_id_is_taken_over() {
    let known = NodeView::Answered(Answer::Known("cloud://7".to_owned()));
    let plan = super::plan(&seen(&json!({}), true, known));
    assert_eq!((id(&plan), is_provisioned(&plan)), (Some("cloud://7"), true));
}

#[rstest]
#[case::restarted(connecting())]
#[case::away(silent())]
fn what_was_known_of_a_node_stays_while_nobody_can_be_asked(#[case] node: NodeView) {
    let known = NodeView::Answered(Answer::Known(OURS.to_owned()));
    let before = super::plan(&seen(&json!({}), false, known));
    let after = json!({"spec": {"providerID": OURS}, "status": serde_json::to_value(status(&before)).unwrap()});
    let plan = super::plan(&seen(&after, false, node));
    assert_eq!(
        (plan.effects.len(), plan.report.status, plan.report.events.len()),
        (0, None, 0)
    );
}

#[test]
fn a_node_that_may_not_be_given_its_id_says_so_until_it_may() {
    let answer = || {
        NodeView::Answered(Answer::Give {
            id: OURS.to_owned(),
            node: "n".to_owned(),
            uid: "u-n".to_owned(),
        })
    };
    let before = seen(&json!({"spec": {"providerID": OURS}}), false, answer());
    let words = "cannot set the provider ID of the node: nodes \"n\" is forbidden";
    let told = refused(&before, Refused::ProviderId, Some(words), super::now());
    assert_eq!(said(stored(&told), NODE), (false, "NodeRefused", words));
    assert_eq!(told.events.len(), 1);

    let after = json!({"spec": {"providerID": OURS}, "status": serde_json::to_value(stored(&told)).unwrap()});
    let after = seen(&after, false, answer());
    let again = super::plan(&after);
    assert_eq!(again.afterwards.len(), 1, "it is tried again");
    assert_eq!(said(status(&again), NODE).1, "NodeRefused");
    let told = refused(&after, Refused::ProviderId, Some(words), super::now());
    assert!(told.is_empty(), "reported once");
}
