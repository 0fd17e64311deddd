//! The Metal3Machine controller: finds a host for each Machine of Cluster API, says what it shall run, and gives it back.
//!
//! ```text
//!  observe ─▶ decide (pure) ─▶ apply: machine, host, wish for data ─▶ report: one status, events
//!     ▲          │ Look
//!     └──────────┘ choice of a host (waiting.rs), Secrets, node reuse
//! ```
//!
//! A claim is two writes, each over the version that was judged: the machine names the host, then the host names the
//! machine. Whoever comes second anywhere starts again, and a host that was named and will not do is marked before another
//! is named, so one machine has one host, however many processes run.
//!
//! The Node of a machine is looked for among those of its workload cluster (workload/), which nothing here waits for: it
//! gets its provider ID after the status is stored, and whatever it says later wakes the machine.

mod apply;
mod decide;
mod node;
mod observed;
mod reuse;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Resource};
use metal3_api::capi::Machine;
use metal3_api::infra::names::GROUP;
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::args::Namespaces;
use metal3_runtime::conditions::whole_seconds;
use metal3_runtime::secrets::{Known, SecretKey, SecretVersions};
use metal3_runtime::status;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::decide::{ASSOCIATED, DATA_READY, METADATA, NODE};
use self::decide::{Decision, Need, Plan, decide};
pub use self::node::{Gift, NodeView};
pub use self::observed::{Host, Looks, Observed, Related, host_seen, observe};
use self::waiting::Waiting;
use crate::controller::{Context, Controller, Next};
use crate::error::PassError;
use crate::select::{consumer_of, stable_seed};
use crate::workload::{News, NodeBy, Workloads, nodes};
use crate::world::{HostBy, Metal3MachineBy, cluster_of, host_of, owner};

/// Of what it looks after, for errors.
const KIND: &str = "Metal3Machine";

/// The controller.
#[derive(Clone)]
pub struct Metal3Machines {
    ctx: Context,
    is_fast_track: bool,
    workloads: Workloads,
    waiting: Waiting,
    secrets: SecretVersions<ObjectKey>,
    queue: Arc<OnceLock<Queue<ObjectKey>>>,
}

/// A machine that waits hears of changes of hosts that do not make one free for it after this time: they only change what
/// its condition says.
const RETELL: Duration = Duration::from_secs(30);

/// More looks than there are questions would be a loop.
const MOST_LOOKS: usize = 8;

impl Metal3Machines {
    /// The controller; `is_fast_track` leaves hosts powered on between two machines.
    pub fn new(ctx: Context, workloads: Workloads, is_fast_track: bool) -> Self {
        Self {
            ctx,
            is_fast_track,
            workloads,
            waiting: Waiting::default(),
            secrets: SecretVersions::default(),
            queue: Arc::default(),
        }
    }

    /// Watches the metadata of Secrets until `stop`, and wakes the machines that wait for one.
    pub fn follow_secrets(&self, namespaces: &Namespaces, tasks: &mut JoinSet<()>, stop: &CancellationToken) {
        let all = vec![None];
        let watched = match namespaces {
            Namespaces::All => all,
            Namespaces::Only(names) => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        for namespace in watched {
            let stream = self
                .secrets
                .watch(&self.ctx.client, namespace, kube::runtime::watcher::Config::default());
            let (own, stop) = (self.clone(), stop.clone());
            tasks.spawn(async move {
                stream
                    .take_until(stop.cancelled_owned())
                    .for_each(|machine| {
                        own.wake(Some(machine));
                        std::future::ready(())
                    })
                    .await;
            });
        }
    }

    fn wake(&self, machine: Option<ObjectKey>) {
        if let (Some(machine), Some(queue)) = (machine, self.queue.get()) {
            queue.push(machine);
        }
    }

    fn listen_to_hosts(&self, queue: &Queue<ObjectKey>) {
        let (own, bell) = (self.clone(), queue.clone());
        self.ctx.world.hosts.listen(move |change| {
            for host in change.states() {
                if let Some(machine) = consumer_of(host) {
                    bell.push(machine);
                }
            }
            for machine in own
                .ctx
                .world
                .metal3_machines
                .names(&Metal3MachineBy::Host(change.key.clone()))
            {
                bell.push(machine);
            }
            if let Some(host) = &change.after {
                own.wake(own.waiting.offer(host));
            }
            let said = |host: &BareMetalHost| {
                let status = host.status.as_ref();
                (
                    host.metadata.labels.clone(),
                    host.spec.consumer_ref.clone(),
                    status.map(|status| (status.provisioning.state.clone(), status.error_type.clone())),
                )
            };
            if change.affects(said) {
                for machine in own.waiting.of(&change.key.namespace) {
                    bell.push_in(machine, RETELL);
                }
            }
        });
    }

    /// Looks until a plan is made.
    async fn planned(&self, seen: &mut Observed) -> Result<Option<Box<Plan>>, PassError> {
        let (mut wants_host, mut wants_secrets) = (false, false);
        let key = seen.key();
        for _ in 0..MOST_LOOKS {
            match decide(seen, self.ctx.clock.now()) {
                Decision::Nothing => {
                    self.settle(&key, wants_host, wants_secrets);
                    return Ok(None);
                }
                Decision::Do(plan) => {
                    self.settle(&key, wants_host, wants_secrets);
                    return Ok(Some(plan));
                }
                Decision::Look(Need::Host(wish)) => {
                    wants_host = true;
                    let since = waiting::since(&*seen.machine);
                    let order = stable_seed(&wish.uid);
                    let named = seen.host.unclaimed();
                    let (selection, other) = self.waiting.choose(&self.ctx.world, &wish, named, since, order);
                    self.wake(other);
                    seen.looks.selection = Some(selection);
                }
                Decision::Look(Need::Secrets(names)) => {
                    wants_secrets = true;
                    seen.looks.secrets = Some(self.look_for(&key, names).await?);
                }
                Decision::Look(Need::FreshHost) => self.look_at_host(seen).await?,
                Decision::Look(Need::Kept) => {
                    let is_kept = self
                        .look_whether_kept(&key, seen.owner.found().map(|owner| &**owner))
                        .await?;
                    seen.looks.is_kept = Some(is_kept);
                }
            }
        }
        tracing::error!(machine = %key, "a decision asks again for what it was given");
        Ok(None)
    }

    /// Who asks for nothing any more waits for nothing any more.
    fn settle(&self, key: &ObjectKey, wants_host: bool, wants_secrets: bool) {
        if !wants_host {
            self.waiting.forget(key);
        }
        if !wants_secrets {
            self.secrets.remove_owner(key);
        }
    }

    /// Reads the host that the machine names.
    async fn look_at_host(&self, seen: &mut Observed) -> Result<(), PassError> {
        seen.looks.is_host_fresh = true;
        let Some(named) = host_of(&seen.machine) else {
            return Ok(());
        };
        let hosts: Api<BareMetalHost> = Api::namespaced(self.ctx.client.clone(), &named.namespace);
        let host = hosts
            .get_opt(&named.name)
            .await
            .map_err(PassError::of("read the host", KIND, &seen.key()))?;
        if let Some(host) = &host {
            self.ctx.world.hosts.written(host.clone());
        }
        seen.host = observed::relation(&seen.machine, &named.name, host.map(Arc::new));
        Ok(())
    }

    async fn look_whether_kept(&self, key: &ObjectKey, owner: Option<&Machine>) -> Result<bool, PassError> {
        let Some(owner) = owner else { return Ok(false) };
        let kept = reuse::is_kept(&self.ctx.client, &self.ctx.world, owner).await;
        kept.map_err(PassError::of("read the control plane", KIND, key))
    }

    /// Whether the Secrets exist: by the watch, or by asking where that has not shown them yet.
    async fn look_for(&self, key: &ObjectKey, names: Vec<String>) -> Result<BTreeMap<String, bool>, PassError> {
        let secret = |name: &String| SecretKey {
            namespace: key.namespace.clone(),
            name: name.clone(),
        };
        self.secrets.set_references(key.clone(), names.iter().map(secret));
        let api: Api<Secret> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let mut found = BTreeMap::new();
        for name in names {
            let is_there = match self.secrets.get(&secret(&name)) {
                Known::Present(_) => true,
                Known::Absent => false,
                Known::Unknown => {
                    let answer =
                        api.get_metadata_opt(&name)
                            .await
                            .map_err(PassError::of("look for a Secret", KIND, key))?;
                    let metadata = answer.as_ref().map(|secret| &secret.metadata);
                    self.secrets.learn(&secret(&name), metadata);
                    metadata.is_some()
                }
            };
            found.insert(name, is_there);
        }
        Ok(found)
    }

    async fn carry_out(&self, key: &ObjectKey, seen: &Observed, plan: Plan) -> Result<(), PassError> {
        let ctx = &self.ctx;
        let mut machine = (*seen.machine).clone();
        for effect in &plan.effects {
            let applied = apply::apply(&ctx.client, &ctx.world, &mut machine, effect).await;
            applied.map_err(PassError::of(effect.label(), KIND, key))?;
        }
        if let Some(status) = plan.status {
            self.store(key, &machine, status).await?;
        }
        for note in &plan.notes {
            ctx.recorder.publish(&machine.object_ref(&()), None, note).await;
        }
        self.wake(plan.is_again.then(|| key.clone()));
        match (&plan.gift, seen.cluster.found()) {
            (Some(gift), Some(cluster)) => self.give(key, &ObjectKey::of(&**cluster), gift).await,
            _ => Ok(()),
        }
    }

    async fn give(&self, key: &ObjectKey, cluster: &ObjectKey, gift: &Gift) -> Result<(), PassError> {
        // Gone again: the machine is woken when it is back.
        let Ok(workload) = self.workloads.of(cluster) else {
            return Ok(());
        };
        // The API server takes the first one only, so that nobody's is overwritten.
        let change = json!({"spec": {"providerID": gift.id}});
        let given = workload.change_node(&gift.node, &change).await;
        given.map_err(PassError::of("set the provider ID of the node", KIND, key))?;
        tracing::info!(machine = %key, node = gift.node, id = gift.id, "a node has its provider ID");
        Ok(())
    }

    async fn store(
        &self,
        key: &ObjectKey,
        seen: &Metal3Machine,
        mut status: Metal3MachineStatus,
    ) -> Result<(), PassError> {
        let before = seen.status.clone().unwrap_or_default();
        status.last_updated.clone_from(&before.last_updated);
        if status == before {
            return Ok(());
        }
        status.last_updated = Some(Time(whole_seconds(self.ctx.clock.now())));
        let written = status::replace(&self.ctx.client, seen, status).await;
        let failed = PassError::of("store the status", KIND, key);
        self.ctx.world.metal3_machines.written(written.map_err(failed)?);
        Ok(())
    }

    async fn work(&self, key: &ObjectKey) -> Result<(), PassError> {
        let Some(mut seen) = observe(&self.ctx.world, key, self.is_fast_track) else {
            self.settle(key, false, false);
            return Ok(());
        };
        seen.node = node::look(&self.workloads, &seen);
        match self.planned(&mut seen).await? {
            Some(plan) => self.carry_out(key, &seen, *plan).await,
            None => Ok(()),
        }
    }
}

impl Controller for Metal3Machines {
    const NAME: &'static str = "metal3machine";
    type Error = PassError;

    fn listen(&self, queue: &Queue<ObjectKey>) {
        self.queue.set(queue.clone()).ok();
        let world = &self.ctx.world;
        let bell = queue.clone();
        world
            .metal3_machines
            .listen(move |change| bell.push(change.key.clone()));
        self.listen_to_hosts(queue);
        let bell = queue.clone();
        world.machines.listen(move |change| {
            let asked = |machine: &Machine| {
                let meta = &machine.metadata;
                let is_deleted = meta.deletion_timestamp.is_some();
                (
                    machine.spec.clone(),
                    meta.labels.clone(),
                    meta.owner_references.clone(),
                    is_deleted,
                )
            };
            if change.affects(asked) {
                for machine in change.states().filter_map(|machine| infrastructure_of(machine)) {
                    bell.push(machine);
                }
            }
        });
        let (own, bell) = (self.clone(), queue.clone());
        world.clusters.listen(move |change| {
            let asked = |cluster: &metal3_api::capi::Cluster| {
                let is_deleted = cluster.metadata.deletion_timestamp.is_some();
                (
                    cluster.is_paused(),
                    cluster.is_infrastructure_ready(),
                    is_deleted,
                    cluster.spec.infrastructure_ref.clone(),
                )
            };
            if change.after.is_none() {
                own.workloads.forget(&change.key);
            }
            if change.affects(asked) {
                own.ring_for_cluster(&bell, &change.key);
            }
        });
        let (own, bell) = (self.clone(), queue.clone());
        world.metal3_clusters.listen(move |change| {
            let is_there = |_: &metal3_api::infra::v1beta2::Metal3Cluster| ();
            for cluster in change.states().filter(|_| change.affects(is_there)) {
                let named = owner(&**cluster, metal3_api::capi::names::group::CORE, "Cluster");
                let named = named.map(|name| ObjectKey::new(&change.key.namespace, name));
                if let Some(key) = named.or_else(|| cluster_of(&**cluster)) {
                    own.ring_for_cluster(&bell, &key);
                }
            }
        });
        self.listen_to_nodes(queue);
        // A wish has the name of its machine.
        let bell = queue.clone();
        world.data_claims.listen(move |change| bell.push(change.key.clone()));
        let bell = queue.clone();
        world.datas.listen(move |change| {
            for data in change.states().filter(|data| !data.spec.claim.name.is_empty()) {
                bell.push(ObjectKey::new(&change.key.namespace, &data.spec.claim.name));
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.world.metal3_machines.all()
    }

    async fn pass(&self, key: &ObjectKey) -> Result<Next, PassError> {
        let result = self.work(key).await;
        self.wake(self.waiting.done(key, &self.ctx.world));
        result.map(|()| Next::Change)
    }
}

impl Metal3Machines {
    /// Heartbeats of Nodes wake nobody: only what a Node is found by counts, and it wakes the machine that it names.
    fn listen_to_nodes(&self, queue: &Queue<ObjectKey>) {
        let (own, bell) = (self.clone(), queue.clone());
        self.workloads.listen(move |cluster, news| match news {
            News::Link => own.ring_for_cluster(&bell, cluster),
            News::Node(change) if change.affects(nodes::keys_of) => {
                let mut named = Vec::new();
                for by in change.states().flat_map(|node| nodes::keys_of(node)) {
                    match by {
                        NodeBy::ProviderId(id) => named.extend(machine_of(&id)),
                        NodeBy::HostUid(uid) => {
                            let hosts = own.ctx.world.hosts.find(&HostBy::Uid(uid));
                            named.extend(hosts.iter().filter_map(|host| consumer_of(host)));
                        }
                        NodeBy::Host(_) | NodeBy::Hostname(_) => {}
                    }
                }
                if named.is_empty() {
                    own.ring_for_cluster(&bell, cluster);
                }
                for machine in named {
                    bell.push(machine);
                }
            }
            News::Node(_) => {}
        });
    }

    fn ring_for_cluster(&self, bell: &Queue<ObjectKey>, cluster: &ObjectKey) {
        let machines = &self.ctx.world.metal3_machines;
        for machine in machines.names(&Metal3MachineBy::Cluster(cluster.clone())) {
            bell.push(machine);
        }
    }
}

/// The Metal3Machine that one of our provider IDs names.
fn machine_of(id: &str) -> Option<ObjectKey> {
    let (host, machine) = id.strip_prefix("metal3://")?.rsplit_once('/')?;
    let (namespace, _) = host.split_once('/')?;
    Some(ObjectKey::new(namespace, machine))
}

/// The Metal3Machine that a Machine names.
fn infrastructure_of(machine: &Machine) -> Option<ObjectKey> {
    let reference = &machine.spec.infrastructure_ref;
    let namespace = machine.metadata.namespace.clone().unwrap_or_default();
    reference
        .is_of(GROUP, &Metal3Machine::kind(&()))
        .then(|| ObjectKey::new(namespace, &reference.name))
}
