//! Addresses and subnets as numbers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

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

/// The place of an address on its version's line of numbers.
pub trait Line {
    /// The address as a number.
    fn number(self) -> u128;
}

impl Line for IpAddr {
    fn number(self) -> u128 {
        match self {
            Self::V4(address) => address.to_bits().into(),
            Self::V6(address) => address.to_bits(),
        }
    }
}

/// Why a text is not an address that a pool can work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither IPv4 nor IPv6.
    #[error("{0:?} is not a valid IP address")]
    Unreadable(String),
    /// An IPv6 text for an IPv4 address. Some programs take it for the one and some for the other, so that two claims
    /// could end up with what is one address on the wire.
    #[error("{text:?} is not a valid IP address here: it is IPv4-mapped; write {plain}")]
    Mapped {
        /// As it was written.
        text: String,
        /// What to write instead.
        plain: Ipv4Addr,
    },
}

/// Reads an address as users give it.
pub fn parse(text: &str) -> Result<IpAddr, AddressError> {
    let address = IpAddr::from_str(text).map_err(|_| AddressError::Unreadable(text.to_owned()))?;
    if let IpAddr::V6(v6) = address
        && let Some(plain) = v6.to_ipv4_mapped()
    {
        return Err(AddressError::Mapped {
            text: text.to_owned(),
            plain,
        });
    }
    Ok(address)
}

/// Reads the address of an object that exists already. What counts is that nobody else gets it, so an IPv4-mapped one
/// blocks the IPv4 address that it stands for.
pub fn parse_as_held(text: &str) -> Option<IpAddr> {
    IpAddr::from_str(text).ok().map(|address| address.to_canonical())
}

/// An address and the length of its network's prefix. The address keeps its host bits: a pool that is given as
/// `192.168.0.10/24` begins behind .10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The address part as it was written.
    pub address: IpAddr,
    /// The prefix length.
    pub prefix: u8,
}

/// Why a text is no subnet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubnetError {
    /// No `/`, or no prefix length of this version behind it.
    #[error("{0:?} is not a valid subnet: expected ADDRESS/PREFIX")]
    Unreadable(String),
    /// The part before the `/`.
    #[error("{text:?} is not a valid subnet")]
    Address {
        /// As it was written.
        text: String,
        /// What is wrong with its address.
        #[source]
        source: AddressError,
    },
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        let unreadable = || SubnetError::Unreadable(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(unreadable)?;
        let address = parse(address).map_err(|source| SubnetError::Address {
            text: text.to_owned(),
            source,
        })?;
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return Err(unreadable());
        }
        let prefix: u8 = prefix.parse().map_err(|_| unreadable())?;
        if prefix > Version::of(address).bits() {
            return Err(unreadable());
        }
        Ok(Self { address, prefix })
    }
}

impl Subnet {
    /// IPv4 or IPv6.
    pub fn version(&self) -> Version {
        Version::of(self.address)
    }

    /// The bits that hosts are told apart by, all ones.
    fn hosts(&self) -> u128 {
        let free = self.version().bits() - self.prefix;
        1_u128.checked_shl(free.into()).map_or(u128::MAX, |size| size - 1)
    }

    /// The network address as a number.
    pub fn first(&self) -> u128 {
        self.address.number() & !self.hosts()
    }

    /// The highest address as a number.
    pub fn last(&self) -> u128 {
        self.address.number() | self.hosts()
    }

    /// Whether an address belongs to it.
    pub fn contains(&self, address: IpAddr) -> bool {
        Version::of(address) == self.version() && (self.first()..=self.last()).contains(&address.number())
    }
}
