//! Mistakes in a spec: each is reported on its field.

use std::sync::Arc;

use rstest::rstest;

use metal3_api::ipam::{IPPoolSpec, PoolEntry};

use super::vectors::{entry, pool};
use crate::alloc::read::MOST_PROBLEMS;
use crate::alloc::{Allocator, Plan, Problem, Refusal, Severity};

/// Invalid specs: each problem is reported on its field, and none yields an address by accident.
#[rstest]
#[case(pool(&[entry("10.0.0.9", "10.0.0.1", "")]), "spec.pools[0]", Severity::Error)]
#[case(pool(&[entry("10.0.0.1", "::9", "")]), "spec.pools[0].end", Severity::Error)]
#[case(pool(&[entry("10.0.0.1", "", "2001:db8::/64")]), "spec.pools[0].start", Severity::Error)]
#[case(pool(&[entry("10.1.0.1", "", "10.0.0.0/24")]), "spec.pools[0].start", Severity::Error)]
#[case(pool(&[entry("", "10.0.0.1", "")]), "spec.pools[0].end", Severity::Error)]
#[case(pool(&[entry("::ffff:a00:1", "", "")]), "spec.pools[0].start", Severity::Error)]
#[case(pool(&[entry("", "", "10.0.0.1/32")]), "spec.pools[0].subnet", Severity::Error)]
#[case(IPPoolSpec { allocation_strategy: "random".into(), ..pool(&[entry("10.0.0.1", "", "")]) }, "spec.pools[0]", Severity::Error)]
fn useless_entries_give_nothing(#[case] text: IPPoolSpec, #[case] field: &str, #[case] severity: Severity) {
    let plan = Plan::read(&text);
    let problems: Vec<_> = plan.problems().iter().map(|p| (p.field.as_str(), p.severity)).collect();
    assert_eq!(problems, [(field, severity)], "{:?}", plan.problems());
    assert_eq!(plan.total(), 0);
    assert_eq!(Allocator::<()>::new(&plan).choose("c", "", 1), Err(Refusal::Exhausted));
}

#[test]
fn odd_entries_are_named_and_work() {
    let mut first = entry("10.0.0.10", "10.0.1.9", "10.0.0.0/24");
    first.gateway = "10.0.1.1".into();
    let second = entry("10.0.0.200", "10.0.0.255", "");
    let third = entry("", "10.0.9.9", "10.0.9.0/24");
    let mut text = pool(&[first, second, third]);
    text.pre_allocations = [
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
    // The third one ends at the end of its subnet, whatever its `end`.
    assert_eq!(plan.total(), 246 + 255);
}

/// Settings that do not fit are still used, as upstream does. The problem is reported on the pool's or the entry's field,
/// wherever it was written.
#[test]
fn what_does_not_fit_is_asked_and_given() {
    let taken =
        "is one of the addresses that claims get; leave it out of the ranges, or keep it in spec.preAllocations";
    let taken = format!("10.0.0.11 {taken}");
    let bits = "64 is no prefix length of IPv4, whose addresses have 32 bits";
    let (own, all) = ("spec.pools[0]", "does not fit spec.pools[0]: ");
    let (v6, outside) = (
        "is IPv6, but the addresses are IPv4",
        "10.7.0.1 is not in the subnet 10.0.0.0/24",
    );
    for (gateway, prefix, own_gateway, own_prefix, field, message) in [
        ("", 0, "10.7.0.1", 0, format!("{own}.gateway"), outside.to_owned()),
        (
            "10.7.0.1",
            0,
            "",
            0,
            "spec.gateway".to_owned(),
            format!("{all}{outside}"),
        ),
        (
            "",
            0,
            "2001:db8::1",
            0,
            format!("{own}.gateway"),
            format!("2001:db8::1 {v6}"),
        ),
        (
            "fe80::1",
            0,
            "",
            0,
            "spec.gateway".to_owned(),
            format!("{all}fe80::1 {v6}"),
        ),
        ("", 0, "10.0.0.11", 0, format!("{own}.gateway"), taken),
        ("", 0, "", 64, format!("{own}.prefix"), bits.to_owned()),
        ("", 64, "", 0, "spec.prefix".to_owned(), format!("{all}{bits}")),
    ] {
        let entry_with = |gateway: &str, prefix, start, end| PoolEntry {
            gateway: gateway.into(),
            prefix,
            ..entry(start, end, "10.0.0.0/24")
        };
        // The pool's gateway and prefix are the other's, too, and fit it no better: they are asked about once.
        let other_gateway = if gateway.is_empty() { "10.0.0.1" } else { "" };
        let other_prefix = if prefix == 0 { 24 } else { 0 };
        let text = IPPoolSpec {
            gateway: gateway.into(),
            prefix,
            ..pool(&[
                entry_with(own_gateway, own_prefix, "10.0.0.10", "10.0.0.20"),
                entry_with(other_gateway, other_prefix, "10.0.0.30", "10.0.0.40"),
            ])
        };
        let plan = Plan::read(&text);
        let severity = Severity::Warning;
        assert_eq!(
            plan.problems(),
            [Problem {
                field,
                message,
                severity
            }]
        );
        let settings = Allocator::<()>::new(&plan).choose("", "", 0).unwrap().settings;
        assert_eq!(*settings.gateway, format!("{gateway}{own_gateway}"));
        assert_eq!(settings.prefix, prefix + own_prefix);
    }
}

/// Intentional settings cause no warning.
#[rstest]
#[case::link_local(entry("2001:db8::10", "", "2001:db8::/64"), "fe80::1", 64)]
#[case::no_subnet(entry("10.0.0.10", "10.0.0.20", ""), "10.0.0.1", 24)]
#[case::single_hosts(entry("10.0.0.10", "10.0.0.20", ""), "10.9.0.1", 32)]
#[case::no_prefix(entry("10.0.0.10", "10.0.0.20", ""), "10.9.0.1", 0)]
#[case::no_gateway(entry("10.0.0.10", "10.0.0.20", ""), "", 24)]
#[case::one_that_is_kept(entry("", "", "10.0.0.0/24"), "10.0.0.1", 24)]
fn what_fits_is_not_asked(#[case] entry: PoolEntry, #[case] gateway: &str, #[case] prefix: i64) {
    let text = IPPoolSpec {
        gateway: gateway.into(),
        prefix,
        pre_allocations: [("nobody".to_owned(), "10.0.0.1".to_owned())]
            .into_iter()
            .filter(|_| !entry.subnet.is_empty() && gateway == "10.0.0.1")
            .collect(),
        ..pool(&[entry])
    };
    assert_eq!(Plan::read(&text).problems(), []);
}

/// Without a subnet, the network follows from the prefix length and the start.
#[test]
fn a_gateway_outside_the_network_of_start_and_prefix_is_asked() {
    let text = IPPoolSpec {
        gateway: "192.168.1.1".into(),
        prefix: 24,
        ..pool(&[entry("192.168.0.10", "192.168.0.20", "")])
    };
    let plan = Plan::read(&text);
    let said: Vec<_> = plan
        .problems()
        .iter()
        .map(|p| (p.field.as_str(), p.message.as_str()))
        .collect();
    let message = "does not fit spec.pools[0]: 192.168.1.1 is not in 192.168.0.0/24, the network of the addresses";
    assert_eq!(said, [("spec.gateway", message)]);
}

// OWN 27d: every pair of entries of a pool was compared.
/// As many entries as fit an object, each with all other possible problems.
#[test]
fn a_specification_as_large_as_an_object_is_read_entry_by_entry() {
    let entries: Vec<_> = (0..20_000_u32)
        .map(|number| {
            let [_, high, middle, low] = number.to_be_bytes();
            let address = format!("10.{high}.{middle}.{low}");
            let mut entry = entry(&address, &address, "");
            entry.gateway = "10.255.255.254".into();
            entry
        })
        .collect();
    let mut text = pool(&entries);
    text.pre_allocations = (0..20_000_u32)
        .map(|number| (format!("c{number}"), format!("10.200.{}.{}", number >> 8, number & 255)))
        .collect();
    let plan = Plan::read(&text);
    assert_eq!(plan.total(), 20_000);
    let of = |severity| {
        plan.problems()
            .iter()
            .filter(|problem| problem.severity == severity)
            .count()
    };
    assert_eq!([of(Severity::Error), of(Severity::Warning)], [MOST_PROBLEMS, 0]);
}

#[test]
fn an_entry_that_shares_addresses_with_several_is_named() {
    let entries = [
        entry("10.0.0.1", "10.0.0.5", ""),
        entry("10.0.0.20", "10.0.0.25", ""),
        entry("10.0.0.6", "10.0.0.19", ""),
        entry("10.0.0.4", "10.0.0.21", ""),
        entry("10.0.0.26", "10.0.0.26", ""),
        entry("10.0.0.1", "10.0.0.1", ""),
    ];
    let plan = Plan::read(&pool(&entries));
    let fields: Vec<_> = plan.problems().iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["spec.pools[3]", "spec.pools[5]"], "{:?}", plan.problems());
}

// OWN 30xf: each entry had a copy of the gateway and the DNS servers of its pool: 40 GB for a pool of 1 MiB.
#[test]
fn entries_share_the_settings_of_their_pool() {
    let mut text = pool(&[
        entry("10.0.0.1", "", "10.0.0.0/24"),
        entry("10.0.1.1", "", "10.0.1.0/24"),
    ]);
    (text.gateway, text.dns_servers) = ("10.0.0.1".into(), vec!["8.8.8.8".into()]);
    let plan = Plan::read(&text);
    for address in ["10.0.0.2", "10.0.1.2"] {
        let settings = plan.settings(address.parse().unwrap());
        assert_eq!(&*settings.gateway, "10.0.0.1");
        assert!(Arc::ptr_eq(&settings.gateway, &plan.defaults.gateway));
        assert!(Arc::ptr_eq(&settings.dns_servers, &plan.defaults.dns_servers));
    }
}
