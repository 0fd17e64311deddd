//! Keys and words of Cluster API's contract with its providers.

/// Groups of Cluster API's kinds.
pub mod group {
    /// Cluster, Machine, MachineSet, MachineDeployment, MachineHealthCheck.
    pub const CORE: &str = "cluster.x-k8s.io";

    /// KubeadmControlPlane.
    pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";

    /// IPAddressClaim and IPAddress.
    pub const IPAM: &str = "ipam.cluster.x-k8s.io";

    /// The kinds that infrastructure providers define.
    pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
}

/// Labels.
pub mod label {
    /// Name of the Cluster that an object belongs to. On nodes this key is an annotation.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

    /// On machines of the control plane. Its presence counts, the value is empty.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

    /// Control plane that a machine belongs to. A name too long for a label is hashed: follow owner references instead
    /// of reading names from this and the next two.
    pub const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";

    /// MachineSet that a machine belongs to.
    pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";

    /// MachineDeployment that a machine belongs to.
    pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";

    /// With `--watch-filter`, only objects that carry this with the flag's value are looked at.
    pub const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";

    /// Provider that an object belongs to.
    pub const PROVIDER: &str = "cluster.x-k8s.io/provider";

    /// Contract v1beta1. On a definition; the value names the versions that follow the contract, joined by `_`.
    pub const CONTRACT_V1BETA1: &str = "cluster.x-k8s.io/v1beta1";

    /// Contract v1beta2. On a definition; the value names the versions that follow the contract, joined by `_`.
    pub const CONTRACT_V1BETA2: &str = "cluster.x-k8s.io/v1beta2";

    /// On what Cluster API generates from a ClusterClass.
    pub const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";

    /// On a definition: clusterctl looks at its objects. Empty value.
    pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";

    /// On a definition or an object: `clusterctl move` takes it along even without an owner. Empty value.
    pub const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";

    /// The same, with all that it owns. Empty value.
    pub const MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
}

/// Annotations.
pub mod annotation {
    /// While present, with any value, an object is left alone.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";

    /// On an infrastructure cluster that somebody else fulfils. Must not be taken away again.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";

    /// Template that an object was made from. Cluster API decides by it which machines are out of date: never remove
    /// or rewrite it.
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";

    /// Kind and group of that template, as `Kind.group`. The same holds.
    pub const CLONED_FROM_GROUP_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";

    /// On the machine that goes first when machines become fewer.
    pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";

    /// On a machine that is not to be remediated.
    pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";

    /// On a machine that is to be remediated, whatever its health.
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";

    /// In a dry run by the topology controller: a change of what cannot be changed is let through.
    pub const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";

    /// On an object in an older version: JSON of its spec and status in the version that is stored, so that nothing is lost
    /// on the way back. Never stored: it is made on the way to the older version and removed on the way back.
    pub const CONVERSION_DATA: &str = "cluster.x-k8s.io/conversion-data";

    /// `clusterctl move` waits while an object carries it.
    pub const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";

    /// Set by `clusterctl move` on what it deletes at the old place.
    pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

    /// On a definition whose plural is not the regular English one.
    pub const SKIP_NAME_PREFLIGHT_CHECK: &str = "clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check";
}

/// Types of conditions.
pub mod condition {
    /// Sums up the others, over the whole life of an object.
    pub const READY: &str = "Ready";

    /// Whether an object is left alone. Its reasons are [`PAUSED`] itself and [`NOT_PAUSED`](super::reason::NOT_PAUSED).
    pub const PAUSED: &str = "Paused";

    /// On a Cluster or a Machine: whether its infrastructure is there.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";

    /// On a Machine: whether its health check is content.
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";

    /// On a Machine: False asks its owner to replace it.
    pub const OWNER_REMEDIATED: &str = "OwnerRemediated";

    /// On a Machine: whether an external remediation is through.
    pub const EXTERNALLY_REMEDIATED: &str = "ExternallyRemediated";
}

/// Reasons of conditions.
pub mod reason {
    /// Of Paused, False.
    pub const NOT_PAUSED: &str = "NotPaused";

    /// Of OwnerRemediated and ExternallyRemediated, False.
    pub const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";

    /// Of Ready on a claim, False: no address, and the cause is not that the pool is used up.
    pub const ALLOCATION_FAILED: &str = "AllocationFailed";

    /// Of Ready on a claim, False: the pool is used up.
    pub const POOL_EXHAUSTED: &str = "PoolExhausted";

    /// Of Ready on a claim, False: the pool cannot be used.
    pub const POOL_NOT_READY: &str = "PoolNotReady";

    /// Of a machine's infrastructure: the cluster's is not there yet.
    pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY: &str = "WaitingForClusterInfrastructureReady";

    /// Of a machine's infrastructure: the control plane takes no requests yet.
    pub const WAITING_FOR_CONTROL_PLANE_INITIALIZED: &str = "WaitingForControlPlaneInitialized";

    /// Of a machine's infrastructure: the bootstrap data is not there yet.
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
}

/// Key of a bootstrap Secret whose value is the data itself.
pub const BOOTSTRAP_VALUE: &str = "value";

/// Key of a bootstrap Secret whose value names the format of the data, such as cloud-config. Absent means cloud-config.
pub const BOOTSTRAP_FORMAT: &str = "format";

/// Kind of control planes made by kubeadm.
pub const KUBEADM_CONTROL_PLANE: &str = "KubeadmControlPlane";

/// Type of the Secrets that Cluster API and its providers make.
pub const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
