//! Simulated kubelets of all servers: a server that runs its image joins; one that is powered off, or is ordered to, goes silent.
//! Nodes are not removed here, because no kubelet removes them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::JoinSet;

use super::boot::Boot;
use super::objects;
use super::steps::{Silence, Step, Up, next};
use crate::ironic::{Machine, Servers};

/// How often the servers are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Those that are to be silent, by the name of the server.
type Silences = Arc<Mutex<HashMap<String, Silence>>>;

/// All of them, in one task. Dropping it ends them: their Nodes stay as they are.
#[derive(Debug)]
pub struct Kubelets {
    silences: Silences,
    _task: JoinSet<()>,
}

impl Kubelets {
    /// Starts them in this runtime. `version` is theirs, such as `v1.36.3`; `log` gets each server that joins or cannot.
    pub fn start(client: Client, version: String, servers: Servers, log: PathBuf) -> Self {
        let silences = Silences::default();
        let all = All {
            client,
            version,
            servers,
            log,
            silences: Arc::clone(&silences),
            up: HashMap::new(),
            said: HashMap::new(),
        };
        let mut task = JoinSet::new();
        task.spawn(all.run());
        Self { silences, _task: task }
    }

    /// Lets the kubelet of a server fall silent.
    pub fn silence(&self, server: &str, silence: Silence) {
        let mut silences = self.silences.lock();
        silences.insert(server.to_owned(), silence);
    }
}

struct All {
    client: Client,
    version: String,
    servers: Servers,
    log: PathBuf,
    silences: Silences,
    /// By server.
    up: HashMap<String, Up>,
    /// By server: what went wrong last, so that it is said once.
    said: HashMap<String, String>,
}

impl All {
    async fn run(mut self) {
        loop {
            match self.servers.machines().await {
                Ok(machines) => {
                    for machine in machines {
                        let outcome = self.look(&machine).await;
                        self.say(&machine, outcome);
                    }
                }
                Err(error) => self.note("all servers", &format!("{error:#}")),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn say(&mut self, machine: &Machine, outcome: Result<()>) {
        let Err(error) = outcome else {
            self.said.remove(&machine.uuid);
            return;
        };
        let error = format!("{error:#}");
        if self.said.get(&machine.uuid) != Some(&error) {
            self.note(&machine.name, &format!("does not join: {error}"));
            self.said.insert(machine.uuid.clone(), error);
        }
    }

    /// Logs it. A log that cannot be written is ignored: the Nodes are what counts.
    fn note(&self, server: &str, text: &str) {
        tracing::info!(server, "{text}");
        let file = OpenOptions::new().create(true).append(true).open(&self.log);
        file.and_then(|mut file| writeln!(file, "{server}: {text}")).ok();
    }

    async fn look(&mut self, machine: &Machine) -> Result<()> {
        let start = machine.times_switched_on();
        let known = self.up.get(&machine.uuid);
        let running = machine.runs_image.then_some(start);
        let node = match next(known, running, self.silence(&machine.name)) {
            Step::Nothing => return Ok(()),
            Step::Join => {
                let boot = self.boot(machine).await?;
                self.speak(&machine.name);
                boot
            }
            Step::StaySilent => None,
            Step::FallSilent | Step::Leave => {
                if let Some(boot) = known.and_then(|up| up.node.as_ref()) {
                    leave(&self.client, &self.version, boot).await?;
                    self.note(&machine.name, &format!("Node {} falls silent", boot.node));
                }
                None
            }
        };
        if machine.runs_image {
            self.up.insert(machine.uuid.clone(), Up { start, node });
        } else {
            self.up.remove(&machine.uuid);
        }
        Ok(())
    }

    fn silence(&self, server: &str) -> Option<Silence> {
        let silences = self.silences.lock();
        silences.get(server).copied()
    }

    /// Its silence is over.
    fn speak(&self, server: &str) {
        let mut silences = self.silences.lock();
        silences.remove(server);
    }

    async fn boot(&self, machine: &Machine) -> Result<Option<Boot>> {
        let whole = self.servers.machine(&machine.uuid).await?;
        let drive = whole.deployments.last().and_then(|last| last.config_drive.as_ref());
        let Some(boot) = drive.map(Boot::read).transpose()?.flatten() else {
            return Ok(None);
        };
        join(&self.client, &self.version, &boot).await?;
        self.note(&machine.name, &format!("joined as Node {}", boot.node));
        Ok(Some(boot))
    }
}

/// What a machine does in its cluster when it has booted: its Node is registered and reports, and of a control plane its
/// components run. May be done again.
pub async fn join(client: &Client, version: &str, boot: &Boot) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = objects::node(boot)?;
    if !create(&nodes, &node).await? {
        let labels = json!({"metadata": {"labels": node.metadata.labels}});
        patch(&nodes, &boot.node, &labels).await?;
    }
    report(client, version, boot, true).await?;
    if let Some(map) = objects::configuration(boot) {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
        if !create(&maps, &map).await? {
            patch(&maps, "kubeadm-config", &json!({"data": map.data})).await?;
        }
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    for pod in objects::pods(boot)? {
        create(&pods, &pod).await?;
        let (name, runs) = (pod.name_any(), Patch::Merge(objects::runs()));
        let patched = pods.patch_status(&name, &PatchParams::default(), &runs).await;
        patched.with_context(|| format!("status of {name}"))?;
    }
    Ok(())
}

/// Marks the Node of a powered-off machine as no longer reporting. Does nothing if the Node was deleted.
pub async fn leave(client: &Client, version: &str, boot: &Boot) -> Result<()> {
    report(client, version, boot, false).await
}

/// The Node's status.
#[expect(
    clippy::disallowed_methods,
    reason = "it plays another process, which has its own clock"
)]
async fn report(client: &Client, version: &str, boot: &Boot, reports: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let status = objects::status(boot, version, reports, &Timestamp::now().to_string());
    let patched = nodes
        .patch_status(&boot.node, &PatchParams::default(), &Patch::Merge(status))
        .await;
    match patched {
        Err(kube::Error::Api(answer)) if answer.is_not_found() && !reports => Ok(()),
        patched => patched.map(drop).with_context(|| format!("status of {}", boot.node)),
    }
}

/// Whether it was made; not if there is one of this name.
async fn create<K: Serialize + DeserializeOwned + Clone + std::fmt::Debug>(api: &Api<K>, object: &K) -> Result<bool> {
    match api.create(&PostParams::default(), object).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(answer)) if answer.is_already_exists() => Ok(false),
        Err(error) => Err(error).context("the workload cluster refuses it"),
    }
}

async fn patch<K: DeserializeOwned + Clone + std::fmt::Debug>(
    api: &Api<K>,
    name: &str,
    change: &serde_json::Value,
) -> Result<()> {
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
    patched.map(drop).with_context(|| format!("cannot change {name}"))
}
