//! One operator with its environment.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::ironic::{Credentials, Host, IronicConfig, IronicLab, Machine};
use metal3_lab::manager::Manager;
use metal3_lab::operator::{self, OperatorConfig};
use metal3_testkit::leaks::log_everything;
use metal3_testkit::{TestNamespace, eventually};
use serde_json::{Value, json};

use crate::usual::show_end_after_failure;
use crate::{LIMIT, Pool, leaks, operator_binary, state, waits};

/// The name of the operator's service account in its namespace.
pub(crate) const ACCOUNT: &str = "operator";

/// A namespace, an Ironic with servers, and an operator that watches only this namespace.
pub struct TestEnv {
    /// The namespace that the operator watches.
    pub namespace: TestNamespace,
    /// Ironic and its servers; this environment's begin at `first`.
    pub ironic: Arc<IronicLab>,
    /// The operator's settings; changes apply at its next start.
    pub config: OperatorConfig,
    first: usize,
    operator: Option<Manager>,
}

impl TestEnv {
    /// An environment with its own Ironic and a running operator.
    pub async fn start(namespace: TestNamespace, ironic: IronicConfig) -> Self {
        let mut env = Self::without_operator(namespace, ironic).await;
        env.start_operator().await;
        env
    }

    /// The same without starting the operator.
    pub async fn without_operator(namespace: TestNamespace, ironic: IronicConfig) -> Self {
        let ironic = IronicLab::start(ironic).await.expect("Ironic starts");
        Self::at(namespace, Arc::new(ironic), 0).await
    }

    /// An environment with this many servers of a shared Ironic and a running operator.
    pub async fn shared(namespace: TestNamespace, pool: &Pool, servers: usize) -> Self {
        Self::shared_with(namespace, pool, servers, |_, _| {}).await
    }

    /// The same; `change` may change the operator's settings.
    pub async fn shared_with(
        namespace: TestNamespace,
        pool: &Pool,
        servers: usize,
        change: impl FnOnce(&mut OperatorConfig, &IronicLab),
    ) -> Self {
        let (ironic, first) = pool.take(servers).await;
        let mut env = Self::at(namespace, ironic, first).await;
        change(&mut env.config, &env.ironic);
        env.start_operator().await;
        env
    }

    /// An environment with the servers from `first` on of a running Ironic, without starting the operator.
    pub async fn at(namespace: TestNamespace, ironic: Arc<IronicLab>, first: usize) -> Self {
        let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/rbac/baremetal-operator.yaml");
        let rights = std::fs::read_to_string(&rights).expect("the generated rights");
        namespace.apply(&rights).await;
        let kubeconfig = namespace.service_account_kubeconfig(ACCOUNT).await;
        namespace.apply(&bindings(&namespace)).await;
        let folder = ironic.folder().join("operators").join(&namespace.name);
        let mut config = OperatorConfig::new(operator_binary(), folder, kubeconfig);
        config.args = vec![
            format!("--namespace={}", namespace.name),
            "--retry-base-seconds=2".to_owned(),
        ];
        config.env.push(log_everything());
        Self {
            namespace,
            ironic,
            config,
            first,
            operator: None,
        }
    }

    // --- the operator ---

    /// Starts the operator.
    pub async fn start_operator(&mut self) {
        let operator = operator::start(&self.config, &self.ironic.as_ref().into()).await;
        self.operator = Some(operator.expect("the operator starts"));
    }

    /// Kills the operator as `kill -9` does.
    pub fn kill_operator(&mut self) {
        self.operator = None;
    }

    /// Takes the right to list and watch Secrets away: the operator keeps that to read those whose names it knows.
    pub async fn only_secrets_by_name(&self) {
        let bindings: Api<RoleBinding> = self.namespace.api();
        let whole = bindings
            .delete("baremetal-operator-secrets", &DeleteParams::default())
            .await;
        whole.expect("the binding of the scenario's rights");
        let by_name = bind_secrets_by_name("baremetal-operator", &self.namespace, ACCOUNT);
        self.namespace.apply(&by_name).await;
    }

    /// Starts another operator for the same hosts, with these additional flags.
    pub async fn replica(&self, name: &str, flags: &[&str]) -> (Manager, OperatorConfig) {
        let mut config = self.config.clone();
        config.folder = config.folder.join(name);
        config.args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let operator = operator::start(&config, &self.ironic.as_ref().into()).await;
        (operator.expect("the operator starts"), config)
    }

    /// The operator's log, over all its runs.
    pub fn operator_log(&self) -> String {
        std::fs::read_to_string(self.config.folder.join("operator.log")).unwrap_or_default()
    }

    /// The operator's name in the API server's audit log.
    pub fn operator_user(&self) -> String {
        self.namespace.service_account_user(ACCOUNT)
    }

    // --- servers ---

    /// A server of this environment.
    pub fn server(&self, number: usize) -> &Host {
        &self.ironic.hosts()[self.first + number]
    }

    /// What a server went through.
    pub async fn machine(&self, number: usize) -> Machine {
        let machine = self.ironic.machine(self.server(number)).await;
        machine.expect("the simulated servers answer")
    }

    /// Waits until a server's deployments, power and virtual CD match. Ironic may report a deployment before or after the last
    /// BMC request takes effect.
    pub async fn expect_machine(&self, number: usize, deploys: usize, is_on: bool, virtual_cd: bool) -> Machine {
        eventually(LIMIT, &format!("server {number} is as deployed"), || async {
            let machine = self.machine(number).await;
            if (machine.deploys, machine.is_on, machine.virtual_cd) == (deploys, is_on, virtual_cd) {
                Ok(machine)
            } else {
                Err(format!("{machine:?}"))
            }
        })
        .await
    }

    /// Sets the faults of a server's BMC, replacing all others.
    pub async fn bmc(&self, number: usize, faults: Value) {
        let set = self.ironic.set_bmc_faults(self.server(number), &faults).await;
        set.expect("the simulated servers answer");
    }

    /// Sets the faults of a server's agent, replacing all others.
    pub async fn agent(&self, number: usize, faults: Value) {
        let set = self.ironic.set_agent_faults(self.server(number), &faults).await;
        set.expect("the simulated servers answer");
    }

    /// A server loses power without its BMC's involvement.
    pub async fn cut_power(&self, number: usize) {
        let cut = self.ironic.cut_power(self.server(number)).await;
        cut.expect("the simulated servers answer");
    }

    // --- what a user writes ---

    /// The hosts in the namespace.
    pub fn hosts(&self) -> Api<BareMetalHost> {
        self.namespace.api()
    }

    /// The name of the Secret with a server's credentials.
    pub fn secret_name(&self, number: usize) -> String {
        format!("{}-bmc", self.server(number).name)
    }

    /// Applies a Secret with these keys.
    pub async fn apply_secret(&self, name: &str, keys: &[(&str, &str)]) {
        let data: serde_json::Map<String, Value> = keys.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        self.namespace.apply(&secret.to_string()).await;
    }

    /// Applies the Secret of a server, with these credentials.
    pub async fn apply_credentials(&self, number: usize, credentials: &Credentials) {
        let keys = [
            ("username", credentials.username.as_str()),
            ("password", &credentials.password),
        ];
        self.apply_secret(&self.secret_name(number), &keys).await;
    }

    /// Applies a server's host without its Secret; `change` may modify the host first. Returns its name.
    pub async fn apply_bare(&self, number: usize, change: impl FnOnce(&mut Value)) -> String {
        let server = self.server(number);
        let mut host = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": server.name},
            "spec": {
                "online": true,
                "bootMACAddress": server.boot_mac(),
                "bmc": {
                    "address": server.bmc_address(),
                    "credentialsName": self.secret_name(number),
                },
            },
        });
        change(&mut host);
        self.namespace.apply(&host.to_string()).await;
        server.name.clone()
    }

    /// The same with valid credentials.
    pub async fn apply_host(&self, number: usize, change: impl FnOnce(&mut Value)) -> String {
        let credentials = self.server(number).credentials.clone();
        self.apply_credentials(number, &credentials).await;
        self.apply_bare(number, change).await
    }

    /// The same with the lab's image.
    pub async fn apply_with_image(&self, number: usize) -> String {
        let image = self.image();
        self.apply_host(number, |host| host["spec"]["image"] = image).await
    }

    /// The lab's image with its checksum, for `spec.image`.
    pub fn image(&self) -> Value {
        let image = self.ironic.image().expect("the lab has an image");
        json!({"url": image.url, "checksum": image.sha256, "checksumType": "sha256", "format": "raw"})
    }

    /// Changes a host as `kubectl patch --type=merge` does.
    pub async fn patch(&self, name: &str, change: Value) {
        let patched = self
            .hosts()
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await;
        patched.expect("the change is accepted");
    }

    /// Deletes a host.
    pub async fn delete(&self, name: &str) {
        let deleted = self.hosts().delete(name, &DeleteParams::default()).await;
        deleted.expect("the deletion is accepted");
    }

    // --- what a user sees ---

    /// The host as it is now.
    pub async fn host(&self, name: &str) -> BareMetalHost {
        self.hosts().get(name).await.expect("the host is there")
    }

    /// Waits until a host is in a state.
    pub async fn expect_state(&self, name: &str, wanted: ProvisioningState) -> BareMetalHost {
        let what = format!("becomes {:?}", wanted.as_str());
        self.expect(name, &what, |host| state(host) == wanted).await
    }

    /// Waits until a host's waiting condition has this reason, with a message that contains all of these.
    pub async fn expect_waiting(&self, name: &str, reason: &str, words: &[&str]) -> BareMetalHost {
        let what = format!("waits with reason {reason} and the words {words:?}");
        self.expect(name, &what, |host| {
            waits(host, reason).is_some_and(|message| words.iter().all(|word| message.contains(word)))
        })
        .await
    }

    /// Waits until a condition holds for a host.
    pub async fn expect(&self, name: &str, what: &str, holds: impl Fn(&BareMetalHost) -> bool) -> BareMetalHost {
        let hosts = self.hosts();
        eventually(LIMIT, &format!("host {name} {what}"), || async {
            let host = hosts.get(name).await.map_err(|e| e.to_string())?;
            if holds(&host) {
                Ok(host)
            } else {
                Err(serde_json::to_string(&host.status).unwrap_or_default())
            }
        })
        .await
    }

    /// Waits until a host is gone, and checks that Ironic has no leftovers of it.
    pub async fn expect_gone(&self, name: &str) {
        let hosts = self.hosts();
        eventually(LIMIT, &format!("host {name} is gone"), || async {
            match hosts.get_opt(name).await.map_err(|e| e.to_string())? {
                None => Ok(()),
                Some(host) => Err(serde_json::to_string(&host.status).unwrap_or_default()),
            }
        })
        .await;
        let node = format!("{}~{name}", self.namespace.name);
        let left: Vec<_> = self.nodes().await.into_iter().filter(|n| n["name"] == node).collect();
        assert!(left.is_empty(), "its node is left in Ironic: {left:?}");
    }

    /// The events about a host: reason and message.
    pub async fn events(&self, name: &str) -> Vec<(String, String)> {
        let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let events = self.namespace.api::<Event>().list(&about).await;
        let events = events.expect("the API server lists events").items;
        events
            .into_iter()
            .map(|e| (e.reason.unwrap_or_default(), e.message.unwrap_or_default()))
            .collect()
    }

    /// Waits for an event about a host with a message that contains this.
    pub async fn expect_event(&self, name: &str, reason: &str, words: &str) {
        eventually(
            LIMIT,
            &format!("an event {reason} about {name} that says {words:?}"),
            || async {
                let events = self.events(name).await;
                if events.iter().any(|(r, message)| r == reason && message.contains(words)) {
                    Ok(())
                } else {
                    Err(format!("{events:?}"))
                }
            },
        )
        .await;
    }
}

impl Drop for TestEnv {
    /// A failed scenario prints the end of its operator's log. Otherwise checks that nothing it emitted contains a password.
    fn drop(&mut self) {
        let operator = format!("the operator in {}", self.namespace.name);
        if show_end_after_failure(&operator, &self.operator_log()) {
            return;
        }
        let log = Some(self.config.folder.join("operator.log")).filter(|log| log.exists());
        let metrics = self.operator.iter().map(Manager::metrics_url).collect();
        leaks::expect_none(log.into_iter().collect(), metrics);
    }
}

/// The operator's rights of `config/rbac` for the service account of one namespace.
pub(crate) fn bindings(namespace: &TestNamespace) -> String {
    let name = &namespace.name;
    let everywhere = bind(
        "ClusterRole",
        "baremetal-operator-manager-role",
        name,
        namespace,
        ACCOUNT,
    );
    let mut lease = bind(
        "Role",
        "baremetal-operator-leader-election-role",
        name,
        namespace,
        ACCOUNT,
    );
    lease["metadata"]["namespace"] = json!("baremetal-operator-system");
    let secrets = bind_secrets("baremetal-operator", namespace, ACCOUNT);
    format!("{everywhere}\n---\n{lease}\n---\n{secrets}")
}

/// What a program ships for those who cannot say which namespaces it works in, for a service account of this one: the right to
/// Secrets whose names it knows. Empty if the program needs none.
pub(crate) fn bind_secrets_by_name(program: &str, namespace: &TestNamespace, account: &str) -> String {
    let file = format!("../config/rbac/secrets-by-name/{program}.yaml");
    let Ok(text) = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)) else {
        return String::new();
    };
    let role = metal3_lab::apply::parse(&text)
        .expect("generated rights")
        .swap_remove(0);
    let name = role.name_any();
    let mut binding = bind("ClusterRole", &name, &name, namespace, account);
    binding["kind"] = json!("RoleBinding");
    format!("{}\n---\n{binding}", json!(role))
}

/// The binding that a program ships for the Secrets of one namespace, for a service account of this one.
pub(crate) fn bind_secrets(program: &str, namespace: &TestNamespace, account: &str) -> String {
    let file = format!("../config/rbac/secrets-in-one-namespace/{program}.yaml");
    let Ok(text) = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)) else {
        return String::new();
    };
    let bindings = metal3_lab::apply::parse(&text).expect("generated bindings");
    let bindings = bindings.into_iter().map(|mut binding| {
        binding.data["subjects"] = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace.name}]);
        json!(binding).to_string()
    });
    bindings.collect::<Vec<_>>().join("\n---\n")
}

/// A binding of this name of a role to a service account of the namespace.
pub(crate) fn bind(kind: &str, role: &str, name: &str, namespace: &TestNamespace, account: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"), "kind": format!("{kind}Binding"), "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace.name}],
    })
}
