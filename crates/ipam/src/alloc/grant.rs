//! What a pool answers to a claim.

use std::net::IpAddr;

use super::plan::Settings;

/// An address for a claim, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The address.
    pub address: IpAddr,
    /// Prefix, gateway, DNS servers.
    pub settings: Settings,
}

/// Why a claim gets no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The requested address is none.
    #[error("Invalid ipAddress annotation {0:?}: not a valid IP address")]
    InvalidRequest(String),
    /// The claim requests one address, and another one is kept for it.
    #[error("PreAllocation and requested ip address are conflicting")]
    Conflict {
        /// What the claim asks for.
        requested: IpAddr,
        /// What the pool keeps for it.
        reserved: IpAddr,
    },
    /// The requested address is in use, or is kept for another claim.
    #[error("Requested IP not available")]
    RequestedTaken(IpAddr),
    /// The requested address is in none of the pool's ranges.
    #[error("Exhausted IP Pools: the requested address {0} is in no range of the pool")]
    RequestedOutside(IpAddr),
    /// The address that is kept for the claim is in none of the pool's ranges.
    #[error("Pre-allocated IP out of bounds")]
    ReservedOutside(IpAddr),
    /// Another claim, of the same name in the other family or an older one, holds the address that is kept for this one.
    #[error("Pre-allocated IP not available: {0} is held by another claim")]
    ReservedTaken(IpAddr),
    /// The prefix length that goes with the address is none, and the claim's family insists on one.
    #[error("Invalid prefix value, it must be between 0 and 128")]
    InvalidPrefix(i64),
    /// Every address is in use or kept.
    #[error("Exhausted IP Pools")]
    Exhausted,
}

impl Refusal {
    /// Whether any free address would do for the claim.
    pub fn is_exhaustion(&self) -> bool {
        *self == Self::Exhausted
    }
}

/// How many addresses of a pool are in which state. Numbers beyond 128 bits stay at the greatest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Addresses in the pool's ranges.
    pub total: u128,
    /// Addresses that are held, those outside of the ranges too.
    pub used: u128,
    /// Addresses that are kept for a claim and not held.
    pub reserved: u128,
    /// Addresses that any claim can get.
    pub free: u128,
}
