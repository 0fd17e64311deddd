//! By what Clusters are found, and what names one.

use kube::{Resource, ResourceExt};
use metal3_api::capi::{self, Cluster};
use metal3_api::infra;
use metal3_api::infra::v1beta2::Metal3Cluster;
use metal3_runtime::store::ObjectKey;

/// What a Cluster is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClusterBy {
    /// The Metal3Cluster that it names.
    Infrastructure(ObjectKey),
}

pub(super) fn keys_of(cluster: &Cluster) -> Vec<ClusterBy> {
    infrastructure(cluster)
        .map(ClusterBy::Infrastructure)
        .into_iter()
        .collect()
}

/// The Metal3Cluster that a Cluster names.
pub fn infrastructure(cluster: &Cluster) -> Option<ObjectKey> {
    let reference = cluster.spec.infrastructure_ref.as_ref()?;
    reference
        .is_of(infra::names::GROUP, &Metal3Cluster::kind(&()))
        .then(|| ObjectKey::new(cluster.namespace().unwrap_or_default(), &reference.name))
}

/// The Cluster that an object's label names.
pub fn cluster_of(object: &impl ResourceExt) -> Option<ObjectKey> {
    let name = object.labels().get(capi::names::label::CLUSTER_NAME)?;
    (!name.is_empty()).then(|| ObjectKey::new(object.namespace().unwrap_or_default(), name))
}
