//! Known answers: the addresses that users of Metal3 get today for these texts.

use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use proptest::prelude::*;
use rstest::rstest;

use metal3_api::ipam::{IPPoolSpec, PoolEntry};

use crate::alloc::{Allocator, Bounds, Entry, Grant, Refusal, Size};

pub(super) fn entry(start: &str, end: &str, subnet: &str) -> PoolEntry {
    PoolEntry {
        start: start.into(),
        end: end.into(),
        subnet: subnet.into(),
        ..PoolEntry::default()
    }
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[rstest]
#[case("192.168.0.10", "", "", 1, "192.168.0.11")]
#[case("192.168.0.10", "192.168.0.100", "", 100, "")]
#[case("192.168.0.10", "", "192.168.0.0/24", 250, "")]
#[case("", "", "192.168.0.10/24", 1, "192.168.0.12")]
#[case("", "", "192.168.0.10/24", 250, "")]
#[case("", "", "192.168.0.0/24", 254, "192.168.0.255")]
#[case("", "192.168.0.20", "192.168.0.10/24", 100, "192.168.0.111")]
#[case("192.168.0.10", "", "", 1000, "192.168.3.242")]
#[case("255.255.255.250", "", "", 10, "")]
#[case("255.255.255.254", "", "", 1, "255.255.255.255")]
#[case("2001::10", "2001::fff0", "", 10, "2001::1a")]
#[case("2001::10", "", "", 10_000, "2001::2720")]
#[case("2001:db8::ffff:ffff", "", "", 1, "2001:db8::1:0:0")]
#[case("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0", "", "", 100, "")]
#[case("192.168.0.10", "192.168.0.12", "192.168.0.0/24", 2, "192.168.0.12")]
#[case("192.168.0.10", "192.168.1.12", "192.168.0.0/24", 246, "")]
#[case("", "192.168.0.20", "", 0, "")]
#[case("", "", "10.0.0.1/32", 0, "")]
#[case("", "", "255.255.255.255/32", 0, "")]
#[case("", "", "::/0", u128::MAX - 1, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")]
#[case("", "", "0.0.0.0/0", 4_294_967_294, "255.255.255.255")]
#[case("2001:DB8:0:0::1", "", "", 0, "2001:db8::1")]
fn an_index_is_an_address(
    #[case] start: &str,
    #[case] end: &str,
    #[case] subnet: &str,
    #[case] index: u128,
    #[case] address: &str,
) {
    let (entry, errors) = Entry::read(&entry(start, end, subnet));
    assert_eq!(errors, []);
    let range = entry.range();
    let number = range.and_then(|range| range.first.checked_add(index).filter(|number| *number <= range.last));
    let found = range
        .zip(number)
        .and_then(|(range, number)| range.version.address(number));
    let found = found.map(|address| address.to_string());
    assert_eq!(found.unwrap_or_default(), address);
}

#[rstest]
#[case("192.168.0.10", "192.168.0.20", "", Size::Finite(11))]
#[case("192.168.0.10", "192.168.0.10", "", Size::Finite(1))]
#[case("192.168.0.10", "", "192.168.0.0/24", Size::Finite(246))]
#[case("192.168.0.10", "192.168.1.9", "192.168.0.0/24", Size::Finite(256))]
#[case("", "", "192.168.0.0/24", Size::Finite(255))]
#[case("", "", "192.168.0.10/24", Size::Finite(255))]
#[case("", "", "192.168.0.10/32", Size::Empty)]
#[case("192.168.0.10", "", "", Size::Unbounded)]
#[case("", "192.168.0.10", "", Size::Unbounded)]
#[case("", "", "::/0", Size::Unbounded)]
#[case("", "", "2001:db8::/65", Size::Finite(i64::MAX as u64))]
#[case("", "", "2001:db8::/64", Size::Unbounded)]
fn sizes(#[case] start: &str, #[case] end: &str, #[case] subnet: &str, #[case] size: Size) {
    assert_eq!(Entry::read(&entry(start, end, subnet)).0.size(), size);
}

#[rstest]
#[case("", "", "", "", "must specify at least one")]
#[case("nonsense", "", "", "start", "invalid Start: \"nonsense\" is not a valid IP address")]
#[case("::ffff:102:304", "", "", "start", "write 1.2.3.4")]
#[case("", "::ffff:1.2.3.4", "10.0.0.0/8", "end", "write 1.2.3.4")]
#[case("", "", "10.0.0.0", "subnet", "invalid Subnet")]
#[case("", "", "10.0.0.0/33", "subnet", "invalid Subnet")]
#[case("", "", "10.0.0.0/+8", "subnet", "invalid Subnet")]
#[case("", "", "::ffff:102:300/120", "subnet", "write 1.2.3.0")]
#[case("10.0.0.2", "10.0.0.1", "", "", "end 10.0.0.1 is before start 10.0.0.2")]
fn unreadable_entries(
    #[case] start: &str,
    #[case] end: &str,
    #[case] subnet: &str,
    #[case] field: &str,
    #[case] message: &str,
) {
    let (_, errors) = Entry::read(&entry(start, end, subnet));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].0, field);
    assert!(errors[0].1.contains(message), "{errors:?}");
}

#[rstest]
#[case("10.0.0.1", "10.0.0.9", "", &["10.0.0.1", "10.0.0.9"], &["10.0.0.0", "10.0.0.10", "::1"])]
#[case("10.0.0.1", "", "", &["255.255.255.255", "::", "ffff::"], &["10.0.0.0"])]
#[case("", "10.0.0.9", "", &["0.0.0.0", "10.0.0.9"], &["10.0.0.10", "::"])]
#[case("", "10.0.0.9", "10.0.0.0/24", &["10.0.0.0", "10.0.0.9"], &["10.0.0.10"])]
#[case("10.0.0.5", "", "10.0.0.0/24", &["10.0.0.5", "10.0.0.255"], &["10.0.0.4", "10.0.1.0"])]
fn bounds(
    #[case] start: &str,
    #[case] end: &str,
    #[case] subnet: &str,
    #[case] inside: &[&str],
    #[case] outside: &[&str],
) {
    let bounds = Bounds::of([Entry::read(&entry(start, end, subnet)).0]);
    for text in inside {
        assert!(bounds.contain(ip(text)), "{text}");
    }
    for text in outside {
        assert!(!bounds.contain(ip(text)), "{text}");
    }
}

/// An address, few enough that several entries meet.
fn few_addresses() -> impl Strategy<Value = String> {
    (0..24_u32, any::<bool>()).prop_map(|(number, is_v6)| {
        if is_v6 {
            Ipv6Addr::from_bits(number.into()).to_string()
        } else {
            Ipv4Addr::from_bits(0x0a00_0000 + number).to_string()
        }
    })
}

/// Any of the three fields, or none; some make no sense together.
fn any_entry() -> impl Strategy<Value = PoolEntry> {
    let field = || prop_oneof![Just(String::new()), few_addresses()];
    let subnet = prop_oneof![
        Just(String::new()),
        (few_addresses(), 24..=32_u8).prop_map(|(ip, length)| format!("{ip}/{length}")),
        (few_addresses(), 124..=128_u8).prop_map(|(ip, length)| format!("{ip}/{length}")),
    ];
    (field(), field(), subnet).prop_map(|(start, end, subnet)| entry(&start, &end, &subnet))
}

/// The rule of admission for one address and one entry.
fn is_within(entry: &PoolEntry, address: IpAddr) -> bool {
    let subnet: Option<IpNet> = entry.subnet.parse().ok();
    let [start, end]: [Option<IpAddr>; 2] = [&entry.start, &entry.end].map(|text| text.parse().ok());
    (start.is_some() || end.is_some() || subnet.is_some())
        && start.is_none_or(|start| start <= address)
        && end.is_none_or(|end| address <= end)
        && subnet.is_none_or(|subnet| subnet.contains(&address))
}

proptest! {
    #[test]
    fn the_bounds_of_a_pool_are_those_of_its_entries(
        entries in prop::collection::vec(any_entry(), 0..6),
        addresses in prop::collection::vec(few_addresses(), 20),
    ) {
        let bounds = Bounds::of(entries.iter().map(|entry| Entry::read(entry).0));
        for address in addresses {
            let address = ip(&address);
            let expected = entries.iter().any(|entry| is_within(entry, address));
            prop_assert_eq!(bounds.contain(address), expected, "{}", address);
        }
    }
}

pub(super) fn pool(entries: &[PoolEntry]) -> IPPoolSpec {
    IPPoolSpec {
        name_prefix: "p".into(),
        pools: entries.to_vec(),
        ..IPPoolSpec::default()
    }
}

/// Chooses an address for a claim, unless it has one, and records it.
pub(super) fn allocate<C: Eq + Hash + Clone>(
    pool: &mut Allocator<'_, C>,
    claim: C,
    name: &str,
    requested: &str,
    seed: u64,
) -> Result<Grant, Refusal> {
    let grant = pool.choose(name, requested, seed)?;
    assert!(pool.hold(claim, grant.address));
    Ok(grant)
}
