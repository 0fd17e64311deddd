//! The definitions of the group `infrastructure.cluster.x-k8s.io`.

use super::{ConversionService, Crd, CrdError};
use crate::capi::names::{annotation, label};
use crate::infra::{v1beta1, v1beta2};
use crate::rules::staying_spec;
use kube::CustomResourceExt;
use schemars::JsonSchema;

/// Where upstream's provider is installed, and what its Service is called there.
const CONVERSION: ConversionService<'_> = ConversionService {
    namespace: "capm3-system",
    name: "capm3-webhook-service",
    path: "/convert",
};

/// All of them, in any order.
pub fn all() -> Result<Vec<Crd>, CrdError> {
    Ok(vec![
        kind::<v1beta1::Metal3Cluster, v1beta2::Metal3Cluster>()?,
        kind::<v1beta1::Metal3ClusterTemplate, v1beta2::Metal3ClusterTemplate>()?,
        kind::<v1beta1::Metal3Machine, v1beta2::Metal3Machine>()?,
        kind::<v1beta1::Metal3MachineTemplate, v1beta2::Metal3MachineTemplate>()?,
        // Nothing owns these two templates, so clusterctl must be told to move them.
        kind::<v1beta1::Metal3DataTemplate, v1beta2::Metal3DataTemplate>()?
            .label(label::MOVE, "")
            .validations(&staying_spec()),
        kind::<v1beta1::Metal3DataClaim, v1beta2::Metal3DataClaim>()?.validations(&staying_spec()),
        // clusterctl refuses names that are not the plural that it would form itself.
        kind::<v1beta1::Metal3Data, v1beta2::Metal3Data>()?
            .annotation(annotation::SKIP_NAME_PREFLIGHT_CHECK, "")
            .validations(&staying_spec()),
        kind::<v1beta1::Metal3Remediation, v1beta2::Metal3Remediation>()?,
        kind::<v1beta1::Metal3RemediationTemplate, v1beta2::Metal3RemediationTemplate>()?.label(label::MOVE, ""),
    ])
}

/// A kind with both versions and what Cluster API and its tools look for.
fn kind<Old, New>() -> Result<Crd, CrdError>
where
    Old: CustomResourceExt + JsonSchema,
    New: CustomResourceExt + JsonSchema,
{
    let crd = Crd::of::<Old>()?.merge(Crd::of::<New>()?)?;
    Ok(crd
        // As `clusterctl init` does: definitions that were installed in another way are overlooked by `clusterctl move`.
        .label(label::CLUSTERCTL, "")
        .label(label::PROVIDER, "infrastructure-metal3")
        .label(label::CONTRACT_V1BETA1, "v1beta1")
        .label(label::CONTRACT_V1BETA2, "v1beta2")
        .converted_by(CONVERSION))
}
