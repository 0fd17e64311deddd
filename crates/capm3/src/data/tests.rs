use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metal3_api::capi::IPAddressClaim;
use metal3_api::infra::names::annotation::RENDERED_FROM;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataTemplate};
use metal3_api::ipam::IPClaim;
use metal3_render::{Pool, PoolAddress};
use metal3_runtime::controller::Next;
use metal3_runtime::events::Severity;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use metal3_testkit::leaks::{CANARY, expect_none_in_plan};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::address::{AddressClaim, Family};
use super::apply::{cluster_api_claim, metal3_claim, secret_object, taken_over};
use super::decide::{decide, digest, rendered_again};
use super::effect::{AddressRead, Decision, Effect, Plan, Read, Secret};
use super::listen::listen;
use super::observed::{Answers, Host, Observed, View, observe};
use crate::stores::Stores;

const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const OF_CLAIM: &str = "metal3dataclaim.infrastructure.cluster.x-k8s.io";
const OF_DATA: &str = "metal3data.infrastructure.cluster.x-k8s.io";
const DELETED: &str = "2026-01-01T00:00:00Z";

fn now() -> Timestamp {
    "2026-01-01T00:00:05Z".parse().unwrap()
}

fn object<K: DeserializeOwned>(api_version: &str, kind: &str, name: &str, body: &Value) -> K {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "ns", "name": name,
        "uid": format!("uid-{name}"), "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    json_patch::merge(&mut object, body);
    serde_json::from_value(object).unwrap()
}

/// A machine whose data is to be rendered from a template with metadata, an address and a host's interface. Both Secrets get a mark.
struct Scene {
    stores: Stores,
    read: Answers,
}

fn owner(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": INFRA, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true}])
}

impl Scene {
    fn new() -> Self {
        let stores = Stores::new("");
        let cluster = json!({"spec": {}});
        stores
            .clusters
            .created(object("cluster.x-k8s.io/v1beta2", "Cluster", "c", &cluster));
        let template = json!({"spec": {"metaData": {
                "strings": [{"key": "canary", "value": format!("{CANARY}m-metadata")}],
                "ipAddressesFromPool": [{"key": "ip", "name": "p"}],
                "dnsServersFromPool": [{"key": "dns", "name": "p"}],
                "fromHostInterfaces": [{"key": "mac", "interface": "eth0"}]},
            "networkData": {"links": {"ethernets": [{"type": "phy", "id": format!("{CANARY}m-networkdata"),
                    "macAddress": {"string": "52:54:00:00:00:02"}}]},
                "networks": {}, "services": {"dns": ["192.0.2.53"]}}}});
        stores
            .data_templates
            .created(object(INFRA, "Metal3DataTemplate", "t", &template));
        let claim = json!({"metadata": {"ownerReferences": owner("Metal3Machine", "m")},
            "spec": {"template": {"name": "t"}}, "status": {"renderedData": {"name": "t-0"}}});
        stores
            .data_claims
            .created(object(INFRA, "Metal3DataClaim", "claim", &claim));
        let machine = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": "ns/h"}, "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "machine", "uid": "x"}]},
            "spec": {"dataTemplate": {"name": "t"}}});
        stores
            .metal3_machines
            .created(object(INFRA, "Metal3Machine", "m", &machine));
        let machine = json!({"spec": {"clusterName": "c", "infrastructureRef": {"name": "m"}}});
        stores
            .machines
            .created(object("cluster.x-k8s.io/v1beta2", "Machine", "machine", &machine));
        stores.hosts.created(host());
        let absent = ["m-metadata", "m-networkdata"].map(str::to_owned);
        let scene = Self {
            stores,
            read: Answers {
                absent: absent.into(),
                ..Answers::default()
            },
        };
        scene.data(&json!({}));
        scene
    }

    /// The Metal3Data, with other fields over what it has.
    fn data(&self, other: &Value) {
        let mut body = json!({
            "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "c"}, "finalizers": [OF_CLAIM, OF_DATA],
                "annotations": {RENDERED_FROM: self.digest()},
                "ownerReferences": owner("Metal3DataClaim", "claim")},
            "spec": {"index": 0, "claim": {"name": "claim"}, "template": {"name": "t"},
                "metaData": {"name": "m-metadata", "namespace": "ns"},
                "networkData": {"name": "m-networkdata", "namespace": "ns"}}});
        json_patch::merge(&mut body, other);
        self.stores.datas.created(object(INFRA, "Metal3Data", "t-0", &body));
    }

    /// The digest of the template.
    fn digest(&self) -> String {
        digest(&self.stores.data_templates.get(&ObjectKey::new("ns", "t")).unwrap())
    }

    /// Somebody edits the template.
    fn edit(&self) {
        let edited = json!({"spec": {"metaData": {"strings": [{"key": "a", "value": "b"}]},
                "networkData": {"links": {}, "networks": {}, "services": {}}},
            "metadata": {"generation": 2, "resourceVersion": "9"}});
        let edited = object(INFRA, "Metal3DataTemplate", "t", &edited);
        self.stores.data_templates.created(edited);
    }

    fn ip_claim(&self, other: &Value) -> AddressClaim {
        let mut body = json!({"metadata": {"finalizers": [OF_DATA], "ownerReferences": owner("Metal3Data", "t-0")},
            "spec": {"pool": {"name": "p"}}});
        json_patch::merge(&mut body, other);
        let claim: IPClaim = object("ipam.metal3.io/v1alpha1", "IPClaim", "t-0-p", &body);
        self.stores.ip_claims.created(claim.clone());
        AddressClaim::from(&claim)
    }

    fn secret(&self, name: &str, other: &Value) {
        let mut body = json!({"metadata": {"ownerReferences": owner("Metal3Data", "t-0")}});
        json_patch::merge(&mut body, other);
        self.stores.secrets.created(object("v1", "Secret", name, &body));
    }

    /// A Secret that was read from the API server, with these owners.
    fn foreign(&mut self, name: &str, owners: &Value) {
        let meta = json!({"name": name, "uid": "other", "ownerReferences": owners});
        let meta = serde_json::from_value(meta).unwrap();
        self.read.secrets.insert(name.to_owned(), meta);
    }

    fn address(&mut self) {
        let address = PoolAddress {
            address: "192.0.2.9".to_owned(),
            prefix: Some(24),
            gateway: String::new(),
            dns_servers: vec!["192.0.2.1".to_owned()],
        };
        self.read
            .addresses
            .insert((Family::Metal3, "t-0-p".to_owned()), Some(address));
    }

    fn seen(&self) -> View {
        self.observed().view.unwrap()
    }

    fn observed(&self) -> Observed {
        Observed {
            answers: self.read.clone(),
            ..observe(&self.stores, &ObjectKey::new("ns", "t-0"), false)
        }
    }

    fn step(&self) -> Decision {
        decide(&self.observed(), now())
    }

    /// A plan that tells nothing of what is rendered: only the Secrets have it, and a log does not show it.
    fn plan(&self) -> Plan {
        match self.step() {
            Decision::Act(plan) => {
                expect_none_in_plan(&plan);
                *plan
            }
            Decision::Fetch(read) => panic!("{read:?}"),
        }
    }

    /// What is written next.
    fn writes(&self) -> Vec<Effect> {
        self.plan().effects
    }

    /// The names of the Secrets that are made next.
    fn secrets(&self) -> Vec<Secret> {
        let made = self.writes().into_iter().map(|effect| match effect {
            Effect::Secret(secret) => secret,
            other => panic!("{other:?}"),
        });
        made.collect()
    }

    fn waits_because(&self) -> String {
        let report = self.plan().report;
        assert_eq!(report.events.len(), 1);
        report.status.unwrap().error_message
    }
}

fn host<K: DeserializeOwned>() -> K {
    let host = json!({"spec": {"online": true}, "status": {"hardware": {"nics": [{"name": "eth0", "mac": "52:54:00:00:00:01"}]},
        "provisioning": {"state": "available", "ID": ""}}});
    object("metal3.io/v1alpha1", "BareMetalHost", "h", &host)
}

#[test]
fn it_goes_from_the_finalizer_over_addresses_to_secrets_step_by_step() {
    let mut scene = Scene::new();
    let new = json!({"metadata": {"finalizers": [OF_CLAIM], "annotations": null, "resourceVersion": "2"},
        "spec": {"metaData": null, "networkData": null}});
    scene.data(&new);
    let writes = scene.writes();
    let [
        Effect::Adopt {
            meta_data,
            network_data,
            rendered_from: Some(digest),
        },
    ] = writes.as_slice()
    else {
        panic!("{writes:?}")
    };
    assert_eq!(digest.len(), 64, "{digest}");
    let names = [meta_data, network_data].map(|reference| reference.clone().unwrap().name);
    assert_eq!(names, ["m-metadata", "m-networkdata"]);

    let scene_again = Scene::new();
    scene.stores = scene_again.stores;
    let claim = Effect::Claim {
        pool: Pool::metal3("p"),
        name: "t-0-p".to_owned(),
    };
    assert_eq!(scene.writes(), [claim]);

    scene.ip_claim(&json!({}));
    let soon = Plan {
        next: Next::After(Duration::from_secs(10)),
        ..Plan::default()
    };
    assert_eq!(scene.step(), soon.into());
    scene.ip_claim(&json!({"metadata": {"resourceVersion": "2"}, "status": {"address": {"name": "a"}}}));
    let address = AddressRead {
        family: Family::Metal3,
        name: "a".to_owned(),
        claim: "t-0-p".to_owned(),
    };
    assert_eq!(scene.step(), Decision::Fetch(Read::Addresses(vec![address])));
    scene.address();
    assert_eq!(scene.step(), Decision::Fetch(Read::Host("h".to_owned())));
    scene.read.host = Host::Here(Box::new(host()));

    let secrets = scene.secrets();
    let [secret, other] = secrets.as_slice() else {
        panic!("{secrets:?}")
    };
    assert_eq!((secret.name.as_str(), secret.key), ("m-metadata", "metaData"));
    assert_eq!((other.name.as_str(), other.key), ("m-networkdata", "networkData"));
    let mark = |name: &str| format!("{CANARY}{name}");
    assert!(secret.text.contains(&mark(&secret.name)), "{}", secret.text);
    assert!(other.text.contains(&mark(&other.name)), "{}", other.text);
    for line in [
        "ip: \"192.0.2.9\"",
        "dns: \"192.0.2.1\"",
        "52:54:00:00:00:01",
        "providerid: ns/h/m",
    ] {
        assert!(secret.text.contains(line), "{line} in {}", secret.text);
    }
    scene.secret("m-metadata", &json!({}));
    scene.secret("m-networkdata", &json!({}));
    let status = scene.plan().report.status.unwrap();
    assert_eq!((status.ready, status.error_message.as_str()), (Some(true), ""));
}

#[test]
fn what_is_ready_stays_so_whatever_becomes_of_the_rest_and_a_lost_secret_is_made_again() {
    let mut scene = Scene::new();
    scene.data(&json!({"metadata": {"resourceVersion": "2"}, "status": {"ready": true}}));
    scene.secret("m-metadata", &json!({}));
    scene.secret("m-networkdata", &json!({}));
    let gone = json!({"metadata": {"deletionTimestamp": DELETED, "resourceVersion": "9"}});
    scene
        .stores
        .data_templates
        .created(object(INFRA, "Metal3DataTemplate", "t", &gone));
    assert_eq!(scene.step(), Decision::idle());

    let mut scene_again = Scene::new();
    scene_again.data(&json!({"metadata": {"resourceVersion": "2"}, "status": {"ready": true}}));
    scene_again.secret("m-metadata", &json!({}));
    scene_again.ip_claim(&json!({"status": {"address": {"name": "a"}}}));
    scene_again.address();
    scene_again.read.host = Host::Here(Box::new(host()));
    scene = scene_again;
    let names: Vec<_> = scene.secrets().into_iter().map(|secret| secret.name).collect();
    assert_eq!(names, ["m-networkdata"]);
}

// OWN 31vt: the address of a claim that a user had deleted was given up when a Secret was lost, while the server still used it.
#[rstest]
#[case::that_a_host_may_use(true, true)]
#[case::that_nobody_used_yet(false, false)]
fn a_claim_in_deletion_keeps_an_address(#[case] is_ready: bool, #[case] is_kept: bool) {
    let mut scene = Scene::new();
    if is_ready {
        scene.data(&json!({"metadata": {"resourceVersion": "2"}, "status": {"ready": true}}));
        scene.secret("m-metadata", &json!({}));
    }
    let claim =
        scene.ip_claim(&json!({"metadata": {"deletionTimestamp": DELETED}, "status": {"address": {"name": "a"}}}));
    scene.address();
    scene.read.host = Host::Here(Box::new(host()));
    if is_kept {
        let names: Vec<_> = scene.secrets().into_iter().map(|secret| secret.name).collect();
        assert_eq!(names, ["m-networkdata"]);
    } else {
        assert_eq!(scene.writes(), [Effect::Release(Box::new(claim))]);
    }
}

// OWN 31vu: metadata with the prefix of a pool that has none were never rendered; upstream renders 0.
#[test]
fn an_address_of_a_pool_without_a_prefix_has_the_prefix_0() {
    let address = object(
        "ipam.metal3.io/v1alpha1",
        "IPAddress",
        "a",
        &json!({"spec": {"address": "192.0.2.1", "claim": {}, "pool": {}}}),
    );
    assert_eq!(crate::data::address::of_metal3(&address).prefix, Some(0));
}

// OWN 15b: nobody was told that a lost Secret came back from a template that had been edited before that was refused.
#[test]
fn a_secret_that_comes_back_from_an_edited_template_is_told() {
    let told = |is_ready: bool, generation: i64| {
        let scene = Scene::new();
        scene.data(&json!({"metadata": {"resourceVersion": "2", "annotations": null}, "status": {"ready": is_ready}}));
        let edited = json!({"metadata": {"generation": generation, "resourceVersion": "9"}});
        scene
            .stores
            .data_templates
            .created(object(INFRA, "Metal3DataTemplate", "t", &edited));
        let secret = Secret {
            name: "m-metadata".to_owned(),
            key: "metaData",
            text: String::new(),
            cluster: String::new(),
        };
        rendered_again(&scene.seen(), &secret)
    };
    assert_eq!(told(false, 2), None, "it is rendered for the first time");
    let event = told(true, 1).unwrap();
    let words = "Secret m-metadata was lost and is rendered again from Metal3DataTemplate t";
    assert_eq!((event.severity, event.message.as_str()), (Severity::Normal, words));
    let event = told(true, 2).unwrap();
    assert_eq!((event.reason, event.severity), ("RenderedAgain", Severity::Warning));
    assert!(
        event.message.contains("which was edited after it was made"),
        "{}",
        event.message
    );
}

// OWN 15c: through v1beta1 a template can be edited. A Secret that was lost came back with what the template said then.
#[rstest]
#[case::both(true, &[])]
#[case::one_that_was_never_told_as_ready(false, &["m-metadata"])]
fn a_secret_that_is_lost_is_not_rendered_from_an_edited_template(#[case] is_ready: bool, #[case] left: &[&str]) {
    let scene = Scene::new();
    scene.data(&json!({"metadata": {"resourceVersion": "2"}, "status": {"ready": is_ready}}));
    for secret in left {
        scene.secret(secret, &json!({}));
    }
    scene.edit();
    let why = scene.waits_because();
    let lost = if left.is_empty() {
        "Secret m-metadata"
    } else {
        "Secret m-networkdata"
    };
    for words in [
        "Metal3DataTemplate t was edited",
        lost,
        "Replace the Machine",
        RENDERED_FROM,
    ] {
        assert!(why.contains(words), "{words} in {why}");
    }

    // The way out that it names.
    scene.data(&json!({"metadata": {"resourceVersion": "3", "annotations": null}, "status": {"ready": is_ready}}));
    let step = scene.step();
    assert!(matches!(step, Decision::Fetch(Read::Host(_))), "{step:?}");
}

#[test]
fn a_template_that_was_mended_before_anything_was_rendered_is_noted_anew() {
    let scene = Scene::new();
    scene.data(&json!({"metadata": {"resourceVersion": "2"}}));
    scene.edit();
    let writes = scene.writes();
    let [Effect::Adopt { rendered_from, .. }] = writes.as_slice() else {
        panic!("{writes:?}")
    };
    assert_eq!(*rendered_from, Some(scene.digest()));
}

#[test]
fn what_an_earlier_version_rendered_is_not_noted_as_rendered_from_the_template_of_now() {
    let scene = Scene::new();
    scene.data(&json!({"metadata": {"resourceVersion": "2", "annotations": null}}));
    scene.secret("m-metadata", &json!({}));
    let is_adoption = |effect: &Effect| matches!(effect, Effect::Adopt { .. });
    assert!(!scene.writes().iter().any(is_adoption));
}

#[rstest]
#[case::exhausted(json!({"status": {"errorMessage": "Exhausted IP Pools"}}), "Exhausted IP Pools")]
#[case::said_by_a_condition(json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "PoolExhausted",
    "message": "no address is left", "lastTransitionTime": DELETED}]}}), "PoolExhausted: no address is left")]
fn a_pool_that_gives_nothing_is_named_with_its_words(#[case] claim: Value, #[case] words: &str) {
    let scene = Scene::new();
    scene.ip_claim(&claim);
    let why = scene.waits_because();
    assert!(
        why.contains(words) && why.contains("IPPool p") && why.contains("t-0-p"),
        "{why}"
    );
}

#[test]
#[should_panic(expected = "a secret was emitted")]
fn a_secret_that_is_told_fails_its_test() {
    let scene = Scene::new();
    scene.ip_claim(&json!({"status": {"errorMessage": "no address for secret-of-m-metadata"}}));
    scene.waits_because();
}

#[test]
fn a_pool_that_is_silent_is_looked_at_after_a_while() {
    let mut scene = Scene::new();
    scene.ip_claim(&json!({"metadata": {"creationTimestamp": "2025-12-31T23:00:00Z"}}));
    assert_eq!(scene.step(), Decision::Fetch(Read::Pool("p".to_owned())));
    scene.read.pools.insert("p".to_owned(), false);
    assert!(scene.waits_because().contains("IPPool p, which does not exist"));
    scene.read.pools.insert("p".to_owned(), true);
    assert!(scene.waits_because().contains("nobody has answered"));
}

#[test]
fn an_interface_that_the_host_does_not_have_is_named() {
    let mut scene = Scene::new();
    scene.ip_claim(&json!({"status": {"address": {"name": "a"}}}));
    scene.address();
    let mut other: metal3_api::metal3::BareMetalHost = host();
    other.status.as_mut().unwrap().hardware.as_mut().unwrap().nics[0].name = "eno1".to_owned();
    scene.read.host = Host::Here(Box::new(other));
    let why = scene.waits_because();
    assert!(
        why.contains("fromHostInterfaces") && why.contains("eth0") && why.contains("eno1"),
        "{why}"
    );
}

#[test]
fn only_what_its_claim_announces_is_worked_on() {
    let scene = Scene::new();
    let other = json!({"metadata": {"resourceVersion": "2", "ownerReferences": owner("Metal3Machine", "m")},
        "spec": {"template": {"name": "t"}}, "status": {"renderedData": {"name": "t-1"}}});
    scene
        .stores
        .data_claims
        .created(object(INFRA, "Metal3DataClaim", "claim", &other));
    assert_eq!(scene.step(), Decision::idle());
}

#[test]
fn what_others_have_made_under_its_names_is_left_alone_and_said() {
    let mut scene = Scene::new();
    let claim = json!({"metadata": {"ownerReferences": null, "uid": "other"}});
    let foreign: IPClaim = object("ipam.metal3.io/v1alpha1", "IPClaim", "t-0-p", &claim);
    scene
        .read
        .named
        .insert((Family::Metal3, "t-0-p".to_owned()), AddressClaim::from(&foreign));
    let why = scene.waits_because();
    assert!(
        why.contains("IPClaim t-0-p") && why.contains("belongs to nobody"),
        "{why}"
    );

    for (owners, different, words) in [
        (json!(null), Some("m-metadata"), "holds something else"),
        (
            owner("Other", "o"),
            None,
            "does not belong to this Metal3Data: delete it",
        ),
        (
            owner("Metal3Data", "u-0"),
            None,
            "does not belong to this Metal3Data: delete it",
        ),
    ] {
        let mut scene = Scene::new();
        scene.foreign("m-metadata", &owners);
        scene.read.different.extend(different.map(str::to_owned));
        let why = scene.waits_because();
        assert!(
            why.contains("Secret m-metadata") && why.contains("delete it") && why.contains(words),
            "{why}"
        );
        // Nobody tells us when it goes.
        assert_eq!(scene.plan().next, Next::After(Duration::from_secs(10)));
    }
}

// OWN 31vm: a Secret that lost its owner, such as by a restore, made a Metal3Data that was ready one that is not.
#[test]
fn a_secret_that_lost_its_owner_is_taken_over_without_a_word_if_it_is_the_same() {
    let mut scene = Scene::new();
    scene.data(&json!({"metadata": {"resourceVersion": "2"}, "status": {"ready": true}}));
    scene.secret("m-networkdata", &json!({}));
    scene.ip_claim(&json!({"status": {"address": {"name": "a"}}}));
    scene.address();
    scene.read.host = Host::Here(Box::new(host()));
    scene.read.absent.clear();
    let look = Read::Secret("m-metadata".to_owned());
    assert_eq!(scene.step(), Decision::Fetch(look));
    scene.foreign("m-metadata", &json!(null));
    let plan = scene.plan();
    assert!(
        matches!(&plan.effects[..], [Effect::TakeOver(secret)] if secret.name == "m-metadata"),
        "{plan:?}"
    );
    assert!(plan.report.is_empty() && plan.next == Next::Decide, "{plan:?}");
    scene.foreign("m-metadata", &owner("Metal3Data", "t-0"));
    let plan = scene.plan();
    assert!(plan.effects.is_empty() && plan.report.is_empty(), "{plan:?}");

    // What it holds cannot be known any more once the template was edited.
    scene.foreign("m-metadata", &json!(null));
    scene.edit();
    let why = scene.waits_because();
    assert!(
        why.contains("Secret m-metadata, which does not belong to this Metal3Data any more"),
        "{why}"
    );
}

#[rstest]
#[case::the_same(json!({}), true)]
#[case::of_others_that_do_not_control_it(json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"}]}}), true)]
#[case::of_somebody(json!({"metadata": {"ownerReferences": owner("Other", "o")}}), false)]
#[case::of_an_earlier_one(json!({"metadata": {"ownerReferences": [{"apiVersion": INFRA, "kind": "Metal3Data", "name": "t-0", "uid": "old"}]}}), false)]
#[case::on_its_way_out(json!({"metadata": {"deletionTimestamp": DELETED}}), false)]
#[case::other_content(json!({"data": {"metaData": "YjogYgo="}}), false)]
#[case::more_content(json!({"data": {"other": "YjogYgo="}}), false)]
#[case::other_type(json!({"type": "Opaque"}), false)]
fn only_what_would_be_made_just_so_is_taken_over(#[case] change: Value, #[case] is_taken: bool) {
    let scene = Scene::new();
    let secret = Secret {
        name: "m-metadata".to_owned(),
        key: "metaData",
        text: "a: b\n".to_owned(),
        cluster: "c".to_owned(),
    };
    let wanted = secret_object(&scene.seen().data, &secret);
    let mut there = serde_json::to_value(&wanted).unwrap();
    there["metadata"]["ownerReferences"] = Value::Null;
    there["metadata"]["resourceVersion"] = json!("7");
    json_patch::merge(&mut there, &change);
    let change = taken_over(&serde_json::from_value(there.clone()).unwrap(), &wanted);
    assert_eq!(change.is_some(), is_taken);
    if let Some(change) = change {
        assert_eq!(change["metadata"]["resourceVersion"], "7");
        json_patch::merge(&mut there, &change);
        let owners = there["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(owners.last().unwrap()["uid"], "uid-t-0");
    }
}

#[test]
fn an_edit_of_the_template_is_looked_at_and_a_word_in_its_status_is_not() {
    let scene = Scene::new();
    let queue = Queue::new();
    listen(&scene.stores, &queue);
    let edit = |version: u32, change: Value| {
        let mut template: Metal3DataTemplate = object(INFRA, "Metal3DataTemplate", "t", &change);
        template.metadata.resource_version = Some(version.to_string());
        scene.stores.data_templates.written(template);
    };
    let before = scene.stores.data_templates.get(&ObjectKey::new("ns", "t")).unwrap();
    let spec = serde_json::to_value(&before.spec).unwrap();
    edit(
        2,
        json!({"spec": spec, "status": {"indexes": [{"name": "claim", "index": 0}]}}),
    );
    assert!(queue.is_empty());
    edit(
        3,
        json!({"spec": {"metaData": {"strings": [{"key": "a", "value": "b"}]}}}),
    );
    assert_eq!(queue.len(), 1);
}

#[test]
fn the_claim_of_an_earlier_metal3data_of_the_name_is_released_first() {
    let mut scene = Scene::new();
    let mut owners = owner("Metal3Data", "t-0");
    owners[0]["uid"] = json!("earlier");
    let old = scene.ip_claim(&json!({"metadata": {"ownerReferences": owners}}));
    assert_eq!(scene.step(), Decision::Fetch(Read::Uid));
    scene.read.uid = Some("uid-t-0".to_owned());
    assert_eq!(scene.writes(), [Effect::Sweep(Box::new(old))]);
}

/// Of two that were made for one claim, the other one may carry the finalizer already.
#[rstest]
#[case::of_an_earlier_one(json!([{"apiVersion": INFRA, "kind": "Metal3Data", "name": "t-0", "uid": "earlier"}]), None)]
#[case::of_another(json!([{"apiVersion": INFRA, "kind": "Metal3Data", "name": "u-0", "uid": "other"}]),
    Some("IPAddressClaim t-0-q, which is to be made, exists already and belongs to Metal3Data u-0"))]
fn a_claim_of_cluster_api_under_the_name_is_looked_at_like_one_of_metal3(
    #[case] owners: Value,
    #[case] words: Option<&str>,
) {
    let mut scene = Scene::new();
    let pool = json!({"key": "ip", "name": "q", "kind": "OtherPool", "apiGroup": "ipam.example.com"});
    let template = json!({"metadata": {"resourceVersion": "2"}, "spec": {"metaData": {"ipAddressesFromPool": [pool]}}});
    let template: Metal3DataTemplate = object(INFRA, "Metal3DataTemplate", "t", &template);
    scene.stores.data_templates.created(template);
    scene.data(&json!({"metadata": {"resourceVersion": "2"}}));
    let claim = json!({"metadata": {"ownerReferences": owners, "finalizers": [OF_DATA]},
        "spec": {"poolRef": {"apiGroup": "ipam.example.com", "kind": "OtherPool", "name": "q"}}});
    let claim: IPAddressClaim = object("ipam.cluster.x-k8s.io/v1beta2", "IPAddressClaim", "t-0-q", &claim);
    let there = AddressClaim::from(&claim);
    scene.stores.ip_address_claims.created(claim);
    let Some(words) = words else {
        scene.read.uid = Some("uid-t-0".to_owned());
        assert_eq!(scene.writes(), [Effect::Sweep(Box::new(there))]);
        return;
    };
    // The store finds it under its owner; who wants to make one of the name is shown it.
    scene.read.named.insert((Family::ClusterApi, "t-0-q".to_owned()), there);
    let why = scene.waits_because();
    assert!(why.contains(words), "{why}");
}

#[test]
fn one_that_its_claim_does_not_announce_goes_although_the_claim_stays() {
    let scene = Scene::new();
    let deleted = json!({"metadata": {"deletionTimestamp": DELETED, "resourceVersion": "2"}});
    scene.data(&deleted);
    let claim = |version: &str, answer: &str| {
        let owners = owner("Metal3Machine", "m");
        let body = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners},
            "spec": {"template": {"name": "t"}}, "status": {"renderedData": {"name": answer}}});
        scene
            .stores
            .data_claims
            .created(object(INFRA, "Metal3DataClaim", "claim", &body));
    };
    claim("2", "");
    assert_eq!(scene.step(), Decision::idle(), "it could still be announced");
    claim("3", "t-1");
    assert_eq!(scene.writes(), [Effect::RemoveFinalizer]);
}

#[test]
fn it_goes_after_its_claim_and_releases_everything_first() {
    let mut scene = Scene::new();
    let claim = scene.ip_claim(&json!({}));
    scene.secret("m-metadata", &json!({}));
    scene.data(&json!({"metadata": {"deletionTimestamp": DELETED, "resourceVersion": "2"}}));
    assert!(scene.waits_because().contains("Metal3DataClaim claim still needs it"));

    let gone = json!({"metadata": {"deletionTimestamp": DELETED, "resourceVersion": "2"}, "spec": {}});
    scene
        .stores
        .data_claims
        .created(object(INFRA, "Metal3DataClaim", "claim", &gone));
    // Neither template nor machine is needed for this.
    let secret = Effect::DeleteSecret("m-metadata".to_owned(), "uid-m-metadata".to_owned());
    assert_eq!(scene.writes(), [Effect::Release(Box::new(claim)), secret]);
    scene.read.gone.insert("uid-t-0-p".to_owned());
    scene.read.gone.insert("uid-m-metadata".to_owned());
    assert_eq!(scene.writes(), [Effect::RemoveFinalizer]);
}

#[test]
fn while_the_cluster_is_paused_nothing_happens() {
    let scene = Scene::new();
    let paused = json!({"metadata": {"resourceVersion": "2"}, "spec": {"paused": true}});
    scene
        .stores
        .clusters
        .created(object("cluster.x-k8s.io/v1beta2", "Cluster", "c", &paused));
    assert_eq!(scene.step(), Decision::idle());
    scene.data(&json!({"metadata": {"deletionTimestamp": DELETED, "resourceVersion": "2"}}));
    assert_eq!(scene.step(), Decision::idle());
}

#[test]
fn what_is_made_looks_as_metal3_makes_it() {
    let scene = Scene::new();
    let data: Arc<Metal3Data> = scene.seen().data;
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let owner = json!([{"apiVersion": INFRA, "kind": "Metal3Data", "name": "t-0", "uid": "uid-t-0", "controller": true,
        "blockOwnerDeletion": true}]);
    let claim = serde_json::to_value(metal3_claim(&data, &Pool::metal3("p"), "t-0-p", false)).unwrap();
    assert_eq!(
        claim,
        json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim",
            "metadata": {"namespace": "ns", "name": "t-0-p", "labels": labels, "finalizers": [OF_DATA], "ownerReferences": owner},
            "spec": {"pool": {"name": "p", "namespace": "ns"}}})
    );
    let pool = Pool {
        name: "q".to_owned(),
        kind: "InClusterIPPool".to_owned(),
        api_group: "ipam.cluster.x-k8s.io".to_owned(),
    };
    let claim: IPAddressClaim = cluster_api_claim(&data, &pool, "t-0-q");
    assert_eq!(
        serde_json::to_value(claim.spec).unwrap(),
        json!({"clusterName": "c",
            "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "q"}})
    );
    let secret = Secret {
        name: "m-metadata".to_owned(),
        key: "metaData",
        text: "a: b\n".to_owned(),
        cluster: "c".to_owned(),
    };
    assert_eq!(format!("{secret:?}"), "Secret(m-metadata, 5 bytes of metaData)");
    assert_eq!(
        serde_json::to_value(secret_object(&data, &secret)).unwrap(),
        json!({"apiVersion": "v1", "kind": "Secret", "type": "infrastructure.cluster.x-k8s.io/secret",
            "metadata": {"namespace": "ns", "name": "m-metadata", "labels": labels, "ownerReferences": owner},
            "data": {"metaData": "YTogYgo="}})
    );
}
