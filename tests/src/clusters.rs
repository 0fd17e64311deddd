//! An environment for clusters: Cluster API's managers, our three programs, and a workload cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, ResourceExt};
use metal3_api::metal3::BareMetalHost;
use metal3_lab::ControlPlane;
use metal3_lab::cluster_api::ClusterApi;
use metal3_lab::ironic::IronicConfig;
use metal3_lab::manager::{Manager, ManagerConfig};
use metal3_lab::nodes::Nodes;
use metal3_lab::workload::{WorkloadCluster, fit, fit_to_nodes};
use metal3_testkit::leaks::log_everything;
use metal3_testkit::{TestNamespace, with_controller_manager};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::env::{bind, bind_secrets_by_name};
use crate::{LIMIT, TestEnv, leaks, program, status};

/// Programs besides the operator: their rights in `config/rbac`, and the ClusterRole there.
const PROGRAMS: [(&str, &str); 2] = [
    ("ip-address-manager", "ipam-manager-role"),
    ("cluster-api-provider-metal3", "capm3-manager-role"),
];

/// Polling interval.
const LOOK: Duration = Duration::from_millis(500);

/// How many lines of a console a failure shows.
const CONSOLE: usize = 40;

/// A kind by its group and version.
#[derive(Clone, Copy, Debug)]
pub struct Kind(pub &'static str, pub &'static str, pub &'static str);

impl Kind {
    /// Cluster API's cluster.
    pub const CLUSTER: Self = Self("cluster.x-k8s.io", "v1beta2", "Cluster");
    /// Cluster API's machine.
    pub const MACHINE: Self = Self("cluster.x-k8s.io", "v1beta2", "Machine");
    /// Cluster API's group of workers.
    pub const DEPLOYMENT: Self = Self("cluster.x-k8s.io", "v1beta2", "MachineDeployment");
    /// Cluster API's control plane.
    pub const CONTROL_PLANE: Self = Self("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane");
    /// Our template for machines.
    pub const MACHINE_TEMPLATE: Self = Self("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3MachineTemplate");
    /// Our template for metadata and network data.
    pub const DATA_TEMPLATE: Self = Self("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3DataTemplate");
}

/// What becomes of servers that boot.
#[derive(Clone)]
enum Boots {
    /// Their kubelets are played, and join this cluster.
    Played(Arc<WorkloadCluster>),
    /// They really boot, and make the cluster.
    Really(Arc<Nodes>),
}

/// A [`TestEnv`] for clusters, with the servers of its own Ironic.
pub struct ClusterEnv {
    /// Its hosts.
    pub base: TestEnv,
    boots: Boots,
    managers: Vec<(Manager, PathBuf)>,
}

impl ClusterEnv {
    /// Starts everything except the operator.
    pub async fn start(test: &str, servers: u16) -> Self {
        let env = Self::hosts_of(test, servers).await;
        let workload = empty_workload(&env).await;
        Self::with(env, Boots::Played(workload)).await
    }

    /// The same with servers that really boot.
    pub async fn start_real(test: &str, servers: u16) -> Self {
        let env = Self::hosts_of(test, servers).await;
        let image = tokio::task::spawn_blocking(metal3_lab::image::ensure).await;
        let image = image.expect("not cut off").expect("the image is made");
        let folder = env.ironic.folder().join("servers");
        let nodes = Nodes::start(&folder, &image, env.ironic.hosts(), env.ironic.servers()).await;
        let nodes = nodes.expect("the servers can boot");
        Self::with(env, Boots::Really(Arc::new(nodes))).await
    }

    async fn hosts_of(test: &str, servers: u16) -> TestEnv {
        with_controller_manager();
        let namespace = TestNamespace::new(test).await;
        start_cluster_api(namespace.server()).await;
        let config = IronicConfig {
            hosts: servers,
            ..IronicConfig::default()
        };
        TestEnv::start(namespace, config).await
    }

    /// The workload cluster that booted servers join. Only where kubelets are played.
    pub fn workload(&self) -> &WorkloadCluster {
        match &self.boots {
            Boots::Played(workload) => workload,
            Boots::Really(_) => panic!("these servers really boot"),
        }
    }

    /// Replaces the workload cluster with an empty one: leftovers of a deleted cluster, mainly its Nodes, would disturb the next
    /// one.
    pub async fn renew_workload(&mut self) {
        let new = Boots::Played(empty_workload(&self.base).await);
        std::mem::replace(&mut self.boots, new).stop().await;
    }

    /// Another management cluster for the same servers, with the same setup and a namespace of the same name: the target of
    /// `clusterctl move`.
    pub async fn beside(&self) -> Self {
        let namespace = self.base.namespace.elsewhere().await;
        start_cluster_api(namespace.server()).await;
        let mut env = TestEnv::at(namespace, Arc::clone(&self.base.ironic), 0).await;
        env.config.folder.push("beside");
        env.start_operator().await;
        Self::with(env, self.boots.clone()).await
    }

    async fn with(env: TestEnv, boots: Boots) -> Self {
        let mut managers = Vec::new();
        for (name, role) in PROGRAMS {
            managers.push(start(&env.namespace, name, role).await);
        }
        Self {
            base: env,
            boots,
            managers,
        }
    }

    /// Applies the hosts of all servers. The first `of_control_plane` match the control plane of the clusters in `examples`, the
    /// others their workers.
    pub async fn apply_hosts(&self, of_control_plane: usize) {
        for number in 0..self.base.ironic.hosts().len() {
            let role = if number < of_control_plane {
                "control-plane"
            } else {
                "worker"
            };
            let label = json!({"example.org/role": role});
            self.base
                .apply_host(number, |host| host["metadata"]["labels"] = label)
                .await;
        }
    }

    /// Applies a file of `examples` with the lab's addresses, after the Secrets that its cluster needs here. `change` may modify
    /// each object first.
    pub async fn apply_cluster(&self, file: &str, cluster: &str, change: impl Fn(&mut DynamicObject)) {
        if let Boots::Played(workload) = &self.boots {
            for secret in workload.access().secrets(cluster) {
                self.base.namespace.apply(&secret.to_string()).await;
            }
        }
        self.apply_example(file, change).await;
    }

    /// The same for files without a cluster.
    pub async fn apply_example(&self, file: &str, change: impl Fn(&mut DynamicObject)) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(file);
        let text = std::fs::read_to_string(path).expect("the example");
        let mut objects = metal3_testkit::parse(&text).expect("objects");
        let image = self.base.ironic.image().expect("the lab has an image");
        match &self.boots {
            Boots::Played(workload) => fit(&mut objects, workload.access(), &image.url, &image.sha256),
            Boots::Really(nodes) => fit_to_nodes(&mut objects, &nodes.access().version, &image.url, &image.sha256),
        }
        objects.iter_mut().for_each(change);
        let applied = metal3_lab::apply::apply(&self.base.namespace.client, &objects, Some(&self.base.namespace.name));
        applied.await.expect("the example applies");
    }

    /// A client for a kind.
    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.0, kind.1, kind.2));
        Api::namespaced_with(self.base.namespace.client.clone(), &self.base.namespace.name, &resource)
    }

    /// All objects of a kind.
    pub async fn list(&self, kind: Kind) -> Vec<DynamicObject> {
        let listed = self.api(kind).list(&ListParams::default()).await;
        listed.expect("objects can be listed").items
    }

    /// Creates a copy of an existing object; `change` may modify it first.
    pub async fn copy(&self, kind: Kind, of: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut copy = self.api(kind).get(of).await.expect("what is copied is there");
        copy.metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        change(&mut copy.data["spec"]);
        let made = self.api(kind).create(&PostParams::default(), &copy).await;
        made.expect("the copy is accepted");
    }

    /// Changes an object as `kubectl patch --type=merge` does.
    pub async fn patch(&self, kind: Kind, name: &str, change: Value) {
        let api = self.api(kind);
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        patched.expect("the change is accepted");
    }

    /// Deletes an object.
    pub async fn delete(&self, kind: Kind, name: &str) {
        let deleted = self.api(kind).delete(name, &DeleteParams::default()).await;
        deleted.expect("the deletion is accepted");
    }

    /// The Nodes of the workload cluster; none while servers that really boot have not made it.
    pub async fn nodes(&self) -> Vec<Node> {
        let list = async |client| Api::<Node>::all(client).list(&ListParams::default()).await;
        match &self.boots {
            Boots::Played(workload) => {
                let client = workload.control_plane().client().await.expect("a client");
                list(client).await.expect("Nodes can be listed").items
            }
            // Between two control planes nobody may answer.
            Boots::Really(_) => match self.cluster_client().await {
                Some(client) => list(client).await.map(|nodes| nodes.items).unwrap_or_default(),
                None => Vec::new(),
            },
        }
    }

    /// A client of the first cluster that Cluster API has made a kubeconfig for.
    pub async fn cluster_client(&self) -> Option<Client> {
        let kubeconfig = Kubeconfig::from_yaml(&self.cluster_kubeconfig().await?).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Some(Client::try_from(config.expect("a configuration")).expect("a client"))
    }

    /// The kubeconfig of that cluster.
    pub async fn cluster_kubeconfig(&self) -> Option<String> {
        let secrets: Api<Secret> = Api::namespaced(self.base.namespace.client.clone(), &self.base.namespace.name);
        let secrets = secrets
            .list(&ListParams::default())
            .await
            .expect("Secrets can be listed")
            .items;
        let is_kubeconfig = |secret: &&Secret| secret.name_any().ends_with("-kubeconfig");
        let data = secrets.iter().find(is_kubeconfig)?.data.as_ref()?.get("value")?;
        Some(String::from_utf8_lossy(&data.0).into_owned())
    }

    /// The servers that really boot.
    pub fn servers(&self) -> &Nodes {
        match &self.boots {
            Boots::Played(_) => panic!("these servers are played"),
            Boots::Really(nodes) => nodes,
        }
    }

    /// What servers that really boot went through.
    pub fn servers_log(&self) -> String {
        match &self.boots {
            Boots::Played(_) => String::new(),
            Boots::Really(nodes) => std::fs::read_to_string(&nodes.access().log).unwrap_or_default(),
        }
    }

    /// The hosts.
    pub async fn hosts(&self) -> Vec<BareMetalHost> {
        let listed = self.base.hosts().list(&ListParams::default()).await;
        listed.expect("hosts can be listed").items
    }

    /// Waits until `look` returns a value, and returns it. On a timeout the failure shows its last error, the hosts and the
    /// Machines.
    pub async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Result<T, String>) -> T {
        let begin = Instant::now();
        loop {
            let seen = match look().await {
                Ok(found) => {
                    println!("{what}: {:.1} s", begin.elapsed().as_secs_f64());
                    return found;
                }
                Err(seen) => seen,
            };
            assert!(
                begin.elapsed() < LIMIT,
                "never {what}: {seen}\n{}",
                self.overview().await
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Hosts and Machines, a line each.
    pub async fn overview(&self) -> String {
        let mut lines = Vec::new();
        let hosts = self.hosts().await;
        for host in &hosts {
            let seen = status(host);
            let user = host.spec.consumer_ref.as_ref().map(|user| user.name.clone());
            let waits = seen.conditions.iter().find(|condition| condition.type_ == "Waiting");
            lines.push(format!(
                "host {}: {} for {}; {} {}",
                host.name_any(),
                seen.provisioning.state.as_str(),
                user.unwrap_or_default(),
                waits.map_or("", |condition| condition.message.as_str()),
                seen.error_message
            ));
        }
        for machine in self.list(Kind::MACHINE).await {
            let not_ready = machine.data["status"]["conditions"].as_array().into_iter().flatten();
            let not_ready = not_ready.filter(|condition| condition["type"] == "Ready");
            let messages: Vec<_> = not_ready.map(|condition| condition["message"].to_string()).collect();
            lines.push(format!(
                "machine {}: {} node {} {}",
                machine.metadata.name.unwrap_or_default(),
                machine.data["status"]["phase"],
                machine.data["status"]["nodeRef"]["name"],
                messages.join(" ")
            ));
            let is_user = |host: &&BareMetalHost| {
                let user = host.spec.consumer_ref.as_ref().map(|user| user.name.as_str());
                user.is_some() && user == machine.data["spec"]["infrastructureRef"]["name"].as_str()
            };
            if machine.data["status"]["nodeRef"].is_null()
                && let Some(host) = hosts.iter().find(is_user)
            {
                lines.push(self.end_of_console(&host.name_any()));
            }
        }
        lines.join("\n")
    }

    /// The end of the console's log of a server that really boots: why its Node does not join.
    fn end_of_console(&self, host: &str) -> String {
        let Boots::Really(nodes) = &self.boots else {
            return String::new();
        };
        let path = nodes.access().folder.join(host).join("console.log");
        let log = std::fs::read(&path).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(CONSOLE)..];
        format!("end of the console of {host}:\n{}", last.join("\n"))
    }

    /// Stops our programs here, and the workload cluster with the last of its management clusters.
    pub async fn stop(self) {
        let metrics = self.managers.iter().map(|(manager, _)| manager.metrics_url());
        let logs = self.managers.iter().map(|(_, log)| log.clone());
        leaks::expect_none(logs.collect(), metrics.collect());
        for (manager, _) in self.managers {
            assert!(manager.stop().await, "a program did not end in time");
        }
        self.boots.stop().await;
    }
}

impl Boots {
    /// Stops it if nobody else has it.
    async fn stop(self) {
        match self {
            Self::Played(workload) => {
                if let Some(workload) = Arc::into_inner(workload) {
                    workload.stop().await;
                }
            }
            Self::Really(nodes) => {
                if let Some(nodes) = Arc::into_inner(nodes) {
                    nodes.stop().await.expect("nothing is left of the servers");
                }
            }
        }
    }
}

/// Starts Cluster API's managers on a management cluster, once. They serve all of its namespaces and end with this process, as
/// does the cluster.
async fn start_cluster_api(server: &'static ControlPlane) {
    static STARTED: Mutex<Vec<(String, ClusterApi)>> = Mutex::const_new(Vec::new());
    let mut started = STARTED.lock().await;
    if started.iter().all(|(url, _)| *url != server.url()) {
        let managers = ClusterApi::start(server).await.expect("Cluster API starts");
        started.push((server.url(), managers));
    }
}

/// A workload cluster that an environment's servers join.
async fn empty_workload(env: &TestEnv) -> Arc<WorkloadCluster> {
    let workload = WorkloadCluster::start(None, None, Some(env.ironic.servers())).await;
    Arc::new(workload.expect("the workload cluster starts"))
}

async fn start(namespace: &TestNamespace, name: &str, role: &str) -> (Manager, PathBuf) {
    // As the artefacts for clusterctl have it.
    let config = installed(namespace, name, role, bind_secrets_by_name).await;
    (Manager::start(&config).await.expect("it starts"), config.log())
}

/// What a program may do in its own namespace, for the namespace that it runs in here.
fn at_home(rights: &str, namespace: &TestNamespace, account: &str) -> String {
    let objects = metal3_lab::apply::parse(rights)
        .expect("the generated rights")
        .into_iter();
    let is_role = |object: &DynamicObject| {
        let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
        kind == "Role" || kind == "RoleBinding"
    };
    let objects = objects.filter(is_role).map(|mut object| {
        object.metadata.namespace = Some(namespace.name.clone());
        if object.data["subjects"].is_array() {
            object.data["subjects"] = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace.name}]);
        }
        json!(object).to_string()
    });
    objects.collect::<Vec<_>>().join("\n---\n")
}

/// One of our programs for one namespace, as a service account with the rights that it ships, and these to Secrets.
pub(crate) async fn installed(
    namespace: &TestNamespace,
    name: &str,
    role: &str,
    secrets: fn(&str, &TestNamespace, &str) -> String,
) -> ManagerConfig {
    let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../config/rbac/{name}.yaml"));
    let rights = std::fs::read_to_string(rights).expect("the generated rights");
    namespace.apply(&rights).await;
    namespace.apply(&at_home(&rights, namespace, name)).await;
    let kubeconfig = namespace.service_account_kubeconfig(name).await;
    let binding = bind(
        "ClusterRole",
        role,
        &format!("{}-{name}", namespace.name),
        namespace,
        name,
    );
    namespace.apply(&binding.to_string()).await;
    namespace.apply(&secrets(name, namespace, name)).await;
    let folder = namespace.server().folder().join("managers").join(&namespace.name);
    let mut config = ManagerConfig::new(name, program(name), folder, kubeconfig);
    config.args = vec![format!("--namespace={}", namespace.name)];
    config.env = vec![
        ("POD_NAMESPACE".into(), namespace.name.clone().into()),
        log_everything(),
    ];
    config
}
