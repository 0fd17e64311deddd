//! A manager in a namespace of its own, with the rights that it ships, and what tests do to it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ip_address_manager::pool::Policy;
use ip_address_manager::run::{Manager, Setup};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use metal3_api::ipam;
use metal3_lab::audit::Request;
use metal3_runtime::Clock;
use metal3_runtime::args::Namespaces;
use metal3_runtime::metrics::{Build, ControllerMetrics, Registry};
use metal3_runtime::probes::Check;
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

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            metal3_testkit::leaks::expect_none_in("metrics", &self.metrics.text().unwrap());
        }
    }
}

impl Running {
    /// Waits until its metrics have this line.
    pub async fn shows(&self, line: &str) {
        let is_there = || async {
            let text = self.metrics.text().unwrap();
            let is_there = text.lines().any(|there| there == line);
            if is_there { Ok(()) } else { Err(text) }
        };
        eventually(DEADLINE, line, is_there).await;
    }

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

    /// Takes the right to write the status of pools away, or gives it back. It holds when this returns.
    pub async fn may_write_status(&self, pool: &str, is_allowed: bool) {
        let mut rules = ip_address_manager::rbac::manager_rules();
        for rule in rules.iter_mut().filter(|_| !is_allowed) {
            let resources = rule.resources.iter_mut();
            resources.for_each(|names| names.retain(|name| name != "ippools/status"));
        }
        let granted: Api<Role> = self.namespace.api();
        let patch = Patch::Merge(json!({ "rules": rules }));
        granted.patch("ipam", &PatchParams::default(), &patch).await.unwrap();
        // It takes the server a moment to heed it.
        let client = self.namespace.service_account(&self.account).await;
        let pools: Api<ipam::IPPool> = Api::namespaced(client, &self.namespace.name);
        let dry = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let nothing: Patch<Value> = Patch::Merge(json!({}));
        self.until("the right is what it should be", || async {
            let answer = pools.patch_status(pool, &dry, &nothing).await;
            if answer.is_ok() == is_allowed {
                Ok(())
            } else {
                Err(format!("{answer:?}"))
            }
        })
        .await;
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
            manager.run(leads, metrics, &Check::default()).await.unwrap();
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

/// The entries of a pool with fifty addresses.
pub fn small() -> Value {
    json!([{"start": "10.0.0.1", "end": "10.0.0.50"}])
}
