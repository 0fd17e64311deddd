//! Metadata: a flat map of texts, which cloud-init offers to templates as `ds.meta_data`.

use std::collections::BTreeMap;

use metal3_api::infra::v1beta2::{
    MetaData, MetaDataFromPool, MetaDataHostInterface, MetaDataIndex, Metal3DataTemplateSpec,
};
use serde::Serialize;

use crate::address::{Addresses, PoolAddress, of_pool};
use crate::error::{Problem, RenderError};
use crate::facts::Facts;
use crate::pool::Pool;

/// The key that is always there: `NAMESPACE/HOST/METAL3MACHINE`, the provider id without its scheme.
pub const PROVIDER_ID: &str = "providerid";

/// Rendered metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Metadata(pub BTreeMap<String, String>);

impl Metadata {
    /// Later lists of the template win over earlier ones with the same key, in the order of this function.
    pub(crate) fn render(entries: &MetaData, facts: &Facts<'_>, addresses: &Addresses) -> Result<Self, RenderError> {
        let mut data = BTreeMap::new();
        for entry in &entries.from_host_interfaces {
            data.insert(entry.key.clone(), mac(entry, facts)?);
        }
        for (list, from_pool) in POOL_LISTS {
            for entry in list.entries(entries) {
                let field = list.field(entry);
                let pool = Pool::from(entry);
                let value = from_pool(&field, &pool, of_pool(&field, &pool, addresses)?)?;
                data.insert(entry.key.clone(), value);
            }
        }
        for entry in &entries.indexes {
            data.insert(entry.key.clone(), index(entry, facts.index));
        }
        for entry in &entries.namespaces {
            data.insert(entry.key.clone(), facts.namespace.to_owned());
        }
        for entry in &entries.object_names {
            let field = format!("spec.metaData.objectNames[{}].object", entry.key);
            data.insert(entry.key.clone(), facts.source(&field, &entry.object)?.name.name);
        }
        for entry in &entries.from_labels {
            let field = format!("spec.metaData.fromLabels[{}].object", entry.key);
            let labels = facts.source(&field, &entry.object)?.meta.labels.as_ref();
            data.insert(entry.key.clone(), value_of(labels, &entry.label));
        }
        for entry in &entries.from_annotations {
            let field = format!("spec.metaData.fromAnnotations[{}].object", entry.key);
            let annotations = facts.source(&field, &entry.object)?.meta.annotations.as_ref();
            data.insert(entry.key.clone(), value_of(annotations, &entry.annotation));
        }
        for entry in &entries.strings {
            data.insert(entry.key.clone(), entry.value.clone());
        }
        data.insert(PROVIDER_ID.to_owned(), provider_id(facts));
        Ok(Self(data))
    }
}

/// A list of metadata whose values come from pools.
#[derive(Debug, Clone, Copy)]
enum PoolList {
    Addresses,
    Prefixes,
    Gateways,
    DnsServers,
}

type FromPool = fn(&str, &Pool, &PoolAddress) -> Result<String, RenderError>;

/// In the order in which they are rendered.
const POOL_LISTS: [(PoolList, FromPool); 4] = [
    (PoolList::Addresses, |_, _, given| Ok(given.address.clone())),
    (PoolList::Prefixes, |field, pool, given| {
        let missing = || RenderError::new(field, Problem::NoPrefix(pool.clone()));
        Ok(given.prefix.ok_or_else(missing)?.to_string())
    }),
    (PoolList::Gateways, |_, _, given| Ok(given.gateway.clone())),
    // Metadata has texts only, so that a list is one text, as most settings of name servers want it.
    (PoolList::DnsServers, |_, _, given| Ok(given.dns_servers.join(","))),
];

impl PoolList {
    fn entries(self, entries: &MetaData) -> &[MetaDataFromPool] {
        match self {
            Self::Addresses => &entries.ip_addresses_from_pool,
            Self::Prefixes => &entries.prefixes_from_pool,
            Self::Gateways => &entries.gateways_from_pool,
            Self::DnsServers => &entries.dns_servers_from_pool,
        }
    }

    fn field(self, entry: &MetaDataFromPool) -> String {
        let list = match self {
            Self::Addresses => "ipAddressesFromPool",
            Self::Prefixes => "prefixesFromPool",
            Self::Gateways => "gatewaysFromPool",
            Self::DnsServers => "dnsServersFromPool",
        };
        format!("spec.metaData.{list}[{}]", entry.key)
    }
}

/// The pools that metadata names, each with the field that names it.
pub(crate) fn pools_of(template: &Metal3DataTemplateSpec) -> impl Iterator<Item = (String, Pool)> {
    let entries = template.meta_data.iter();
    entries.flat_map(|entries| {
        POOL_LISTS
            .iter()
            .flat_map(move |(list, _)| list.entries(entries).iter().map(|e| (list.field(e), Pool::from(e))))
    })
}

fn mac(entry: &MetaDataHostInterface, facts: &Facts<'_>) -> Result<String, RenderError> {
    let field = format!("spec.metaData.fromHostInterfaces[{}]", entry.key);
    if entry.from_boot_mac != Some(true) {
        return facts.mac_of(&field, &entry.interface).map(str::to_owned);
    }
    if facts.boot_mac.is_empty() {
        return Err(RenderError::new(
            field,
            Problem::NoBootMac {
                host: facts.host_name(),
            },
        ));
    }
    Ok(facts.boot_mac.to_owned())
}

/// 64 bits hold the largest index times the largest step. A step of zero means one.
fn index(entry: &MetaDataIndex, index: i32) -> String {
    let step = if entry.step == 0 { 1 } else { i64::from(entry.step) };
    let number = i64::from(entry.offset.unwrap_or_default()) + i64::from(index) * step;
    format!("{}{number}{}", entry.prefix, entry.suffix)
}

fn value_of(map: Option<&BTreeMap<String, String>>, key: &str) -> String {
    map.and_then(|map| map.get(key)).cloned().unwrap_or_default()
}

fn provider_id(facts: &Facts<'_>) -> String {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let (host, machine) = (name(&facts.host.name), name(&facts.metal3_machine.name));
    format!("{}/{host}/{machine}", facts.namespace)
}
