//! A manager in a namespace of its own, with the rights that it ships, and what tests do to it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ip_address_manager::pool::Policy;
use ip_address_manager::run::{Manager, Setup};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::{capi, ipam};
use metal3_lab::audit::Request;
use metal3_runtime::Clock;
use metal3_runtime::args::Namespaces;
use metal3_runtime::metrics::{Build, ControllerMetrics, Registry};
use metal3_testkit::{DEADLINE, TestNamespace, eventually};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The namespace of a test, with the kinds of Cluster API.
pub struct Site {
    pub namespace: TestNamespace,
    account: String,
}

/// Any kind with objects in a namespace.
pub trait Kind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug
{
}

impl<K> Kind for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug
{
}

/// A manager that runs in this process.
pub struct Running {
    /// What it counts.
    pub metrics: Registry,
    stop: CancellationToken,
    task: JoinSet<()>,
}

impl Running {
    /// Ends it in good order.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.task.join_next().await.is_some() {}
    }

    /// Ends it as `kill -9` would: in the middle of whatever it does.
    pub async fn kill(mut self) {
        self.task.shutdown().await;
    }
}

static DEFINED: OnceCell<()> = OnceCell::const_new();
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Site {
    pub async fn new(namespace: TestNamespace) -> Self {
        let define = async { metal3_lab::cluster_api::define(&namespace.client).await.unwrap() };
        DEFINED.get_or_init(|| define).await;
        let account = "ipam-manager".to_owned();
        let site = Self { namespace, account };
        site.grant().await;
        site
    }

    /// The rights that the manager ships, in this namespace only.
    async fn grant(&self) {
        let name = &self.namespace.name;
        let rules = serde_json::to_value(ip_address_manager::rbac::manager_rules()).unwrap();
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "ipam"}, "rules": rules});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "ipam"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ipam"},
            "subjects": [{"kind": "ServiceAccount", "name": self.account, "namespace": name}]});
        self.namespace.apply(&format!("{role}\n---\n{binding}")).await;
        let accounts: Api<ServiceAccount> = self.namespace.api();
        let account = json!({"metadata": {"name": self.account}});
        let account = serde_json::from_value(account).unwrap();
        accounts.create(&PostParams::default(), &account).await.ok();
    }

    /// The usual one.
    pub async fn manager(&self) -> Running {
        self.manager_with("", Policy::default()).await
    }

    pub async fn manager_with(&self, watch_filter: &str, policy: Policy) -> Running {
        let client = self.namespace.service_account(&self.account).await;
        self.manager_as(client, watch_filter, policy)
    }

    pub fn manager_as(&self, client: Client, watch_filter: &str, policy: Policy) -> Running {
        let registry = Registry::new(Build {
            component: "test",
            version: "0",
        });
        let metrics = ControllerMetrics::new(&registry);
        let setup = Setup {
            namespaces: Namespaces::Only(vec![self.namespace.name.clone()]),
            watch_filter: watch_filter.to_owned(),
            concurrency: 4,
            sync_period: Duration::from_secs(600),
            policy,
        };
        let stop = CancellationToken::new();
        let manager = Manager::new(client, Clock::system(), &registry, setup, stop.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            // Kept, because its receiver gives up when it is gone.
            let (_leading, leads) = watch::channel(true);
            manager.run(leads, metrics, || {}).await.unwrap();
        });
        Running {
            metrics: registry,
            stop,
            task,
        }
    }

    /// What managers of this site have asked the server for so far.
    pub fn requests(&self) -> Vec<Request> {
        let audit = self.namespace.server().audit_log().unwrap();
        let user = self.namespace.service_account_user(&self.account);
        let requests = audit.since(metal3_lab::audit::Position::default()).unwrap().0;
        let ours = |r: &Request| r.user == user && r.verb != "watch" && r.namespace == self.namespace.name;
        requests.into_iter().filter(ours).collect()
    }

    /// Waits until the manager has made no request for a while.
    pub async fn settled(&self) -> usize {
        let mut last = (usize::MAX, std::time::Instant::now());
        loop {
            let now = self.requests().len();
            if now != last.0 {
                last = (now, std::time::Instant::now());
            } else if last.1.elapsed() > Duration::from_millis(1500) {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn pool(&self, name: &str, spec: Value) -> ipam::IPPool {
        let mut spec = spec;
        if spec.get("namePrefix").is_none() {
            spec["namePrefix"] = json!(name);
        }
        let pool = json!({"metadata": {"name": name}, "spec": spec});
        let pool: ipam::IPPool = serde_json::from_value(pool).unwrap();
        self.namespace
            .api()
            .create(&PostParams::default(), &pool)
            .await
            .unwrap()
    }

    /// A Metal3 claim.
    pub async fn claim(&self, name: &str, pool: &str) -> ipam::IPClaim {
        self.claim_with(name, json!({"name": pool}), json!({})).await
    }

    pub async fn claim_with(&self, name: &str, pool: Value, metadata: Value) -> ipam::IPClaim {
        let mut metadata = metadata;
        metadata["name"] = json!(name);
        let claim = json!({"metadata": metadata, "spec": {"pool": pool}});
        let claim: ipam::IPClaim = serde_json::from_value(claim).unwrap();
        self.namespace
            .api()
            .create(&PostParams::default(), &claim)
            .await
            .unwrap()
    }

    /// A Cluster API claim.
    pub async fn capi_claim(&self, name: &str, pool: &str) -> capi::IPAddressClaim {
        let reference = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": pool});
        self.capi_claim_with(name, reference, json!({}), json!({})).await
    }

    pub async fn capi_claim_with(&self, name: &str, pool: Value, spec: Value, metadata: Value) -> capi::IPAddressClaim {
        let (mut metadata, mut spec) = (metadata, spec);
        metadata["name"] = json!(name);
        spec["poolRef"] = pool;
        let claim = json!({"metadata": metadata, "spec": spec});
        let claim: capi::IPAddressClaim = serde_json::from_value(claim).unwrap();
        self.namespace
            .api()
            .create(&PostParams::default(), &claim)
            .await
            .unwrap()
    }

    /// A Cluster API Cluster.
    pub async fn cluster(&self, name: &str, paused: bool) {
        // What its schema insists on, and of no meaning here.
        let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": name});
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"paused": paused, "infrastructureRef": reference}});
        self.namespace.apply(&cluster.to_string()).await;
    }

    /// The address that a Metal3 claim has got.
    pub async fn served(&self, name: &str) -> ipam::IPAddress {
        let is_served = |claim: &ipam::IPClaim| {
            let status = claim.status.as_ref();
            status.is_some_and(|s| s.address.is_some() && s.error_message.is_none())
        };
        let claim: ipam::IPClaim = self.namespace.expect(name, "is served", is_served).await;
        let address = claim.status.unwrap().address.unwrap();
        assert_eq!(address.namespace, self.namespace.name);
        self.namespace.api().get(&address.name).await.unwrap()
    }

    /// The address that a Cluster API claim has got.
    pub async fn capi_served(&self, name: &str) -> capi::IPAddress {
        let is_served = |claim: &capi::IPAddressClaim| {
            let status = claim.status.as_ref();
            let has_address = status.is_some_and(|s| s.address_ref.is_some());
            has_address && condition(status.map(|s| &s.conditions), &ConditionStatus::True).is_some()
        };
        let claim: capi::IPAddressClaim = self.namespace.expect(name, "is served", is_served).await;
        let address = claim.status.unwrap().address_ref.unwrap();
        self.namespace.api().get(&address.name).await.unwrap()
    }

    /// Waits for a Metal3 claim's error, and returns the words of its condition.
    pub async fn refused(&self, name: &str, error: &str) -> Condition {
        let error = error.to_owned();
        let says = move |claim: &ipam::IPClaim| {
            let status = claim.status.as_ref();
            status.is_some_and(|s| s.error_message.as_ref() == Some(&error) && s.address.is_none())
        };
        let claim: ipam::IPClaim = self.namespace.expect(name, "is refused", says).await;
        let conditions = claim.status.unwrap().conditions;
        condition(Some(&conditions), &ConditionStatus::False).unwrap().clone()
    }

    /// Waits until a Metal3 claim says that it waits, which is no error, and returns the words of its condition.
    pub async fn waits(&self, name: &str) -> Condition {
        let says = |claim: &ipam::IPClaim| {
            let status = claim.status.as_ref();
            let is_free_of_error = status.is_some_and(|s| s.error_message.is_none());
            is_free_of_error && condition(status.map(|s| &s.conditions), &ConditionStatus::False).is_some()
        };
        let claim: ipam::IPClaim = self.namespace.expect(name, "says that it waits", says).await;
        let conditions = claim.status.unwrap().conditions;
        condition(Some(&conditions), &ConditionStatus::False).unwrap().clone()
    }

    /// Waits for a Cluster API claim's condition with this reason, and returns it.
    pub async fn capi_refused(&self, name: &str, reason: &str) -> Condition {
        let reason = reason.to_owned();
        let says = move |claim: &capi::IPAddressClaim| {
            let list = claim.status.as_ref().map(|s| &s.conditions);
            condition(list, &ConditionStatus::False).is_some_and(|c| c.reason == reason)
        };
        let claim: capi::IPAddressClaim = self.namespace.expect(name, "is refused", says).await;
        let conditions = claim.status.unwrap().conditions;
        condition(Some(&conditions), &ConditionStatus::False).unwrap().clone()
    }

    pub async fn delete<K: Kind>(&self, name: &str) {
        self.namespace
            .api::<K>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub async fn patch<K: Kind>(&self, name: &str, patch: Value) -> K {
        let patch = Patch::Merge(patch);
        self.namespace
            .api::<K>()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap()
    }

    /// Empties a status, as a move does.
    pub async fn wipe<K: Kind>(&self, name: &str) {
        self.status::<K>(name, Value::Null).await;
    }

    /// Writes a status, as an earlier manager may have done.
    pub async fn status<K: Kind>(&self, name: &str, status: Value) {
        let patch: Patch<Value> = Patch::Merge(json!({"status": status}));
        let api = self.namespace.api::<K>();
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Every address object, as family, name, claim and address.
    pub async fn addresses(&self) -> Vec<(&'static str, String, String, String)> {
        let metal3: Api<ipam::IPAddress> = self.namespace.api();
        let cluster_api: Api<capi::IPAddress> = self.namespace.api();
        let all = ListParams::default();
        let mut list: Vec<_> = metal3
            .list(&all)
            .await
            .unwrap()
            .items
            .iter()
            .map(|a| {
                (
                    "metal3",
                    a.name_any(),
                    a.spec.claim.name.clone(),
                    a.spec.address.clone(),
                )
            })
            .collect();
        list.extend(cluster_api.list(&all).await.unwrap().items.iter().map(|a| {
            (
                "capi",
                a.name_any(),
                a.spec.claim_ref.name.clone(),
                a.spec.address.clone(),
            )
        }));
        list.sort();
        list
    }

    /// Waits until the pool's `indexes` are these.
    pub async fn indexes(&self, pool: &str, expected: &[(&str, &str)]) -> ipam::IPPool {
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|(n, a)| ((*n).to_owned(), (*a).to_owned()))
            .collect();
        let has = move |pool: &ipam::IPPool| {
            let status = pool.status.clone().unwrap_or_default();
            status.allocations.into_iter().collect::<Vec<_>>() == expected && status.allocating.is_empty()
        };
        self.namespace.expect(pool, "has these indexes", has).await
    }

    /// Waits until a question has the right answer.
    pub async fn until<T, Fut>(&self, what: &str, probe: impl FnMut() -> Fut) -> T
    where
        Fut: Future<Output = Result<T, String>>,
    {
        eventually(DEADLINE, what, probe).await
    }

    /// A name that no other test has.
    pub fn unique() -> u32 {
        NUMBER.fetch_add(1, Ordering::Relaxed)
    }
}

fn condition<'a>(list: Option<&'a Vec<Condition>>, status: &ConditionStatus) -> Option<&'a Condition> {
    list?.iter().find(|c| c.type_ == "Ready" && c.status == *status)
}
