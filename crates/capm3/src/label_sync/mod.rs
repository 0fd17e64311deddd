//! The label sync: labels of hosts, of the prefixes that an annotation of the Metal3Cluster names, become labels of Nodes.
//!
//! ```text
//!  Metal3Cluster: prefixes ─┐
//!  host: labels ────────────┼─▶ observe ─▶ decide (pure): one patch for each Node that differs ─▶ workload cluster
//!  Node: labels ────────────┘
//! ```
//!
//! It looks at one Cluster at a time, so that a workload cluster that hangs holds up one worker and no other cluster. It
//! goes one way: under these prefixes a Node has what its host has, and nothing else. What was copied stays when a prefix is
//! not named any more. At rest nothing is asked.

mod decide;
mod observed;
mod prefixes;
#[cfg(test)]
mod tests;

use std::time::Duration;

use kube::{Resource, ResourceExt};
use metal3_api::capi::names::annotation::PAUSED;
use metal3_api::capi::{Cluster, Machine};
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::controller::{Next, Reconcile};
use metal3_runtime::error::{chain, is_conflict, is_not_found};
use metal3_runtime::events::{Note, Severity};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use self::decide::{Relabel, decide};
use self::observed::{observe, wanted};
pub use self::prefixes::Prefixes;
use crate::context::Context;
use crate::error::PassError;
use crate::refusals::Told;
use crate::select::consumer_of;
use crate::workload::{News, Workloads};
use crate::world::{ClusterBy, cluster_of};

/// The controller. Its keys are those of Clusters.
#[derive(Clone)]
pub struct LabelSync {
    /// What all controllers share.
    pub ctx: Context,
    /// The workload clusters.
    pub workloads: Workloads,
    /// What was told of Nodes that get no labels.
    pub refusals: Told,
}

/// What happens to many machines at once is looked at once.
const GATHER: Duration = Duration::from_millis(100);

/// Labels of a Node that somebody else has changed are put right after this time: whoever insists on others, such as Cluster
/// API where both are told to set the same label, costs a write now and then and not a storm.
const DRIFT: Duration = Duration::from_secs(10);

impl Reconcile for LabelSync {
    const NAME: &'static str = "metal3labelsync";
    type Error = PassError;

    fn listen(&self, queue: &Queue<ObjectKey>) {
        self.listen_to_hosts(queue);
        self.listen_to_machines(queue);
        let world = &self.ctx.world;
        let bell = queue.clone();
        world.clusters.listen(move |change| {
            let asked = |cluster: &Cluster| (cluster.is_paused(), cluster.spec.infrastructure_ref.clone());
            if change.affects(asked) {
                bell.push(change.key.clone());
            }
        });
        let (seen, bell) = (world.clone(), queue.clone());
        world.metal3_clusters.listen(move |change| {
            if change.affects(|cluster: &Metal3Cluster| (cluster.annotations().clone(), cluster.labels().clone())) {
                for cluster in seen.clusters.names(&ClusterBy::Infrastructure(change.key.clone())) {
                    bell.push(cluster);
                }
            }
        });
        let bell = queue.clone();
        self.workloads.listen(move |cluster, news| match news {
            News::Link => bell.push(cluster.clone()),
            News::Node(change) if change.affects(|node| node.metadata.labels.clone()) => {
                let delay = if change.before.is_some() { DRIFT } else { GATHER };
                bell.push_in(cluster.clone(), delay);
            }
            News::Node(_) => {}
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.world.clusters.all()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, PassError> {
        let world = &self.ctx.world;
        // Of a cluster whose labels nobody wants no Node is looked at.
        let Some((metal3_cluster, prefixes)) = wanted(world, key) else {
            return Ok(Next::Change);
        };
        let Ok(workload) = self.workloads.of(key) else {
            // It is the machines' conditions that say so; this goes on when it is back.
            return Ok(Next::Change);
        };
        let (mut refused, uid) = (None, world.clusters.get(key).and_then(|cluster| cluster.uid()));
        for change in decide(&observe(world, key, prefixes, &workload.nodes)) {
            let about = format!("{}/{}", uid.as_deref().unwrap_or_default(), change.node);
            let Err(source) = workload.change_node(&change.node, &change.patch()).await else {
                self.refusals.forget(Some(&about));
                tracing::info!(cluster = %key, node = change.node, "a node has the labels of its host");
                continue;
            };
            // It went, or another has its name now; the watch shows it.
            if is_not_found(&source) || is_conflict(&source) {
                continue;
            }
            let concerns_all = !is_about_this_one(&source);
            let error = PassError {
                what: "label",
                subject: format!("Node {} of Cluster {key}", change.node),
                source,
            };
            if let Some(message) = self.refusals.refusal(&self.ctx, Some(&about), &error)
                && self.refusals.is_news(&about, &message)
            {
                self.tell(&metal3_cluster, &change, &error).await;
            }
            if concerns_all {
                return Err(error);
            }
            refused.get_or_insert(error);
        }
        refused.map_or(Ok(Next::Change), Err)
    }
}

/// Whether the server does not do this one write, and may well do the next one. It may be a webhook that fails for this Node
/// only.
fn is_about_this_one(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code != 429)
}

impl LabelSync {
    fn listen_to_hosts(&self, queue: &Queue<ObjectKey>) {
        let (seen, bell) = (self.ctx.world.clone(), queue.clone());
        self.ctx.world.hosts.listen(move |change| {
            let asked = |host: &BareMetalHost| {
                let is_paused = host.annotations().contains_key(PAUSED);
                (host.labels().clone(), host.spec.consumer_ref.clone(), is_paused)
            };
            if !change.affects(asked) {
                return;
            }
            for machine in change.states().filter_map(|host| consumer_of(host)) {
                let machine = seen.metal3_machines.get(&machine);
                if let Some(cluster) = machine.and_then(|machine| cluster_of(&*machine)) {
                    bell.push_in(cluster, GATHER);
                }
            }
        });
    }

    fn listen_to_machines(&self, queue: &Queue<ObjectKey>) {
        let world = &self.ctx.world;
        let bell = queue.clone();
        world.metal3_machines.listen(move |change| {
            let asked = |machine: &Metal3Machine| {
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
                .filter(|_| change.affects(asked))
                .filter_map(|m| cluster_of(&**m))
            {
                bell.push_in(cluster, GATHER);
            }
        });
        let bell = queue.clone();
        world.machines.listen(move |change| {
            let asked = |machine: &Machine| (machine.status.node_ref.clone(), cluster_of(machine));
            for cluster in change
                .states()
                .filter(|_| change.affects(asked))
                .filter_map(|m| cluster_of(&**m))
            {
                bell.push_in(cluster, GATHER);
            }
        });
    }

    async fn tell(&self, cluster: &Metal3Cluster, change: &Relabel, error: &PassError) {
        let keys: Vec<&str> = change.labels.keys().map(String::as_str).collect();
        let note = Note {
            reason: "LabelSyncRefused",
            message: format!("labels {}: {}", keys.join(", "), chain(error)),
            severity: Severity::Warning,
        };
        self.ctx.recorder.publish(&cluster.object_ref(&()), None, &note).await;
    }
}
