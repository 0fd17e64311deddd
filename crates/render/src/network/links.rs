//! Links: bonds, network interfaces, VLANs.

use std::collections::BTreeMap;

use metal3_api::infra::v1beta2::{BondLink, EthernetLink, LinkMac, NetworkLinks, VlanLink};
use serde_json::Value;

use super::{Bond, Ethernet, Link, Vlan};
use crate::error::{Problem, RenderError};
use crate::facts::Facts;

/// The schema's default, for links that have not passed it.
const MTU: i32 = 1500;

pub(super) fn render(links: &NetworkLinks, facts: &Facts<'_>) -> Result<Vec<Link>, RenderError> {
    let bonds = links.bonds.iter().map(|link| bond(link, facts).map(Link::Bond));
    let ethernets = links.ethernets.iter();
    let ethernets = ethernets.map(|link| ethernet(link, facts).map(Link::Ethernet));
    let vlans = links.vlans.iter().map(|link| vlan(link, facts).map(Link::Vlan));
    bonds.chain(ethernets).chain(vlans).collect()
}

fn bond(link: &BondLink, facts: &Facts<'_>) -> Result<Bond, RenderError> {
    let field = format!("spec.networkData.links.bonds[{}]", link.id);
    let policy = link.bond_xmit_hash_policy.as_ref().map(ToString::to_string);
    Ok(Bond {
        bond_links: link.bond_links.clone(),
        bond_mode: link.bond_mode.to_string(),
        bond_xmit_hash_policy: policy.filter(|policy| !policy.is_empty()),
        parameters: parameters(&field, link)?,
        ethernet_mac_address: mac(&field, &link.mac_address, facts)?,
        id: link.id.clone(),
        mtu: mtu(link.mtu),
        name: name(&link.name),
        type_: "bond".to_owned(),
    })
}

/// Parameters get the prefix that cloud-init knows them by. One that is spelled out in a field of its own cannot be given
/// again: two values for one key would leave it to chance which counts.
fn parameters(field: &str, link: &BondLink) -> Result<BTreeMap<String, Value>, RenderError> {
    const TAKEN: [&str; 3] = ["links", "mode", "xmit_hash_policy"];
    let parameters = link.parameters.iter();
    let taken: Vec<String> = parameters
        .clone()
        .filter(|parameter| TAKEN.contains(&parameter.name.as_str()))
        .map(|parameter| parameter.name.clone())
        .collect();
    if !taken.is_empty() {
        let problem = Problem::TakenParameters { names: taken };
        return Err(RenderError::new(format!("{field}.parameters"), problem));
    }
    Ok(parameters
        .map(|parameter| (format!("bond_{}", parameter.name), parameter.value.clone()))
        .collect())
}

fn ethernet(link: &EthernetLink, facts: &Facts<'_>) -> Result<Ethernet, RenderError> {
    let field = format!("spec.networkData.links.ethernets[{}]", link.id);
    Ok(Ethernet {
        ethernet_mac_address: mac(&field, &link.mac_address, facts)?,
        id: link.id.clone(),
        mtu: mtu(link.mtu),
        name: name(&link.name),
        type_: link.type_.to_string(),
    })
}

fn vlan(link: &VlanLink, facts: &Facts<'_>) -> Result<Vlan, RenderError> {
    let field = format!("spec.networkData.links.vlans[{}]", link.id);
    Ok(Vlan {
        id: link.id.clone(),
        mtu: mtu(link.mtu),
        name: name(&link.name),
        type_: "vlan".to_owned(),
        vlan_id: link.vlan_id,
        vlan_link: link.vlan_link.clone(),
        vlan_mac_address: mac(&field, &link.mac_address, facts)?,
    })
}

fn mac(field: &str, source: &LinkMac, facts: &Facts<'_>) -> Result<String, RenderError> {
    let (field, value) = if !source.string.is_empty() {
        (format!("{field}.macAddress.string"), source.string.as_str())
    } else if !source.from_host_interface.is_empty() {
        let field = format!("{field}.macAddress.fromHostInterface");
        let value = facts.mac_of(&field, &source.from_host_interface)?;
        (field, value)
    } else if let Some(reference) = &source.from_annotation {
        let field = format!("{field}.macAddress.fromAnnotation");
        let value = facts.annotation(&field, reference)?;
        (field, value)
    } else {
        return Err(RenderError::new(format!("{field}.macAddress"), Problem::NoMacSource));
    };
    if !is_mac(value) {
        let value = value.to_owned();
        return Err(RenderError::new(field, Problem::BadMac { value }));
    }
    // cloud-init compares it with what the kernel says, in any case of letters but only with colons. Without the interface it
    // sets up none of the others either.
    Ok(value.replace('-', ":"))
}

fn is_mac(text: &str) -> bool {
    text.len() == 17
        && text.bytes().enumerate().all(|(at, byte)| match at % 3 {
            2 => byte == b':' || byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn mtu(mtu: i32) -> i32 {
    if mtu == 0 { MTU } else { mtu }
}

fn name(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use rstest::rstest;

    // OWN 31na: with hyphens, as upstream writes it, cloud-init did not find the interface and set up none.
    #[rstest]
    #[case("52-54-00-AB-CD-EF", "52:54:00:AB:CD:EF")]
    #[case("52:54:00-ab:cd:ef", "52:54:00:ab:cd:ef")]
    fn a_mac_address_has_the_kernels_colons(#[case] given: &str, #[case] rendered: &str) {
        let nobody = ObjectMeta::default();
        let facts = Facts {
            namespace: "metal3",
            index: 0,
            machine: &nobody,
            metal3_machine: &nobody,
            host: &nobody,
            boot_mac: "",
            nics: &[],
        };
        let source = LinkMac {
            string: given.to_owned(),
            ..LinkMac::default()
        };
        assert_eq!(mac("link", &source, &facts).unwrap(), rendered);
    }

    #[rstest]
    #[case("52:54:00:12:34:56", true)]
    #[case("52-54-00-AB-cd-EF", true)]
    #[case("", false)]
    #[case("52:54:00:12:34:5", false)]
    #[case("52:54:00:12:34:5g", false)]
    #[case("52:54:00:12:34:56:78", false)]
    #[case("525400123456", false)]
    #[case("52.54.00.12.34.56", false)]
    #[case("éééééééé1", false)]
    fn mac_addresses(#[case] text: &str, #[case] is_one: bool) {
        assert_eq!(is_mac(text), is_one);
    }
}
