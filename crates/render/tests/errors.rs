//! What cannot be rendered, and what is said then.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test, helpers included")]

mod fixture;

use fixture::{Objects, addresses, template};
use metal3_render::{Problem, pools, render};
use rstest::rstest;

/// A template in v1beta2 with this spec.
fn manifest(spec: &str) -> String {
    format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: Metal3DataTemplate, metadata: {{}}, spec: {{{spec}}}}}"
    )
}

/// What goes wrong first, with pools as they are claimed.
fn error(spec: &str, machine: &Objects) -> String {
    let spec = template(&manifest(spec)).spec;
    let failed = match pools(&spec, &machine.facts()) {
        Err(err) => err,
        Ok(_) => render(&spec, &machine.facts(), &addresses()).expect_err("this is rendered"),
    };
    failed.to_string()
}

#[rstest]
#[case::object(
    "metaData: {objectNames: [{key: a, object: cluster}]}",
    r#"spec.metaData.objectNames[a].object: "cluster" is none of machine, metal3machine and baremetalhost"#
)]
#[case::interface(
    "metaData: {fromHostInterfaces: [{key: a, interface: eno9}]}",
    "spec.metaData.fromHostInterfaces[a]: BareMetalHost metal3/host-0 has no network interface eno9 with a MAC address \
     (it has eno1, eno2, eno3, eno4); name another one, or inspect the host again"
)]
#[case::interface_without_mac(
    "networkData: {links: {ethernets: [{id: nic, type: phy, macAddress: {fromHostInterface: eno5}}]}}",
    "spec.networkData.links.ethernets[nic].macAddress.fromHostInterface: BareMetalHost metal3/host-0 has no network \
     interface eno5 with a MAC address (it has eno1, eno2, eno3, eno4); name another one, or inspect the host again"
)]
#[case::annotation(
    "networkData: {links: {vlans: [{id: v, macAddress: {fromAnnotation: {object: baremetalhost, annotation: mac}}}]}}",
    "spec.networkData.links.vlans[v].macAddress.fromAnnotation: BareMetalHost metal3/host-0 has no annotation mac, or \
     an empty one; set it"
)]
#[case::empty_pool_annotation(
    "networkData: {networks: {ipv4: [{id: nic, link: l, fromPoolAnnotation: {object: metal3machine, annotation: empty}}]}}",
    "spec.networkData.networks.ipv4[nic].fromPoolAnnotation: Metal3Machine metal3/workers-x2b4 has no annotation empty, or \
     an empty one; set it"
)]
#[case::route_annotation_of_dhcp(
    "networkData: {networks: {ipv6DHCP: [{id: nic, link: l, routes: [{network: '::', gateway: {fromPoolAnnotation: \
     {object: machine, annotation: pool}}}]}]}}",
    "spec.networkData.networks.ipv6DHCP[nic].routes[::].gateway.fromPoolAnnotation: Machine metal3/workers-7d9f has no \
     annotation pool, or an empty one; set it"
)]
#[case::no_mac(
    "networkData: {links: {ethernets: [{id: nic, type: phy, macAddress: {}}]}}",
    "spec.networkData.links.ethernets[nic].macAddress: no source of the MAC address is given; set string, \
     fromHostInterface or fromAnnotation"
)]
#[case::bad_mac(
    "networkData: {links: {bonds: [{id: b, bondMode: 802.3ad, macAddress: {string: 'XX:XX:XX:XX:XX:XX'}}]}}",
    r#"spec.networkData.links.bonds[b].macAddress.string: "XX:XX:XX:XX:XX:XX" is not a MAC address: six pairs of hexadecimal digits, separated by : or -"#
)]
#[case::no_pool(
    "networkData: {networks: {ipv6: [{id: nic, link: l}]}}",
    "spec.networkData.networks.ipv6[nic]: no pool is named; set fromPoolRef, fromPoolAnnotation or ipAddressFromIPPool"
)]
#[case::two_kinds_of_one_name(
    "metaData: {ipAddressesFromPool: [{key: a, name: storage, kind: InClusterIPPool, apiGroup: ipam.cluster.x-k8s.io}]}, \
     networkData: {services: {dnsFromIPPool: storage}}",
    "spec.networkData.services.dnsFromIPPool: IPPool storage has the name of \
     InClusterIPPool.ipam.cluster.x-k8s.io storage, which spec.metaData.ipAddressesFromPool[a] asks; give one of the \
     two another name"
)]
#[case::no_address(
    "networkData: {networks: {ipv4: [{id: nic, link: l, ipAddressFromIPPool: nowhere}]}}",
    "spec.networkData.networks.ipv4[nic].ipAddressFromIPPool: there is no address from IPPool nowhere"
)]
#[case::no_prefix(
    "metaData: {prefixesFromPool: [{key: a, name: bare}]}",
    "spec.metaData.prefixesFromPool[a]: IPPool bare tells no prefix length; set it in the pool"
)]
#[case::bad_prefix(
    "networkData: {networks: {ipv4DHCP: [{id: nic, link: l, routes: [{network: 10.0.0.0, prefix: 33, gateway: {}}]}]}}",
    "spec.networkData.networks.ipv4DHCP[nic].routes[10.0.0.0].prefix: 33 is not the length of a prefix"
)]
#[case::wrong_family(
    "networkData: {networks: {ipv4: [{id: nic, link: l, fromPoolRef: {name: workers6}}]}}",
    "spec.networkData.networks.ipv4[nic].fromPoolRef: IPPool workers6 has given 2001:db8::10, which is not an IPv4 \
     address; name a pool of IPv4"
)]
#[case::wrong_family_of_a_gateway(
    "networkData: {networks: {ipv6SLAAC: [{id: nic, link: l, routes: [{network: '::', gateway: {fromIPPool: workers}}]}]}}",
    "spec.networkData.networks.ipv6SLAAC[nic].routes[::].gateway.fromIPPool: IPPool workers has given 192.0.2.1, which is \
     not an IPv6 address; name a pool of IPv6"
)]
#[case::taken_parameters(
    "networkData: {links: {bonds: [{id: b, bondMode: 802.3ad, macAddress: {fromHostInterface: eno1}, parameters: \
     [{name: mode, value: {}}, {name: miimon, value: {}}, {name: links, value: {}}]}]}}",
    "spec.networkData.links.bonds[b].parameters: the parameters mode, links would overwrite keys that the bond has \
     anyway; use bondMode, bondXmitHashPolicy and bondLinks for them"
)]
fn an_error_names_the_field_and_the_way_out(#[case] spec: &str, #[case] message: &str) {
    assert_eq!(error(spec, &Objects::new()), message);
}

#[test]
fn a_host_without_a_boot_mac() {
    let mut machine = Objects::new();
    machine.boot_mac.clear();
    assert_eq!(
        error(
            "metaData: {fromHostInterfaces: [{key: a, fromBootMAC: true}]}",
            &machine
        ),
        "spec.metaData.fromHostInterfaces[a]: BareMetalHost metal3/host-0 has no spec.bootMACAddress; set it, or name an \
         interface instead"
    );
}

#[test]
fn names_of_objects_are_read_in_upper_and_lower_case() {
    let spec = template(&manifest("metaData: {objectNames: [{key: a, object: BareMetalHost}]}")).spec;
    let rendered = render(&spec, &Objects::new().facts(), &addresses()).unwrap();
    assert_eq!(rendered.metadata.unwrap().0["a"], "host-0");
}

#[test]
fn a_large_index_does_not_overflow() {
    let spec = template(&manifest(
        "metaData: {indexes: [{key: a, offset: 2147483647, step: 2147483647}]}",
    ))
    .spec;
    let machine = Objects::new();
    let facts = metal3_render::Facts {
        index: i32::MAX,
        ..machine.facts()
    };
    let rendered = render(&spec, &facts, &addresses()).unwrap();
    assert_eq!(rendered.metadata.unwrap().0["a"], "4611686016279904256");
}

#[test]
fn errors_can_be_told_apart() {
    let spec = template(&manifest("metaData: {ipAddressesFromPool: [{key: a, name: nowhere}]}")).spec;
    let failed = render(&spec, &Objects::new().facts(), &addresses()).unwrap_err();
    assert!(matches!(*failed.problem, Problem::NoAddress(pool) if pool.name == "nowhere"));
}
