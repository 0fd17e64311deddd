//! Whole passes: what they ask the API server for, and what they leave behind.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use super::*;
use crate::data_template::Metal3DataTemplates;
use crate::sim::{Site, failure, owners};
use metal3_runtime::controller::{Next, Reconcile};

const HERE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const MACHINE: &str = "metal3machine.infrastructure.cluster.x-k8s.io";
const CLAIMS: usize = 20;

/// Template t, and its controller at work.
struct Stage {
    site: Site,
    templates: Metal3DataTemplates,
    /// Requests by method and what follows the namespace.
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Stage {
    fn new() -> Self {
        Self::refusing("nothing")
    }

    /// The API server refuses this request.
    fn refusing(what: &'static str) -> Self {
        Self::answering(what, failure(403, "Forbidden"))
    }

    /// The API server answers this request so.
    fn answering(what: &'static str, answer: (u16, Value)) -> Self {
        let asked: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let log = asked.clone();
        let site = Site::new("", move |method, path, _| {
            let below = path.rsplit_once("/ns/").map_or(path, |(_, below)| below);
            let request = format!("{method} {below}");
            let is_it = request == what;
            *log.lock().entry(request).or_default() += 1;
            is_it.then(|| answer.clone())
        });
        let template = json!({"metadata": {"finalizers": [OF_TEMPLATE]}, "spec": {}});
        site.shows(&site.ctx.stores.data_templates, "t", &template);
        let templates = Metal3DataTemplates::new(site.ctx.clone());
        templates.listen(&Queue::new());
        Self { site, templates, asked }
    }

    /// A claim as another process makes it, or as a user does.
    fn claim(&self, number: usize, finalizers: &[&str]) {
        let name = format!("c{number:02}");
        let claim = json!({"metadata": {"finalizers": finalizers,
                "ownerReferences": owners(HERE, "Metal3Machine", &name, Some("machine".to_owned()))},
            "spec": {"template": {"name": "t"}}});
        self.site.shows(&self.site.ctx.stores.data_claims, &name, &claim);
    }

    async fn pass(&self) -> Next {
        self.templates.reconcile(&space()).await.unwrap()
    }

    fn asked(&self, what: &str) -> usize {
        self.asked.lock().get(what).copied().unwrap_or_default()
    }

    /// The claims that are answered.
    fn answered(&self) -> usize {
        let claims = self.site.server.all::<Metal3DataClaim>("metal3dataclaims");
        let is_answered = |claim: &&Metal3DataClaim| {
            let status = claim.status.as_ref();
            status.is_some_and(|status| !status.rendered_data.name.is_empty())
        };
        claims.iter().filter(is_answered).count()
    }
}

#[tokio::test]
async fn claims_that_another_process_has_made_cost_one_list_together() {
    let stage = Stage::new();
    for number in 0..CLAIMS {
        stage.claim(number, &[MACHINE, OF_CLAIM]);
    }
    stage.pass().await;
    assert_eq!((stage.asked("GET metal3datas"), stage.answered()), (1, CLAIMS));
    stage.pass().await;
    assert_eq!(stage.asked("GET metal3datas"), 1);
}

#[tokio::test]
async fn what_a_template_lists_is_written_once_a_second_and_not_for_each_claim() {
    let stage = Stage::new();
    let written = || stage.asked("PUT metal3datatemplates/t/status");
    for number in 0..CLAIMS {
        stage.claim(number, &[MACHINE]);
        stage.pass().await;
    }
    assert_eq!((written(), stage.answered()), (1, CLAIMS), "nobody waits for it");
    let listed = || {
        let template: Metal3DataTemplate = stage.site.now("metal3datatemplates");
        template.status.map_or(0, |status| status.indexes.len())
    };
    assert_eq!(listed(), 1);
    stage.site.ctx.clock.advance(LISTS_APART);
    assert_eq!(stage.pass().await, Next::Change);
    assert_eq!((written(), listed()), (2, CLAIMS));
    stage.site.ctx.clock.advance(LISTS_APART);
    stage.pass().await;
    assert_eq!(written(), 2);
}

#[tokio::test]
async fn a_claim_that_is_refused_holds_up_no_other() {
    let stage = Stage::refusing("PUT metal3dataclaims/c00/status");
    for number in 0..2 {
        stage.claim(number, &[MACHINE, OF_CLAIM]);
    }
    for _ in 0..2 {
        stage.templates.reconcile(&space()).await.expect_err("one is refused");
    }
    assert_eq!(stage.answered(), 1);
}

// OWN 31rb: one Metal3Data with a time that cannot be read kept all claims of its namespace without an answer.
#[tokio::test]
async fn a_metal3data_with_a_time_that_cannot_be_read_holds_up_no_claim() {
    let data = json!({"metadata": {"name": "odd-0", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "managedFields": [{"manager": "m", "time": "9999-12-31T23:59:59Z"}]},
        "spec": {"index": 0, "claim": {"name": "odd", "namespace": "ns"}, "template": {"name": "odd", "namespace": "ns"}}});
    let mut wrong = data.clone();
    wrong["spec"]["index"] = json!({});
    let listing = |data: Value| {
        let stage = Stage::answering("GET metal3datas", (200, json!({"metadata": {}, "items": [data]})));
        stage.claim(0, &[MACHINE, OF_CLAIM]);
        stage
    };
    let stage = listing(data);
    stage.pass().await;
    assert_eq!(stage.answered(), 1);
    let stage = listing(wrong);
    let error = stage
        .templates
        .reconcile(&space())
        .await
        .expect_err("its index must not count as free");
    let error = metal3_runtime::error::chain(&error).to_string();
    assert!(error.contains("Metal3Data ns/odd-0 does not fit its type"), "{error}");
    assert_eq!(stage.answered(), 0);
}

#[tokio::test]
async fn an_answer_that_comes_late_brings_back_nothing_of_a_claim_that_is_gone() {
    let stage = Stage::new();
    stage.claim(0, &[MACHINE]);
    let stores = &stage.site.ctx.stores;
    let claim = stores.data_claims.objects().remove(0);
    stores.data_claims.remove(&ObjectKey::of(&*claim), &uid(&*claim));
    stores.learn([&*claim]);
    assert!(!stores.known_claims.has(&claim.metadata));
    stores.claimed(&claim);
    assert!(!stores.known_claims.has(&claim.metadata));
}

fn uid(object: &impl ResourceExt) -> String {
    object.uid().unwrap()
}
