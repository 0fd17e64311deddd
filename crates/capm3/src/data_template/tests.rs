mod passes;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use metal3_api::capi::Cluster;
use metal3_api::infra::names::annotation::{RENDERED_FROM, V1BETA1_DATA};
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate};
use metal3_runtime::store::{ObjectKey, Sink};
use metal3_runtime::timing::provider::LISTS_APART;
use metal3_runtime::work::Queue;
use rstest::rstest;
use serde_json::{Value, json};

use super::apply::{adopt, data};
use super::decide::{finish, is_unused, writes};
use super::effect::Effect;
use super::listen::listen;
use super::observed::{Observed, observe};
use crate::data::digest;
use crate::stores::{Stores, template_asked};

const OF_TEMPLATE: &str = "metal3datatemplate.infrastructure.cluster.x-k8s.io";
const OF_CLAIM: &str = "metal3dataclaim.infrastructure.cluster.x-k8s.io";
const DELETED: &str = "2026-01-01T00:00:00Z";

fn object(kind: &str, name: &str, metadata: &Value, body: &Value) -> Value {
    let mut object = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"}});
    json_patch::merge(&mut object, &json!({"metadata": metadata}));
    json_patch::merge(&mut object, body);
    object
}

fn template(stores: &Stores, name: &str, metadata: &Value) {
    let mut object: Metal3DataTemplate =
        serde_json::from_value(object("Metal3DataTemplate", name, metadata, &json!({"spec": {}}))).unwrap();
    object
        .metadata
        .finalizers
        .get_or_insert_with(|| vec![OF_TEMPLATE.to_owned()]);
    stores.data_templates.created(object);
}

/// A claim that waits for nothing but its answer, with other metadata over that.
fn claim(stores: &Stores, name: &str, metadata: &Value, answer: &str) -> Arc<Metal3DataClaim> {
    let owner = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine", "name": name,
        "uid": "machine", "controller": true});
    let mut base = json!({"finalizers": [OF_CLAIM], "ownerReferences": [owner],
        "creationTimestamp": "2026-01-01T00:00:00Z"});
    json_patch::merge(&mut base, metadata);
    let mut body = json!({"spec": {"template": {"name": "t"}}});
    if !answer.is_empty() {
        body["status"] = json!({"renderedData": {"name": answer, "namespace": "ns"}});
    }
    let made: Metal3DataClaim = serde_json::from_value(object("Metal3DataClaim", name, &base, &body)).unwrap();
    stores.data_claims.created(made);
    stores.data_claims.get(&ObjectKey::new("ns", name)).unwrap()
}

fn made(stores: &Stores, index: i32, claim: &str, metadata: &Value) -> Arc<Metal3Data> {
    let owner = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3DataClaim", "name": claim,
        "uid": format!("uid-{claim}"), "controller": true});
    let mut base = json!({"finalizers": [OF_CLAIM], "ownerReferences": [owner]});
    json_patch::merge(&mut base, metadata);
    let body = json!({"spec": {"index": index, "claim": {"name": claim}, "template": {"name": "t"}}});
    let name = format!("t-{index}");
    let made: Metal3Data = serde_json::from_value(object("Metal3Data", &name, &base, &body)).unwrap();
    stores.datas.created(made);
    stores.datas.get(&ObjectKey::new("ns", name)).unwrap()
}

fn seen(stores: &Stores) -> Observed {
    let claims = stores.data_claims.objects();
    stores.known_claims.learn(claims.iter().filter_map(|claim| claim.uid()));
    observe(stores, &space())
}

/// The writes to templates.
fn lists(stores: &Stores) -> Vec<Effect> {
    finish(&seen(stores).listed, DELETED.parse().unwrap()).0
}

fn space() -> ObjectKey {
    ObjectKey::new("ns", "t")
}

/// What is made, by claim.
fn created(effects: &[Effect]) -> Vec<(String, i32)> {
    let of = |effect: &Effect| match effect {
        Effect::Create { claim, index, .. } => Some((claim.metadata.name.clone().unwrap(), *index)),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

fn explained(effects: &[Effect]) -> &str {
    match effects {
        [Effect::Explain(_, why)] => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_oldest_claim_gets_the_lowest_free_index() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    for (index, of) in [(0, "a"), (1, "b"), (3, "d")] {
        claim(&stores, of, &json!({}), &format!("t-{index}"));
        made(&stores, index, of, &json!({}));
    }
    claim(&stores, "x", &json!({"creationTimestamp": "2026-01-01T00:00:02Z"}), "");
    claim(&stores, "y", &json!({"creationTimestamp": "2026-01-01T00:00:01Z"}), "");
    claim(&stores, "z", &json!({"creationTimestamp": "2026-01-01T00:00:03Z"}), "");
    let effects = writes(&seen(&stores));
    let expected = [("y", 2), ("x", 4), ("z", 5)].map(|(of, index)| (of.to_owned(), index));
    assert_eq!(created(&effects), expected);
    assert_eq!(effects.len(), 3);
}

// OWN 31sx: what was made for a template with a reference was called by the other template, which the webhook rejects.
#[test]
fn a_template_that_refers_to_another_has_indexes_of_its_own() {
    let stores = Stores::new("");
    let reference = json!({"annotations": {V1BETA1_DATA: r#"{"spec":{"templateReference":"other"}}"#}});
    template(&stores, "t", &reference);
    let a = claim(&stores, "a", &json!({}), "");
    let of_template = stores.data_templates.get(&space()).unwrap();
    let new = data(&a, &of_template, 0);
    assert_eq!(new.name_any(), "t-0");
    assert_eq!(created(&writes(&seen(&stores))), [("a".to_owned(), 0)]);

    // Upstream's releases up to 1.10 have made this one.
    let mut former = (*made(&Stores::new(""), 0, "b", &json!({}))).clone();
    former.metadata.name = Some("other-0".to_owned());
    let b = claim(&stores, "b", &json!({}), "other-0");
    stores.datas.created(former);
    let effects = writes(&seen(&stores));
    assert_eq!(created(&effects), [("a".to_owned(), 1)], "the index is taken");
    assert_eq!(effects.len(), 1, "{b:?} has its answer");
}

#[test]
fn nothing_is_made_before_the_finalizers_are_there() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({"finalizers": []}));
    claim(&stores, "a", &json!({"finalizers": []}), "");
    claim(&stores, "b", &json!({}), "");
    let effects = writes(&seen(&stores));
    let labels: Vec<_> = effects.iter().map(Effect::label).collect();
    assert_eq!(
        labels,
        [
            "add the finalizer of the Metal3DataTemplate",
            "add the finalizer of the Metal3DataClaim"
        ]
    );
}

#[test]
fn what_another_process_may_have_made_is_looked_for_once_for_all_claims() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    claim(&stores, "a", &json!({}), "");
    claim(&stores, "b", &json!({}), "");
    let seen = observe(&stores, &space());
    assert_eq!(writes(&seen), [Effect::List]);
}

#[test]
fn an_answer_whose_data_vanished_comes_back_with_its_index_if_that_is_free() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    claim(&stores, "a", &json!({}), "t-7");
    assert_eq!(created(&writes(&seen(&stores))), [("a".to_owned(), 7)]);
    claim(&stores, "b", &json!({}), "t-7");
    made(&stores, 7, "b", &json!({}));
    assert_eq!(created(&writes(&seen(&stores))), [("a".to_owned(), 0)]);
}

#[test]
fn a_lost_answer_is_given_again_and_nothing_is_made() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    let a = claim(&stores, "a", &json!({}), "");
    made(&stores, 4, "a", &json!({}));
    assert_eq!(writes(&seen(&stores)), [Effect::Announce(a, "t-4".to_owned())]);
}

#[test]
fn of_two_that_were_made_for_one_claim_the_answer_stays() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    let a = claim(&stores, "a", &json!({}), "t-4");
    let (other, named) = (made(&stores, 1, "a", &json!({})), made(&stores, 4, "a", &json!({})));
    assert_eq!(writes(&seen(&stores)), [Effect::Discard(other.clone())]);
    assert!(is_unused(&other, Some(&a)) && !is_unused(&named, Some(&a)));
    // As long as none is named, both may be.
    let none = claim(&Stores::new(""), "a", &json!({}), "");
    assert!(!is_unused(&other, Some(&none)) && !is_unused(&named, Some(&none)));
}

#[rstest]
#[case::gone(None)]
#[case::another_of_its_name(Some(json!({"uid": "other"})))]
fn what_has_lost_its_claim_goes(#[case] metadata: Option<Value>) {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    let left = made(&stores, 0, "a", &json!({}));
    let there = metadata.map(|metadata| claim(&stores, "a", &metadata, ""));
    let effects = writes(&seen(&stores));
    assert!(effects.contains(&Effect::Discard(left.clone())), "{effects:?}");
    assert!(is_unused(&left, there.as_deref()));
    // Its index is free only when it is gone.
    assert!(created(&effects).iter().all(|(_, index)| *index != 0));
}

#[test]
fn a_claim_that_is_deleted_lets_go_step_by_step() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    let a = claim(&stores, "a", &json!({"deletionTimestamp": DELETED}), "t-0");
    let data = made(&stores, 0, "a", &json!({}));
    assert_eq!(writes(&seen(&stores)), [Effect::Delete(data)]);
    let data = made(
        &stores,
        0,
        "a",
        &json!({"deletionTimestamp": DELETED, "resourceVersion": "2"}),
    );
    assert_eq!(writes(&seen(&stores)), [Effect::Unlock(data)]);
    let held = json!({"deletionTimestamp": DELETED, "resourceVersion": "3", "finalizers": ["other"]});
    made(&stores, 0, "a", &held);
    assert_eq!(writes(&seen(&stores)), [Effect::ReleaseClaim(a)]);
}

#[rstest]
#[case::no_template(json!({}), false, "Metal3DataTemplate t, which does not exist")]
#[case::no_cluster(json!({"labels": {"cluster.x-k8s.io/cluster-name": "c"}}), true, "Cluster c")]
#[case::no_owner(json!({"ownerReferences": null}), true, "no owner of kind Metal3Machine")]
fn a_claim_that_cannot_be_answered_says_why_once(
    #[case] metadata: Value,
    #[case] has_template: bool,
    #[case] words: &str,
) {
    let stores = Stores::new("");
    if has_template {
        template(&stores, "t", &json!({}));
    }
    let a = claim(&stores, "a", &metadata, "");
    let effects = writes(&seen(&stores));
    let why = explained(&effects);
    assert!(why.contains(words), "{why}");
    let mut told = (*a).clone();
    told.metadata.resource_version = Some("2".to_owned());
    told.status.get_or_insert_default().error_message = why.to_owned();
    stores.data_claims.created(told);
    assert_eq!(writes(&seen(&stores)), []);
}

#[rstest]
#[case::of_another_namespace(json!({"name": "t", "namespace": "elsewhere"}), "Metal3DataTemplate elsewhere/t")]
#[case::none(json!({"name": ""}), "spec.template.name is empty")]
fn a_claim_that_names_no_template_of_its_namespace_says_so_once(#[case] named: Value, #[case] words: &str) {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    let mut other = (*claim(&stores, "a", &json!({"resourceVersion": "2"}), "")).clone();
    other.spec.template = serde_json::from_value(named).unwrap();
    other.metadata.resource_version = Some("3".to_owned());
    stores.data_claims.created(other.clone());
    let space = template_asked(&other);
    assert_eq!(
        writes(&seen(&stores)),
        [],
        "the template of this namespace is not concerned"
    );
    let effects = writes(&observe(&stores, &space));
    let why = explained(&effects);
    assert!(why.contains(words), "{why}");
    other.metadata.resource_version = Some("4".to_owned());
    other.status.get_or_insert_default().error_message = why.to_owned();
    stores.data_claims.created(other.clone());
    assert_eq!(writes(&observe(&stores, &space)), []);
    other.metadata.resource_version = Some("5".to_owned());
    other.metadata.deletion_timestamp = serde_json::from_value(json!(DELETED)).unwrap();
    stores.data_claims.created(other);
    assert!(matches!(
        writes(&observe(&stores, &space))[..],
        [Effect::ReleaseClaim(_)]
    ));
}

#[rstest]
#[case::claim(json!({"annotations": {"cluster.x-k8s.io/paused": ""}}), json!({}), false)]
#[case::template(json!({}), json!({"annotations": {"cluster.x-k8s.io/paused": ""}}), false)]
#[case::cluster(json!({"labels": {"cluster.x-k8s.io/cluster-name": "c"}}), json!({}), true)]
fn what_is_paused_is_left_alone(#[case] metadata: Value, #[case] of_template: Value, #[case] is_cluster_paused: bool) {
    let stores = Stores::new("");
    template(&stores, "t", &of_template);
    let cluster: Cluster = serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "c"},
        "spec": {"paused": is_cluster_paused}}))
    .unwrap();
    stores.clusters.created(cluster);
    claim(&stores, "a", &metadata, "");
    assert_eq!(writes(&seen(&stores)), []);
    let mut going = metadata.clone();
    json_patch::merge(
        &mut going,
        &json!({"deletionTimestamp": DELETED, "resourceVersion": "2"}),
    );
    claim(&stores, "a", &going, "");
    assert_eq!(writes(&seen(&stores)), []);
}

#[test]
fn a_template_lists_its_indexes_and_goes_when_nothing_uses_it() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({"deletionTimestamp": DELETED}));
    claim(&stores, "b", &json!({}), "t-2");
    made(&stores, 2, "b", &json!({}));
    let effects = lists(&stores);
    let [Effect::Report(_, status)] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    let listed: Vec<_> = status
        .indexes
        .iter()
        .map(|entry| (entry.name.as_str(), entry.index))
        .collect();
    assert_eq!(listed, [("b", 2)]);

    let stores = Stores::new("");
    template(&stores, "t", &json!({"deletionTimestamp": DELETED}));
    let effects = lists(&stores);
    assert!(
        matches!(effects.as_slice(), [Effect::ReleaseTemplate(_)]),
        "{effects:?}"
    );
}

#[test]
fn a_list_of_more_indexes_than_fit_is_cut() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    for index in 0..600 {
        made(&stores, index, &format!("c{index}"), &json!({}));
    }
    let effects = lists(&stores);
    let [Effect::Report(_, status)] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!((status.indexes.len(), status.indexes[511].index), (512, 511));
}

#[test]
fn a_metal3data_is_made_as_metal3_makes_it() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    let a = claim(
        &stores,
        "a",
        &json!({"labels": {"cluster.x-k8s.io/cluster-name": "c"}}),
        "",
    );
    let template = stores.data_templates.get(&ObjectKey::new("ns", "t")).unwrap();
    let group = "infrastructure.cluster.x-k8s.io/v1beta2";
    let expected = json!({
        "apiVersion": group, "kind": "Metal3Data",
        "metadata": {"namespace": "ns", "name": "t-3", "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "finalizers": [OF_CLAIM],
            "ownerReferences": [
                {"apiVersion": group, "kind": "Metal3DataClaim", "name": "a", "uid": "uid-a", "controller": true},
                {"apiVersion": group, "kind": "Metal3Machine", "name": "a", "uid": "machine"},
            ]},
        "spec": {"index": 3, "claim": {"name": "a", "namespace": "ns"}, "template": {"name": "t", "namespace": "ns"}},
    });
    assert_eq!(serde_json::to_value(data(&a, &template, 3)).unwrap(), expected);
}

#[test]
fn what_renders_something_belongs_to_its_controller_from_the_start() {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    let claim = claim(&stores, "a", &json!({}), "");
    let plain = stores.data_templates.get(&ObjectKey::new("ns", "t")).unwrap();
    let mut made = data(&claim, &plain, 0);
    adopt(&mut made, &claim, &plain);
    assert_eq!(made.metadata.finalizers, Some(vec![OF_CLAIM.to_owned()]));

    let mut rendering = (*plain).clone();
    rendering.spec.network_data = Some(metal3_api::infra::v1beta2::NetworkData::default());
    adopt(&mut made, &claim, &rendering);
    let of_data = "metal3data.infrastructure.cluster.x-k8s.io";
    assert_eq!(
        made.metadata.finalizers,
        Some(vec![OF_CLAIM.to_owned(), of_data.to_owned()])
    );
    let named = made.spec.network_data.map(|secret| (secret.name, secret.namespace));
    assert_eq!(named, Some(("a-networkdata".to_owned(), "ns".into())));
    assert_eq!(made.spec.meta_data, None);
    let rendered_from = made.metadata.annotations.unwrap_or_default();
    assert_eq!(rendered_from[RENDERED_FROM], digest(&rendering));
    assert_ne!(digest(&rendering), digest(&plain));
}

/// A space in which everything is as it should be.
fn at_rest(count: i32) -> Stores {
    let stores = Stores::new("");
    template(&stores, "t", &json!({}));
    for index in 0..count {
        claim(&stores, &format!("c{index}"), &json!({}), &format!("t-{index}"));
        made(&stores, index, &format!("c{index}"), &json!({}));
    }
    stores
}

#[test]
fn a_data_that_is_gone_wakes_its_space_and_frees_its_index() {
    let (stores, queue) = (at_rest(300), Queue::new());
    listen(&stores, &queue);
    stores.datas.remove(&ObjectKey::new("ns", "t-7"), "uid-t-7");
    assert_eq!(queue.len(), 1);
    claim(
        &stores,
        "new",
        &json!({"creationTimestamp": "2026-01-02T00:00:00Z"}),
        "",
    );
    let made = created(&writes(&seen(&stores)));
    assert_eq!(made, [("c7".to_owned(), 7), ("new".to_owned(), 300)]);
}

#[test]
fn rendered_data_and_a_new_list_wake_nothing() {
    let (stores, queue) = (at_rest(3), Queue::new());
    listen(&stores, &queue);
    let mut rendered = (*stores.datas.get(&ObjectKey::new("ns", "t-1")).unwrap()).clone();
    rendered.metadata.resource_version = Some("2".to_owned());
    rendered.status.get_or_insert_default().ready = Some(true);
    stores.datas.created(rendered);
    let mut listed = (*stores.data_templates.get(&space()).unwrap()).clone();
    listed.metadata.resource_version = Some("2".to_owned());
    listed.status.get_or_insert_default().last_updated = None;
    stores.data_templates.created(listed);
    assert!(queue.is_empty());
}

#[test]
fn a_list_is_written_once_a_second() {
    let stores = at_rest(3);
    let mut listed = (*stores.data_templates.get(&space()).unwrap()).clone();
    listed.metadata.resource_version = Some("2".to_owned());
    let written = DELETED.parse().unwrap();
    listed.status.get_or_insert_default().last_updated = Some(Time(written));
    stores.data_templates.created(listed);
    let listed = seen(&stores).listed;
    assert_eq!(finish(&listed, written), (vec![], Some(LISTS_APART)));
    let (effects, again) = finish(&listed, written + LISTS_APART);
    assert_eq!((effects.len(), again), (1, None));
}
