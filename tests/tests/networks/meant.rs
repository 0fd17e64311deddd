//! What was meant by a template, as `golden/CASE/cloud-init.yaml` says it, as far as a renderer of cloud-init can do it.

use std::net::IpAddr;

use metal3_lab::guest::Renderer;
use serde_json::{Map, Value, json};

use super::fixture::{Case, parse};

/// By the names of interfaces.
pub fn of(case: &Case, renderer: Renderer) -> Value {
    let meant = parse(&case.text("cloud-init.yaml").unwrap());
    let servers = texts(&meant["dns"]);
    let all = meant["interfaces"].as_object().unwrap();
    let interfaces = all.iter().filter(|(_, meant)| match renderer {
        // cloud-init's own files for networkd neither make bonds nor VLANs.
        Renderer::Networkd => meant.get("bond").is_none() && meant.get("vlan").is_none(),
        // networkd does not make a VLAN whose MTU is above that of what carries it.
        Renderer::Netplan => meant["on"]
            .as_str()
            .is_none_or(|on| meant["mtu"].as_u64() <= all[on]["mtu"].as_u64()),
        // An interface that is only named stays off, and such a VLAN is not made.
        Renderer::Eni => ["bond", "in", "addresses", "dynamic"]
            .into_iter()
            .any(|part| meant.get(part).is_some()),
    });
    let interfaces = interfaces.map(|(name, meant)| {
        let addresses = texts(&meant["addresses"]);
        let dynamic = texts(&meant["dynamic"]);
        let routes = texts(&meant["routes"])
            .into_iter()
            .filter(|route| match route.split_once(" via ") {
                None => renderer == Renderer::Networkd,
                Some((_, gateway)) if dynamic.is_empty() => {
                    let gateway = gateway.parse().unwrap();
                    addresses.iter().any(|own| reaches(own, gateway))
                }
                Some((to, _)) => match renderer {
                    Renderer::Networkd => true,
                    Renderer::Netplan => false,
                    Renderer::Eni => is_sure(to, &dynamic),
                },
            });
        let routes = routes.collect();
        let dns = name_servers(renderer, &texts(&meant["dns"]), &servers, !addresses.is_empty());
        let lists = [
            ("addresses", addresses),
            ("dynamic", dynamic),
            ("routes", routes),
            ("dns", dns),
        ];
        (name.clone(), interface(parts(renderer, meant, all), lists))
    });
    let mut interfaces: Map<String, Value> = interfaces.collect();
    if renderer == Renderer::Eni && !servers.is_empty() {
        interfaces.insert("lo".to_owned(), interface(Map::new(), [("dns", servers)]));
    }
    Value::Object(interfaces)
}

/// What is said of an interface besides its networks.
fn parts(renderer: Renderer, meant: &Value, all: &Map<String, Value>) -> Map<String, Value> {
    let mut parts = Map::new();
    for part in ["mac", "mtu", "vlan", "on"] {
        parts.extend(meant.get(part).map(|value| (part.to_owned(), value.clone())));
    }
    if let Some(carrier) = meant["on"].as_str() {
        // The kernel does not let a VLAN have more; ifupdown makes it all the same.
        let mtu = [&meant["mtu"], &all[carrier]["mtu"]]
            .into_iter()
            .filter_map(Value::as_u64)
            .min();
        parts.insert("mtu".to_owned(), json!(mtu));
    }
    if let Some(bond) = meant.get("bond") {
        parts.insert("bond".to_owned(), parameters(bond));
    }
    if let Some(bond) = meant["in"].as_str().filter(|_| renderer != Renderer::Networkd) {
        parts.insert("in".to_owned(), json!(bond));
        // The kernel gives a bond's MTU to its links. ifupdown sets theirs afterwards.
        if renderer == Renderer::Netplan {
            parts.insert("mtu".to_owned(), all[bond]["mtu"].clone());
        }
    }
    parts
}

/// The name servers that an interface gets: of its own those that it was given, and of those for everything what a renderer makes.
fn name_servers(renderer: Renderer, own: &[String], all: &[String], is_fixed: bool) -> Vec<String> {
    match renderer {
        Renderer::Networkd if is_fixed => [own, all].concat(),
        Renderer::Networkd => all.to_vec(),
        Renderer::Netplan if !is_fixed => Vec::new(),
        Renderer::Netplan if own.is_empty() => all.to_vec(),
        Renderer::Netplan | Renderer::Eni => own.to_vec(),
    }
}

/// An interface. Lists are sorted, and left out if they are empty.
pub fn interface(mut parts: Map<String, Value>, lists: impl IntoIterator<Item = (&'static str, Vec<String>)>) -> Value {
    for (name, mut list) in lists {
        list.sort();
        if !list.is_empty() {
            parts.insert(name.to_owned(), json!(list));
        }
    }
    Value::Object(parts)
}

/// The kernel's parameter of a bond for cloud-init's.
pub fn key_of(parameter: &str) -> String {
    match parameter {
        "lacp-rate" => "ad_lacp_rate".to_owned(),
        other => other.replace('-', "_"),
    }
}

/// Without the links, which name their bond, and structures, which mean nothing to it.
fn parameters(bond: &Value) -> Value {
    let bond = bond.as_object().unwrap().iter();
    let bond = bond.filter(|(_, value)| !value.is_array() && !value.is_object());
    let bond = bond.map(|(name, value)| match value {
        Value::Bool(on) => (name.clone(), json!(i32::from(*on))),
        value => (name.clone(), value.clone()),
    });
    Value::Object(bond.collect())
}

/// Whether ifupdown sets a route of a network without a fixed address: one of IPv6 goes to any interface, or nowhere, as it names
/// none, and the router's announcement may come later. For one of IPv4, its DHCP client must have an address of that family. The
/// client is done with the first lease of any family, and probes an IPv4 address for seconds before it uses it.
pub fn is_sure(to: &str, dynamic: &[String]) -> bool {
    !to.contains(':') && !dynamic.iter().any(|kind| kind == "dhcp6")
}

/// Whether a gateway is in the network of an address. The kernel does not take a route whose gateway it cannot reach.
fn reaches(own: &str, gateway: IpAddr) -> bool {
    let (address, prefix) = own.split_once('/').unwrap();
    let prefix: u32 = prefix.parse().unwrap();
    match (address.parse().unwrap(), gateway) {
        (IpAddr::V4(own), IpAddr::V4(gateway)) => (own.to_bits() ^ gateway.to_bits()).leading_zeros() >= prefix,
        (IpAddr::V6(own), IpAddr::V6(gateway)) => (own.to_bits() ^ gateway.to_bits()).leading_zeros() >= prefix,
        _ => false,
    }
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}
