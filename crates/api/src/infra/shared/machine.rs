//! Parts of a Metal3Machine.

use crate::wire::wire_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// Digest algorithm of an image's checksum.
    closed enum ChecksumType {
        /// MD5.
        Md5 = "md5",
        /// SHA-256.
        Sha256 = "sha256",
        /// SHA-512.
        Sha512 = "sha512",
    }
}

wire_enum! {
    /// What an address of a machine is.
    closed enum MachineAddressType {
        /// Name of the host.
        Hostname = "Hostname",
        /// Address that is reachable from outside.
        ExternalIp = "ExternalIP",
        /// Address that is reachable from within.
        InternalIp = "InternalIP",
        /// Name that is resolved outside.
        ExternalDns = "ExternalDNS",
        /// Name that is resolved within.
        InternalDns = "InternalDNS",
    }
}

impl Default for MachineAddressType {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// An address of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineAddress {
    /// What the address is: Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.
    #[serde(rename = "type")]
    pub type_: MachineAddressType,

    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// Deployment by a step of a site's own ramdisk, instead of or in addition to writing an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomDeploy {
    /// Name of the deploy step that the ramdisk offers. Empty means none.
    #[schemars(length(min = 1, max = 512))]
    pub method: String,
}
