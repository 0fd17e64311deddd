//! What a node's ramdisk is started from.

use metal3_api::metal3::{BareMetalHost, PreprovisioningImageStatus};

use super::mark;

/// What the node is to start its ramdisk from.
#[derive(Clone, Debug, PartialEq)]
pub enum Ramdisk {
    /// The operator's own settings.
    Configured,
    /// Whatever it has: none is needed now, or none is there yet.
    AsItIs,
    /// One that was built.
    Built(Box<PreprovisioningImageStatus>),
}

/// A name for what an image is built from besides the host's specification: with other labels, or another version of the
/// network data, it has to be looked at again.
pub fn surroundings(host: &BareMetalHost, network_data_version: Option<&str>) -> String {
    let labels = host.metadata.labels.as_ref().filter(|labels| !labels.is_empty());
    mark::name(&(labels, network_data_version))
}
