#![expect(clippy::needless_pass_by_value, reason = "literals of JSON are written in place")]

use metal3_api::ipam::{IPAddress, IPClaim, IPPool};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn pool(spec: Value) -> IPPool {
    let mut spec = spec;
    spec["namePrefix"] = json!("p");
    serde_json::from_value(
        json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "p"}, "spec": spec}),
    )
    .unwrap()
}

fn said(errors: &[FieldError]) -> Vec<(&str, &str)> {
    errors.iter().map(|e| (e.field.as_str(), e.message.as_str())).collect()
}

#[track_caller]
fn assert_one(errors: &[FieldError], field: &str, fragment: &str) {
    let all = said(errors);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].0 == field && all[0].1.contains(fragment), "{all:?}");
}

#[rstest]
#[case::p1(json!({"gateway": "x"}), "spec.gateway", "is not a valid IP address")]
#[case::p2(json!({"dnsServers": ["8.8.8.8", "x"]}), "spec.dnsServers[1]", "is not a valid IP address")]
#[case::p3(json!({"preAllocations": {"c": "x"}}), "spec.preAllocations.c", "is not a valid IP address")]
#[case::p4(json!({"pools": [{"start": "2001:db8::1"}], "preAllocations": {"a": "2001:db8::1", "b": "2001:DB8:0::1"}}),
    "spec.preAllocations.b", "the claim a")]
#[case::p5(json!({"pools": [{"prefix": 24}]}), "spec.pools[0]", "must specify at least one")]
#[case::p6_start(json!({"pools": [{"start": "x"}]}), "spec.pools[0]", "invalid Start")]
#[case::p6_end(json!({"pools": [{"end": "x"}]}), "spec.pools[0]", "invalid End")]
#[case::p6_subnet(json!({"pools": [{"subnet": "10.0.0.0"}]}), "spec.pools[0]", "invalid Subnet")]
#[case::p6_order(json!({"pools": [{"start": "10.0.0.2", "end": "10.0.0.1"}]}), "spec.pools[0]", "is before start")]
#[case::p7_gateway(json!({"pools": [{"start": "10.0.0.2", "gateway": "x"}]}), "spec.pools[0].gateway", "is not a valid IP address")]
#[case::p7_dns(json!({"pools": [{"start": "10.0.0.2", "dnsServers": ["x"]}]}), "spec.pools[0].dnsServers[0]", "is not a valid IP address")]
#[case::p8_open(json!({"allocationStrategy": "random", "pools": [{"start": "10.0.0.2"}]}), "spec.pools[0]",
    "cannot be used with allocationStrategy \"random\"")]
#[case::p8_big(json!({"allocationStrategy": "random", "pools": [{"subnet": "2001:db8::/64"}]}), "spec.pools[0]",
    "cannot be used with allocationStrategy \"random\"")]
#[case::p8_after_another(json!({"allocationStrategy": "random", "pools": [{"start": "10.0.0.2", "gateway": "x"}]}),
    "spec.pools[0].gateway", "is not a valid IP address")]
#[case::p9(json!({"pools": [{"start": "10.0.0.2", "end": "10.0.0.3"}], "preAllocations": {"a": "10.0.0.4"}}),
    "spec.preAllocations", "out of bounds of the pools given")]
#[case::p9_no_pools(json!({"preAllocations": {"a": "10.0.0.4"}}), "spec.preAllocations", "out of bounds of the pools given")]
#[case::d18(json!({"pools": [{"start": "::ffff:102:304"}]}), "spec.pools[0]", "write 1.2.3.4")]
fn pools_that_are_refused(#[case] spec: Value, #[case] field: &str, #[case] fragment: &str) {
    let wrong = pool(spec);
    assert_one(&create_pool(&wrong), field, fragment);
    assert_one(&update_pool(&wrong, &wrong), field, fragment);
    assert_ne!(warn_of_pool(&wrong), [], "without webhooks, its condition names it");
}

#[rstest]
#[case(json!({}))]
#[case::end_only(json!({"pools": [{"end": "10.0.0.9"}]}))]
#[case::end_only_bounds(json!({"pools": [{"end": "10.0.0.9"}], "preAllocations": {"a": "10.0.0.4"}}))]
#[case::v6_above_v4(json!({"pools": [{"start": "10.0.0.9"}], "preAllocations": {"a": "2001:db8::1"}}))]
#[case::overlap(json!({"pools": [{"subnet": "10.0.0.0/24"}, {"subnet": "10.0.0.0/16"}], "gateway": "10.0.0.1"}))]
#[case::random(json!({"allocationStrategy": "random", "pools": [{"subnet": "2001:db8::/65"}, {"subnet": "10.0.0.0/32"}]}))]
fn pools_that_are_taken(#[case] spec: Value) {
    assert_eq!(create_pool(&pool(spec)), []);
}

/// Upstream accepts them, and users may rely on it; but they get a warning.
#[rstest]
#[case::gateway(json!({"pools": [{"subnet": "10.0.0.0/24"}], "gateway": "10.7.0.1"}), "spec.gateway", "not in the subnet")]
#[case::own_gateway(json!({"pools": [{"start": "10.0.0.9", "gateway": "fe80::1"}]}), "spec.pools[0].gateway", "is IPv6")]
#[case::prefix(json!({"pools": [{"start": "10.0.0.9"}], "prefix": 64}), "spec.prefix", "no prefix length of IPv4")]
#[case::negative(json!({"pools": [{"start": "10.0.0.9", "prefix": -1}]}), "spec.pools[0].prefix", "no prefix length")]
#[case::end_only(json!({"pools": [{"end": "10.0.0.9"}]}), "spec.pools[0].end", "gives no address")]
#[case::overlap(json!({"pools": [{"start": "10.0.0.9"}, {"start": "10.0.1.9"}]}), "spec.pools[1]", "shares addresses")]
#[case::end_v6(json!({"pools": [{"start": "10.0.0.9", "end": "2001:db8::1"}]}), "spec.pools[0].end", "is IPv6, but start is IPv4")]
// OWN 30wf: an end of IPv4 counted as one before a start of IPv6.
#[case::end_v4(json!({"pools": [{"start": "2001:db8::1", "end": "10.0.0.9"}]}), "spec.pools[0].end", "is IPv4, but start is IPv6")]
fn pools_that_are_taken_with_a_warning(#[case] spec: Value, #[case] field: &str, #[case] fragment: &str) {
    let odd = pool(spec);
    assert_eq!(create_pool(&odd), []);
    assert_one(&warn_of_pool(&odd), field, fragment);
}

/// Upstream accepts these too, and then fails to create each address.
#[rstest]
#[case("Upper", 1)]
#[case("under_score", 1)]
#[case("-", 1)]
#[case("", 1)]
#[case("rack-1.example", 0)]
#[case("rack.", 1)]
#[case("rack-.a", 1)]
#[case("rack..a", 1)]
#[case("rack.-", 1)]
#[case("rack.a-", 0)]
#[case("2001:db8", 1)]
#[case(&"p".repeat(213), 0)]
#[case(&"p".repeat(214), 1)]
fn prefixes_of_names(#[case] prefix: &str, #[case] warnings: usize) {
    let mut named = pool(json!({"pools": [{"start": "10.0.0.9"}]}));
    prefix.clone_into(&mut named.spec.name_prefix);
    let said = warn_of_pool(&named);
    assert_eq!(said.len(), warnings, "{said:?}");
    assert!(said.iter().all(|warning| warning.field == "spec.namePrefix"));
    assert_eq!(create_pool(&named), []);
}

#[test]
fn what_may_not_change_and_what_is_in_use() {
    let mut old = pool(json!({"pools": [{"start": "2001:db8::1", "end": "2001:db8::9"}]}));
    old.status = serde_json::from_value(json!({"indexes": {"c": "2001:db8::5"}})).unwrap();
    let mut new = old.clone();
    new.spec.name_prefix = "q".into();
    assert_one(&update_pool(&old, &new), "spec.namePrefix", "cannot be modified");
    let mut new =
        pool(json!({"pools": [{"start": "2001:db8::1", "end": "2001:db8::9"}], "allocationStrategy": "random"}));
    assert_one(
        &update_pool(&old, &new),
        "spec.allocationStrategy",
        "cannot be modified after creation",
    );
    new.spec.allocation_strategy = "".into();
    assert_eq!(update_pool(&old, &new), [], "empty is sequential");
    assert!(default_pool(&mut new) && !default_pool(&mut new));
    assert_eq!(new.spec.allocation_strategy.as_str(), "sequential");
    let smaller = pool(json!({"pools": [{"start": "2001:db8::1", "end": "2001:db8::4"}]}));
    assert_one(
        &update_pool(&old, &smaller),
        "spec.pools",
        "is in use but out of bounds",
    );
    assert_eq!(
        create_pool(&old),
        [],
        "what a new object says of its status does not count"
    );
}

fn claim(pool: Value, annotation: &str) -> IPClaim {
    let metadata = json!({"name": "c", "annotations": {"ipAddress": annotation}});
    serde_json::from_value(json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim", "metadata": metadata, "spec": {"pool": pool}})).unwrap()
}

#[test]
fn claims() {
    let good = claim(json!({"name": "p"}), "2001:DB8::1");
    assert_eq!((create_claim(&good), update_claim(&good, &good)), (vec![], vec![]));
    assert_eq!(create_claim(&claim(json!({"name": "p"}), "")), []);
    assert_one(&create_claim(&claim(json!({}), "")), "spec.pool.name", "empty");
    let wrong = claim(json!({"name": "p"}), "10.0.0.300");
    assert_one(
        &create_claim(&wrong),
        "metadata.annotations.ipAddress",
        "is not a valid IP address",
    );
    assert_one(
        &update_claim(&good, &wrong),
        "metadata.annotations.ipAddress",
        "is not a valid IP address",
    );
    for (other, part) in [
        (json!({"name": "q", "namespace": "n"}), "name"),
        (json!({"name": "p", "namespace": "n", "kind": "K"}), "namespace"),
        (json!({"name": "p", "kind": "K"}), "kind"),
    ] {
        assert_one(
            &update_claim(&good, &claim(other, "")),
            "spec.pool",
            &format!("{part} cannot be modified"),
        );
    }
}

fn address(spec: Value) -> IPAddress {
    serde_json::from_value(
        json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPAddress", "metadata": {"name": "a"}, "spec": spec}),
    )
    .unwrap()
}

#[test]
fn addresses() {
    let spec = json!({"address": "10.0.0.1", "pool": {"name": "p"}, "claim": {"name": "c"}, "prefix": 24});
    let good = address(spec.clone());
    assert_eq!((create_address(&good), update_address(&good, &good)), (vec![], vec![]));
    let with = |part: &str, value: Value| {
        let mut spec = spec.clone();
        spec[part] = value;
        address(spec)
    };
    assert_one(&create_address(&with("address", json!(""))), "spec.address", "empty");
    assert_one(
        &create_address(&with("address", json!("10.0.0"))),
        "spec.address",
        "is not a valid IP address",
    );
    assert_one(
        &create_address(&with("address", json!("::ffff:102:304"))),
        "spec.address",
        "write 1.2.3.4",
    );
    assert_one(&create_address(&with("pool", json!({}))), "spec.pool.name", "empty");
    assert_one(&create_address(&with("claim", json!({}))), "spec.claim.name", "empty");
    assert_one(
        &update_address(&good, &with("address", json!("10.0.0.2"))),
        "spec.address",
        "cannot be modified",
    );
    assert_one(
        &update_address(&good, &with("pool", json!({"name": "q"}))),
        "spec.pool",
        "name cannot be modified",
    );
    assert_one(
        &update_address(&good, &with("claim", json!({"name": "c", "namespace": "n"}))),
        "spec.claim",
        "namespace cannot be modified",
    );
    for (part, value) in [
        ("prefix", json!(25)),
        ("gateway", json!("10.0.0.254")),
        ("dnsServers", json!(["8.8.8.8"])),
    ] {
        assert_eq!(update_address(&good, &with(part, value)), []);
    }
}

/// An absent strategy is sequential to every reader; an empty one is written.
#[rstest]
#[case(json!({}))]
#[case(json!({"spec": null}))]
#[case(json!({"spec": {}}))]
#[case(json!({"spec": {"allocationStrategy": ""}}))]
fn the_defaults_of_a_pool_can_be_applied(#[case] rest: Value) {
    let mut object = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "p"}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    let request = json!({"uid": "u", "kind": {"group": "ipam.metal3.io", "version": "v1alpha1", "kind": "IPPool"},
        "name": "p", "operation": "CREATE", "object": object});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let path = "/mutate-ipam-metal3-io-v1alpha1-ippool";
    let (_, answer) = crate::webhooks::all().answer(path, review.to_string().into()).unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let defaults: Option<Vec<u8>> = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
    if let Some(defaults) = defaults {
        let defaults: json_patch::Patch = serde_json::from_slice(&defaults).unwrap();
        json_patch::patch(&mut object, &defaults).unwrap();
    }
    let strategy = object["spec"].get("allocationStrategy");
    assert!(strategy.is_none_or(|strategy| strategy == "sequential"), "{object}");
}

// OWN 30xe: each preallocation and each address in use was compared with each entry.
#[test]
fn a_pool_as_large_as_an_object_is_judged_by_search() {
    let v4 = |number: u32| std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
    let entries: Vec<Value> = (0..100_000)
        .map(|number| json!({"start": v4(2 * number), "end": v4(2 * number)}))
        .collect();
    let kept: serde_json::Map<_, _> = (0..200_000)
        .map(|number| (number.to_string(), v4(number).into()))
        .collect();
    let mut full = pool(json!({"pools": entries, "preAllocations": kept}));
    let errors = create_pool(&full);
    assert_eq!(errors.len(), 100_000);
    assert!(errors[0].message.contains("is out of bounds"), "{}", errors[0]);
    let used = std::mem::take(&mut full.spec.pre_allocations);
    full.status.get_or_insert_default().allocations = used.into_iter().collect();
    assert_eq!(update_pool(&full, &full).len(), 100_000);
}
