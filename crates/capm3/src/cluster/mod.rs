//! The Metal3Cluster controller: reports the control plane endpoint and the failure domains to Cluster API. It creates nothing:
//! the user provides the address of the control plane.

mod decide;
mod observed;
#[cfg(test)]
mod tests;

use std::convert::Infallible;

use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use metal3_api::capi::{self, MachineSet};
use metal3_api::infra::names::{finalizer, label};
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3ClusterStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::controller::{Controller, Next, Report};
use metal3_runtime::error::{is_conflict, is_not_found};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use metal3_runtime::{Clock, patch};
use serde_json::{Value, json};

pub use self::decide::{API_SERVER_PORT, Decision, Effect, Plan, decide};
pub use self::observed::{Observed, Owner, observe};
use crate::context::Context;
use crate::error::PassError;
use crate::report::{STORE_STATUS, report};
use crate::select::keeper_of;
use crate::stores::{cluster_of, infrastructure};

/// The controller.
#[derive(Clone)]
pub struct Metal3Clusters {
    /// Shared by all controllers.
    pub ctx: Context,
}

impl Controller for Metal3Clusters {
    const NAME: &'static str = "metal3cluster";
    type Observed = Observed;
    type Read = Infallible;
    type Effect = Effect;
    type Status = Metal3ClusterStatus;
    type Error = PassError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let stores = &self.ctx.stores;
        let seen = stores.clone();
        queue.follow(&stores.metal3_clusters, move |change| {
            let is_ours = change.states().any(|cluster| seen.is_ours(&**cluster));
            is_ours.then(|| change.key.clone())
        });
        queue.follow(&stores.clusters, |change| {
            // Status changes are frequent and do not matter here.
            let is_other = change.affects(|cluster| cluster.spec.clone());
            let clusters = change.states().filter(|_| is_other);
            clusters
                .filter_map(|cluster| infrastructure(cluster))
                .collect::<Vec<_>>()
        });
        // Only a deletion reads Machines, and only their removal matters to it.
        let clusters = stores.clusters.clone();
        queue.follow(&stores.machines, move |change| {
            let left = change.before.as_ref().filter(|_| change.affects(cluster_of))?;
            let cluster = clusters.get(&cluster_of(&**left)?)?;
            infrastructure(&cluster)
        });
        // Hosts may be reserved for a deployment whose last MachineSet is deleted.
        let clusters = stores.clusters.clone();
        queue.follow(&stores.machine_sets, move |change| {
            let stays = |set: &MachineSet| set.metadata.deletion_timestamp.is_none();
            let set = change.before.as_ref().filter(|_| change.affects(stays))?;
            let cluster = ObjectKey::new(&change.key.namespace, &set.spec.cluster_name);
            let cluster = clusters.get(&cluster)?;
            infrastructure(&cluster)
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.stores.metal3_clusters.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, PassError> {
        Ok(observe(&self.ctx.stores, key))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision {
        decide(seen, now)
    }

    async fn fetch(&self, _: &mut Observed, read: Infallible) -> Result<(), PassError> {
        match read {}
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), PassError> {
        let key = ObjectKey::of(&*seen.cluster);
        let applied = apply(&self.ctx, seen, effect).await;
        applied.map_err(PassError::with(effect.label(), effect.object(), "Metal3Cluster", &key))
    }

    async fn report(&self, seen: &mut Observed, new: Report<Metal3ClusterStatus>) -> Result<(), PassError> {
        report(&self.ctx, &self.ctx.stores.metal3_clusters, &mut seen.cluster, new).await
    }

    fn refused(&self, seen: &Observed, error: &PassError) -> Report<Metal3ClusterStatus> {
        let cluster = &*seen.cluster;
        if error.what == STORE_STATUS {
            return Report::default(); // the report would fail in the same way
        }
        match self.ctx.refusal(cluster.metadata.uid.as_deref(), error) {
            Some(refusal) if refusal.is_new => decide::refused(cluster, &refusal.message, self.ctx.clock.now()),
            Some(_) | None => Report::default(),
        }
    }

    fn ended(&self, _: &ObjectKey, seen: Option<&Observed>, done: &Result<Next, PassError>) {
        if let (Some(seen), Ok(_)) = (seen, done) {
            self.ctx.succeeded(seen.cluster.metadata.uid.as_deref());
        }
    }
}

async fn apply(ctx: &Context, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
    let cluster = &*seen.cluster;
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Metal3Cluster> = Api::namespaced(ctx.client.clone(), namespace);
    let written = match effect {
        Effect::AddFinalizer => patch::add_finalizer(&api, cluster, finalizer::CLUSTER).await?,
        Effect::RemoveFinalizer => patch::remove_finalizer(&api, cluster, finalizer::CLUSTER).await?,
        Effect::SetPort { patch } => {
            let name = cluster.metadata.name.as_deref().unwrap_or_default();
            Some(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
        }
        Effect::ReleaseHost { host, patch } => {
            let hosts: Api<BareMetalHost> = Api::namespaced(ctx.client.clone(), namespace);
            if let Some(released) = release(&hosts, host, patch).await? {
                ctx.stores.hosts.written(released);
            }
            None
        }
    };
    if let Some(written) = written {
        ctx.stores.metal3_clusters.written(written.clone());
        seen.cluster = written.into();
    }
    Ok(())
}

/// Retries per pass after a write conflict on a host.
const TRIES: usize = 3;

/// Releases a host reserved for the cluster. Does nothing if the host is gone, is no longer reserved, or keeps changing: a
/// cluster does not wait for it.
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

/// Whether the cluster's infrastructure is managed externally.
fn is_externally_managed(cluster: &Metal3Cluster) -> bool {
    let annotations = cluster.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(capi::names::annotation::MANAGED_BY))
}
