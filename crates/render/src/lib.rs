//! Metadata and network data of a machine, rendered from a Metal3DataTemplate.
//!
//! ```text
//! template ──┐
//! facts ─────┼─▶ pools()  ─▶ the pools that an address must be claimed from
//! addresses ─┴─▶ render() ─▶ Rendered ─▶ to_yaml(): the texts of the two Secrets
//!
//! user data ─┬─▶ missing_keys(): what a template of the user asks for and the metadata does not have
//! metadata ──┘
//! ```
//!
//! Pure: values in, values out. The caller reads the objects, claims the addresses and writes the Secrets.
//!
//! cloud-init reads the output on the machine, after baremetal-operator has put it on the config drive. So its shape is
//! upstream's: metadata is a flat map of strings, network data is OpenStack's `network_data.json`. Where upstream emits
//! something that cloud-init cannot use, this crate does not; each such place says so.

mod address;
mod error;
mod facts;
mod metadata;
mod network;
mod pool;
mod pools;
mod preview;
mod yaml;

pub use address::{Addresses, PoolAddress};
pub use error::{ObjectName, Problem, RenderError};
pub use facts::Facts;
pub use metadata::{Metadata, PROVIDER_ID};
pub use network::{Bond, Ethernet, Link, Network, NetworkData, NetworkType, Route, Service, Vlan};
pub use pool::Pool;
pub use pools::pools;
pub use preview::{Key, is_template, missing_keys};
pub use yaml::{NotMetadata, YamlError};

use metal3_api::infra::v1beta2::Metal3DataTemplateSpec;

/// The output of a template for one machine. Each part exists if the template has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// For the Secret that cloud-init finds as `ds.meta_data`.
    pub metadata: Option<Metadata>,
    /// For the Secret that the machine sets its network up from.
    pub network_data: Option<NetworkData>,
}

/// Renders the template. `addresses` holds one address for every pool that [`pools`] has returned.
pub fn render(
    template: &Metal3DataTemplateSpec,
    facts: &Facts<'_>,
    addresses: &Addresses,
) -> Result<Rendered, RenderError> {
    Ok(Rendered {
        metadata: template
            .meta_data
            .as_ref()
            .map(|entries| Metadata::render(entries, facts, addresses))
            .transpose()?,
        network_data: template
            .network_data
            .as_ref()
            .map(|data| NetworkData::render(data, facts, addresses))
            .transpose()?,
    })
}
