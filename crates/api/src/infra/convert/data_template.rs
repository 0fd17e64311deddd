//! Metal3DataTemplate.

use super::body::{Body, through};
use crate::infra::{v1beta1 as old, v1beta2 as new};
use crate::wire::clamp;
use serde_json::{Value, json};

/// To v1beta1, where an IPv6 network must name a pool, even if its address comes from elsewhere.
pub fn down(body: &Body) -> Result<Body, serde_json::Error> {
    let mut body = through::<
        new::Metal3DataTemplateSpec,
        old::Metal3DataTemplateSpec,
        new::Metal3DataTemplateStatus,
        old::Metal3DataTemplateStatus,
    >(body)?;
    let networks = body
        .get_mut("spec")
        .and_then(|spec| spec.pointer_mut("/networkData/networks/ipv6"))
        .and_then(Value::as_array_mut);
    for network in networks.into_iter().flatten().filter_map(Value::as_object_mut) {
        network.entry("ipAddressFromIPPool").or_insert_with(|| json!(""));
    }
    Ok(body)
}

impl From<old::Metal3DataTemplateSpec> for new::Metal3DataTemplateSpec {
    fn from(spec: old::Metal3DataTemplateSpec) -> Self {
        Self {
            cluster_name: spec.cluster_name,
            meta_data: spec.meta_data.map(Into::into),
            network_data: spec.network_data.map(Into::into),
        }
    }
}

impl From<new::Metal3DataTemplateSpec> for old::Metal3DataTemplateSpec {
    fn from(spec: new::Metal3DataTemplateSpec) -> Self {
        Self {
            cluster_name: spec.cluster_name,
            template_reference: String::new(), // v1beta2 has none
            meta_data: spec.meta_data.map(Into::into),
            network_data: spec.network_data.map(Into::into),
        }
    }
}

/// The lists are the same; four of them have other names on the wire.
macro_rules! meta_data {
    ($from:ident to $to:ident) => {
        impl From<$from::MetaData> for $to::MetaData {
            fn from(data: $from::MetaData) -> Self {
                Self {
                    strings: data.strings,
                    object_names: data.object_names,
                    indexes: data.indexes,
                    namespaces: data.namespaces,
                    ip_addresses_from_pool: data.ip_addresses_from_pool,
                    prefixes_from_pool: data.prefixes_from_pool,
                    gateways_from_pool: data.gateways_from_pool,
                    dns_servers_from_pool: data.dns_servers_from_pool,
                    from_host_interfaces: data.from_host_interfaces,
                    from_labels: data.from_labels,
                    from_annotations: data.from_annotations,
                }
            }
        }

        impl From<$from::NetworkData> for $to::NetworkData {
            fn from(data: $from::NetworkData) -> Self {
                Self {
                    links: $to::NetworkLinks {
                        ethernets: data.links.ethernets,
                        bonds: data.links.bonds.into_iter().map(Into::into).collect(),
                        vlans: data.links.vlans,
                    },
                    networks: data.networks,
                    services: data.services,
                }
            }
        }
    };
}

meta_data!(old to new);
meta_data!(new to old);

impl From<old::BondLink> for new::BondLink {
    fn from(bond: old::BondLink) -> Self {
        let parameters = bond.parameters.into_iter();
        Self {
            bond_mode: bond.bond_mode,
            bond_xmit_hash_policy: bond.bond_xmit_hash_policy.filter(|policy| !policy.as_str().is_empty()),
            id: bond.id,
            name: bond.name,
            mtu: bond.mtu,
            mac_address: bond.mac_address,
            bond_links: bond.bond_links,
            parameters: parameters
                .map(|(name, value)| new::BondParameter { name, value })
                .collect(),
        }
    }
}

/// Of a parameter without a value. The API server drops null from a map, and the parameter would go with the next write.
fn value_of(value: Value) -> Value {
    if value.is_null() { json!({}) } else { value }
}

impl From<new::BondLink> for old::BondLink {
    fn from(bond: new::BondLink) -> Self {
        let parameters = bond.parameters.into_iter();
        Self {
            bond_mode: bond.bond_mode,
            bond_xmit_hash_policy: bond.bond_xmit_hash_policy.filter(|policy| !policy.as_str().is_empty()),
            id: bond.id,
            name: bond.name,
            mtu: bond.mtu,
            mac_address: bond.mac_address,
            bond_links: bond.bond_links,
            parameters: parameters
                .map(|parameter| (parameter.name, value_of(parameter.value)))
                .collect(),
        }
    }
}

impl From<old::Metal3DataTemplateStatus> for new::Metal3DataTemplateStatus {
    fn from(status: old::Metal3DataTemplateStatus) -> Self {
        let indexes = status.indexes.into_iter();
        let mut indexes: Vec<_> = indexes
            .map(|(name, index)| new::DataIndex {
                name,
                index: clamp(index),
            })
            .collect();
        indexes.sort_by_key(|entry| entry.index); // stable: names are in order already
        Self {
            last_updated: status.last_updated,
            indexes,
        }
    }
}

impl From<new::Metal3DataTemplateStatus> for old::Metal3DataTemplateStatus {
    fn from(status: new::Metal3DataTemplateStatus) -> Self {
        let indexes = status.indexes.into_iter();
        Self {
            last_updated: status.last_updated,
            indexes: indexes.map(|entry| (entry.name, entry.index.into())).collect(),
        }
    }
}
