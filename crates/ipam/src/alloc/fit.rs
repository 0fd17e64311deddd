//! Whether the settings fit the addresses: the gateway their network, the prefix length their version.
//!
//! Like upstream, this allocates whatever is given. The results are only warnings.

use std::net::IpAddr;

use ipnet::IpNet;

use super::address::Version;
use super::entry::Range;

/// Problems with a prefix length of 0 to 128.
pub(super) fn prefix(prefix: i64, range: Range) -> Option<String> {
    let (version, bits) = (range.version, range.version.bits());
    (prefix > bits.into())
        .then(|| format!("{prefix} is no prefix length of {version}, whose addresses have {bits} bits"))
}

/// Problems with a gateway. Without a subnet, the network follows from the prefix length and the first address.
pub(super) fn gateway(gateway: IpAddr, range: Range, subnet: Option<IpNet>, prefix: i64) -> Option<String> {
    let version = range.version;
    if Version::of(gateway) != version {
        let other = Version::of(gateway);
        return Some(format!("{gateway} is {other}, but the addresses are {version}"));
    }
    if is_on_every_link(gateway) {
        return None;
    }
    if let Some(subnet) = subnet {
        return (!subnet.contains(&gateway)).then(|| format!("{gateway} is not in the subnet {subnet}"));
    }
    let network = network(range, prefix)?;
    (!network.contains(&gateway)).then(|| format!("{gateway} is not in {network}, the network of the addresses"))
}

/// IPv6 routers are often given by their link-local address, which is in no subnet.
fn is_on_every_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// No warning for a single-host prefix either: its gateway is outside on purpose.
fn network(range: Range, prefix: i64) -> Option<IpNet> {
    let prefix = u8::try_from(prefix).ok()?;
    let is_network = prefix > 0 && prefix < range.version.bits();
    let address = range.version.address(range.first).filter(|_| is_network)?;
    IpNet::new(address, prefix).ok().map(|network| network.trunc())
}
