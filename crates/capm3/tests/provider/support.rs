//! A provider in a namespace of its own, with the rights that it ships, and what tests do to it.

use std::fmt::Debug;
use std::time::Duration;

use clap::Parser;
use cluster_api_provider_metal3::args::Args;
use cluster_api_provider_metal3::run::{Provider, Setup};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use metal3_api::capi::Cluster;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_lab::audit::Request;
use metal3_runtime::Clock;
use metal3_runtime::args::Namespaces;
use metal3_runtime::metrics::{Build, ControllerMetrics, Registry};
use metal3_runtime::probes::Check;
use metal3_runtime::rbac::rule;
use metal3_testkit::TestNamespace;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The namespace of a test, with the kinds of Cluster API.
pub struct Site {
    pub namespace: TestNamespace,
}

/// A provider that runs in this process.
pub struct Running {
    pub registry: Registry,
    stop: CancellationToken,
    task: JoinSet<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            metal3_testkit::leaks::expect_none_in("metrics", &self.registry.text().unwrap());
        }
    }
}

impl Running {
    /// Ends it in good order.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.task.join_next().await.is_some() {}
    }
}

static DEFINED: OnceCell<()> = OnceCell::const_new();
const ACCOUNT: &str = "capm3-manager";

impl Site {
    pub async fn new(namespace: TestNamespace) -> Self {
        let define = async { metal3_lab::cluster_api::define(&namespace.client).await.unwrap() };
        DEFINED.get_or_init(|| define).await;
        let site = Self { namespace };
        site.grant().await;
        site
    }

    /// The same with what machines need besides hosts: Cluster c, its bootstrap Secret, and that of the BMCs.
    pub async fn for_machines(namespace: TestNamespace) -> Self {
        let site = Self::new(namespace).await;
        site.ready_cluster("c").await;
        site.secret("b").await;
        site.secret("bmc").await;
        site
    }

    /// The rights that the provider ships, in this namespace only.
    pub async fn grant(&self) {
        self.grant_rules(rules(), self).await;
    }

    /// The rights with which it must know the names of Secrets.
    pub async fn grant_secrets_by_name(&self) {
        let mut rules = cluster_api_provider_metal3::rbac::manager_rules();
        let verbs = cluster_api_provider_metal3::rbac::SECRETS.by_name;
        rules.push(rule("", &["secrets"], verbs));
        self.grant_rules(rules, self).await;
    }

    /// The account of another site gets all rights in this one but those to Secrets.
    pub async fn grant_all_but_secrets(&self, other: &Self) {
        self.grant_rules(cluster_api_provider_metal3::rbac::manager_rules(), other)
            .await;
    }

    /// The same, but objects of this kind are only read.
    pub async fn only_reads(&self, plural: &str) {
        let mut rules = rules();
        for rule in &mut rules {
            let is_of = |resource: &String| resource == plural;
            if rule.resources.iter().flatten().any(is_of) {
                rule.verbs.retain(|verb| ["get", "list", "watch"].contains(&&**verb));
            }
        }
        self.grant_rules(rules, self).await;
    }

    async fn grant_rules(&self, rules: Vec<PolicyRule>, holder: &Self) {
        let name = &holder.namespace.name;
        let rules = serde_json::to_value(rules).unwrap();
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "provider"}, "rules": rules});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "provider"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "provider"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": name}]});
        self.namespace.apply(&format!("{role}\n---\n{binding}")).await;
        let accounts: Api<ServiceAccount> = self.namespace.api();
        let account = serde_json::from_value(json!({"metadata": {"name": ACCOUNT}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.ok();
    }

    /// Starts one.
    pub async fn provider(&self) -> Running {
        self.provider_with(&[]).await
    }

    /// What the provider asks with.
    pub async fn client(&self) -> kube::Client {
        self.namespace.service_account(ACCOUNT).await
    }

    /// Starts one with flags.
    pub async fn provider_with(&self, flags: &[&str]) -> Running {
        let client = self.client().await;
        Self::start(client, vec![self.namespace.name.clone()], flags)
    }

    /// Starts one that looks after another namespace too, with the rights that it was given there.
    pub async fn provider_with_other(&self, other: &Self) -> Running {
        let client = self.client().await;
        let namespaces = vec![self.namespace.name.clone(), other.namespace.name.clone()];
        Self::start(client, namespaces, &[])
    }

    /// Starts one that looks after two namespaces, with all rights.
    pub fn provider_of_both(&self, other: &Self) -> Running {
        let namespaces = vec![self.namespace.name.clone(), other.namespace.name.clone()];
        Self::start(self.namespace.client.clone(), namespaces, &[])
    }

    fn start(client: kube::Client, namespaces: Vec<String>, flags: &[&str]) -> Running {
        let args = Args::parse_from(std::iter::once(&"test").chain(flags)).unified();
        let registry = Registry::new(Build {
            component: "test",
            version: "0",
        });
        let metrics = ControllerMetrics::new(&registry);
        let setup = Setup {
            namespaces: Namespaces::Only(namespaces),
            watch_filter: args.provider.watch_filter,
            claims_by_host: args.enable_bmh_name_based_preallocation,
            workloads: args.workloads.access(),
            workers: args.workers,
            sync_period: Duration::from_secs(600),
            is_fast_track: args.fast_track == "true",
            host_choice: args.host_choice,
        };
        let stop = CancellationToken::new();
        let provider = Provider::new(client, Clock::system(), &registry, setup, stop.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            // Kept, because its receiver gives up when it is gone.
            let (_leading, leads) = watch::channel(true);
            provider.run(leads, metrics, &Check::default()).await.unwrap();
        });
        Running { registry, stop, task }
    }

    /// What the provider has asked of this namespace besides watches, so far.
    pub fn requests(&self) -> Vec<Request> {
        let audit = self.namespace.server().audit_log().unwrap();
        let user = self.namespace.service_account_user(ACCOUNT);
        let requests = audit.since(metal3_lab::audit::Position::default()).unwrap().0;
        let ours = |r: &Request| r.user == user && r.verb != "watch" && r.namespace == self.namespace.name;
        requests.into_iter().filter(ours).collect()
    }

    /// Waits until the provider has made no request for a while, and returns how many there were.
    pub async fn settled(&self) -> usize {
        let mut last = (usize::MAX, std::time::Instant::now());
        loop {
            let now = self.requests().len();
            if now != last.0 {
                last = (now, std::time::Instant::now());
            } else if last.1.elapsed() > Duration::from_secs(3) {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Applies one object.
    pub async fn apply(&self, object: Value) {
        self.namespace.apply(&object.to_string()).await;
    }

    /// A Cluster and its Metal3Cluster, which belongs to it as if Cluster API had said so. With null, it has no specification: the
    /// definition requires an endpoint in one.
    pub async fn cluster(&self, name: &str, spec: Value) {
        let group = "infrastructure.cluster.x-k8s.io";
        let reference = json!({"apiGroup": group, "kind": "Metal3Cluster", "name": name});
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name}, "spec": {"infrastructureRef": reference}});
        let made = self.namespace.apply(&cluster.to_string()).await;
        let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name,
            "uid": made[0].metadata.uid});
        let mut ours = json!({"apiVersion": format!("{group}/v1beta2"), "kind": "Metal3Cluster",
            "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": name}, "ownerReferences": [owner]}});
        if !spec.is_null() {
            ours["spec"] = spec;
        }
        self.apply(ours).await;
    }

    /// The same with the endpoint, and told by Cluster API that its infrastructure is there.
    pub async fn ready_cluster(&self, name: &str) {
        let endpoint = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
        self.cluster(name, endpoint).await;
        let status = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
        self.patch_status::<Cluster>(name, status).await;
    }

    /// A host in this state, as the baremetal-operator would have it.
    pub async fn host(&self, name: &str, labels: Value, state: &str) {
        self.apply(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": name, "labels": labels},
            "spec": {"online": false, "bmc": {"address": "ipmi://192.0.2.9", "credentialsName": "bmc"}}}))
            .await;
        self.host_becomes(name, state).await;
    }

    /// Waits until a machine has this host.
    pub async fn claimed(&self, host: &str, machine: &str) -> BareMetalHost {
        let is_its = |host: &BareMetalHost| consumer(host) == Some(machine);
        self.namespace
            .expect(host, &format!("is claimed by {machine}"), is_its)
            .await
    }

    /// A host gets into another state.
    pub async fn host_becomes(&self, name: &str, state: &str) {
        let status = json!({"status": {"operationalStatus": "OK", "errorMessage": "", "errorType": null,
            "poweredOn": state == "provisioned", "provisioning": {"state": state, "ID": "i"},
            "hardware": {"hostname": format!("{name}.example"), "nics": [{"name": "eth0", "ip": "192.0.2.77"},
                {"name": "eth1", "ip": "192.0.2.77"}]}}});
        self.patch_status::<BareMetalHost>(name, status).await;
    }

    /// A Secret.
    pub async fn secret(&self, name: &str) {
        self.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"value": format!("secret-of-{name}")}}))
            .await;
    }

    /// The kubeconfig of a workload cluster.
    pub async fn kubeconfig(&self, cluster: &str, text: &str) {
        self.apply(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{cluster}-kubeconfig")},
            "stringData": {"value": text}}),
        )
        .await;
    }

    /// A Machine of cluster c with the bootstrap Secret b, and its Metal3Machine, which belongs to it as if Cluster API had
    /// said so. `spec` adds to that of the Metal3Machine.
    pub async fn machine(&self, name: &str, spec: Value) {
        self.machine_of("c", name, spec).await;
    }

    /// The same of another cluster.
    pub async fn machine_of(&self, cluster: &str, name: &str, spec: Value) {
        let group = "infrastructure.cluster.x-k8s.io";
        let labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        let reference = json!({"apiGroup": group, "kind": "Metal3Machine", "name": name});
        let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "labels": labels},
            "spec": {"clusterName": cluster, "bootstrap": {"dataSecretName": "b"}, "infrastructureRef": reference}});
        let made = self.namespace.apply(&machine.to_string()).await;
        let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name,
            "uid": made[0].metadata.uid});
        let mut wanted = json!({"image": {"url": "http://images/i.qcow2", "checksum": "abc"}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            wanted[field] = value.clone();
        }
        self.apply(
            json!({"apiVersion": format!("{group}/v1beta2"), "kind": "Metal3Machine",
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}, "spec": wanted}),
        )
        .await;
    }

    /// A Metal3Machine is marked as Cluster API marks what it makes from a template of this kind and name.
    pub async fn cloned_from(&self, machine: &str, kind: &str, name: &str) {
        let kind = format!("{kind}.infrastructure.cluster.x-k8s.io");
        let annotations = json!({"cluster.x-k8s.io/cloned-from-name": name,
            "cluster.x-k8s.io/cloned-from-groupkind": kind});
        self.patch::<Metal3Machine>(machine, json!({"metadata": {"annotations": annotations}}))
            .await;
    }

    pub async fn patch_status<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = self.namespace.api::<K>();
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap()
    }

    pub async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = self.namespace.api::<K>();
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap()
    }

    pub async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = self.namespace.api::<K>();
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

/// Type of the condition that says whether a Metal3Machine has a host.
pub const ASSOCIATED: &str = "AssociateBareMetalHost";

/// Whether a condition does not hold, with words in its message.
pub fn lacks(machine: &Metal3Machine, type_: &str, words: &str) -> bool {
    let conditions = machine.status.iter().flat_map(|status| &status.conditions);
    let mut found =
        conditions.filter(|condition| condition.type_ == type_ && condition.status == ConditionStatus::False);
    found.any(|condition| condition.message.contains(words))
}

/// The name of whoever uses a host.
pub fn consumer(host: &BareMetalHost) -> Option<&str> {
    host.spec.consumer_ref.as_ref().map(|consumer| consumer.name.as_str())
}

/// Whether a condition is there with this status and reason.
pub fn says(conditions: &[Condition], type_: &str, status: &ConditionStatus, reason: &str) -> bool {
    let found = conditions.iter().find(|condition| condition.type_ == type_);
    found.is_some_and(|condition| condition.status == *status && condition.reason == reason)
}

/// All that the provider may do.
fn rules() -> Vec<PolicyRule> {
    let mut rules = cluster_api_provider_metal3::rbac::manager_rules();
    rules.push(cluster_api_provider_metal3::rbac::SECRETS.rule());
    rules
}
