//! An emulated server with a stock Ironic, and our operator.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::manager::Manager;
use metal3_lab::metal::{Image, Metal};
use metal3_lab::operator::{self, OperatorConfig};
use metal3_testkit::leaks::{log_everything, mark_secret};
use metal3_testkit::{TestNamespace, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::env::{ACCOUNT, bindings};
use crate::usual::show_end_after_failure;
use crate::{leaks, operator_binary, state, status};

/// How long anything may take on a server that really boots: three times what a busy machine needs for the longest of it.
pub const PATIENCE: Duration = Duration::from_secs(1200);

/// A namespace, an emulated server, and an operator.
pub struct MetalEnv {
    /// The namespace of the host.
    pub namespace: TestNamespace,
    /// The server and its Ironic.
    pub metal: Metal,
    config: OperatorConfig,
    operator: Option<Manager>,
    start: Instant,
    tasks: JoinSet<()>,
}

impl MetalEnv {
    /// Starts all of it. `patience` is how long Ironic waits for its ramdisk.
    pub async fn start(test: &str, patience: Duration) -> Self {
        let metal = Metal::start(patience).await.expect("the server's lab starts");
        let start = Instant::now();
        let namespace = TestNamespace::new(test).await;
        let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/rbac/baremetal-operator.yaml");
        let rights = std::fs::read_to_string(&rights).expect("the generated rights");
        namespace.apply(&rights).await;
        let kubeconfig = namespace.service_account_kubeconfig(ACCOUNT).await;
        namespace.apply(&bindings(&namespace)).await;
        let mut config = OperatorConfig::new(operator_binary(), metal.folder().join("operator"), kubeconfig);
        config.args = vec![
            format!("--namespace={}", namespace.name),
            "--retry-base-seconds=5".to_owned(),
        ];
        config.env.push(log_everything());
        let operator = operator::start(&config, &metal.access()).await;
        let mut env = Self {
            namespace,
            metal,
            config,
            operator: Some(operator.expect("the operator starts")),
            start,
            tasks: JoinSet::new(),
        };
        env.tasks
            .spawn(tell(env.namespace.client.clone(), env.namespace.name.clone(), start));
        env
    }

    /// The host's name.
    pub fn name(&self) -> &'static str {
        self.metal.server().name
    }

    /// `kubectl apply` of the host and the Secret of its BMC; `change` may modify the host first.
    pub async fn apply_host(&self, change: impl FnOnce(&mut Value)) {
        let (name, user) = (self.name(), self.metal.credentials());
        let secret = format!("{name}-bmc");
        let credentials = [("username", &*user.username), ("password", &*user.password)];
        self.apply_secret(&secret, &credentials).await;
        let mut host = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name},
            "spec": {
                "online": true,
                "bootMACAddress": self.metal.server().mac,
                "bmc": {"address": self.metal.bmc_address(), "credentialsName": secret},
            },
        });
        change(&mut host);
        self.apply(&host).await;
    }

    /// `kubectl apply` of a Secret.
    pub async fn apply_secret(&self, name: &str, keys: &[(&str, &str)]) {
        let data: serde_json::Map<String, Value> = keys.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        mark_secret(&mut secret);
        self.apply(&secret).await;
    }

    async fn apply(&self, object: &Value) {
        let rejected = self.namespace.apply_by_kubectl([object]).await;
        assert_eq!(rejected, [None], "{object}");
    }

    /// The host.
    pub async fn host(&self) -> BareMetalHost {
        let host = self.hosts().get(self.name()).await;
        host.expect("the host is there")
    }

    /// The hosts of the namespace.
    pub fn hosts(&self) -> Api<BareMetalHost> {
        self.namespace.api()
    }

    /// Changes the host as `kubectl patch --type=merge` does.
    pub async fn patch(&self, change: Value) {
        let patched = self
            .hosts()
            .patch(self.name(), &PatchParams::default(), &Patch::Merge(change))
            .await;
        patched.expect("the change is accepted");
    }

    /// Waits until the host is in a state.
    pub async fn expect_state(&self, wanted: ProvisioningState) -> BareMetalHost {
        self.expect(&format!("becomes {}", wanted.as_str()), |host| state(host) == wanted)
            .await
    }

    /// Waits until a condition holds for the host. Says how long that took.
    pub async fn expect(&self, what: &str, holds: impl Fn(&BareMetalHost) -> bool) -> BareMetalHost {
        let start = Instant::now();
        let hosts = self.hosts();
        let found = eventually(PATIENCE, &format!("the host {what}"), async || {
            let ended = self.metal.ensure_alive();
            ended.expect("the server's lab runs");
            let host = hosts.get(self.name()).await.map_err(|e| e.to_string())?;
            if holds(&host) {
                Ok(host)
            } else {
                Err(format!(
                    "{}\n{}",
                    serde_json::to_string(&host.status).unwrap_or_default(),
                    self.console_end()
                ))
            }
        })
        .await;
        self.say(&format!("the host {what}: {:.0} s", start.elapsed().as_secs_f64()));
        found
    }

    /// Waits for something on the server, which `look` returns or says what it saw instead.
    pub async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Result<T, String>) -> T {
        let start = Instant::now();
        let found = eventually(PATIENCE, what, async || {
            look().await.map_err(|seen| format!("{seen}\n{}", self.console_end()))
        })
        .await;
        self.say(&format!("{what}: {:.0} s", start.elapsed().as_secs_f64()));
        found
    }

    /// Prints a line with the time since the start.
    pub fn say(&self, text: &str) {
        println!("{:7.1} {text}", self.start.elapsed().as_secs_f64());
    }

    fn console_end(&self) -> String {
        let console = self.metal.console();
        let lines: Vec<&str> = console.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// What a user gives a host to install this image.
    pub fn image(image: &Image, redirected: bool) -> Value {
        let url = if redirected { &image.redirected_url } else { &image.url };
        json!({"url": url, "checksum": image.sha256, "checksumType": "sha256", "format": image.format})
    }

    /// The events about the host: reason and message.
    pub async fn events(&self) -> Vec<(String, String)> {
        let about = ListParams::default().fields(&format!("involvedObject.name={}", self.name()));
        let events = self.namespace.api::<Event>().list(&about).await;
        let events = events.expect("the API server lists events").items;
        let parts = |event: Event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        events.into_iter().map(parts).collect()
    }
}

impl Drop for MetalEnv {
    fn drop(&mut self) {
        let log = self.config.folder.join("operator.log");
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        if show_end_after_failure("the operator", &text) {
            eprintln!("end of the server's console:\n{}", self.console_end());
            return;
        }
        let metrics = self.operator.iter().map(Manager::metrics_url).collect();
        leaks::expect_none(vec![log], metrics);
    }
}

/// Prints what a user sees of hosts whenever it changes.
async fn tell(client: Client, namespace: String, start: Instant) {
    let hosts: Api<BareMetalHost> = Api::namespaced(client, &namespace);
    let mut last = String::new();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let Ok(found) = hosts.list(&ListParams::default()).await else {
            continue;
        };
        for host in found.items {
            let seen = status(&host);
            let conditions = seen.conditions.iter();
            let conditions = conditions
                .filter(|one| one.status == ConditionStatus::True || one.type_ == "Ready")
                .map(|one| format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message));
            let line = format!(
                "{} {} power={} error={:?}×{} {:?} | {}",
                seen.provisioning.state.as_str(),
                seen.operational_status.as_str(),
                seen.powered_on,
                seen.error_type,
                seen.error_count,
                seen.error_message,
                conditions.collect::<Vec<_>>().join(" | ")
            );
            if line != last {
                println!("{:7.1}   {line}", start.elapsed().as_secs_f64());
                last = line;
            }
        }
    }
}
