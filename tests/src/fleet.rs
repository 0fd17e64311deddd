//! Many hosts on a simulated Ironic.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_ironic_sim::{ApiServer, Config, Counters, Credentials, Sim, Timings};
use metal3_lab::ironic;
use metal3_lab::manager::Manager;
use metal3_lab::operator::{self, IronicAccess, OperatorConfig, Ramdisk};
use metal3_lab::ports::Port;
use metal3_testkit::{TestNamespace, eventually};
use serde_json::{Value, json};

use crate::env::{ACCOUNT, bind_secrets, bindings};
use crate::usual::show_end_after_failure;
use crate::{LIMIT, condition, operator_binary, state, waits};

/// User name for the simulated Ironic.
pub const USER: &str = "ironic";
/// Password for the simulated Ironic.
pub const PASSWORD: &str = "secret-of-ironic";
/// Concurrent requests of the test itself.
const AT_ONCE: usize = 8;
/// Polling interval for all hosts: one poll costs as much as a host's step.
const LOOK: Duration = Duration::from_millis(500);

/// A namespace, a simulated Ironic with servers, and an operator that watches only this namespace.
pub struct FleetEnv {
    /// The namespace that the operator watches.
    pub namespace: TestNamespace,
    /// The simulator. It keeps running while unreachable.
    pub sim: Sim,
    hosts: u32,
    port: Port,
    server: Option<ApiServer>,
    /// The operator's settings; changes apply at its next start.
    pub config: OperatorConfig,
    operator: Option<Manager>,
}

impl FleetEnv {
    /// An environment with a reachable Ironic, without starting the operator.
    pub async fn new(namespace: TestNamespace, hosts: u32, seed: u64) -> Self {
        let sim = Sim::new(Config {
            servers: hosts,
            credentials: Some(Credentials::new(USER, PASSWORD)),
            timings: Timings {
                jitter: 1.0,
                ..Timings::quick()
            },
            seed,
            ..Config::default()
        });
        Self::at(namespace, sim, hosts).await
    }

    /// The same Ironic for another management cluster, whose namespace this is.
    pub async fn beside(&self, namespace: TestNamespace) -> Self {
        Self::at(namespace, self.sim.clone(), self.hosts).await
    }

    async fn at(namespace: TestNamespace, sim: Sim, hosts: u32) -> Self {
        let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/rbac/baremetal-operator.yaml");
        let rights = std::fs::read_to_string(&rights).expect("the generated rights");
        namespace.apply(&rights).await;
        let kubeconfig = namespace.service_account_kubeconfig(ACCOUNT).await;
        namespace.apply(&bindings(&namespace)).await;
        let folder = namespace.server().folder().join("operators").join(&namespace.name);
        let mut config = OperatorConfig::new(operator_binary(), folder, kubeconfig);
        config.args = vec![
            format!("--namespace={}", namespace.name),
            "--retry-base-seconds=1".to_owned(),
        ];
        let port = Port::free().expect("a free port");
        let mut env = Self {
            namespace,
            sim,
            hosts,
            port,
            server: None,
            config,
            operator: None,
        };
        env.connect().await;
        env
    }

    // --- processes ---

    /// Makes the operator watch another namespace too, from its next start.
    pub fn watch_also(&mut self, other: &TestNamespace) {
        self.config.args.retain(|flag| !flag.starts_with("--namespace="));
        let watched = format!("--namespace={},{}", self.namespace.name, other.name);
        self.config.args.push(watched);
    }

    /// Grants the operator access to the Secrets of another namespace.
    pub async fn bind_secrets_of(&self, other: &TestNamespace) {
        let binding = bind_secrets("baremetal-operator", &self.namespace, ACCOUNT);
        other.apply(&binding).await;
    }

    /// Makes Ironic reachable.
    pub async fn connect(&mut self) {
        let address = ([127, 0, 0, 1], self.port.number()).into();
        let server = ApiServer::start(&self.sim, address, None).await;
        self.server = Some(server.expect("the address is free"));
    }

    /// Makes Ironic unreachable: connections are refused.
    pub async fn disconnect(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
    }

    /// Ironic's address.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// Starts the operator.
    pub async fn start_operator(&mut self) {
        let access = IronicAccess {
            endpoint: self.endpoint(),
            credentials: Some(ironic::Credentials::new(USER, PASSWORD)),
            ca_file: None,
            ramdisk: Ramdisk::Iso("http://images.example/ipa.iso".to_owned()),
        };
        let operator = operator::start(&self.config, &access).await;
        self.operator = Some(operator.expect("the operator starts"));
    }

    /// Kills the operator as `kill -9` does.
    pub fn kill_operator(&mut self) {
        self.operator = None;
    }

    /// Stops the operator as Kubernetes does. Returns whether it ended in time.
    pub async fn stop_operator(&mut self) -> bool {
        match self.operator.take() {
            Some(operator) => operator.stop().await,
            None => true,
        }
    }

    /// The operator's log, over all its runs.
    pub fn operator_log(&self) -> String {
        std::fs::read_to_string(self.config.folder.join("operator.log")).unwrap_or_default()
    }

    // --- hosts ---

    /// Waits until a host waits for this reason, with these words in the message.
    pub async fn expect_waiting(&self, name: &str, reason: &str, words: &str) {
        eventually(LIMIT, &format!("{name} waits: {reason}: {words}"), || async {
            let host = self.api().get(name).await.map_err(|error| error.to_string())?;
            match waits(&host, reason) {
                Some(message) if message.contains(words) => Ok(()),
                _ => Err(format!("{:?}", condition(&host, "Waiting"))),
            }
        })
        .await;
    }

    fn api(&self) -> Api<BareMetalHost> {
        self.namespace.api()
    }

    /// Applies all hosts with their Secrets.
    pub async fn apply_hosts(&self) {
        self.apply_hosts_with(|_| {}).await;
    }

    /// The same; `change` may modify each host first.
    pub async fn apply_hosts_with(&self, change: impl Fn(&mut Value)) {
        let change = &change;
        stream::iter(0..self.hosts)
            .for_each_concurrent(AT_ONCE, |number| async move {
                self.apply_host_in(&self.namespace, number, change).await;
            })
            .await;
    }

    /// Applies the host of a server with its Secret; `change` may change it before.
    pub async fn apply_host_in(&self, namespace: &TestNamespace, number: u32, change: impl Fn(&mut Value)) -> String {
        let server = self.sim.server(number);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{}-bmc", server.name)},
            "stringData": {"username": server.credentials.username, "password": server.credentials.password},
        });
        let mut host = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": server.name},
            "spec": {
                "online": true, "bootMACAddress": server.boot_mac(),
                "bmc": {"address": server.redfish_address(), "credentialsName": format!("{}-bmc", server.name)},
            },
        });
        change(&mut host);
        namespace.apply(&format!("{secret}\n---\n{host}")).await;
        server.name
    }

    /// Changes all hosts as `kubectl patch --type=merge` does.
    pub async fn patch_hosts(&self, change: &Value) {
        let patched: Result<Vec<_>, kube::Error> = stream::iter(0..self.hosts)
            .map(|number| async move {
                let name = self.sim.server(number).name;
                self.api()
                    .patch(&name, &PatchParams::default(), &Patch::Merge(change))
                    .await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await;
        patched.expect("the changes are accepted");
    }

    /// Waits until a condition holds for the sum of the servers' counters.
    pub async fn until(&self, what: &str, holds: impl Fn(&Counters) -> bool) {
        let begin = Instant::now();
        loop {
            let sum = self.sum();
            if holds(&sum) {
                return;
            }
            assert!(
                begin.elapsed() < LIMIT,
                "never {what}: {sum:?}, {:?}",
                self.sim.states()
            );
            tokio::time::sleep(LOOK / 10).await;
        }
    }

    /// The sum of the servers' counters.
    pub fn sum(&self) -> Counters {
        let mut sum = Counters::default();
        for went in self.sim.all_counters().values() {
            sum.creates += went.creates;
            sum.inspections += went.inspections;
            sum.deploys += went.deploys;
            sum.deletes += went.deletes;
        }
        sum
    }

    /// Waits until all hosts are in a state and wait for nothing.
    pub async fn expect_all(&self, wanted: ProvisioningState) -> Vec<BareMetalHost> {
        let begin = Instant::now();
        loop {
            let hosts = self
                .api()
                .list(&ListParams::default())
                .await
                .expect("hosts can be listed")
                .items;
            let is_there = |host: &&BareMetalHost| {
                let status = host.status.as_ref();
                state(host) == wanted && status.is_some_and(|s| s.error_type.is_none() && s.powered_on)
            };
            let there = hosts.iter().filter(is_there).count();
            if there == self.hosts as usize {
                return hosts;
            }
            if begin.elapsed() > LIMIT {
                let other = hosts
                    .iter()
                    .find(|host| !is_there(host))
                    .and_then(|host| host.status.clone());
                let shown = serde_json::to_string(&other).unwrap_or_default();
                panic!("{there} of {} hosts are {wanted:?}; one is not: {shown}", self.hosts);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for FleetEnv {
    /// A failed scenario prints the end of its operator's log.
    fn drop(&mut self) {
        show_end_after_failure("the operator", &self.operator_log());
    }
}
