//! Whatever a template says: no panic, no surplus claim, no missing one, and texts that stay what they are.

#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

mod fixture;

use std::collections::BTreeMap;

use fixture::{Objects, addresses, parse};
use metal3_api::infra::v1beta2::{
    AnnotationRef, BondLink, BondMode, BondParameter, DynamicNetwork, EthernetLink, EthernetType, Gateway, Ipv4Text,
    Ipv6Text, LinkMac, MetaData, MetaDataAnnotation, MetaDataFromPool, MetaDataHostInterface, MetaDataIndex,
    MetaDataLabel, MetaDataObjectName, MetaDataString, Metal3DataTemplateSpec, NetworkData, NetworkLinks,
    NetworkServices, Networks, PoolReference, Route, RouteServices, SourceObject, StaticNetwork, TransmitHashPolicy,
    VlanLink,
};
use metal3_render::{Addresses, Pool, PoolAddress, Problem, RenderError, pools, render};
use proptest::prelude::*;
use proptest::{collection::vec, option, sample::select};
use serde_json::{Value, json};

/// Texts that readers of YAML like to misunderstand, and any others.
fn text() -> impl Strategy<Value = String> {
    const ODD: &[&str] = &[
        "",
        "no",
        "on",
        "Off",
        "y",
        "NULL",
        "~",
        "1:2",
        "52:54:00:12:34:56",
        "0123",
        "1_000",
        "0x1F",
        "1e3",
        "-.INF",
        "2024-01-01",
        "=",
        "<<",
        "- a",
        "a: b",
        "a #b",
        " a ",
        "a\nb",
        "\t",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{7f}",
    ];
    prop_oneof![
        select(ODD).prop_map(str::to_owned),
        "[ -~]{0,20}",
        any::<String>(),
        (0u8..60, 0u8..60, 0u8..60).prop_map(|(a, b, c)| format!("{a}:{b:02}:{c:02}:00:12:59")),
    ]
}

/// Mostly one of these, now and then any text: a template that cannot be rendered shows little.
fn mostly(known: &[&str]) -> impl Strategy<Value = String> + use<> {
    let known = select(known.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    prop_oneof![30 => known, 1 => text()]
}

fn interface() -> impl Strategy<Value = String> {
    mostly(&["eno1", "eno2", "eno3", "eno4"])
}

fn object() -> impl Strategy<Value = SourceObject> {
    mostly(&["machine", "metal3machine", "baremetalhost", "Machine"]).prop_map(|text| SourceObject::from(text.as_str()))
}

/// An annotation with the name of a pool.
fn pool_annotation() -> impl Strategy<Value = AnnotationRef> {
    (mostly(&["metal3machine"]), mostly(&["pool"])).prop_map(|(object, annotation)| AnnotationRef {
        object: SourceObject::from(object.as_str()),
        annotation,
    })
}

/// The pools of a family.
const POOLS4: &[&str] = &["workers", "bare", "annotated", "other"];
const POOLS6: &[&str] = &["workers6"];

fn pool(names: &'static [&'static str]) -> impl Strategy<Value = PoolReference> {
    let metal3 = (mostly(names), any::<bool>()).prop_map(|(name, empty)| PoolReference {
        name,
        kind: if empty { "" } else { "IPPool" }.to_owned(),
        api_group: if empty { "" } else { "ipam.metal3.io" }.to_owned(),
    });
    let other = mostly(&["storage"]).prop_map(|name| PoolReference {
        name,
        kind: "InClusterIPPool".to_owned(),
        api_group: "ipam.cluster.x-k8s.io".to_owned(),
    });
    if names == POOLS4 {
        prop_oneof![3 => metal3, 1 => other].boxed()
    } else {
        metal3.boxed()
    }
}

fn maybe(name: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), name]
}

fn from_pool() -> impl Strategy<Value = MetaDataFromPool> {
    (text(), pool(POOLS4)).prop_map(|(key, pool)| MetaDataFromPool {
        key,
        name: pool.name,
        api_group: pool.api_group,
        kind: pool.kind,
    })
}

fn metadata() -> impl Strategy<Value = MetaData> {
    let strings = vec(
        (text(), text()).prop_map(|(key, value)| MetaDataString { key, value }),
        0..6,
    );
    let objects = vec(
        (text(), object()).prop_map(|(key, object)| MetaDataObjectName { key, object }),
        0..2,
    );
    let indexes = vec(
        (text(), option::of(any::<i32>()), any::<i32>(), text(), text()).prop_map(
            |(key, offset, step, prefix, suffix)| MetaDataIndex {
                key,
                offset,
                step,
                prefix,
                suffix,
            },
        ),
        0..2,
    );
    let interfaces = vec(
        (text(), interface(), option::of(any::<bool>())).prop_map(|(key, interface, from_boot_mac)| {
            MetaDataHostInterface {
                key,
                interface,
                from_boot_mac,
            }
        }),
        0..2,
    );
    let labels = vec(
        (text(), object(), text()).prop_map(|(key, object, label)| MetaDataLabel { key, object, label }),
        0..2,
    );
    let annotations = vec(
        (text(), object(), text()).prop_map(|(key, object, annotation)| MetaDataAnnotation {
            key,
            object,
            annotation,
        }),
        0..2,
    );
    let pools = || vec(from_pool(), 0..2);
    (
        strings,
        objects,
        indexes,
        interfaces,
        labels,
        annotations,
        (pools(), pools(), pools(), pools()),
    )
        .prop_map(
            |(strings, object_names, indexes, interfaces, labels, annotations, pools)| MetaData {
                strings,
                object_names,
                indexes,
                from_host_interfaces: interfaces,
                from_labels: labels,
                from_annotations: annotations,
                ip_addresses_from_pool: pools.0,
                prefixes_from_pool: pools.1,
                gateways_from_pool: pools.2,
                dns_servers_from_pool: pools.3,
                ..MetaData::default()
            },
        )
}

fn mac() -> impl Strategy<Value = LinkMac> {
    let annotation = AnnotationRef {
        object: SourceObject::Machine,
        annotation: "storage-mac".to_owned(),
    };
    prop_oneof![
        mostly(&["52:54:00:12:34:56", "00-00-5E-00-53-01"]).prop_map(|string| LinkMac {
            string,
            ..LinkMac::default()
        }),
        interface().prop_map(|from_host_interface| LinkMac {
            from_host_interface,
            ..LinkMac::default()
        }),
        Just(LinkMac {
            from_annotation: Some(annotation),
            ..LinkMac::default()
        }),
    ]
}

fn parameter() -> impl Strategy<Value = BondParameter> {
    let name = prop_oneof![20 => "[a-z_]{1,10}", 1 => Just("mode".to_owned()), 5 => text()];
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
        text().prop_map(|text| json!({"list": [text, 1.5], "empty": {}})),
    ];
    (name, value).prop_map(|(name, value)| BondParameter { name, value })
}

fn links() -> impl Strategy<Value = NetworkLinks> {
    let ethernet = (text(), mac(), any::<i32>(), text()).prop_map(|(id, mac_address, mtu, name)| EthernetLink {
        type_: EthernetType::Phy,
        id,
        name,
        mtu,
        mac_address,
    });
    let bond = (
        text(),
        mac(),
        vec(text(), 0..3),
        vec(parameter(), 0..3),
        option::of(text()),
    )
        .prop_map(|(id, mac_address, bond_links, parameters, policy)| BondLink {
            bond_mode: BondMode::Lacp,
            bond_xmit_hash_policy: policy.map(|text| TransmitHashPolicy::from(text.as_str())),
            id,
            mac_address,
            bond_links,
            parameters,
            ..BondLink::default()
        });
    let vlan = (text(), mac(), any::<i32>(), text()).prop_map(|(id, mac_address, vlan_id, vlan_link)| VlanLink {
        vlan_id,
        id,
        mac_address,
        vlan_link,
        ..VlanLink::default()
    });
    (vec(ethernet, 0..2), vec(bond, 0..2), vec(vlan, 0..2)).prop_map(|(ethernets, bonds, vlans)| NetworkLinks {
        ethernets,
        bonds,
        vlans,
    })
}

macro_rules! networks_of {
    ($statics:ident, $dynamics:ident, $routes:ident, $text:ident, $pools:ident) => {
        fn $routes() -> impl Strategy<Value = Vec<Route<$text>>> {
            let gateway = (
                prop_oneof![Just(String::new()), text()],
                maybe(mostly($pools)),
                option::of(pool($pools)),
                option::weighted(0.2, pool_annotation()),
            );
            let gateway = gateway.prop_map(
                |(string, from_ip_pool, from_pool_ref, from_pool_annotation)| Gateway {
                    string: $text(string),
                    from_ip_pool,
                    from_pool_ref,
                    from_pool_annotation,
                },
            );
            let dns = (vec(text().prop_map($text), 0..2), maybe(mostly($pools)));
            let route =
                (text(), option::of(0i32..=32), gateway, dns).prop_map(|(network, prefix, gateway, dns)| Route {
                    network: $text(network),
                    prefix,
                    gateway,
                    services: RouteServices {
                        dns: dns.0,
                        dns_from_ip_pool: dns.1,
                    },
                });
            vec(route, 0..2)
        }

        fn $statics() -> impl Strategy<Value = Vec<StaticNetwork<$text>>> {
            let network = (
                text(),
                text(),
                mostly($pools),
                option::of(pool($pools)),
                option::weighted(if $pools == POOLS4 { 0.2 } else { 0.02 }, pool_annotation()),
                $routes(),
            );
            let network =
                network.prop_map(
                    |(id, link, pool, from_pool_ref, from_pool_annotation, routes)| StaticNetwork {
                        id,
                        link,
                        ip_address_from_ip_pool: pool,
                        from_pool_ref,
                        from_pool_annotation,
                        routes,
                    },
                );
            vec(network, 0..2)
        }

        fn $dynamics() -> impl Strategy<Value = Vec<DynamicNetwork<$text>>> {
            let network = (text(), text(), $routes());
            vec(
                network.prop_map(|(id, link, routes)| DynamicNetwork { id, link, routes }),
                0..2,
            )
        }
    };
}

networks_of!(static4, dynamic4, routes4, Ipv4Text, POOLS4);
networks_of!(static6, dynamic6, routes6, Ipv6Text, POOLS6);

fn template() -> impl Strategy<Value = Metal3DataTemplateSpec> {
    let networks = (static4(), dynamic4(), static6(), dynamic6(), dynamic6()).prop_map(
        |(ipv4, ipv4_dhcp, ipv6, ipv6_dhcp, ipv6_slaac)| Networks {
            ipv4,
            ipv4_dhcp,
            ipv6,
            ipv6_dhcp,
            ipv6_slaac,
        },
    );
    let services = maybe(mostly(POOLS4)).prop_map(|dns_from_ip_pool| NetworkServices {
        dns_from_ip_pool,
        ..NetworkServices::default()
    });
    let data = (links(), networks, services).prop_map(|(links, networks, services)| NetworkData {
        links,
        networks,
        services,
    });
    (option::of(metadata()), option::of(data)).prop_map(|(meta_data, network_data)| Metal3DataTemplateSpec {
        meta_data,
        network_data,
        ..Metal3DataTemplateSpec::default()
    })
}

/// An address of either family from each pool; which one depends on the pool's name.
fn give(pools: &[Pool]) -> Addresses {
    let known = addresses();
    let give = |pool: &Pool| {
        known.get(pool).cloned().unwrap_or_else(|| PoolAddress {
            address: "192.0.2.77".to_owned(),
            ..PoolAddress::default()
        })
    };
    pools.iter().map(|pool| (pool.clone(), give(pool))).collect()
}

/// Whether an address is what lacks.
fn is_missing(failed: Option<&RenderError>) -> bool {
    failed.is_some_and(|err| matches!(*err.problem, Problem::NoAddress(_)))
}

proptest! {
    #[test]
    fn what_is_claimed_is_what_is_used(template in template()) {
        let machine = Objects::new();
        let Ok(pools) = pools(&template, &machine.facts()) else {
            return Ok(());
        };
        let given = give(&pools);
        let rendered = render(&template, &machine.facts(), &given);
        let missing = is_missing(rendered.as_ref().err());
        prop_assert!(!missing, "an address is missing: {rendered:?}");
        if rendered.is_ok() {
            for pool in &pools {
                let mut fewer = given.clone();
                fewer.remove(pool);
                let failed = render(&template, &machine.facts(), &fewer);
                prop_assert!(is_missing(failed.as_ref().err()), "{pool} is claimed for nothing");
            }
        }
    }

    #[test]
    fn texts_stay_what_they_are(template in template()) {
        let machine = Objects::new();
        let Ok(pools) = pools(&template, &machine.facts()) else {
            return Ok(());
        };
        let Ok(rendered) = render(&template, &machine.facts(), &give(&pools)) else {
            return Ok(());
        };
        if let Some(data) = rendered.metadata {
            prop_assert_eq!(parse(&data.to_yaml()?), serde_json::to_value(&data)?);
        }
        if let Some(data) = rendered.network_data {
            prop_assert_eq!(parse(&data.to_yaml()?), serde_json::to_value(&data)?);
        }
    }

    #[test]
    fn metadata_of_any_texts_reads_back(data: BTreeMap<String, String>, odd in vec((text(), text()), 0..8)) {
        let data = metal3_render::Metadata(data.into_iter().chain(odd).collect());
        prop_assert_eq!(parse(&data.to_yaml()?), serde_json::to_value(&data)?);
    }
}
