//! Keys that are part of the interface: labels, annotations and finalizers of this group.

/// The API group.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// Finalizers.
pub mod finalizer {
    /// On a Metal3Cluster, until no Cluster API Machine of the cluster is left.
    pub const CLUSTER: &str = "metal3cluster.infrastructure.cluster.x-k8s.io";

    /// On a Metal3Machine until its host is released, and on its Metal3DataClaim.
    pub const MACHINE: &str = "metal3machine.infrastructure.cluster.x-k8s.io";

    /// On a Metal3DataTemplate, until no claim and no data of it is left.
    pub const DATA_TEMPLATE: &str = "metal3datatemplate.infrastructure.cluster.x-k8s.io";

    /// On a Metal3DataClaim and on the Metal3Data that answers it.
    pub const DATA_CLAIM: &str = "metal3dataclaim.infrastructure.cluster.x-k8s.io";

    /// On a Metal3Data and on the address claims that it has made.
    pub const DATA: &str = "metal3data.infrastructure.cluster.x-k8s.io";

    /// On a Metal3Remediation, until the node has back what was taken from it.
    pub const REMEDIATION: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";
}

/// Labels.
pub mod label {
    /// On a BareMetalHost that is kept for the next machine of a control plane (`cp-NAME`) or of a machine deployment
    /// (`md-NAME`).
    pub const NODE_REUSE: &str = "infrastructure.cluster.x-k8s.io/node-reuse";

    /// On a BareMetalHost: the failure domain that it stands in.
    pub const FAILURE_DOMAIN: &str = "infrastructure.cluster.x-k8s.io/failure-domain";

    /// On an address claim: the Metal3Data that it was made for.
    pub const DATA_NAME: &str = "infrastructure.cluster.x-k8s.io/data-name";

    /// On an address claim: the pool that it asks.
    pub const POOL_NAME: &str = "infrastructure.cluster.x-k8s.io/pool-name";
}

/// Annotations.
pub mod annotation {
    /// On a Metal3Machine: `NAMESPACE/NAME` of its BareMetalHost.
    pub const HOST: &str = "metal3.io/BareMetalHost";

    /// On a BareMetalHost that must not be chosen for a machine.
    pub const UNHEALTHY: &str = "capm3.metal3.io/unhealthy";

    /// Older name of [`UNHEALTHY`], still honoured.
    pub const UNHEALTHY_OLD: &str = "capi.metal3.io/unhealthy";

    /// On a Metal3Cluster: prefixes of labels that are copied from hosts to nodes, separated by commas.
    pub const LABEL_SYNC_PREFIXES: &str = "metal3.io/metal3-label-sync-prefixes";

    /// On a Metal3Remediation: how many attempts have begun, and whether the power cycle of the last one is done, such as `2` or
    /// `2 done`. Its status says the same, but does not travel to another management cluster.
    pub const REMEDIATION_ATTEMPTS: &str = "infrastructure.cluster.x-k8s.io/remediation-attempts";

    /// On a BareMetalHost that must never be off: for which attempt of which remediation it was restarted last, such as
    /// `6cbd0a3e-…/2`. The request itself goes as soon as the host has followed it.
    pub const RESTARTED_FOR: &str = "infrastructure.cluster.x-k8s.io/restarted-for";

    /// On a BareMetalHost: JSON of the image and the deploy method that it was told to install for its Metal3Machine.
    pub const INSTALLED: &str = "infrastructure.cluster.x-k8s.io/installed";

    /// On a Metal3Data: SHA-256 of what its template said when the data was asked for.
    pub const RENDERED_FROM: &str = "infrastructure.cluster.x-k8s.io/rendered-from";

    /// On a Metal3Remediation: JSON of the node's annotations, to be given back.
    pub const NODE_ANNOTATIONS_BACKUP: &str = "remediation.metal3.io/node-annotations-backup";

    /// On a Metal3Remediation: JSON of the node's labels, to be given back.
    pub const NODE_LABELS_BACKUP: &str = "remediation.metal3.io/node-labels-backup";

    /// On an object in v1beta2 that was written in v1beta1: JSON of what v1beta2 cannot express, by part of the object.
    /// Removed on the way to v1beta1. Its counterpart on the way back is Cluster API's
    /// [`CONVERSION_DATA`](crate::capi::names::annotation::CONVERSION_DATA).
    pub const V1BETA1_DATA: &str = "infrastructure.cluster.x-k8s.io/v1beta1-data";
}

/// Kind and group of the address pools that are meant where a reference does not say.
pub mod pool {
    /// Kind of Metal3's own pools.
    pub const KIND: &str = "IPPool";

    /// Group of Metal3's own pools.
    pub const GROUP: &str = "ipam.metal3.io";
}
