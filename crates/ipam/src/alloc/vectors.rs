//! Known answers: what users of Metal3 get today for these texts.

use std::net::IpAddr;

use rstest::rstest;

use super::*;

fn entry(start: &str, end: &str, subnet: &str) -> EntryText {
    EntryText {
        start: start.into(),
        end: end.into(),
        subnet: subnet.into(),
        ..EntryText::default()
    }
}

fn ip(text: &str) -> IpAddr {
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
    let found = entry.at(index).map(|address| address.to_string());
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
#[case("::1", "10.0.0.1", "", "", "is before start")]
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
    let entry = Entry::read(&entry(start, end, subnet)).0;
    for text in inside {
        assert!(entry.bounds(ip(text)), "{text}");
    }
    for text in outside {
        assert!(!entry.bounds(ip(text)), "{text}");
    }
}

fn pool(entries: &[EntryText]) -> PoolText {
    PoolText {
        entries: entries.to_vec(),
        ..PoolText::default()
    }
}

/// The bad input that a specification can hold: each is named by its field, and none gives an address by accident.
#[rstest]
#[case(pool(&[entry("10.0.0.9", "10.0.0.1", "")]), "spec.pools[0]", Severity::Error)]
#[case(pool(&[entry("10.0.0.1", "::9", "")]), "spec.pools[0].end", Severity::Error)]
#[case(pool(&[entry("10.0.0.1", "", "2001:db8::/64")]), "spec.pools[0].start", Severity::Error)]
#[case(pool(&[entry("10.1.0.1", "", "10.0.0.0/24")]), "spec.pools[0].start", Severity::Error)]
#[case(pool(&[entry("", "10.0.0.1", "")]), "spec.pools[0].end", Severity::Error)]
#[case(pool(&[entry("::ffff:a00:1", "", "")]), "spec.pools[0].start", Severity::Error)]
#[case(pool(&[entry("", "", "10.0.0.1/32")]), "spec.pools[0].subnet", Severity::Error)]
#[case(PoolText { strategy: "random".into(), ..pool(&[entry("10.0.0.1", "", "")]) }, "spec.pools[0]", Severity::Error)]
fn useless_entries_give_nothing(#[case] text: PoolText, #[case] field: &str, #[case] severity: Severity) {
    let plan = Plan::read(&text);
    let problems: Vec<_> = plan.problems().iter().map(|p| (p.field.as_str(), p.severity)).collect();
    assert_eq!(problems, [(field, severity)], "{:?}", plan.problems());
    assert_eq!(plan.total(), 0);
    assert_eq!(Allocator::new(plan).allocate("c", "c", "", 1), Err(Refusal::Exhausted));
}

#[test]
fn odd_entries_are_named_and_work() {
    let mut first = entry("10.0.0.10", "10.0.1.9", "10.0.0.0/24");
    first.gateway = "10.0.1.1".into();
    let second = entry("10.0.0.200", "10.0.0.255", "");
    let third = entry("", "10.0.9.9", "10.0.9.0/24");
    let mut text = pool(&[first, second, third]);
    text.reserved = [
        ("a".into(), "10.5.0.0".into()),
        ("b".into(), "10.0.0.11".into()),
        ("c".into(), "10.0.0.11".into()),
    ]
    .into();
    text.gateway = "not an address".into();
    text.dns_servers = vec!["8.8.8.8".into(), "::ffff:808:808".into()];
    text.prefix = -1;
    let plan = Plan::read(&text);
    let problems: Vec<_> = plan.problems().iter().map(|p| (p.severity, p.field.as_str())).collect();
    assert_eq!(
        problems,
        [
            (Severity::Error, "spec.gateway"),
            (Severity::Error, "spec.dnsServers[1]"),
            (Severity::Error, "spec.prefix"),
            (Severity::Error, "spec.preAllocations.a"),
            (Severity::Error, "spec.preAllocations.c"),
            (Severity::Warning, "spec.pools[0].end"),
            (Severity::Warning, "spec.pools[0].gateway"),
            (Severity::Warning, "spec.pools[1]"),
            (Severity::Warning, "spec.pools[2].end"),
        ]
    );
    // The third one ends where its subnet ends, whatever its end says.
    assert_eq!(plan.total(), 246 + 255);
}

/// What goes with an address but does not fit it is given all the same, as upstream gives it. Fields are the pool's or the
/// entry's, wherever it was written.
#[rstest]
#[case::gateway_outside_the_subnet("", 0, "10.7.0.1", 0, "spec.pools[0].gateway", "10.7.0.1 is not in the subnet 10.0.0.0/24")]
#[case::pools_gateway_outside_the_subnet("10.7.0.1", 0, "", 0, "spec.gateway",
    "does not fit spec.pools[0]: 10.7.0.1 is not in the subnet 10.0.0.0/24")]
#[case::gateway_of_the_other_family("", 0, "2001:db8::1", 0, "spec.pools[0].gateway",
    "2001:db8::1 is IPv6, but the addresses are IPv4")]
#[case::pools_gateway_of_the_other_family("fe80::1", 0, "", 0, "spec.gateway",
    "does not fit spec.pools[0]: fe80::1 is IPv6, but the addresses are IPv4")]
#[case::gateway_that_is_given_to_claims("", 0, "10.0.0.11", 0, "spec.pools[0].gateway",
    "10.0.0.11 is one of the addresses that claims get; leave it out of the ranges, or keep it in spec.preAllocations")]
#[case::prefix_of_the_other_family("", 0, "", 64, "spec.pools[0].prefix",
    "64 is no prefix length of IPv4, whose addresses have 32 bits")]
#[case::pools_prefix_of_the_other_family("", 64, "", 0, "spec.prefix",
    "does not fit spec.pools[0]: 64 is no prefix length of IPv4, whose addresses have 32 bits")]
fn what_does_not_fit_is_asked_and_given(
    #[case] gateway: &str,
    #[case] prefix: i64,
    #[case] own_gateway: &str,
    #[case] own_prefix: i64,
    #[case] field: &str,
    #[case] message: &str,
) {
    let own = EntryText {
        gateway: own_gateway.into(),
        prefix: own_prefix,
        ..entry("10.0.0.10", "10.0.0.20", "10.0.0.0/24")
    };
    // The pool's gateway and prefix are the other's, too, and fit it no better: they are asked about once.
    let other = EntryText {
        gateway: if gateway.is_empty() { "10.0.0.1" } else { "" }.into(),
        prefix: if prefix == 0 { 24 } else { 0 },
        ..entry("10.0.0.30", "10.0.0.40", "10.0.0.0/24")
    };
    let text = PoolText {
        gateway: gateway.into(),
        prefix,
        ..pool(&[own, other])
    };
    let plan = Plan::read(&text);
    let expected = Problem {
        field: field.into(),
        message: message.into(),
        severity: Severity::Warning,
    };
    assert_eq!(plan.problems(), [expected]);
    let settings = allocator(&text).allocate("c".into(), "", "", 0).unwrap().settings;
    assert_eq!(settings.gateway, format!("{gateway}{own_gateway}"));
    assert_eq!(settings.prefix, prefix + own_prefix);
}

/// Nothing is asked about what people do on purpose.
#[rstest]
#[case::link_local(entry("2001:db8::10", "", "2001:db8::/64"), "fe80::1", 64)]
#[case::no_subnet(entry("10.0.0.10", "10.0.0.20", ""), "10.0.0.1", 24)]
#[case::single_hosts(entry("10.0.0.10", "10.0.0.20", ""), "10.9.0.1", 32)]
#[case::no_prefix(entry("10.0.0.10", "10.0.0.20", ""), "10.9.0.1", 0)]
#[case::no_gateway(entry("10.0.0.10", "10.0.0.20", ""), "", 24)]
#[case::one_that_is_kept(entry("", "", "10.0.0.0/24"), "10.0.0.1", 24)]
fn what_fits_is_not_asked(#[case] entry: EntryText, #[case] gateway: &str, #[case] prefix: i64) {
    let text = PoolText {
        gateway: gateway.into(),
        prefix,
        reserved: [("nobody".to_owned(), "10.0.0.1".to_owned())]
            .into_iter()
            .filter(|_| !entry.subnet.is_empty() && gateway == "10.0.0.1")
            .collect(),
        ..pool(&[entry])
    };
    assert_eq!(Plan::read(&text).problems(), []);
}

/// Without a subnet, the network is what the prefix length makes of the start.
#[test]
fn a_gateway_outside_the_network_of_start_and_prefix_is_asked() {
    let text = PoolText {
        gateway: "192.168.1.1".into(),
        prefix: 24,
        ..pool(&[entry("192.168.0.10", "192.168.0.20", "")])
    };
    let plan = Plan::read(&text);
    let said: Vec<_> = plan.problems().iter().map(|p| (p.field.as_str(), p.message.as_str())).collect();
    let message = "does not fit spec.pools[0]: 192.168.1.1 is not in 192.168.0.0/24, the network of the addresses";
    assert_eq!(said, [("spec.gateway", message)]);
}

fn allocator(text: &PoolText) -> Allocator<String> {
    Allocator::new(Plan::read(text))
}

fn address(answer: Result<Grant, Refusal>) -> String {
    answer.unwrap().address.to_string()
}

#[test]
fn the_first_entry_is_used_up_before_the_second_and_settings_come_from_the_entry() {
    let mut first = entry("10.0.0.1", "10.0.0.2", "");
    first.prefix = 25;
    first.gateway = "10.0.0.254".into();
    let mut second = entry("10.0.1.1", "10.0.1.1", "");
    second.dns_servers = vec!["9.9.9.9".into()];
    let mut text = pool(&[first, second]);
    text.prefix = 24;
    text.dns_servers = vec!["8.8.8.8".into(), "8.8.4.4".into()];
    let mut pool = allocator(&text);
    let got: Vec<_> = (0..3)
        .map(|n| pool.allocate(n.to_string(), "", "", 0).unwrap())
        .collect();
    assert_eq!(
        got[1],
        Grant {
            address: ip("10.0.0.2"),
            settings: Settings {
                prefix: 25,
                gateway: "10.0.0.254".into(),
                dns_servers: text.dns_servers.clone(),
            }
        }
    );
    assert_eq!(
        got[2],
        Grant {
            address: ip("10.0.1.1"),
            settings: Settings {
                prefix: 24,
                gateway: String::new(),
                dns_servers: vec!["9.9.9.9".into()],
            }
        }
    );
    assert_eq!(pool.allocate("3".into(), "", "", 0), Err(Refusal::Exhausted));
    assert_eq!(pool.release(&"1".to_owned()), Some(ip("10.0.0.2")));
    assert_eq!(address(pool.allocate("3".into(), "", "", 0)), "10.0.0.2");
}

#[test]
fn reservations_and_requests() {
    let mut text = pool(&[entry("2001:db8::1", "2001:db8::4", "")]);
    // Not the canonical spelling (D4): it keeps 2001:db8::1 from everybody else all the same.
    text.reserved = [
        ("kept".to_owned(), "2001:0DB8:0:0::0001".to_owned()),
        ("lost".to_owned(), "fe80::1".to_owned()),
    ]
    .into();
    let mut pool = allocator(&text);
    assert_eq!(
        pool.usage(),
        Usage {
            total: 4,
            used: 0,
            // What is kept of another range is no address of this pool: used, reserved and free make up the total.
            reserved: 1,
            free: 3
        }
    );
    assert_eq!(address(pool.allocate("x".into(), "x", "", 0)), "2001:db8::2");
    assert_eq!(
        address(pool.allocate("kept".into(), "kept", "2001:db8::1", 0)),
        "2001:db8::1"
    );
    assert_eq!(
        pool.usage(),
        Usage {
            total: 4,
            used: 2,
            reserved: 0,
            free: 2
        }
    );
    assert_eq!(
        pool.allocate("again".into(), "kept", "", 0),
        Err(Refusal::ReservedTaken(ip("2001:db8::1"))),
        "D11: another live claim holds it"
    );
    assert_eq!(
        pool.allocate("lost".into(), "lost", "", 0),
        Err(Refusal::ReservedOutside(ip("fe80::1")))
    );
    let refused = pool.allocate("kept2".into(), "kept", "2001:db8::3", 0).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "PreAllocation and requested ip address are conflicting"
    );
    let refused = pool.allocate("y".into(), "y", "2001:DB8::2", 0).unwrap_err();
    assert_eq!(refused.to_string(), "Requested IP not available");
    let refused = pool.allocate("y".into(), "y", "2001:db8::1", 0).unwrap_err();
    assert_eq!(refused, Refusal::RequestedTaken(ip("2001:db8::1")));
    // D10: not the same as having run out.
    let refused = pool.allocate("y".into(), "y", "2001:db8::9", 0).unwrap_err();
    assert!(!refused.is_exhaustion() && refused.to_string().starts_with("Exhausted IP Pools"));
    for wrong in ["300.0.0.1", "::ffff:1.2.3.4", "2001:db8::1%eth0", " "] {
        let refused = pool.allocate("y".into(), "y", wrong, 0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("Invalid ipAddress annotation {wrong:?}: not a valid IP address")
        );
    }
    assert_eq!(address(pool.allocate("y".into(), "y", "2001:DB8::4", 0)), "2001:db8::4");
    assert_eq!(pool.release(&"kept".to_owned()), Some(ip("2001:db8::1")));
    assert_eq!(address(pool.allocate("z".into(), "z", "", 0)), "2001:db8::3");
    assert_eq!(
        pool.allocate("w".into(), "w", "", 0),
        Err(Refusal::Exhausted),
        "a released reservation stays kept"
    );
}

/// D12: the work does not depend on the size of the range, nor on how far behind its start the address is.
#[test]
fn the_whole_of_ipv6_costs_what_four_addresses_cost() {
    let mut pool = allocator(&pool(&[
        entry("::1", "", ""),
        entry("", "", "::/0"),
        entry("", "", "0.0.0.0/0"),
    ]));
    let last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    assert_eq!(address(pool.allocate("end".into(), "", last, 0)), last);
    for n in 0..10_000_u32 {
        let got = pool.allocate(format!("c{n}"), "", "", 0).unwrap();
        assert_eq!(
            got.address.to_string(),
            std::net::Ipv6Addr::from_bits(u128::from(n) + 1).to_string()
        );
    }
    assert_eq!(pool.usage().used, 10_001);
    assert_eq!(pool.usage().total, u128::MAX, "as many as can be said");
}

#[test]
fn an_entry_that_another_one_contains_counts_once() {
    let plan = Plan::read(&pool(&[
        entry("10.0.0.5", "10.0.0.6", ""),
        entry("10.0.0.1", "10.0.0.10", ""),
        entry("10.0.0.11", "10.0.0.12", ""),
    ]));
    assert_eq!(plan.total(), 12);
    assert!(plan.contains(ip("10.0.0.12")) && !plan.contains(ip("10.0.0.13")) && !plan.contains(ip("::10.0.0.5")));
}
