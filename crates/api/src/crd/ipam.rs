//! The definitions of the group `ipam.metal3.io`.

use super::{Crd, CrdError};
use crate::capi::names::label;
use crate::ipam::names::PROVIDER;
use crate::ipam::{IPAddress, IPClaim, IPPool};
use crate::rules::staying_spec;

/// All of them, in any order.
pub fn all() -> Result<Vec<Crd>, CrdError> {
    let crds = [Crd::of::<IPAddress>()?, Crd::of::<IPClaim>()?, Crd::of::<IPPool>()?];
    // The only version follows both of Cluster API's contracts.
    let labelled = crds.map(|crd| {
        // As `clusterctl init` does: definitions that were installed in another way are overlooked by `clusterctl move`.
        crd.label(label::CLUSTERCTL, "")
            .label(label::PROVIDER, PROVIDER)
            .label(label::CONTRACT_V1BETA1, "v1alpha1")
            .label(label::CONTRACT_V1BETA2, "v1alpha1")
            .validations(&staying_spec())
    });
    Ok(labelled.into())
}
