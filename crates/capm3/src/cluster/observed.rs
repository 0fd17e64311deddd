//! The observed state from which a Metal3Cluster decision is made.

use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::capi::{self, Cluster};
use metal3_api::infra::names::label;
use metal3_api::infra::v1beta2::Metal3Cluster;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::ObjectKey;

use crate::machine::is_awaited;
use crate::stores::{HostBy, MachineBy, Stores, cluster_of, owner};

/// A Metal3Cluster and the objects related to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The object itself.
    pub cluster: Arc<Metal3Cluster>,
    /// The owning Cluster.
    pub owner: Owner,
    /// While deleting: the sorted names of the Cluster's remaining Machines.
    pub machines: Vec<String>,
    /// While deleting: the hosts reserved for the Cluster's machines. Before that: only the reserved hosts that no future machine
    /// will use.
    pub kept: Vec<Arc<BareMetalHost>>,
}

/// The owning Cluster of a Metal3Cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    /// Cluster API has not set the owner yet.
    Unset,
    /// The named Cluster does not exist.
    Missing(String),
    /// The Cluster.
    Found(Arc<Cluster>),
}

/// Gathers the observed state. `None` if the object is gone or is not ours to manage.
pub fn observe(stores: &Stores, key: &ObjectKey) -> Option<Observed> {
    let cluster = stores
        .metal3_clusters
        .get(key)
        .filter(|cluster| stores.is_ours(&**cluster))?;
    let name = owner(&*cluster, capi::names::group::CORE, "Cluster");
    let owner = name.map_or(Owner::Unset, |name| {
        let found = stores.clusters.get(&ObjectKey::new(&key.namespace, name));
        found.map_or_else(|| Owner::Missing(name.to_owned()), Owner::Found)
    });
    let of = name
        .map(|name| ObjectKey::new(&key.namespace, name))
        .or_else(|| cluster_of(&*cluster));
    let is_going = cluster.metadata.deletion_timestamp.is_some();
    let mut machines: Vec<String> = of
        .iter()
        .filter(|_| is_going)
        .flat_map(|of| machines_of(stores, of))
        .collect();
    machines.sort();
    let mut kept = of.map_or_else(Vec::new, |of| stores.hosts.find(&HostBy::Keeper(of)));
    if !is_going {
        kept.retain(|host| {
            let kept_as = host.labels().get(label::NODE_REUSE);
            kept_as.is_some_and(|kept_as| !is_awaited(stores, &key.namespace, kept_as))
        });
    }
    Some(Observed {
        cluster,
        owner,
        machines,
        kept,
    })
}

fn machines_of(stores: &Stores, cluster: &ObjectKey) -> impl Iterator<Item = String> + use<> {
    let machines = stores.machines.names(&MachineBy::Cluster(cluster.clone()));
    machines.into_iter().map(|machine| machine.name)
}

impl Observed {
    /// Why reconciliation is paused, if it is.
    pub fn paused(&self) -> Option<String> {
        if let Owner::Found(cluster) = &self.owner
            && cluster.is_paused()
        {
            return Some(format!("Cluster {} is paused (spec.paused)", cluster.name_any()));
        }
        let key = capi::names::annotation::PAUSED;
        self.cluster
            .annotations()
            .contains_key(key)
            .then(|| format!("the annotation {key} is there"))
    }
}
