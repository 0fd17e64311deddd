//! The Metal3Cluster controller: tells Cluster API where the control plane is reached and which failure domains there
//! are. It makes nothing: the address of the control plane is the user's to provide.

mod decide;
mod observed;
#[cfg(test)]
mod tests;

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use metal3_api::capi::{self, MachineSet};
use metal3_api::infra::names::{finalizer, label};
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3ClusterStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::conditions::whole_seconds;
use metal3_runtime::controller::{Next, Reconcile};
use metal3_runtime::error::{chain, is_conflict, is_not_found};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use metal3_runtime::{patch, status};
use serde_json::{Value, json};

pub use self::decide::{Effect, Plan, decide};
pub use self::observed::{Observed, Owner, observe};
use crate::context::Context;
use crate::error::PassError;
use crate::select::keeper_of;
use crate::world::{cluster_of, infrastructure};

/// Of what it looks after, for errors.
const KIND: &str = "Metal3Cluster";
/// Of what is done to its status, for the same.
const STORE_STATUS: &str = "store the status";

/// The controller.
#[derive(Clone)]
pub struct Metal3Clusters {
    /// What all controllers share.
    pub ctx: Context,
}

impl Reconcile for Metal3Clusters {
    const NAME: &'static str = "metal3cluster";
    type Error = PassError;

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let (world, bell) = (self.ctx.world.clone(), queue.clone());
        self.ctx.world.metal3_clusters.listen(move |change| {
            if change.states().any(|cluster| world.is_ours(&**cluster)) {
                bell.push(change.key.clone());
            }
        });
        let bell = queue.clone();
        self.ctx.world.clusters.listen(move |change| {
            // How far it is, which it says all the time, does not matter here.
            if change.affects(|cluster| cluster.spec.clone()) {
                for key in change.states().filter_map(|cluster| infrastructure(cluster)) {
                    bell.push(key);
                }
            }
        });
        // Only a deletion looks at Machines, and only their going matters to it.
        let (world, bell) = (self.ctx.world.clone(), queue.clone());
        self.ctx.world.machines.listen(move |change| {
            let left = change.before.as_ref().filter(|_| change.affects(cluster_of));
            let cluster = left.and_then(|machine| world.clusters.get(&cluster_of(&**machine)?));
            if let Some(key) = cluster.and_then(|cluster| infrastructure(&cluster)) {
                bell.push(key);
            }
        });
        // Hosts may be kept for a deployment whose last set goes.
        let (world, bell) = (self.ctx.world.clone(), queue.clone());
        self.ctx.world.machine_sets.listen(move |change| {
            let stays = |set: &MachineSet| set.metadata.deletion_timestamp.is_none();
            if let Some(set) = change.before.as_ref().filter(|_| change.affects(stays)) {
                let cluster = ObjectKey::new(&change.key.namespace, &set.spec.cluster_name);
                let cluster = world.clusters.get(&cluster);
                if let Some(key) = cluster.and_then(|cluster| infrastructure(&cluster)) {
                    bell.push(key);
                }
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.world.metal3_clusters.all()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, PassError> {
        let ctx = &self.ctx;
        let Some(seen) = observe(&ctx.world, key) else {
            return Ok(Next::Change);
        };
        let Some(plan) = decide(&seen, ctx.clock.now()) else {
            return Ok(Next::Change);
        };
        let done = self.carry_out(key, &seen.cluster, plan).await;
        match &done {
            Ok(()) => ctx.succeeded(seen.cluster.metadata.uid.as_deref()),
            Err(error) => self.tell_refusal(key, error).await,
        }
        done.map(|()| Next::Change)
    }
}

impl Metal3Clusters {
    async fn carry_out(&self, key: &ObjectKey, seen: &Metal3Cluster, plan: Plan) -> Result<(), PassError> {
        let mut object = seen.clone();
        // Hosts are given back when everything else is done: a cluster waits for none of them.
        let is_last = |effect: &Effect| matches!(effect, Effect::ReleaseHost { .. } | Effect::RemoveFinalizer);
        let (last, first): (Vec<_>, Vec<_>) = plan.effects.iter().partition(|effect| is_last(effect));
        for effect in first {
            let applied = self.apply(&mut object, effect).await;
            applied.map_err(PassError::with(effect.label(), effect.object(), KIND, key))?;
        }
        if let Some(status) = plan.status {
            object = self.store(key, object, status).await?;
        }
        for effect in last {
            let applied = self.apply(&mut object, effect).await;
            applied.map_err(PassError::with(effect.label(), effect.object(), KIND, key))?;
        }
        for note in &plan.notes {
            self.ctx.recorder.publish(&object.object_ref(&()), None, note).await;
        }
        Ok(())
    }

    async fn tell_refusal(&self, key: &ObjectKey, error: &PassError) {
        // The pass may have written it.
        let cluster = self.ctx.world.metal3_clusters.get(key);
        let Some(cluster) = cluster.filter(|_| error.what != STORE_STATUS) else {
            return;
        };
        let Some(message) = self.ctx.refusal(cluster.metadata.uid.as_deref(), error) else {
            return;
        };
        if let Some(plan) = decide::refused(&cluster, &message, self.ctx.clock.now())
            && let Err(error) = self.carry_out(key, &cluster, plan).await
        {
            tracing::debug!(cluster = %key, error = %chain(&error), "cannot tell what was refused");
        }
    }

    async fn apply(&self, seen: &mut Metal3Cluster, effect: &Effect) -> Result<(), kube::Error> {
        let (client, world) = (&self.ctx.client, &self.ctx.world);
        let namespace = seen.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Metal3Cluster> = Api::namespaced(client.clone(), &namespace);
        let written = match effect {
            Effect::AddFinalizer => patch::add_finalizer(&api, seen, finalizer::CLUSTER).await?,
            Effect::RemoveFinalizer => patch::remove_finalizer(&api, seen, finalizer::CLUSTER).await?,
            Effect::SetPort { patch } => {
                let name = seen.metadata.name.as_deref().unwrap_or_default();
                Some(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
            }
            Effect::ReleaseHost { host, patch } => {
                let hosts: Api<BareMetalHost> = Api::namespaced(client.clone(), &namespace);
                if let Some(released) = release(&hosts, host, patch).await? {
                    world.hosts.written(released);
                }
                None
            }
        };
        if let Some(written) = written {
            world.metal3_clusters.written(written.clone());
            *seen = written;
        }
        Ok(())
    }

    /// Stores a status if it differs from what is there.
    async fn store(
        &self,
        key: &ObjectKey,
        seen: Metal3Cluster,
        mut status: Metal3ClusterStatus,
    ) -> Result<Metal3Cluster, PassError> {
        let before = seen.status.clone().unwrap_or_default();
        status.last_updated.clone_from(&before.last_updated);
        if status == before {
            return Ok(seen);
        }
        let now = whole_seconds(self.ctx.clock.now());
        status.last_updated = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        let written = status::replace(&self.ctx.client, &seen, status).await;
        let written = written.map_err(PassError::of(STORE_STATUS, KIND, key))?;
        self.ctx.world.metal3_clusters.written(written.clone());
        Ok(written)
    }
}

/// How often a host that others write at the same time is tried again in one pass.
const TRIES: usize = 3;

/// Gives a host back that was kept for the cluster. Nothing if it is gone, is kept no more, or changes all the time: a cluster
/// does not wait for it.
pub async fn release(
    hosts: &Api<BareMetalHost>,
    name: &str,
    patch: &Value,
) -> Result<Option<BareMetalHost>, kube::Error> {
    let mut patch = patch.clone();
    for _ in 0..TRIES {
        match hosts.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(released) => return Ok(Some(released)),
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(error),
        }
        let Some(now) = hosts.get_opt(name).await? else {
            return Ok(None);
        };
        let is_kept = keeper_of(&now).is_some()
            && now
                .metadata
                .labels
                .iter()
                .flatten()
                .any(|(key, _)| key == label::NODE_REUSE);
        if !is_kept {
            return Ok(None);
        }
        patch["metadata"]["resourceVersion"] = json!(now.metadata.resource_version);
    }
    tracing::warn!(
        host = name,
        "a host that was kept for the cluster is changed by others all the time and stays kept"
    );
    Ok(None)
}

/// Whether somebody else looks after the cluster's infrastructure.
fn is_externally_managed(cluster: &Metal3Cluster) -> bool {
    let annotations = cluster.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(capi::names::annotation::MANAGED_BY))
}
