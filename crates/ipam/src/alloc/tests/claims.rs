//! Known answers to claims.

use super::vectors::{allocate, entry, ip, pool};
use crate::alloc::{Allocator, Grant, Plan, Refusal, Settings, Usage};

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
    let plan = Plan::read(&text);
    let mut pool = Allocator::<String>::new(&plan);
    let got: Vec<_> = (0..3)
        .map(|n| allocate(&mut pool, n.to_string(), "", "", 0).unwrap())
        .collect();
    assert_eq!(
        got[1],
        Grant {
            address: ip("10.0.0.2"),
            settings: Settings {
                prefix: 25,
                gateway: "10.0.0.254".into(),
                dns_servers: text.dns_servers.clone().into(),
            }
        }
    );
    assert_eq!(
        got[2],
        Grant {
            address: ip("10.0.1.1"),
            settings: Settings {
                prefix: 24,
                gateway: "".into(),
                dns_servers: ["9.9.9.9".into()].into(),
            }
        }
    );
    assert_eq!(allocate(&mut pool, "3".into(), "", "", 0), Err(Refusal::Exhausted));
    assert_eq!(pool.held_by(&"1".to_owned()), Some(ip("10.0.0.2")));
}

#[test]
fn reservations_and_requests() {
    let mut text = pool(&[entry("2001:db8::1", "2001:db8::4", "")]);
    // Not the canonical spelling (D4): it still reserves 2001:db8::1.
    text.pre_allocations = [
        ("kept".to_owned(), "2001:0DB8:0:0::0001".to_owned()),
        ("lost".to_owned(), "fe80::1".to_owned()),
    ]
    .into();
    let plan = Plan::read(&text);
    let mut pool = Allocator::<String>::new(&plan);
    assert_eq!(
        pool.usage(),
        Usage {
            total: 4,
            used: 0,
            // A reservation outside of the ranges is not counted: used, reserved and free add up to the total.
            reserved: 1,
            free: 3
        }
    );
    assert_eq!(address(allocate(&mut pool, "x".into(), "x", "", 0)), "2001:db8::2");
    assert_eq!(
        address(allocate(&mut pool, "kept".into(), "kept", "2001:db8::1", 0)),
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
        allocate(&mut pool, "again".into(), "kept", "", 0),
        Err(Refusal::ReservedTaken(ip("2001:db8::1"))),
        "D11: another live claim holds it"
    );
    assert_eq!(
        allocate(&mut pool, "lost".into(), "lost", "", 0),
        Err(Refusal::ReservedOutside(ip("fe80::1")))
    );
    let refused = allocate(&mut pool, "kept2".into(), "kept", "2001:db8::3", 0).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "PreAllocation and requested ip address are conflicting"
    );
    let refused = allocate(&mut pool, "y".into(), "y", "2001:DB8::2", 0).unwrap_err();
    assert_eq!(refused.to_string(), "Requested IP not available");
    let refused = allocate(&mut pool, "y".into(), "y", "2001:db8::1", 0).unwrap_err();
    assert_eq!(refused, Refusal::RequestedTaken(ip("2001:db8::1")));
    // D10: not the same as an exhausted pool.
    let refused = allocate(&mut pool, "y".into(), "y", "2001:db8::9", 0).unwrap_err();
    assert!(!refused.is_exhaustion() && refused.to_string().starts_with("Exhausted IP Pools"));
    for wrong in ["300.0.0.1", "::ffff:1.2.3.4", "2001:db8::1%eth0", " "] {
        let refused = allocate(&mut pool, "y".into(), "y", wrong, 0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("Invalid ipAddress annotation {wrong:?}: not a valid IP address")
        );
    }
    assert_eq!(
        address(allocate(&mut pool, "y".into(), "y", "2001:DB8::4", 0)),
        "2001:db8::4"
    );
    let mut unused = Allocator::<String>::new(&plan);
    for (n, free) in ["2001:db8::2", "2001:db8::3", "2001:db8::4"].into_iter().enumerate() {
        assert_eq!(address(allocate(&mut unused, n.to_string(), "", "", 0)), free);
    }
    assert_eq!(
        unused.choose("w", "", 0),
        Err(Refusal::Exhausted),
        "what is reserved stays kept"
    );
}

/// D12: the cost depends neither on the size of the range nor on how far from its start the address is.
#[test]
fn the_whole_of_ipv6_costs_what_four_addresses_cost() {
    let plan = Plan::read(&pool(&[
        entry("::1", "", ""),
        entry("", "", "::/0"),
        entry("", "", "0.0.0.0/0"),
    ]));
    let mut pool = Allocator::<String>::new(&plan);
    let last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    assert_eq!(address(allocate(&mut pool, "end".into(), "", last, 0)), last);
    for n in 0..10_000_u32 {
        let got = allocate(&mut pool, format!("c{n}"), "", "", 0).unwrap();
        assert_eq!(
            got.address.to_string(),
            std::net::Ipv6Addr::from_bits(u128::from(n) + 1).to_string()
        );
    }
    assert_eq!(pool.usage().used, 10_001);
    assert_eq!(pool.usage().total, u128::MAX, "as many as can be said");
}

#[test]
fn what_is_in_use_outside_of_the_ranges_is_known() {
    let plan = Plan::read(&pool(&[entry("10.0.0.2", "10.0.0.2", "")]));
    let mut held = Allocator::new(&plan);
    for (claim, address) in [("a", "10.9.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.1")] {
        assert!(held.hold(claim, ip(address)));
    }
    assert_eq!(held.outside(), [ip("10.0.0.1"), ip("10.9.0.1")]);
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
