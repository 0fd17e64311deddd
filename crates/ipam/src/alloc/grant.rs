//! A pool's answer to a claim.

use std::net::IpAddr;

use super::plan::Settings;

/// An address for a claim, with its settings.
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
    /// The requested address is invalid.
    #[error("Invalid ipAddress annotation {0:?}: not a valid IP address")]
    InvalidRequest(String),
    /// The claim requests one address, but another one is preallocated for it.
    #[error("PreAllocation and requested ip address are conflicting")]
    Conflict {
        /// The requested address.
        requested: IpAddr,
        /// The preallocated address.
        reserved: IpAddr,
    },
    /// The requested address is in use, or reserved for another claim.
    #[error("Requested IP not available")]
    RequestedTaken(IpAddr),
    /// The requested address is in none of the pool's ranges.
    #[error("Exhausted IP Pools: the requested address {0} is in no range of the pool")]
    RequestedOutside(IpAddr),
    /// The preallocated address is in none of the pool's ranges.
    #[error("Pre-allocated IP out of bounds")]
    ReservedOutside(IpAddr),
    /// Another claim, an older one or one of the same name in the other family, holds this claim's preallocated address.
    #[error("Pre-allocated IP not available: {0} is held by another claim")]
    ReservedTaken(IpAddr),
    /// The prefix length is invalid, and the claim's family requires a valid one.
    #[error("Invalid prefix value, it must be between 0 and 128")]
    InvalidPrefix(i64),
    /// Every address is in use or reserved.
    #[error("Exhausted IP Pools")]
    Exhausted,
}

impl Refusal {
    /// Whether the claim accepts any free address.
    pub fn is_exhaustion(&self) -> bool {
        *self == Self::Exhausted
    }
}

/// The number of addresses in each state. Numbers saturate at 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Addresses in the pool's ranges.
    pub total: u128,
    /// Held addresses, including those outside of the ranges.
    pub used: u128,
    /// Addresses reserved for a claim and not held.
    pub reserved: u128,
    /// Addresses available to any claim.
    pub free: u128,
}
