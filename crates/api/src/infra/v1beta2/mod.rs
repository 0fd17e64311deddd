//! Version `v1beta2`: what is stored and what controllers work with.

mod cluster;
mod data;
mod data_template;
mod machine;
mod reference;
mod remediation;

pub use super::shared::*;
pub(crate) use cluster::domains;
pub use cluster::{
    ApiEndpoint, FailureDomain, Metal3Cluster, Metal3ClusterSpec, Metal3ClusterStatus, Metal3ClusterTemplate,
    Metal3ClusterTemplateResource, Metal3ClusterTemplateSpec,
};
pub use data::{
    Metal3Data, Metal3DataClaim, Metal3DataClaimSpec, Metal3DataClaimStatus, Metal3DataSpec, Metal3DataStatus,
};
pub use data_template::{
    BondLink, BondParameter, DataIndex, MetaData, Metal3DataTemplate, Metal3DataTemplateSpec, Metal3DataTemplateStatus,
    NetworkData, NetworkLinks,
};
pub use machine::{
    Image, Initialization, Metal3Machine, Metal3MachineSpec, Metal3MachineStatus, Metal3MachineTemplate,
    Metal3MachineTemplateResource, Metal3MachineTemplateSpec,
};
pub use reference::{ObjectRef, TemplateMetadata};
pub use remediation::{
    Metal3Remediation, Metal3RemediationSpec, Metal3RemediationStatus, Metal3RemediationTemplate,
    Metal3RemediationTemplateResource, Metal3RemediationTemplateSpec, Metal3RemediationTemplateStatus,
    RemediationPhase, RemediationStrategy, RemediationType,
};
