//! Two managers at work on one index space, with watches that lag, requests that come late, and kills at any moment.
//!
//! What must hold at every step: no two claims are answered with one Metal3Data, and an answer that was given once is never
//! another. When everybody has had time: every claim is answered, every Metal3Data has its claim, and who comes next gets
//! the lowest free index.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::ResourceExt;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Metal3DataTemplates;
use crate::sim::{Manager, Server, breathe, owners, settle};
use crate::stores::answers;

const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const KINDS: [&str; 3] = ["metal3datatemplates", "metal3dataclaims", "metal3datas"];
const MACHINE: &str = "metal3machine.infrastructure.cluster.x-k8s.io";
const ANSWERED: &str = "metal3dataclaim.infrastructure.cluster.x-k8s.io";

fn start(server: &Server) -> Manager<Metal3DataTemplates> {
    Manager::start(server, &KINDS, Metal3DataTemplates::new)
}

#[derive(Clone, Debug)]
enum Step {
    Work(bool),
    Answer(usize),
    Watch(bool, usize),
    Kill(bool),
    /// By the machines' controller of one of them, or as upstream makes them.
    Claim(Option<bool>),
    Release(usize),
    /// As `clusterctl move` and restored backups leave claims.
    WipeStatus(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => any::<bool>().prop_map(Step::Work),
        12 => any::<usize>().prop_map(Step::Answer),
        8 => (any::<bool>(), 0..3_usize).prop_map(|(who, kind)| Step::Watch(who, kind)),
        1 => any::<bool>().prop_map(Step::Kill),
        3 => any::<Option<bool>>().prop_map(Step::Claim),
        1 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::WipeStatus),
    ];
    proptest::collection::vec(step, 20..160)
}

#[derive(Default)]
struct Run {
    server: Server,
    claims: usize,
    /// The first answer to each claim, by its UID.
    answers: HashMap<String, String>,
    released: BTreeSet<String>,
}

impl Run {
    /// Gives its UID.
    fn claim(&mut self, finalizers: &[&str]) -> String {
        self.claims += 1;
        let name = format!("m{}", self.claims);
        let owners = owners(INFRA, "Metal3Machine", &name, Some(format!("machine-{}", self.claims)));
        let claim = json!({"metadata": {"finalizers": finalizers, "ownerReferences": owners},
            "spec": {"template": {"name": "t"}}});
        self.server.make::<Metal3DataClaim>(&name, &claim).uid().unwrap()
    }

    /// The machine's controller takes its finalizer off and deletes the claim.
    fn release(&mut self, which: usize) {
        let claims = self.server.all::<Metal3DataClaim>("metal3dataclaims");
        let Some(claim) = claims.get(which % claims.len().max(1)) else {
            return;
        };
        let path = format!("metal3dataclaims/{}", claim.name_any());
        let left: Vec<_> = claim
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != MACHINE)
            .collect();
        self.server
            .ask("PATCH", &path, json!({"metadata": {"finalizers": left}}));
        self.server.ask("DELETE", &path, Value::Null);
        self.released.insert(claim.name_any());
    }

    fn wipe(&self, which: usize) {
        let claims = self.server.all::<Metal3DataClaim>("metal3dataclaims");
        let Some(claim) = claims.get(which % claims.len().max(1)) else {
            return;
        };
        let datas = self.server.all::<Metal3Data>("metal3datas");
        // With two Metal3Datas nobody could tell any more which one counted.
        if datas.iter().filter(|data| answers(data, claim)).count() == 1 {
            self.server.ask(
                "PATCH",
                &format!("metal3dataclaims/{}/status", claim.name_any()),
                json!({"status": null}),
            );
        }
    }

    fn check(&mut self) {
        let datas = self.server.all::<Metal3Data>("metal3datas");
        let datas: BTreeMap<String, Metal3Data> = datas.into_iter().map(|data| (data.name_any(), data)).collect();
        for claim in self.server.all::<Metal3DataClaim>("metal3dataclaims") {
            let answer = claim.status.clone().unwrap_or_default().rendered_data.name;
            if answer.is_empty() {
                continue;
            }
            let first = self
                .answers
                .entry(claim.uid().unwrap())
                .or_insert_with(|| answer.clone());
            assert_eq!(*first, answer, "the answer to {} is another now", claim.name_any());
            if claim.metadata.deletion_timestamp.is_none() {
                let data = &datas[&answer];
                assert!(answers(data, &claim), "{answer} is not {}'s", claim.name_any());
            }
        }
    }
}

async fn rest(run: &mut Run, managers: &mut [Manager<Metal3DataTemplates>]) {
    let server = run.server.clone();
    settle(&server, managers, &["t"], |_| run.check()).await;
}

async fn simulate(steps: &[Step]) {
    let mut run = Run::default();
    run.server.make::<Metal3DataTemplate>("t", &json!({"spec": {}}));
    let mut managers = [start(&run.server), start(&run.server)];
    for step in steps {
        match step {
            Step::Work(who) => managers[usize::from(*who)].work("t"),
            Step::Answer(which) => run.server.answer(*which),
            Step::Watch(who, kind) => {
                managers[usize::from(*who)].watch(&run.server, *kind);
            }
            Step::Kill(who) => {
                let new = start(&run.server);
                managers[usize::from(*who)] = new;
            }
            Step::Claim(None) => drop(run.claim(&[MACHINE])),
            Step::Claim(Some(who)) => {
                let made = run.claim(&[MACHINE, ANSWERED]);
                managers[usize::from(*who)].stores.known_claims.learn([made]);
            }
            Step::Release(which) => run.release(*which),
            Step::WipeStatus(which) => run.wipe(*which),
        }
        breathe().await;
        run.check();
    }
    rest(&mut run, &mut managers).await;
    let claims = run.server.all::<Metal3DataClaim>("metal3dataclaims");
    let taken = indexes(&run);
    let left: Vec<_> = claims.iter().map(|claim| (&claim.metadata, &claim.status)).collect();
    assert_eq!(
        claims.len(),
        run.claims - run.released.len(),
        "all that were released are gone: {left:#?}"
    );
    assert_eq!(taken.len(), claims.len(), "nothing is left over");
    for claim in &claims {
        assert_ne!(
            claim.status.clone().unwrap_or_default().rendered_data.name,
            "",
            "{} is answered",
            claim.name_any()
        );
    }
    let listed: usize = run
        .server
        .all::<Metal3DataTemplate>("metal3datatemplates")
        .into_iter()
        .map(|template| template.status.unwrap_or_default().indexes.len())
        .sum();
    assert_eq!(listed, claims.len());

    run.claim(&[MACHINE]);
    rest(&mut run, &mut managers).await;
    let lowest = (0..=i32::MAX).find(|index| !taken.contains(index)).unwrap();
    let new: Vec<i32> = indexes(&run).difference(&taken).copied().collect();
    assert_eq!(new, [lowest]);

    // At rest nothing is asked.
    let before = run.server.state().answered;
    rest(&mut run, &mut managers).await;
    assert_eq!(run.server.state().answered, before);
}

fn indexes(run: &Run) -> BTreeSet<i32> {
    let datas = run.server.all::<Metal3Data>("metal3datas");
    datas.iter().filter_map(|data| data.spec.index).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn indexes_are_unique_and_nothing_leaks(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(simulate(&steps));
    }
}
