//! IPClaim.

use metal3_api::ipam::IPClaim;

use super::{FieldError, filled, requested, same_reference};

/// A new claim.
pub fn create(claim: &IPClaim) -> Vec<FieldError> {
    let name = filled("spec.pool.name", &claim.spec.pool.name);
    name.into_iter()
        .chain(requested(claim.metadata.annotations.as_ref()))
        .collect()
}

/// A changed claim.
pub fn update(old: &IPClaim, new: &IPClaim) -> Vec<FieldError> {
    let pool = same_reference("spec.pool", &old.spec.pool, &new.spec.pool);
    pool.into_iter()
        .chain(requested(new.metadata.annotations.as_ref()))
        .collect()
}
