//! Metal3's IPAddress.

use metal3_api::ipam::IPAddress;

use super::{FieldError, filled, requested, same_reference};
use crate::alloc::parse;

/// A new address.
pub fn create(address: &IPAddress) -> Vec<FieldError> {
    let spec = &address.spec;
    let mut errors: Vec<FieldError> = [
        filled("spec.pool.name", &spec.pool.name),
        filled("spec.claim.name", &spec.claim.name),
        filled("spec.address", &spec.address),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !spec.address.is_empty()
        && let Err(error) = parse(&spec.address)
    {
        errors.push(FieldError::new("spec.address", error.to_string()));
    }
    errors.extend(requested(address.metadata.annotations.as_ref()));
    errors
}

/// A changed address. Prefix, gateway and DNS servers may change.
pub fn update(old: &IPAddress, new: &IPAddress) -> Vec<FieldError> {
    let (before, after) = (&old.spec, &new.spec);
    let address = (before.address != after.address).then(|| FieldError::new("spec.address", "cannot be modified"));
    [
        address,
        same_reference("spec.pool", &before.pool, &after.pool),
        same_reference("spec.claim", &before.claim, &after.claim),
    ]
    .into_iter()
    .flatten()
    .collect()
}
