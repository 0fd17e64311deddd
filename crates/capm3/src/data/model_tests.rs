//! Two managers at work on the data of machines, with watches that lag, requests that come late, and kills at any moment.
//!
//! What must hold at every step: no machine is told an address that was given for another, and what it was told once is never
//! another. When everybody has had time: what has a claim is rendered, and of what has none nothing is left.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use metal3_api::capi::{Cluster, Machine};
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3Machine};
use metal3_api::ipam::IPAddress;
use metal3_api::metal3::BareMetalHost;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Metal3Datas;
use crate::sim::{Manager, Server, breathe, owners, settle};

const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const OF_CLAIM: &str = "metal3dataclaim.infrastructure.cluster.x-k8s.io";
const OF_DATA: &str = "metal3data.infrastructure.cluster.x-k8s.io";

/// What changes comes first.
const KINDS: [&str; 9] = [
    "metal3dataclaims",
    "metal3datas",
    "ipclaims",
    "secrets",
    "metal3machines",
    "clusters",
    "machines",
    "baremetalhosts",
    "metal3datatemplates",
];
const CHANGING: usize = 4;
const DATAS: [&str; 2] = ["t-0", "t-1"];

#[derive(Clone, Debug)]
enum Step {
    Work(bool, usize),
    Answer(usize),
    Watch(bool, usize),
    Kill(bool),
    /// Whoever gives out addresses answers a claim.
    Give,
    /// The claim goes, and with it what answers it.
    Release(usize),
    /// Another machine's claim gets the index.
    Claim(usize),
    /// A user deletes a Secret.
    Lose(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<bool>(), 0..DATAS.len()).prop_map(|(who, which)| Step::Work(who, which)),
        14 => any::<usize>().prop_map(Step::Answer),
        8 => (any::<bool>(), 0..CHANGING).prop_map(|(who, kind)| Step::Watch(who, kind)),
        3 => Just(Step::Give),
        1 => any::<bool>().prop_map(Step::Kill),
        1 => (0..DATAS.len()).prop_map(Step::Release),
        1 => (0..DATAS.len()).prop_map(Step::Claim),
        1 => any::<usize>().prop_map(Step::Lose),
    ];
    proptest::collection::vec(step, 20..160)
}

#[derive(Default)]
struct Run {
    server: Server,
    machines: usize,
    given: usize,
    /// For which Metal3Data an address was given, by UID.
    owners: BTreeMap<String, String>,
    /// What a Metal3Data's Secret has held first, by the UID and the name of the Secret.
    told: BTreeMap<(String, String), String>,
}

fn owner_of(object: &Value) -> String {
    let owner = &object["metadata"]["ownerReferences"][0]["uid"];
    owner.as_str().unwrap_or_default().to_owned()
}

impl Run {
    fn new() -> Self {
        let run = Self::default();
        run.server.make::<Cluster>("c", &json!({"spec": {}}));
        let spec = json!({"metaData": {"ipAddressesFromPool": [{"key": "ip", "name": "p"}],
            "objectNames": [{"key": "name", "object": "metal3machine"}],
            "strings": [{"key": "canary", "value": "secret-of-metadata"}]}, "networkData": {}});
        run.server.make::<Metal3DataTemplate>("t", &json!({"spec": spec}));
        let host = json!({"spec": {"online": true}, "status": {"provisioning": {"state": "available", "ID": ""}}});
        run.server.make::<BareMetalHost>("h", &host);
        let machine = json!({"spec": {"clusterName": "c", "infrastructureRef": {"name": "m"}}});
        run.server.make::<Machine>("machine", &machine);
        run
    }

    fn all(&self, plural: &str) -> Vec<Value> {
        self.server.all(plural)
    }

    /// The claim of a new machine is answered with this index, if that is free.
    fn claim(&mut self, which: usize) {
        let datas = self.server.all::<Metal3Data>("metal3datas");
        if datas.iter().any(|data| data.name_any() == DATAS[which]) {
            return;
        }
        self.machines += 1;
        let name = format!("m{}", self.machines);
        let machine = json!({"spec": {"dataTemplate": {"name": "t"}}, "metadata": {
            "annotations": {"metal3.io/BareMetalHost": "ns/h"},
            "ownerReferences": owners(CAPI, "Machine", "machine", Some("x".to_owned()))}});
        let machine: Metal3Machine = self.server.make(&name, &machine);
        let claim = json!({"spec": {"template": {"name": "t"}}, "status": {"renderedData": {"name": DATAS[which]}},
            "metadata": {"finalizers": [OF_CLAIM],
                "ownerReferences": owners(INFRA, "Metal3Machine", &name, machine.uid())}});
        let claim: Metal3DataClaim = self.server.make(&name, &claim);
        let data = json!({"spec": {"index": which, "claim": {"name": name}, "template": {"name": "t"}},
            "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "c"}, "finalizers": [OF_CLAIM],
                "ownerReferences": owners(INFRA, "Metal3DataClaim", &name, claim.uid())}});
        self.server.make::<Metal3Data>(DATAS[which], &data);
    }

    /// The claim is deleted: what the controller of templates does then, up to its end.
    fn release(&self, which: usize) {
        let datas = self.server.all::<Metal3Data>("metal3datas");
        let Some(data) = datas.iter().find(|data| data.name_any() == DATAS[which]) else {
            return;
        };
        let path = format!("metal3datas/{}", data.name_any());
        self.server.ask("DELETE", &path, Value::Null);
        let left: Vec<_> = data.finalizers().iter().filter(|one| *one == OF_DATA).collect();
        self.server
            .ask("PATCH", &path, json!({"metadata": {"finalizers": left}}));
        let path = format!("metal3dataclaims/{}", data.spec.claim.name);
        self.server.ask("DELETE", &path, Value::Null);
        self.server.ask("PATCH", &path, json!({"metadata": {"finalizers": []}}));
    }

    /// The oldest claim without an address gets one; each address is given once.
    fn give(&mut self) {
        let waits =
            |claim: &&Value| claim["status"]["address"].is_null() && claim["metadata"]["deletionTimestamp"].is_null();
        let claims = self.all("ipclaims");
        let Some(claim) = claims.iter().find(waits) else { return };
        self.given += 1;
        let (name, address) = (format!("p-{}", self.given), format!("192.0.2.{}", self.given));
        let of = &claim["metadata"]["name"];
        let body = json!({"spec": {"address": address, "prefix": 24, "claim": {"name": of}, "pool": {"name": "p"}}});
        self.server.make::<IPAddress>(&name, &body);
        let answer = json!({"status": {"address": {"name": name, "namespace": "ns"}}});
        self.server
            .ask("PATCH", &format!("ipclaims/{}/status", of.as_str().unwrap()), answer);
        self.owners.insert(address, owner_of(claim));
    }

    fn lose(&self, which: usize) {
        let secrets = self.all("secrets");
        if let Some(secret) = secrets.get(which % secrets.len().max(1)) {
            let name = secret["metadata"]["name"].as_str().unwrap();
            self.server.ask("DELETE", &format!("secrets/{name}"), Value::Null);
        }
    }

    /// Kubernetes takes away what belongs to nobody.
    fn collect(&self) {
        let owners: BTreeSet<String> = self.uids("metal3datas");
        for secret in self
            .all("secrets")
            .iter()
            .filter(|secret| !owners.contains(&owner_of(secret)))
        {
            let name = secret["metadata"]["name"].as_str().unwrap();
            self.server.ask("DELETE", &format!("secrets/{name}"), Value::Null);
        }
    }

    fn uids(&self, plural: &str) -> BTreeSet<String> {
        let all = self.all(plural).into_iter();
        all.map(|object| object["metadata"]["uid"].as_str().unwrap().to_owned())
            .collect()
    }

    fn check(&mut self) {
        for secret in self.all("secrets") {
            let (name, owner) = (secret["metadata"]["name"].as_str().unwrap(), owner_of(&secret));
            let held = secret["data"].to_string();
            let first = self
                .told
                .entry((owner.clone(), name.to_owned()))
                .or_insert_with(|| held.clone());
            assert_eq!(*first, held, "what Secret {name} tells is another now");
            let data: k8s_openapi::api::core::v1::Secret = serde_json::from_value(secret.clone()).unwrap();
            let texts = data.data.into_iter().flatten();
            for (_, text) in texts.filter(|(key, _)| key == "metaData") {
                let text = String::from_utf8(text.0).unwrap();
                let address = text
                    .lines()
                    .find_map(|line| line.strip_prefix("ip: "))
                    .unwrap()
                    .trim_matches('"');
                assert_eq!(self.owners[address], owner, "{address} was given for another: {text}");
            }
        }
    }
}

fn start(server: &Server) -> Manager<Metal3Datas> {
    Manager::start(server, &KINDS, |ctx| Metal3Datas { ctx, by_host: false })
}

async fn rest(run: &mut Run, managers: &mut [Manager<Metal3Datas>]) {
    // What belongs to nobody goes, and the addresses come, while all is looked at again and again.
    loop {
        let before = run.server.state().objects.log.len();
        let server = run.server.clone();
        settle(&server, managers, &DATAS, |_| run.check()).await;
        run.collect();
        run.give();
        if run.server.state().objects.log.len() == before {
            return;
        }
    }
}

async fn simulate(steps: &[Step]) {
    let mut run = Run::new();
    run.claim(0);
    let mut managers = [start(&run.server), start(&run.server)];
    for step in steps {
        match step {
            Step::Work(who, which) => managers[usize::from(*who)].work(DATAS[*which]),
            Step::Answer(which) => run.server.answer(*which),
            Step::Watch(who, kind) => {
                managers[usize::from(*who)].watch(&run.server, *kind);
            }
            Step::Kill(who) => managers[usize::from(*who)] = start(&run.server),
            Step::Give => run.give(),
            Step::Release(which) => run.release(*which),
            Step::Claim(which) => run.claim(*which),
            Step::Lose(which) => run.lose(*which),
        }
        breathe().await;
        run.check();
    }
    rest(&mut run, &mut managers).await;
    let datas = run.server.all::<Metal3Data>("metal3datas");
    let claims = run.server.all::<Value>("metal3dataclaims");
    assert_eq!(
        datas.len(),
        claims.len(),
        "what has no claim any more is gone: {datas:#?}"
    );
    for data in &datas {
        let status = data.status.clone().unwrap_or_default();
        assert_eq!(
            status.ready,
            Some(true),
            "{}: {}",
            data.name_any(),
            status.error_message
        );
    }
    let owners = run.uids("metal3datas");
    for (plural, each) in [("secrets", 2), ("ipclaims", 1)] {
        let left = run.all(plural);
        assert_eq!(left.len(), each * datas.len(), "{plural}: {left:#?}");
        assert!(
            left.iter().all(|object| owners.contains(&owner_of(object))),
            "{plural}: {left:#?}"
        );
    }
    // At rest nothing is asked.
    let before = run.server.state().answered;
    rest(&mut run, &mut managers).await;
    assert_eq!(run.server.state().answered, before);
}

/// The search that ends every run, where whoever gives out addresses repeats what a Secret has.
#[tokio::test]
#[should_panic(expected = "secrets were emitted")]
async fn a_secret_that_is_told_fails_its_run() {
    let mut run = Run::new();
    run.claim(0);
    let mut managers = [start(&run.server)];
    settle(&run.server, &mut managers, &DATAS, |_| ()).await;
    let words = json!({"status": {"errorMessage": "no address for secret-of-metadata"}});
    run.server.ask("PATCH", "ipclaims/t-0-p/status", words);
    settle(&run.server, &mut managers, &DATAS, |_| ()).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn addresses_and_secrets_are_each_machines_own_and_nothing_leaks(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(simulate(&steps));
    }
}
