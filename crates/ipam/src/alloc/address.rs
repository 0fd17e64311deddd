//! Addresses and subnets, as text and as numbers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 32 bits.
    V4,
    /// 128 bits.
    V6,
}

impl Version {
    /// The version of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The number of bits of an address.
    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The highest address as a number.
    pub fn max(self) -> u128 {
        match self {
            Self::V4 => u32::MAX.into(),
            Self::V6 => u128::MAX,
        }
    }

    /// The address of this version with this number; `None` beyond [`Version::max`].
    pub fn address(self, number: u128) -> Option<IpAddr> {
        match self {
            Self::V4 => u32::try_from(number).ok().map(|bits| Ipv4Addr::from_bits(bits).into()),
            Self::V6 => Some(Ipv6Addr::from_bits(number).into()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// The address as a number.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Why a text is not a usable address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither IPv4 nor IPv6.
    #[error("{0:?} is not a valid IP address")]
    Unreadable(String),
    /// An IPv4-mapped IPv6 text. Programs disagree on whether it is IPv4 or IPv6, so two claims could get the same address on the
    /// wire.
    #[error("{text:?} is not a valid IP address here: it is IPv4-mapped; write {plain}")]
    Mapped {
        /// As it was written.
        text: String,
        /// What to write instead.
        plain: Ipv4Addr,
    },
}

/// Parses an address given by a user.
pub fn parse(text: &str) -> Result<IpAddr, AddressError> {
    let address = IpAddr::from_str(text).map_err(|_| AddressError::Unreadable(text.to_owned()))?;
    if let IpAddr::V6(v6) = address
        && let Some(plain) = v6.to_ipv4_mapped()
    {
        let text = text.to_owned();
        return Err(AddressError::Mapped { text, plain });
    }
    Ok(address)
}

/// Parses the address of an existing object. An IPv4-mapped address blocks the corresponding IPv4 address.
pub fn parse_as_held(text: &str) -> Option<IpAddr> {
    IpAddr::from_str(text).ok().map(|address| address.to_canonical())
}

/// Parses a subnet and keeps its host bits: a pool given as `192.168.0.10/24` begins after .10.
pub fn parse_subnet(text: &str) -> Result<IpNet, String> {
    let unreadable = || format!("{text:?} is not a valid subnet: expected ADDRESS/PREFIX");
    let (address, prefix) = text.split_once('/').ok_or_else(unreadable)?;
    let address = parse(address).map_err(|error| format!("{text:?} is not a valid subnet: {error}"))?;
    if !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(unreadable());
    }
    let prefix = prefix.parse().map_err(|_| unreadable())?;
    IpNet::new(address, prefix).map_err(|_| unreadable())
}
