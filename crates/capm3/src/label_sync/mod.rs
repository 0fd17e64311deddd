//! The label sync: copies host labels to Nodes, for the prefixes in an annotation of the Metal3Cluster.
//!
//! ```text
//!  Metal3Cluster: prefixes ─┐
//!  host: labels ────────────┼─▶ observe ─▶ decide (pure): one patch for each Node that differs ─▶ workload cluster
//!  Node: labels ────────────┘
//! ```
//!
//! A pass handles one Cluster, so that a hanging workload cluster occupies one worker and no other cluster. The sync goes one
//! way: under these prefixes a Node has exactly its host's labels. Copied labels stay after a prefix is removed from the
//! annotation. When idle it sends no requests.

mod decide;
mod observed;
mod prefixes;
#[cfg(test)]
mod tests;

use std::convert::Infallible;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use metal3_api::capi::{Cluster, Machine};
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Decision, Report};
use metal3_runtime::error::{chain, is_conflict, is_not_found};
use metal3_runtime::events::Event;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::provider::{LABELS_DRIFT, LABELS_GATHER};
use metal3_runtime::work::Queue;

use self::decide::{Effect, Relabel, decide};
use self::observed::{Observed, observe};
pub use self::prefixes::Prefixes;
use crate::context::Context;
use crate::error::PassError;
use crate::refusals::Refusals;
use crate::select::consumer_of;
use crate::stores::{ClusterBy, cluster_of};
use crate::workload::{News, Workloads};

/// The controller. Its keys are those of Clusters.
#[derive(Clone)]
pub struct LabelSync {
    /// Shared by all controllers.
    pub ctx: Context,
    /// The workload clusters.
    pub workloads: Workloads,
    /// Rejections by Cluster and Node.
    pub refusals: Refusals,
}

impl Controller for LabelSync {
    const NAME: &'static str = "metal3labelsync";
    type Observed = Observed;
    type Read = Infallible;
    type Effect = Effect;
    type Status = ();
    type Error = PassError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        self.listen_to_hosts(queue);
        self.listen_to_machines(queue);
        self.listen_to_clusters(queue);
        let of_workload = queue.clone();
        self.workloads.listen(move |cluster, news| match news {
            News::Link => of_workload.push(cluster.clone()),
            News::Node(change) if change.affects(|node| node.metadata.labels.clone()) => {
                let is_new = change.before.is_none();
                of_workload.push_in(cluster.clone(), if is_new { LABELS_GATHER } else { LABELS_DRIFT });
            }
            News::Node(_) => {}
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.stores.clusters.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, PassError> {
        // The machines report an unreachable workload cluster; this continues once it is back.
        let nodes = || self.workloads.of(key).ok().map(|workload| workload.nodes);
        Ok(observe(&self.ctx.stores, key, nodes))
    }

    fn decide(seen: &Observed, _: Timestamp) -> Decision<Infallible, Effect, ()> {
        decide(seen)
    }

    async fn fetch(&self, _: &mut Observed, read: Infallible) -> Result<(), PassError> {
        match read {}
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), PassError> {
        match effect {
            Effect::Relabel(change) => self.relabel(seen, change).await,
            Effect::Conclude => seen.refused.take().map_or(Ok(()), Err),
        }
    }

    async fn report(&self, seen: &mut Observed, report: Report<()>) -> Result<(), PassError> {
        let regarding = seen.metal3_cluster.object_ref(&());
        for event in &report.events {
            self.ctx.recorder.publish(&regarding, None, event).await;
        }
        Ok(())
    }

    fn refused(&self, seen: &Observed, _: &PassError) -> Report<()> {
        Report {
            status: None,
            events: seen.events.clone(),
        }
    }
}

/// Whether the server rejects only this write and may accept the next: for example, a webhook may fail only for this Node.
fn is_about_this_one(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code != 429)
}

impl LabelSync {
    /// Changes the labels of a Node. A rejection does not hold up the other Nodes.
    async fn relabel(&self, seen: &mut Observed, change: &Relabel) -> Result<(), PassError> {
        let Some(workload) = self.workloads.followed(&seen.key) else {
            return Ok(());
        };
        let about = format!("{}/{}", seen.uid, change.node);
        let Err(source) = workload.change_node(&change.node, &change.patch()).await else {
            self.refusals.succeeded(Some(&about));
            tracing::info!(cluster = %seen.key, node = change.node, "a node has the labels of its host");
            return Ok(());
        };
        // It was deleted or replaced by another of its name; the watch will show it.
        if is_not_found(&source) || is_conflict(&source) {
            return Ok(());
        }
        let concerns_all = !is_about_this_one(&source);
        let error = PassError {
            what: "label",
            subject: format!("Node {} of Cluster {}", change.node, seen.key),
            source,
        };
        let refusal = self.refusals.failed(Some(&about), &error, self.ctx.clock.elapsed());
        if refusal.is_some_and(|refusal| refusal.is_new) {
            let keys: Vec<&str> = change.labels.keys().map(String::as_str).collect();
            let message = format!("labels {}: {}", keys.join(", "), chain(&error));
            seen.events.push(Event::warning("LabelSyncRefused", message));
        }
        if concerns_all {
            return Err(error);
        }
        seen.refused.get_or_insert(error);
        Ok(())
    }

    fn listen_to_clusters(&self, queue: &Queue<ObjectKey>) {
        let stores = &self.ctx.stores;
        let of_cluster = queue.clone();
        stores.clusters.listen(move |change| {
            let read = |cluster: &Cluster| (cluster.is_paused(), cluster.spec.infrastructure_ref.clone());
            if change.affects(read) {
                of_cluster.push(change.key.clone());
            }
        });
        let (clusters, of_metal3_cluster) = (stores.clusters.clone(), queue.clone());
        stores.metal3_clusters.listen(move |change| {
            if change.affects(|cluster: &Metal3Cluster| (cluster.annotations().clone(), cluster.labels().clone())) {
                for cluster in clusters.names(&ClusterBy::Infrastructure(change.key.clone())) {
                    of_metal3_cluster.push(cluster);
                }
            }
        });
    }

    fn listen_to_hosts(&self, queue: &Queue<ObjectKey>) {
        let (stores, of_host) = (self.ctx.stores.clone(), queue.clone());
        self.ctx.stores.hosts.listen(move |change| {
            let read = |host: &BareMetalHost| {
                (
                    host.labels().clone(),
                    host.spec.consumer_ref.clone(),
                    observed::is_host_paused(host),
                )
            };
            if !change.affects(read) {
                return;
            }
            for machine in change.states().filter_map(|host| consumer_of(host)) {
                let machine = stores.metal3_machines.get(&machine);
                if let Some(cluster) = machine.and_then(|machine| cluster_of(&*machine)) {
                    of_host.push_in(cluster, LABELS_GATHER);
                }
            }
        });
    }

    fn listen_to_machines(&self, queue: &Queue<ObjectKey>) {
        let stores = &self.ctx.stores;
        let of_metal3_machine = queue.clone();
        stores.metal3_machines.listen(move |change| {
            let read = |machine: &Metal3Machine| {
                let meta = &machine.metadata;
                let is_deleted = meta.deletion_timestamp.is_some();
                (
                    meta.annotations.clone(),
                    meta.labels.clone(),
                    meta.owner_references.clone(),
                    is_deleted,
                )
            };
            for cluster in change
                .states()
                .filter(|_| change.affects(read))
                .filter_map(|m| cluster_of(&**m))
            {
                of_metal3_machine.push_in(cluster, LABELS_GATHER);
            }
        });
        let of_machine = queue.clone();
        stores.machines.listen(move |change| {
            let read = |machine: &Machine| (machine.status.node_ref.clone(), cluster_of(machine));
            for cluster in change
                .states()
                .filter(|_| change.affects(read))
                .filter_map(|m| cluster_of(&**m))
            {
                of_machine.push_in(cluster, LABELS_GATHER);
            }
        });
    }
}
