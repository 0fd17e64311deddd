//! Metal3DataTemplate.

use std::collections::HashSet;
use std::sync::LazyLock;

use metal3_api::crd::Crd;
use metal3_api::infra::v1beta2::{AddressFamily, Metal3DataTemplate, StaticNetwork};
use metal3_api::rules::ANOTHER_TEMPLATE;
use metal3_runtime::webhook::{FieldError, Rules};
use serde_json::Value;

use super::errors::error_if;
use crate::conditions::cut;

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
    deprecated.into_iter().chain(repeated(template)).collect()
}

/// The schema of the specification in v1beta2; none if it is not available, which the tests exclude.
static SPEC: LazyLock<Value> = LazyLock::new(|| {
    let crd = Crd::of::<Metal3DataTemplate>().ok();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let schema = crd.as_ref().and_then(|crd| crd.manifest().pointer(spec));
    schema.cloned().unwrap_or_default()
});

/// Entries of v1beta1 that v1beta2 cannot tell apart. Once anything has written the object in v1beta2, the API server rejects
/// every server-side apply in v1beta1, without a word on what to do.
fn repeated(template: &Metal3DataTemplate) -> Vec<FieldError> {
    let mut found = Vec::new();
    if let Ok(spec) = serde_json::to_value(&template.spec) {
        find_repeated(&spec, &SPEC, "spec", &mut found);
    }
    found
}

/// No more entries are looked for: a list of half a million of them must not cost hundreds of megabytes of warnings.
const MOST_TOLD: usize = 100;

/// No more bytes of a repeated value are quoted, for the same reason.
const QUOTED: usize = 100;

/// Goes through every list that the schema calls a map or a set.
fn find_repeated(value: &Value, schema: &Value, path: &str, found: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                find_repeated(value, &schema["properties"][name], &format!("{path}.{name}"), found);
            }
        }
        Value::Array(entries) => {
            let key = schema["x-kubernetes-list-map-keys"][0].as_str();
            let is_told_apart = key.is_some() || schema["x-kubernetes-list-type"] == "set";
            let mut seen = HashSet::new();
            for (index, entry) in entries.iter().enumerate() {
                let told_by = key.map_or(entry, |key| &entry[key]);
                let path = format!("{path}[{index}]");
                if found.len() >= MOST_TOLD {
                    return;
                }
                if is_told_apart && !seen.insert(told_by) {
                    found.push(twice(&path, key, told_by));
                }
                find_repeated(entry, &schema["items"], &path, found);
            }
        }
        _ => {}
    }
}

fn twice(path: &str, key: Option<&str>, value: &Value) -> FieldError {
    let mut value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if value.len() > QUOTED {
        cut(&mut value, QUOTED);
        value.push('…');
    }
    let (field, remedy) = match key {
        Some(key) => (format!("{path}.{key}"), format!("give each entry another {key}")),
        None => (path.to_owned(), "list it once".to_owned()),
    };
    let message = format!(
        "{value} is used twice, which v1beta2 cannot express: a repeated apply with --server-side will be rejected; \
         apply without it, or {remedy}"
    );
    FieldError::new(field, message)
}
