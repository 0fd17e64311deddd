//! Reservations of addresses for claims: `allocating` in the pool's status.

use std::collections::BTreeSet;
use std::net::IpAddr;

use metal3_api::ipam::{Allocating, IPPool};

use super::objects::{Claim, ClaimKey, Family};
use crate::alloc::parse_as_held;

/// An address reserved for one claim until the claim's status names it. The UID matters: a later claim of the same name does not
/// inherit it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reservation {
    /// The claim.
    pub claim: ClaimKey,
    /// Its UID.
    pub uid: String,
    /// The address.
    pub address: IpAddr,
}

/// All reservations of a pool.
pub type Reservations = BTreeSet<Reservation>;

impl Reservation {
    /// Reserves an address for a claim.
    pub fn new(claim: &Claim, address: IpAddr) -> Self {
        Self {
            claim: claim.key.clone(),
            uid: claim.meta.uid.clone(),
            address,
        }
    }

    /// Parses the pool's status.
    pub fn all(pool: &IPPool) -> Reservations {
        let entries = pool.status.iter().flat_map(|status| &status.allocating);
        entries.filter_map(Self::from_wire).collect()
    }

    /// For the pool's status.
    pub fn to_wire(&self) -> Allocating {
        Allocating {
            kind: self.claim.family.claim_kind().to_owned(),
            name: self.claim.name.clone(),
            uid: self.uid.clone(),
            address: self.address.to_string(),
        }
    }

    /// Skips invalid entries: only managers write there.
    fn from_wire(entry: &Allocating) -> Option<Self> {
        Some(Self {
            claim: ClaimKey {
                family: Family::of_claim_kind(&entry.kind)?,
                name: entry.name.clone(),
            },
            uid: entry.uid.clone(),
            address: parse_as_held(&entry.address)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use metal3_api::ipam::IPPoolStatus;

    use super::*;

    #[test]
    fn reservations_are_read_as_they_were_written() {
        let reservation = |family, name: &str, address: &str| Reservation {
            claim: ClaimKey {
                family,
                name: name.to_owned(),
            },
            uid: format!("{name}-uid"),
            address: address.parse().unwrap(),
        };
        let all: Reservations = [
            reservation(Family::Metal3, "b", "10.0.0.3"),
            reservation(Family::Metal3, "a", "2001:db8::1"),
            reservation(Family::ClusterApi, "a", "10.0.0.2"),
        ]
        .into();
        let odd = Allocating {
            kind: "Other".to_owned(),
            ..Allocating::default()
        };
        let mut pool = IPPool::new("p", metal3_api::ipam::IPPoolSpec::default());
        pool.status = Some(IPPoolStatus {
            allocating: all.iter().map(Reservation::to_wire).chain([odd]).collect(),
            ..IPPoolStatus::default()
        });
        assert_eq!(Reservation::all(&pool), all);
    }
}
