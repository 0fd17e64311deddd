//! Each controller against a server that does not do one of its writes: it is told once, and taken back when it is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::ResourceExt;
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3Data, Metal3DataClaim, Metal3DataTemplate};
use metal3_runtime::controller::Reconcile;
use metal3_runtime::store::ObjectKey;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::cluster::Metal3Clusters;
use crate::data::Metal3Datas;
use crate::data_template::Metal3DataTemplates;
use crate::label_sync::LabelSync;
use crate::machine_template::Metal3MachineTemplates;
use crate::remediation::Metal3Remediations;
use crate::sim::{Site, failure, limits, owners};
use crate::workload::{Workloads, nodes};

const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CAPI: &str = "cluster.x-k8s.io/v1beta2";

/// What the server does not do: method, plural, code.
type Refused = (&'static str, &'static str, u16);

/// A server that does not do one thing, until it does.
struct Refusing {
    site: Site,
    code: u16,
    is_on: Arc<AtomicBool>,
}

impl std::ops::Deref for Refusing {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Refusing {
    fn new((refused, plural, code): Refused) -> Self {
        let is_on = Arc::new(AtomicBool::new(true));
        let refusing = is_on.clone();
        let site = Site::new("", move |method, path, _| {
            let is_of_kind = path.split('/').any(|part| part == plural) && !path.ends_with("/status");
            if refusing.load(Ordering::Relaxed) && method == refused && is_of_kind {
                return Some(match code {
                    // A kind that is not installed.
                    404 => (404, json!("404 page not found")),
                    _ => failure(code, "Refused"),
                });
            }
            // The server knows no objects without a namespace.
            let node = || json!({"metadata": {"name": "n", "resourceVersion": "9"}});
            path.contains("/nodes/").then(|| (200, node()))
        });
        Self { site, code, is_on }
    }

    /// Passes that are refused: what was told by then, as reasons and messages.
    async fn refused<C: Reconcile>(&self, controller: &C, key: &str) -> Vec<(String, String)> {
        let key = ObjectKey::new("ns", key);
        if self.code >= 500 {
            self.untold(controller, &key).await;
        }
        controller.reconcile(&key).await.expect_err("the pass fails");
        let before = (self.told(), self.writes());
        // The next attempts fail in the same way, and that is no news.
        for _ in 0..3 {
            controller.reconcile(&key).await.expect_err("the pass fails");
        }
        assert_eq!((self.told(), self.writes()), before);
        before.0
    }

    /// The server itself could not, which may pass: for half a minute nothing is told.
    async fn untold<C: Reconcile>(&self, controller: &C, key: &ObjectKey) {
        for _ in 0..3 {
            controller.reconcile(key).await.expect_err("the pass fails");
            assert_eq!(self.told(), []);
            self.ctx.clock.advance(Duration::from_secs(10));
        }
    }

    /// Somebody has changed something, and the next pass comes through.
    async fn allowed<C: Reconcile>(&self, controller: &C, key: &str) {
        self.is_on.store(false, Ordering::Relaxed);
        let done = controller.reconcile(&ObjectKey::new("ns", key)).await;
        assert!(done.is_ok(), "{:?}", done.err().map(|error| error.to_string()));
    }
}

fn one(told: &[(String, String)], reason: &str, words: &[&str]) {
    let [(said, message)] = told else { panic!("{told:?}") };
    assert_eq!(said, reason, "{message}");
    for word in words {
        assert!(message.contains(word), "{message}");
    }
}

/// A machine with a host, whose data is rendered from a template with this metadata.
fn rendering(site: &Site, meta_data: &Value) {
    let stores = &site.ctx.stores;
    site.shows(&stores.clusters, "c", &json!({}));
    let template = json!({"metadata": {"finalizers": ["metal3datatemplate.infrastructure.cluster.x-k8s.io"]},
        "spec": {"metaData": meta_data}});
    site.shows(&stores.data_templates, "t", &template);
    let host = json!({"spec": {"online": true}, "status": {"provisioning": {"state": "available", "ID": ""}}});
    site.shows(&stores.hosts, "h", &host);
    let owner = owners(CAPI, "Machine", "machine", Some("x".to_owned()));
    let machine = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": "ns/h"}, "ownerReferences": owner},
        "spec": {"dataTemplate": {"name": "t"}}});
    let machine = site.shows(&stores.metal3_machines, "m", &machine);
    let of_machine = owners(INFRA, "Metal3Machine", "m", machine.uid());
    let machine = json!({"spec": {"clusterName": "c", "infrastructureRef": {"name": "m"}}});
    site.shows(&stores.machines, "machine", &machine);
    let claim = json!({"metadata": {"ownerReferences": of_machine,
            "finalizers": ["metal3dataclaim.infrastructure.cluster.x-k8s.io"]},
        "spec": {"template": {"name": "t"}}});
    let claim: Metal3DataClaim = site.server.make("m", &claim);
    stores.claimed(&claim);
}

#[rstest]
#[case::kind_that_is_not_installed(
    json!({"ipAddressesFromPool": [{"key": "ip", "name": "p"}]}),
    ("POST", "ipclaims", 404),
    &["claim an address of Metal3Data ns/t-0, IPClaim t-0-p", "is its kind installed?"]
)]
#[case::quota(json!({"strings": [{"key": "a", "value": "secret-of-metadata"}]}), ("POST", "secrets", 403), &["make a Secret of Metal3Data ns/t-0, Secret m-metadata", "(403"])]
#[case::admission(json!({"strings": [{"key": "a", "value": "secret-of-metadata"}]}), ("POST", "secrets", 422), &["make a Secret of Metal3Data ns/t-0, Secret m-metadata", "(422"])]
#[case::failure(json!({"strings": [{"key": "a", "value": "secret-of-metadata"}]}), ("POST", "secrets", 500), &["make a Secret of Metal3Data ns/t-0, Secret m-metadata", "(500"])]
#[tokio::test]
async fn a_metal3data_says_what_is_refused(#[case] meta_data: Value, #[case] what: Refused, #[case] words: &[&str]) {
    let site = Refusing::new(what);
    rendering(&site, &meta_data);
    // The claim is answered with what is to be rendered.
    let templates = Metal3DataTemplates::new(site.ctx.clone());
    templates.reconcile(&ObjectKey::new("ns", "t")).await.unwrap();
    let datas = Metal3Datas {
        ctx: site.ctx.clone(),
        by_host: false,
    };
    one(&site.refused(&datas, "t-0").await, "NotRendered", words);
    let status = site.now::<Metal3Data>("metal3datas").status.unwrap();
    assert_eq!(status.ready, Some(false));
    assert!(
        words.iter().all(|word| status.error_message.contains(word)),
        "{status:?}"
    );
    site.allowed(&datas, "t-0").await;
    if what.1 == "secrets" {
        let status = site.now::<Metal3Data>("metal3datas").status.unwrap();
        assert_eq!((status.ready, status.error_message.as_str()), (Some(true), ""));
    } else {
        assert_eq!(site.server.all::<Value>(what.1).len(), 1);
    }
}

#[rstest]
#[case(422)]
#[case(500)]
#[tokio::test]
async fn a_claim_says_why_nothing_can_be_made_for_it(#[case] code: u16) {
    let site = Refusing::new(("POST", "metal3datas", code));
    rendering(&site, &json!({}));
    let templates = Metal3DataTemplates::new(site.ctx.clone());
    one(
        &site.refused(&templates, "t").await,
        "NotAnswered",
        &["create the Metal3Data for claim ns/m", &format!("({code}")],
    );
    let status = || site.now::<Metal3DataClaim>("metal3dataclaims").status.unwrap();
    assert!(status().error_message.contains(&format!("({code}")), "{:?}", status());
    site.allowed(&templates, "t").await;
    assert_eq!(
        (status().rendered_data.name.as_str(), status().error_message.as_str()),
        ("t-0", "")
    );
}

#[rstest]
#[case(403)]
#[case(500)]
#[tokio::test]
async fn of_a_template_it_is_an_event(#[case] code: u16) {
    let site = Refusing::new(("PATCH", "metal3datatemplates", code));
    site.shows(&site.ctx.stores.data_templates, "t", &json!({"spec": {}}));
    let templates = Metal3DataTemplates::new(site.ctx.clone());
    one(
        &site.refused(&templates, "t").await,
        UPDATE_ERROR,
        &["add the finalizer of the Metal3DataTemplate", &format!("({code}")],
    );
    site.allowed(&templates, "t").await;
    assert_eq!(site.told().len(), 1);
}

#[rstest]
#[case(403)]
#[case(503)]
#[tokio::test]
async fn a_cluster_is_not_ready_while_it_is_refused(#[case] code: u16) {
    let site = Refusing::new(("PATCH", "metal3clusters", code));
    let (stores, clusters) = (&site.ctx.stores, Metal3Clusters { ctx: site.ctx.clone() });
    let cluster = json!({"spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
        "kind": "Metal3Cluster", "name": "c"}}});
    site.shows(&stores.clusters, "c", &cluster);
    let ours = json!({"metadata": {"ownerReferences": owners(CAPI, "Cluster", "c", None)},
        "spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}}});
    site.shows(&stores.metal3_clusters, "c", &ours);
    one(
        &site.refused(&clusters, "c").await,
        UPDATE_ERROR,
        &["add the finalizer of Metal3Cluster ns/c", &format!("({code}")],
    );
    let ready = || {
        let status = site.now::<Metal3Cluster>("metal3clusters").status.unwrap();
        let ready = conditions::get(&status.conditions, conditions::READY).cloned().unwrap();
        let legacy = status.deprecated.v1beta1.conditions;
        let legacy = legacy
            .into_iter()
            .find(|condition| condition.type_ == conditions::READY);
        (ready.reason, legacy.map(|legacy| (legacy.status, legacy.severity)))
    };
    let legacy = |status: &str, severity: &str| Some((status.to_owned(), severity.to_owned()));
    assert_eq!(ready(), (UPDATE_ERROR.to_owned(), legacy("False", "Error")));
    site.allowed(&clusters, "c").await;
    assert_eq!(ready(), ("Ready".to_owned(), legacy("True", "")));
}

#[rstest]
#[case(422)]
#[case(500)]
#[tokio::test]
async fn of_a_machine_whose_template_has_changed_it_is_an_event(#[case] code: u16) {
    let site = Refusing::new(("PATCH", "metal3machines", code));
    let stores = &site.ctx.stores;
    let template = json!({"spec": {"template": {"spec": {"automatedCleaningMode": "disabled"}}}});
    site.shows(&stores.templates, "t", &template);
    let cloned = json!({"cluster.x-k8s.io/cloned-from-name": "t",
        "cluster.x-k8s.io/cloned-from-groupkind": "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io"});
    let machine = json!({"metadata": {"annotations": cloned}, "spec": {}});
    site.shows(&stores.metal3_machines, "m", &machine);
    let templates = Metal3MachineTemplates::new(site.ctx.clone());
    one(
        &site.refused(&templates, "m").await,
        UPDATE_ERROR,
        &[
            "change spec.automatedCleaningMode of Metal3Machine ns/m",
            &format!("({code}"),
        ],
    );
    site.allowed(&templates, "m").await;
}

#[rstest]
#[case::host(("PATCH", "baremetalhosts", 422), "ask for the host to be switched off of Metal3Remediation ns/r, BareMetalHost h", false)]
#[case::host_fails(("PATCH", "baremetalhosts", 500), "ask for the host to be switched off of Metal3Remediation ns/r, BareMetalHost h", false)]
#[case::node(("PATCH", "nodes", 403), "take the taint off the Node of Metal3Remediation ns/r, Node n", true)]
#[tokio::test]
async fn of_a_remediation_it_is_an_event(#[case] what: Refused, #[case] words: &str, #[case] is_on_again: bool) {
    let site = Refusing::new(what);
    let stores = &site.ctx.stores;
    site.shows(&stores.clusters, "c", &json!({}));
    let machine = json!({"spec": {"clusterName": "c", "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
            "kind": "Metal3Machine", "name": "mm"}},
        "status": {"nodeRef": {"name": "n"}}});
    let machine = site.shows(&stores.machines, "m", &machine);
    let status = json!({"phase": if is_on_again { "Waiting" } else { "Running" },
        "lastRemediated": "2026-01-01T01:00:00Z"});
    let remediation = json!({"metadata": {"ownerReferences": owners(CAPI, "Machine", "m", machine.uid()),
            "finalizers": ["metal3remediation.infrastructure.cluster.x-k8s.io"],
            "annotations": {"infrastructure.cluster.x-k8s.io/remediation-attempts": if is_on_again { "1 done" } else { "1" }}},
        "spec": {"strategy": {"type": "Reboot"}}, "status": status});
    site.shows(&stores.remediations, "r", &remediation);
    let ours = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": "ns/h"}}, "spec": {}});
    let ours = site.shows(&stores.metal3_machines, "mm", &ours);
    let consumer =
        json!({"apiVersion": INFRA, "kind": "Metal3Machine", "namespace": "ns", "name": "mm", "uid": ours.uid()});
    let host = json!({"spec": {"online": true, "consumerRef": consumer},
        "status": {"provisioning": {"state": "provisioned", "ID": "i"}, "errorMessage": "", "poweredOn": true}});
    site.shows(&stores.hosts, "h", &host);
    let seen = nodes::nodes();
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
    let node = json!({"metadata": {"name": "n", "uid": "n", "resourceVersion": "1"}, "spec": {"taints": [taint]}});
    seen.created(serde_json::from_value(node).unwrap());
    let workloads = Workloads::new(site.ctx.client.clone(), limits(), CancellationToken::new());
    workloads.connected(&ObjectKey::new("ns", "c"), site.ctx.client.clone(), seen);
    let remediations = Metal3Remediations::new(site.ctx.clone(), workloads);
    one(&site.refused(&remediations, "r").await, UPDATE_ERROR, &[words]);
    site.allowed(&remediations, "r").await;
}

/// A cluster that wants labels of its hosts on its Nodes, and these Nodes, each on a host with such a label.
fn labelled(site: &Site, names: &[&str]) -> LabelSync {
    let stores = &site.ctx.stores;
    let cluster = json!({"spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
        "kind": "Metal3Cluster", "name": "c"}}});
    site.shows(&stores.clusters, "c", &cluster);
    let prefixes = json!({"metal3.io/metal3-label-sync-prefixes": "a.b"});
    site.shows(
        &stores.metal3_clusters,
        "c",
        &json!({"metadata": {"annotations": prefixes}, "spec": {}}),
    );
    let seen = nodes::nodes();
    for name in names {
        site.shows(&stores.machines, name, &json!({"status": {"nodeRef": {"name": name}}}));
        let ours = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": format!("ns/{name}")},
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}, "ownerReferences": owners(CAPI, "Machine", name, None)},
            "spec": {}});
        let ours = site.shows(&stores.metal3_machines, name, &ours);
        let consumer =
            json!({"apiVersion": INFRA, "kind": "Metal3Machine", "namespace": "ns", "name": name, "uid": ours.uid()});
        let host = json!({"metadata": {"labels": {"a.b/x": "1"}}, "spec": {"online": true, "consumerRef": consumer}});
        site.shows(&stores.hosts, name, &host);
        let node = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}});
        seen.created(serde_json::from_value(node).unwrap());
    }
    let workloads = Workloads::new(site.ctx.client.clone(), limits(), CancellationToken::new());
    workloads.connected(&ObjectKey::new("ns", "c"), site.ctx.client.clone(), seen);
    LabelSync {
        ctx: site.ctx.clone(),
        workloads,
        refusals: Refusals::default(),
    }
}

#[rstest]
#[case(403)]
#[case(500)]
#[tokio::test]
async fn of_the_labels_of_a_node_it_is_an_event_of_the_cluster(#[case] code: u16) {
    let site = Refusing::new(("PATCH", "nodes", code));
    let labels = labelled(&site, &["n"]);
    let told = site.refused(&labels, "c").await;
    let answer = format!("({code}");
    one(
        &told,
        "LabelSyncRefused",
        &["labels a.b/x", "Node n of Cluster ns/c", &answer],
    );
    site.allowed(&labels, "c").await;
}

/// A webhook may fail for one Node only.
#[tokio::test]
async fn a_node_that_gets_no_labels_holds_up_no_other() {
    let site = Site::new("", |method, path, _| {
        let node = json!({"metadata": {"name": "z", "resourceVersion": "9"}});
        match (method, path) {
            ("PATCH", "/api/v1/nodes/a") => Some(failure(500, "InternalError")),
            ("PATCH", "/api/v1/nodes/z") => Some((200, node)),
            _ => None,
        }
    });
    let labels = labelled(&site, &["a", "z"]);
    labels
        .reconcile(&ObjectKey::new("ns", "c"))
        .await
        .expect_err("Node a has no labels");
    assert_eq!(site.writes(), ["PATCH /api/v1/nodes/z"]);
}

#[tokio::test]
async fn a_failure_that_passes_is_not_told() {
    let site = Refusing::new(("PATCH", "metal3datatemplates", 500));
    site.shows(&site.ctx.stores.data_templates, "t", &json!({"spec": {}}));
    let templates = Metal3DataTemplates::new(site.ctx.clone());
    let key = ObjectKey::new("ns", "t");
    templates.reconcile(&key).await.expect_err("the pass fails");
    site.ctx.clock.advance(Duration::from_secs(20));
    site.allowed(&templates, "t").await;
    // Later there is something else to be written.
    let mut template: Metal3DataTemplate = site.now("metal3datatemplates");
    template.metadata.finalizers = None;
    template.metadata.resource_version = Some("100".to_owned());
    site.ctx.stores.data_templates.created(template);
    site.is_on.store(true, Ordering::Relaxed);
    site.ctx.clock.advance(Duration::from_secs(20));
    templates.reconcile(&key).await.expect_err("the pass fails");
    assert_eq!(site.told(), []);
}

fn error(code: u16, words: &str) -> PassError {
    let status = kube::core::Status::failure(words, "Reason").with_code(code);
    let source = kube::Error::Api(Box::new(status));
    PassError::of("claim the host", "Metal3Machine", &ObjectKey::new("ns", "m"))(source)
}

/// What is reported of a failure of object `uid` at this second.
fn reported(refusals: &Refusals, uid: &str, code: u16, words: &str, second: u64) -> Option<String> {
    let refusal = refusals.failed(Some(uid), &error(code, words), Duration::from_secs(second));
    refusal.filter(|refusal| refusal.is_new).map(|refusal| refusal.message)
}

#[test]
fn a_refusal_is_new_once_and_again_after_a_success() {
    let refusals = Refusals::default();
    let is_new = |uid: &str, code: u16, words: &str| reported(&refusals, uid, code, words, 0).is_some();
    assert!(is_new("u", 403, "refused: request 17"));
    assert!(!is_new("u", 403, "refused: request 18"));
    assert!(is_new("u", 422, "invalid"));
    assert!(is_new("other", 422, "invalid"));
    refusals.succeeded(Some("u"));
    assert!(is_new("u", 422, "invalid"));
    refusals.unreported(Some("u"));
    assert!(is_new("u", 422, "invalid"), "the report was not stored");
}

#[test]
fn a_failure_is_reported_when_it_has_lasted() {
    let refusals = Refusals::default();
    assert_eq!(reported(&refusals, "u", 500, "broken", 100), None);
    assert_eq!(reported(&refusals, "u", 500, "broken", 129), None);
    let words = reported(&refusals, "u", 500, "broken", 130).unwrap();
    assert!(
        words.starts_with("cannot claim the host of Metal3Machine ns/m: broken"),
        "{words}"
    );
    assert_eq!(
        reported(&refusals, "other", 500, "broken", 130),
        None,
        "each object for itself"
    );
}

#[test]
fn a_success_or_a_long_silence_ends_a_failure() {
    let refusals = Refusals::default();
    assert_eq!(reported(&refusals, "u", 500, "broken", 0), None);
    refusals.succeeded(Some("u"));
    assert_eq!(reported(&refusals, "u", 500, "broken", 40), None);
    assert_eq!(reported(&refusals, "u", 500, "broken", 40 + 301), None, "long ago");
    assert!(reported(&refusals, "u", 500, "broken", 40 + 301 + 30).is_some());
}

#[test]
fn failures_that_take_turns_are_not_reported_with_each_attempt() {
    let refusals = Refusals::default();
    reported(&refusals, "u", 500, "refused", 0);
    assert!(reported(&refusals, "u", 504, "timed out", 30).is_some());
    assert_eq!(reported(&refusals, "u", 500, "refused", 31), None);
    assert!(reported(&refusals, "u", 500, "refused", 60).is_some());
}

#[test]
fn only_outdated_entries_are_dropped() {
    let refusals = Refusals::default();
    for number in 0..2 * MANY {
        reported(&refusals, &format!("u{number}"), 500, "broken", 0);
    }
    assert_eq!(refusals.0.lock().failing.len(), 2 * MANY);
    for number in 0..2 * MANY {
        reported(&refusals, &format!("v{number}"), 500, "broken", 1_000);
    }
    assert_eq!(refusals.0.lock().failing.len(), 2 * MANY);
}
