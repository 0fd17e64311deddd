//! Addresses that are given to claims which have not been told yet: `allocating` in the pool's status.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use metal3_api::ipam::{Allocating, IPPool};

use super::objects::{ClaimKey, Family};
use crate::alloc::parse_as_held;

/// An address that a claim is going to be told.
///
/// The claim is meant with its UID: who of several managers has an outdated view must not take what was promised to a
/// claim that is gone for a reservation to a later one of its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reservation {
    /// The claim.
    pub claim: ClaimKey,
    /// Its UID.
    pub uid: String,
    /// The address.
    pub address: IpAddr,
}

impl Reservation {
    /// As the status has it.
    pub fn to_wire(&self) -> Allocating {
        Allocating {
            kind: self.claim.family.claim_kind().to_owned(),
            name: self.claim.name.clone(),
            uid: self.uid.clone(),
            address: self.address.to_string(),
        }
    }

    /// Nothing for odd entries: nobody but a manager writes there.
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

/// All reservations of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations(BTreeSet<Reservation>);

impl Reservations {
    /// What a pool's status says.
    pub fn of(pool: &IPPool) -> Self {
        let entries = pool.status.iter().flat_map(|status| &status.allocating);
        entries.filter_map(Reservation::from_wire).collect()
    }

    /// All of them, ordered by claim.
    pub fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.0.iter()
    }

    /// Those to claims of this name.
    pub fn of_claim(&self, claim: &ClaimKey) -> impl Iterator<Item = &Reservation> {
        let first = Reservation {
            claim: claim.clone(),
            uid: String::new(),
            address: Ipv4Addr::UNSPECIFIED.into(),
        };
        self.0
            .range(first..)
            .take_while(move |reservation| reservation.claim == *claim)
    }

    /// Whether an address is promised to the very claim.
    pub fn has(&self, claim: &ClaimKey, uid: &str, address: IpAddr) -> bool {
        self.of_claim(claim)
            .any(|reservation| reservation.uid == uid && reservation.address == address)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Reservation> for Reservations {
    fn from_iter<I: IntoIterator<Item = Reservation>>(reservations: I) -> Self {
        Self(reservations.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use metal3_api::ipam::IPPoolStatus;

    use super::*;

    #[test]
    fn a_pools_promises_are_what_was_written() {
        let key = |family, name: &str| ClaimKey {
            family,
            name: name.to_owned(),
        };
        let reservation = |claim: &ClaimKey, uid: &str, address: &str| Reservation {
            claim: claim.clone(),
            uid: uid.to_owned(),
            address: address.parse().unwrap(),
        };
        let (a, other_a, b) = (
            key(Family::Metal3, "a"),
            key(Family::ClusterApi, "a"),
            key(Family::Metal3, "b"),
        );
        let all: Reservations = [
            reservation(&b, "3", "10.0.0.3"),
            reservation(&a, "1", "2001:db8::1"),
            reservation(&a, "1", "10.0.0.1"),
            reservation(&other_a, "2", "10.0.0.2"),
        ]
        .into_iter()
        .collect();
        let mut allocating: Vec<Allocating> = all.iter().map(Reservation::to_wire).collect();
        allocating.push(Allocating {
            kind: "Other".to_owned(),
            ..Allocating::default()
        });
        let pool = IPPool {
            status: Some(IPPoolStatus {
                allocating,
                ..IPPoolStatus::default()
            }),
            ..IPPool::new("p", metal3_api::ipam::IPPoolSpec::default())
        };
        assert_eq!(Reservations::of(&pool), all);
        let of = |key| {
            all.of_claim(key)
                .map(|reservation| reservation.address.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&a), ["10.0.0.1", "2001:db8::1"]);
        assert_eq!(of(&other_a), ["10.0.0.2"]);
        assert!(all.has(&b, "3", "10.0.0.3".parse().unwrap()));
        assert!(
            !all.has(&b, "4", "10.0.0.3".parse().unwrap()),
            "a later claim of the name"
        );
        assert!(!all.has(&a, "1", "10.0.0.3".parse().unwrap()));
    }
}
