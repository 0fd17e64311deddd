//! Metal3DataTemplate.

use metal3_api::infra::v1beta2::{AddressFamily, Metal3DataTemplate, StaticNetwork};
use metal3_runtime::webhook::{FieldError, Rules};

use super::errors::error_if;

pub const RULES: Rules<Metal3DataTemplate> = Rules {
    warnings,
    ..Rules::of(shape)
};

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
    let warning = error_if(is_set, "spec.clusterName", "is deprecated and has no effect");
    warning.into_iter().collect()
}
