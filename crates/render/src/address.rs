//! Addresses allocated from pools, and their netmasks.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::error::{Problem, RenderError};
use crate::pool::Pool;

/// The address allocated from each pool.
pub type Addresses = BTreeMap<Pool, PoolAddress>;

/// An address from a pool, with the pool's network settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolAddress {
    /// Text of the address.
    pub address: String,
    /// Length of the network's prefix in bits, where the pool tells one.
    pub prefix: Option<i32>,
    /// Text of the gateway's address, empty for none.
    pub gateway: String,
    /// Texts of the name servers' addresses.
    pub dns_servers: Vec<String>,
}

/// The address from a pool.
pub(crate) fn of_pool<'a>(field: &str, pool: &Pool, addresses: &'a Addresses) -> Result<&'a PoolAddress, RenderError> {
    let given = addresses.get(pool);
    given.ok_or_else(|| RenderError::new(field, Problem::NoAddress(pool.clone())))
}

/// IP version 4 or 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// Rejects an address of the other family, or none at all: cloud-init would give up on the whole network.
    pub fn check(self, field: &str, pool: &Pool, address: &str) -> Result<(), RenderError> {
        let belongs = match self {
            Self::V4 => address.parse::<Ipv4Addr>().is_ok(),
            Self::V6 => address.parse::<Ipv6Addr>().is_ok(),
        };
        if belongs {
            return Ok(());
        }
        let problem = Problem::WrongFamily {
            pool: pool.clone(),
            address: address.to_owned(),
            version: if self == Self::V4 { 4 } else { 6 },
        };
        Err(RenderError::new(field, problem))
    }

    /// Text of the mask of a network whose prefix has this length.
    pub fn netmask(self, field: &str, prefix: i32) -> Result<String, RenderError> {
        let bits = u32::try_from(prefix).ok();
        let mask = match self {
            Self::V4 => bits
                .filter(|bits| *bits <= 32)
                .map(|bits| Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0)).to_string()),
            Self::V6 => bits
                .filter(|bits| *bits <= 128)
                .map(|bits| Ipv6Addr::from(u128::MAX.checked_shl(128 - bits).unwrap_or(0)).to_string()),
        };
        mask.ok_or_else(|| RenderError::new(field, Problem::BadPrefix(prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(Family::V4, 0, "0.0.0.0")]
    #[case(Family::V4, 1, "128.0.0.0")]
    #[case(Family::V4, 24, "255.255.255.0")]
    #[case(Family::V4, 32, "255.255.255.255")]
    #[case(Family::V6, 0, "::")]
    #[case(Family::V6, 64, "ffff:ffff:ffff:ffff::")]
    #[case(Family::V6, 65, "ffff:ffff:ffff:ffff:8000::")]
    #[case(Family::V6, 112, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:0")]
    #[case(Family::V6, 128, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")]
    fn masks(#[case] family: Family, #[case] prefix: i32, #[case] mask: &str) {
        assert_eq!(family.netmask("f", prefix).unwrap(), mask);
    }

    #[rstest]
    #[case(Family::V4, 33)]
    #[case(Family::V6, 129)]
    #[case(Family::V6, -1)]
    fn lengths_that_there_are_not(#[case] family: Family, #[case] prefix: i32) {
        let failed = family.netmask("f", prefix).unwrap_err();
        assert_eq!(*failed.problem, Problem::BadPrefix(prefix));
    }
}
