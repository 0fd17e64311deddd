//! Metal3DataTemplate.

use std::collections::HashSet;

use metal3_api::infra::v1beta2::{AddressFamily, Metal3DataTemplate, NetworkData, Route, StaticNetwork};
use metal3_api::rules::ANOTHER_TEMPLATE;
use metal3_runtime::webhook::{FieldError, Rules};

use super::errors::error_if;

pub const RULES: Rules<Metal3DataTemplate> = Rules {
    change,
    warnings,
    ..Rules::of(shape)
};

/// The definition has the same rules, without what rules of definitions cannot compare.
fn change(old: &Metal3DataTemplate, new: &Metal3DataTemplate) -> Vec<FieldError> {
    let message = format!("cannot be changed: {ANOTHER_TEMPLATE}");
    let [(old_meta, old_network), (new_meta, new_network)] = [old, new].map(|template| template.spec.rendered_from());
    [
        error_if(old_meta != new_meta, "spec.metaData", &message),
        error_if(old_network != new_network, "spec.networkData", &message),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn shape(template: &Metal3DataTemplate) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let meta_data = template.spec.meta_data.iter();
    let interfaces = meta_data.flat_map(|data| &data.from_host_interfaces).enumerate();
    for (index, from) in interfaces {
        let field = format!("spec.metaData.fromHostInterfaces[{index}].interface");
        let is_boot = from.from_boot_mac == Some(true);
        let message = if is_boot {
            "must not be set with fromBootMAC"
        } else {
            "is required without fromBootMAC"
        };
        errors.extend(error_if(is_boot != from.interface.is_empty(), &field, message));
    }
    if let Some(data) = &template.spec.network_data {
        errors.extend(networks("ipv4", &data.networks.ipv4));
        errors.extend(networks("ipv6", &data.networks.ipv6));
    }
    errors
}

/// A network needs a source for its address.
fn networks<A: AddressFamily>(family: &str, networks: &[StaticNetwork<A>]) -> Vec<FieldError> {
    let has_source = |network: &StaticNetwork<A>| {
        let pool = network.from_pool_ref.as_ref().is_some_and(|pool| !pool.name.is_empty());
        let annotation = network.from_pool_annotation.is_some();
        pool || annotation || !network.ip_address_from_ip_pool.is_empty()
    };
    let without = networks.iter().enumerate().filter(|(_, network)| !has_source(network));
    without
        .map(|(index, _)| {
            FieldError::new(
                format!("spec.networkData.networks.{family}[{index}]"),
                "one of fromPoolRef, fromPoolAnnotation and ipAddressFromIPPool is required",
            )
        })
        .collect()
}

fn warnings(template: &Metal3DataTemplate) -> Vec<FieldError> {
    let is_set = !template.spec.cluster_name.is_empty();
    let deprecated = error_if(is_set, "spec.clusterName", "is deprecated and has no effect");
    let repeated = template.spec.network_data.iter().flat_map(repeated);
    deprecated.into_iter().chain(repeated).collect()
}

/// Entries of v1beta1 that v1beta2 cannot tell apart. Once anything has written the object in v1beta2, the API server rejects
/// every server-side apply in v1beta1, without a word on what to do.
fn repeated(data: &NetworkData) -> Vec<FieldError> {
    let vlans = data.links.vlans.iter().map(|vlan| vlan.vlan_id.to_string());
    let networks = &data.networks;
    [
        twice("spec.networkData.links.vlans", "vlanID", vlans),
        routes("ipv4", networks.ipv4.iter().map(|network| &network.routes)),
        routes("ipv4DHCP", networks.ipv4_dhcp.iter().map(|network| &network.routes)),
        routes("ipv6", networks.ipv6.iter().map(|network| &network.routes)),
        routes("ipv6DHCP", networks.ipv6_dhcp.iter().map(|network| &network.routes)),
        routes("ipv6SLAAC", networks.ipv6_slaac.iter().map(|network| &network.routes)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn routes<'a, A: AddressFamily + 'a>(
    family: &str,
    networks: impl Iterator<Item = &'a Vec<Route<A>>>,
) -> Vec<FieldError> {
    let of_network = |(index, routes): (usize, &'a Vec<Route<A>>)| {
        let list = format!("spec.networkData.networks.{family}[{index}].routes");
        twice(
            &list,
            "network",
            routes.iter().map(|route| route.network.as_ref().to_owned()),
        )
    };
    networks.enumerate().flat_map(of_network).collect()
}

fn twice(list: &str, key: &str, values: impl Iterator<Item = String>) -> Vec<FieldError> {
    let mut seen = HashSet::new();
    let repeated = values.enumerate().filter(|(_, value)| !seen.insert(value.clone()));
    repeated
        .map(|(index, value)| {
            let message = format!(
                "{value} is used twice, which v1beta2 cannot express: a repeated apply with --server-side will be rejected; \
                 apply without it, or give each entry another {key}"
            );
            FieldError::new(format!("{list}[{index}].{key}"), message)
        })
        .collect()
}
