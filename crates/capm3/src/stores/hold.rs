//! What is left alone, and why.

use kube::ResourceExt;
use metal3_api::capi::names::annotation;

use super::Stores;
use super::cluster::cluster_of;

/// Why an object is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It, its template or its Cluster is paused.
    Paused,
    /// The Cluster that its label names is not there, or is not seen yet: it could be a paused one.
    NoCluster(String),
}

/// Whether an object has the annotation that pauses it.
pub fn has_pause(object: &impl ResourceExt) -> bool {
    object.annotations().contains_key(annotation::PAUSED)
}

/// Why an object is left alone, as its annotation and its Cluster say.
pub fn hold_of(stores: &Stores, object: &impl ResourceExt) -> Option<Hold> {
    if has_pause(object) {
        return Some(Hold::Paused);
    }
    let cluster = cluster_of(object)?;
    match stores.clusters.get(&cluster) {
        Some(cluster) => cluster.is_paused().then_some(Hold::Paused),
        None => Some(Hold::NoCluster(cluster.name)),
    }
}
