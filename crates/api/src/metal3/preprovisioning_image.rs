//! PreprovisioningImage: the ramdisk of one host, where it is built for each host.

use crate::condition::Condition;
use crate::wire::{is_default, optional_spec, wire_enum};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// How a ramdisk is packed.
    closed enum RamdiskFormat {
        /// A bootable ISO image.
        Iso = "iso",
        /// An initial ramdisk, to be booted with a kernel.
        Initrd = "initrd",
    }
}

/// Which ramdisk is wanted.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "PreprovisioningImage",
    plural = "preprovisioningimages",
    shortname = "ppimg",
    namespaced,
    doc = "The ramdisk that a host is inspected, cleaned and provisioned with, where one is built for each host. It has the name and namespace of its BareMetalHost, whose controller creates it; who builds images reports in the status.",
    status = "PreprovisioningImageStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status", "description": "Whether the image can be used"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason", "description": "Why it can or cannot"}"#,
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Error')].message", "description": "What the image waits for", "priority": 1}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote)]
pub struct PreprovisioningImageSpec {
    /// Name of the Secret, in the same namespace, with the network configuration to build in. Empty means none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub network_data_name: String,

    /// CPU architecture that the image is for, such as x86_64 or aarch64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,

    /// Formats that the host can boot, iso and initrd, the preferred one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept_formats: Vec<RamdiskFormat>,
}

optional_spec!(PreprovisioningImageSpec);

/// The ramdisk that was built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreprovisioningImageStatus {
    /// URL of the image.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image_url: String,

    /// URL of the kernel that belongs to an initrd. Empty means Ironic's own kernel. Ignored for an ISO.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel_url: String,

    /// What an initrd's kernel gets in addition to its usual parameters. Ignored for an ISO.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub extra_kernel_params: String,

    /// Format of the image: iso or initrd. Absent while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<RamdiskFormat>,

    /// The network configuration that was built in. Empty when there was none.
    #[serde(skip_serializing_if = "is_default")]
    pub network_data: SecretStatus,

    /// CPU architecture that the image is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,

    /// Aspects of the state: Ready and Error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Which version of which Secret was used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SecretStatus {
    /// Name of the Secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// The Secret's resource version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
}
