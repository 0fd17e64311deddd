//! Ranges of addresses that what a user names may not lead to: where clouds serve the credentials of servers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use url::{Host, ParseError};

/// The flag that sets the ranges, for messages.
pub const FLAG: &str = "--denied-url-ranges";

/// Ranges of addresses that may not be named or connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedRanges(Vec<IpNet>);

impl DeniedRanges {
    /// Link-local addresses, those of most clouds' metadata among them, and where else clouds serve it: Alibaba, Azure, AWS and
    /// Google.
    pub const DEFAULT: &str =
        "169.254.0.0/16,fe80::/10,100.100.100.200/32,168.63.129.16/32,fd00:ec2::254/128,fd20:ce::254/128";

    /// Denies nothing.
    pub const NONE: Self = Self(Vec::new());

    /// Whether this address is in one of the ranges, also as an IPv4 address within IPv6.
    pub fn contain(&self, address: IpAddr) -> bool {
        let embedded = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(v6) => embedded(v6),
        };
        let is_in = |address: IpAddr| self.0.iter().any(|range| range.contains(&address));
        is_in(address) || embedded.into_iter().map(IpAddr::V4).any(is_in)
    }

    /// The denied address that a host names, in whatever notation, or by a well-known name of a metadata service. Nothing is
    /// resolved.
    ///
    /// # Errors
    ///
    /// If the text is no host.
    pub fn judge(&self, host: &str) -> Result<Option<IpAddr>, ParseError> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = match bare.parse() {
            Ok(address) => Some(address),
            Err(_) => match Host::parse(host)? {
                Host::Ipv4(address) => Some(IpAddr::V4(address)),
                Host::Ipv6(address) => Some(IpAddr::V6(address)),
                Host::Domain(name) if name.is_empty() => return Err(ParseError::EmptyHost),
                Host::Domain(name) => metadata_server(&name),
            },
        };
        Ok(address.filter(|address| self.contain(*address)))
    }
}

impl Default for DeniedRanges {
    fn default() -> Self {
        Self(Self::DEFAULT.split(',').flat_map(str::parse).collect())
    }
}

impl FromStr for DeniedRanges {
    type Err = String;

    /// Ranges such as `169.254.0.0/16`, separated by commas; empty denies nothing.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(str::trim)
            .filter(|range| !range.is_empty())
            .map(|range| {
                range
                    .parse()
                    .map_err(|_| format!("{range:?} is not a range such as 169.254.0.0/16"))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// The IPv4 addresses that an IPv6 address may embed: mapped, compatible, translated, of 6to4, or behind a prefix of NAT64 (RFC 6052,
/// RFC 8215). A network may use a part of 64:ff9b:1::/48 as its prefix, and the length of that says where the address is.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let octets = address.octets();
    let at = |places: [usize; 4]| Ipv4Addr::from(places.map(|place| octets.get(place).copied().unwrap_or_default()));
    let last = [12, 13, 14, 15];
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => vec![at(last)],
        [0x64, 0xff9b, 1, ..] => [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], last].map(at).into(),
        [0x2002, ..] => vec![at([2, 3, 4, 5])],
        _ => address.to_ipv4().into_iter().collect(),
    }
}

/// The host names of cloud metadata services, which include server credentials. They are denied together with the
/// address that they resolve to.
const METADATA_SERVERS: [&str; 7] = [
    "metadata.google.internal",
    "metadata.goog",
    "instance-data.ec2.internal",
    "metadata.azure.internal",
    "metadata.platformequinix.com",
    "metadata.oraclecloud.com",
    "metadata.tencentyun.com",
];

fn metadata_server(name: &str) -> Option<IpAddr> {
    let name = name.trim_end_matches('.');
    let is_one = METADATA_SERVERS.iter().any(|server| server.eq_ignore_ascii_case(name));
    is_one.then_some(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    // OWN 30xk: addresses translated to IPv6, and metadata of Oracle and Tencent, were not denied.
    // OWN 29r: metadata of Alibaba, Azure and Google, and addresses in 6to4, were not denied.
    #[rstest]
    #[case("169.254.169.254", true)]
    #[case("0xa9fea9fe", true)]
    #[case("fe80::1", true)]
    #[case("[fe80::1]", true)]
    #[case("[64:ff9b::a9fe:a9fe]", true)]
    #[case("[64:ff9b:1::a9fe:a9fe]", true)]
    #[case("[64:ff9b:1:a9fe:a9:fe00::]", true)]
    #[case("[64:ff9b:1:aa:fe:a9fe::]", false)]
    #[case("[64:ff9b:1:a9:fe:a9fe::]", true)]
    #[case("[64:ff9b:1:0:a9:fea9:fe00::]", true)]
    #[case("[2002:a9fe:a9fe::1]", true)]
    #[case("[::ffff:0:169.254.169.254]", true)]
    #[case("[::ffff:169.254.169.254]", true)]
    #[case("[::ffff:0:10.0.0.1]", false)]
    #[case("100.100.100.200", true)]
    #[case("168.63.129.16", true)]
    #[case("[fd20:ce::254]", true)]
    #[case("Metadata.goog.", true)]
    #[case("metadata.oraclecloud.com", true)]
    #[case("metadata.tencentyun.com", true)]
    #[case("127.0.0.1", false)]
    #[case("::1", false)]
    #[case("10.0.0.1", false)]
    #[case("bmc.example", false)]
    fn a_denied_host_is_found_in_any_notation(#[case] host: &str, #[case] is_denied: bool) {
        assert_eq!(DeniedRanges::default().judge(host).unwrap().is_some(), is_denied);
    }

    #[test]
    fn no_host_is_an_error() {
        assert!(DeniedRanges::default().judge("").is_err());
        assert!(DeniedRanges::default().judge("a b").is_err());
    }

    #[test]
    fn ranges_are_checked() {
        assert!("10.0.0.0".parse::<DeniedRanges>().unwrap_err().contains("10.0.0.0"));
        assert_eq!(DeniedRanges::default(), DeniedRanges::DEFAULT.parse().unwrap());
        assert_eq!(DeniedRanges::NONE, "".parse().unwrap());
    }
}
