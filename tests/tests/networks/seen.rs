//! What there is on the system, in the form of [`super::meant`].

use metal3_lab::guest::{Facts, Renderer};
use serde_json::{Map, Value, json};

use super::meant::{interface, is_sure, key_of};

/// Every interface that is up, and the bonds and VLANs that are not. Of a bond's parameters those that were meant.
pub fn of(facts: &Facts, meant: &Value, renderer: Renderer) -> Value {
    let links = facts.links.iter().filter(|link| {
        let has = |flag: &str| link["flags"].as_array().unwrap().contains(&json!(flag));
        !has("LOOPBACK") && (has("UP") || ["bond", "vlan"].map(Value::from).contains(kind(link)))
    });
    let links = links.map(|link| {
        let name = link["ifname"].as_str().unwrap();
        (name.to_owned(), of_link(link, facts, &meant[name], renderer))
    });
    let mut links: Map<String, Value> = links.collect();
    // Of the loopback it only matters that ifupdown has it carry the name servers for everything.
    let servers = name_servers("lo", facts);
    if !servers.is_empty() {
        links.insert("lo".to_owned(), interface(Map::new(), [("dns", servers)]));
    }
    Value::Object(links)
}

fn name_servers(name: &str, facts: &Facts) -> Vec<String> {
    let servers = facts.dns.get(name).and_then(Value::as_str).unwrap_or_default();
    servers.split_whitespace().map(str::to_owned).collect()
}

fn kind(link: &Value) -> &Value {
    &link["linkinfo"]["info_kind"]
}

fn of_link(link: &Value, facts: &Facts, meant: &Value, renderer: Renderer) -> Value {
    let name = link["ifname"].as_str().unwrap();
    let info = &link["linkinfo"];
    let mut parts = Map::new();
    // A bond gives its links its own address.
    let mac = [&info["info_slave_data"]["perm_hwaddr"], &link["address"]];
    parts.insert(
        "mac".to_owned(),
        mac.into_iter().find(|mac| mac.is_string()).unwrap().clone(),
    );
    parts.insert("mtu".to_owned(), link["mtu"].clone());
    if let Some(bond) = link["master"].as_str() {
        parts.insert("in".to_owned(), json!(bond));
    }
    if kind(link) == "vlan" {
        parts.insert("vlan".to_owned(), info["info_data"]["id"].clone());
        parts.insert("on".to_owned(), link["link"].clone());
    }
    if kind(link) == "bond" {
        let wanted = meant["bond"].as_object().into_iter().flat_map(Map::keys);
        let bond = wanted.map(|name| (name.clone(), info["info_data"][key_of(name)].clone()));
        parts.insert("bond".to_owned(), Value::Object(bond.collect()));
    }
    let (addresses, dynamic) = addresses(link);
    let mut routes = routes(name, facts);
    routes.retain(|route| renderer != Renderer::Eni || dynamic.is_empty() || is_sure(route, &dynamic));
    interface(
        parts,
        [
            ("addresses", addresses),
            ("dynamic", dynamic),
            ("routes", routes),
            ("dns", name_servers(name, facts)),
        ],
    )
}

/// The fixed addresses, and how the others came about. Every interface has a link-local one besides.
fn addresses(link: &Value) -> (Vec<String>, Vec<String>) {
    let (mut fixed, mut dynamic) = (Vec::new(), Vec::new());
    let all = link["addr_info"].as_array().into_iter().flatten();
    for address in all.filter(|address| address["scope"] == "global") {
        let prefix = &address["prefixlen"];
        if address["dynamic"] != true {
            fixed.push(format!("{}/{prefix}", address["local"].as_str().unwrap()));
        } else if address["family"] == "inet" {
            dynamic.push("dhcp4".to_owned());
        } else {
            let whole = *prefix == 128;
            dynamic.push(if whole { "dhcp6" } else { "ipv6_slaac" }.to_owned());
        }
    }
    (fixed, dynamic)
}

/// Routes that were configured: the kernel, DHCP and router announcements add theirs.
fn routes(name: &str, facts: &Facts) -> Vec<String> {
    let families = facts.routes.iter().zip([("0.0.0.0/0", 32), ("::/0", 128)]);
    let routes = families.flat_map(|(routes, (default, bits))| {
        let configured = |route: &&Value| {
            route["dev"] == name && !["kernel", "dhcp", "ra"].map(Value::from).contains(&route["protocol"])
        };
        routes.iter().filter(configured).map(move |route| {
            let to = match route["dst"].as_str().unwrap() {
                "default" => default.to_owned(),
                to if to.contains('/') => to.to_owned(),
                to => format!("{to}/{bits}"),
            };
            route["gateway"]
                .as_str()
                .map_or_else(|| to.clone(), |gateway| format!("{to} via {gateway}"))
        })
    });
    routes.collect()
}
