//! The parts of Cluster API's kinds that Metal3 reads, in version `v1beta2`.
//!
//! Cluster API owns these kinds and adds fields as it likes. Two ways keep us from losing them:
//!
//! | kinds | what is here | how they are written |
//! |---|---|---|
//! | [`Cluster`], [`Machine`], [`MachineSet`], [`MachineDeployment`], [`KubeadmControlPlane`] | the few fields that are read | never whole: they cannot be serialised, so the compiler refuses `create` and `replace`. Use a merge patch of the fields that are meant, with the `resourceVersion` where a list such as the conditions is among them |
//! | [`IPAddressClaim`], [`IPAddress`] | all fields of this version; unknown ones are kept in `other` | any way |
//!
//! Everything may be missing: an object of another version of Cluster API must not stop a watch.

mod cluster;
mod ip_address;
mod machine;
mod machines;
pub mod names;
mod slice;

pub use cluster::{Cluster, ClusterInitialization, ClusterSpec, ClusterStatus, Endpoint};
pub use ip_address::{
    IPAddress, IPAddressClaim, IPAddressClaimReference, IPAddressClaimSpec, IPAddressClaimStatus, IPAddressReference,
    IPAddressSpec, PoolReference,
};
pub use machine::{
    Bootstrap, DeprecatedMachineStatus, LegacyCondition, LegacyConditions, Machine, MachineInitialization, MachineSpec,
    MachineStatus, NodeReference,
};
pub use machines::{
    KubeadmControlPlane, KubeadmControlPlaneSpec, KubeadmMachineTemplate, KubeadmMachineTemplateSpec,
    MachineDeployment, MachineSet, MachineTemplate, MachineTemplateSpec, MachinesSpec,
};
pub use slice::ContractReference;
