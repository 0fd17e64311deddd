//! Address objects.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use metal3_api::capi;
use metal3_api::ipam;

use super::{AddressId, Claim, ClaimKey, Family, Meta, is_our_pool};
use crate::alloc::parse_as_held;

/// An observed address object.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// Which one.
    pub id: AddressId,
    /// Which version of which object, and what becomes of it.
    pub meta: Meta,
    /// The pool's name; empty if that is no pool of ours.
    pub pool: String,
    /// Its claim.
    pub claim: ClaimKey,
    /// The UID of the owning claim. None if it was created by hand.
    pub owner: Option<String>,
    /// The address; nothing if the text is invalid.
    pub address: Option<IpAddr>,
}

impl Address {
    /// Whether our finalizer is on it.
    pub fn has_finalizer(&self) -> bool {
        self.meta.has(self.id.family.address_finalizer())
    }

    /// Whether exactly this claim owns it.
    pub fn is_of(&self, claim: &Claim) -> bool {
        self.claim == claim.key && self.owner.as_ref() == Some(&claim.meta.uid)
    }

    /// Whether we can still do anything to remove it. Finalizers of others are theirs to remove.
    pub fn is_removable(&self) -> bool {
        self.has_finalizer() || !self.meta.is_deleting
    }
}

fn address(family: Family, meta: &ObjectMeta, pool: &str, claim: &str, text: &str) -> Address {
    let owners = meta.owner_references.iter().flatten();
    let mut claims = owners.filter(|owner| owner.kind == family.claim_kind() && owner.name == claim);
    Address {
        id: AddressId {
            family,
            name: meta.name.clone().unwrap_or_default(),
        },
        meta: meta.into(),
        pool: pool.to_owned(),
        claim: ClaimKey {
            family,
            name: claim.to_owned(),
        },
        owner: claims.next().map(|owner| owner.uid.clone()),
        address: parse_as_held(text),
    }
}

impl From<&ipam::IPAddress> for Address {
    fn from(object: &ipam::IPAddress) -> Self {
        let spec = &object.spec;
        address(
            Family::Metal3,
            &object.metadata,
            &spec.pool.name,
            &spec.claim.name,
            &spec.address,
        )
    }
}

impl From<&capi::IPAddress> for Address {
    fn from(object: &capi::IPAddress) -> Self {
        let spec = &object.spec;
        // One from another provider's pool of the same name is not ours.
        let pool = if is_our_pool(&spec.pool_ref) {
            &spec.pool_ref.name
        } else {
            ""
        };
        let claim = &spec.claim_ref.name;
        address(Family::ClusterApi, &object.metadata, pool, claim, &spec.address)
    }
}
