//! What a user wants of a host.

use super::BareMetalHostStatus;
use crate::metal3::{CustomDeploy, Image, RaidConfig, RootDeviceHints};
use crate::reference::{Elsewhere, ForeignNamespace, LocalRef, ObjectReference, SecretReference};
use crate::rules::host_spec;
use crate::wire::{is_default, never, optional_spec, wire_enum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// How a host boots. Absent means UEFI.
    closed enum BootMode {
        /// UEFI without secure boot.
        Uefi = "UEFI",
        /// UEFI with secure boot.
        UefiSecureBoot = "UEFISecureBoot",
        /// BIOS.
        Legacy = "legacy",
    }
}

wire_enum! {
    /// Whether disks are cleaned between two users of a host.
    #[derive(Default)]
    closed enum CleaningMode {
        /// Partition tables and other metadata are wiped.
        #[default]
        Metadata = "metadata",
        /// Nothing is wiped.
        Disabled = "disabled",
    }
}

wire_enum! {
    /// How a host's hardware is found out. Absent means agent.
    closed enum InspectionMode {
        /// Not at all.
        Disabled = "disabled",
        /// By booting a ramdisk.
        Agent = "agent",
        /// By asking the BMC, without booting anything.
        Fast = "fast",
    }
}

/// What is wanted of a host.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "BareMetalHost",
    plural = "baremetalhosts",
    shortname = "bmh",
    shortname = "bmhost",
    namespaced,
    doc = "A physical machine: how to reach its management controller, what is known about it, and what it should run.",
    status = "BareMetalHostStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.operationalStatus", "description": "Operational status", "priority": 1}"#,
    printcolumn = r#"{"name": "State", "type": "string", "jsonPath": ".status.provisioning.state", "description": "Provisioning state"}"#,
    printcolumn = r#"{"name": "Consumer", "type": "string", "jsonPath": ".spec.consumerRef.name", "description": "Who uses this host"}"#,
    printcolumn = r#"{"name": "BMC", "type": "string", "jsonPath": ".spec.bmc.address", "description": "Address of the management controller", "priority": 1}"#,
    printcolumn = r#"{"name": "Online", "type": "string", "jsonPath": ".spec.online", "description": "Whether the host should be powered on"}"#,
    printcolumn = r#"{"name": "Error", "type": "string", "jsonPath": ".status.errorType", "description": "Kind of the latest error"}"#,
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Waiting')].message", "description": "What the host waits for, and what ends that", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the BareMetalHost was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = host_spec)]
pub struct BareMetalHostSpec {
    /// Deprecated and never acted upon.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,

    /// How to reach the management controller (BMC). A host without it stays unmanaged.
    #[serde(skip_serializing_if = "is_default")]
    pub bmc: BmcDetails,

    /// RAID volumes to set up before the host becomes available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidConfig>,

    /// Deprecated and refused by the webhook; use HostFirmwareSettings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareConfig>,

    /// Deprecated name of a hardware profile, which supplies root device hints where rootDeviceHints is absent: unknown,
    /// libvirt, dell, dell-raid, openstack or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hardware_profile: String,

    /// Which disk the image is written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,

    /// How the host boots: UEFI, UEFISecureBoot or legacy. Absent means UEFI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,

    /// MAC address of the interface that the host is provisioned through. Cannot be changed once it is set.
    #[serde(rename = "bootMACAddress", skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}"))]
    pub boot_mac_address: String,

    /// Whether the host should be powered on. A host that is off is not provisioned.
    pub online: bool,

    /// Who uses this host. Anything may claim a host that has no consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ObjectReference>,

    /// What the host should run. Setting it provisions the host, removing it deprovisions the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,

    /// Secret with user data for the first boot, under the key userData or value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,

    /// Name of a Secret in the host's namespace with network configuration for the ramdisk, under the key networkData or
    /// value. Also used for the first boot when networkData is absent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preprovisioning_network_data_name: String,

    /// Secret with network configuration for the first boot, under the key networkData or value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,

    /// Secret with metadata for the first boot, under the key metaData or value. It is merged over what the operator
    /// generates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,

    /// Text for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,

    /// Whether the host already runs something that was not deployed here. Then only its power is managed.
    #[serde(skip_serializing_if = "is_default")]
    pub externally_provisioned: bool,

    /// Whether disks are cleaned before the host becomes available and after it was used: metadata or disabled.
    #[serde(skip_serializing_if = "never")]
    #[schemars(extend("x-metal3-default" = "metadata"))]
    pub automated_cleaning_mode: CleaningMode,

    /// A deploy step of a site's own ramdisk, instead of or in addition to image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,

    /// CPU architecture, such as x86_64 or aarch64. When absent, that of status.hardware counts, and before
    /// an inspection that of the operator's own machine; the field itself is left as it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,

    /// Whether the host must never be powered off: it is rebooted instead. Excludes online false.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_power_off: bool,

    /// How the hardware is found out: disabled, agent or fast. Absent means agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inspection_mode: Option<InspectionMode>,

    /// How the switch ports of the host's network interfaces should be set up. Checked, but not acted upon yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<NetworkInterface>,
}

optional_spec!(BareMetalHostSpec);

impl BareMetalHostSpec {
    /// Whether the host is managed at all. Go clients write a BMC that is not there as two empty texts.
    pub fn has_bmc_details(&self) -> bool {
        !self.bmc.address.is_empty() || !self.bmc.credentials_name.is_empty()
    }

    /// The image to provision, if one is wanted. One with an empty URL counts as none.
    pub fn wanted_image(&self) -> Option<&Image> {
        self.image.as_ref().filter(|image| !image.url.is_empty())
    }
}

/// How to reach a management controller (BMC). Empty means that the host is not managed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcDetails {
    /// URL of the BMC. The scheme selects the driver, as in ipmi://192.0.2.1 or redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1.
    pub address: String,

    /// Name of a Secret in the host's namespace with the keys username and password.
    pub credentials_name: String,

    /// Whether to accept any TLS certificate of the BMC.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_certificate_verification: bool,
}

/// Deprecated firmware wishes. The webhook refuses them in spec, and status never carries any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FirmwareConfig {
    /// Virtualisation support of the processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [true, false]))]
    pub virtualization_enabled: Option<bool>,

    /// Several threads on each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [true, false]))]
    pub simultaneous_multithreading_enabled: Option<bool>,

    /// Virtual functions of PCI devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [true, false]))]
    pub sriov_enabled: Option<bool>,
}

/// Deprecated: a taint as on a Kubernetes node. Never acted upon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// What happens to pods that do not tolerate the taint.
    pub effect: String,

    /// Key of the taint.
    pub key: String,

    /// Value of the taint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,

    /// When the taint was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// Wish for the switch port of one network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInterface {
    /// Name of the interface as inspection found it. Excludes macAddress.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "^[a-zA-Z0-9._-]+$"))]
    pub name: String,

    /// MAC address of the interface. Excludes name.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"))]
    pub mac_address: String,

    /// The HostNetworkAttachment that says how the port should be set up.
    #[serde(skip_serializing_if = "is_default")]
    pub host_network_attachment: HostNetworkAttachmentRef,

    /// The switch port, where LLDP does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_port: Option<SwitchPort>,
}

/// Names a HostNetworkAttachment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostNetworkAttachmentRef {
    /// Name of the HostNetworkAttachment.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,

    /// Namespace of the HostNetworkAttachment. Empty means that of the host.
    #[serde(skip_serializing_if = "ForeignNamespace::is_empty")]
    #[schemars(with = "String", length(max = 63))]
    pub namespace: ForeignNamespace,
}

impl HostNetworkAttachmentRef {
    /// The HostNetworkAttachment, for a host of the namespace `own`.
    pub fn local<'a>(&'a self, own: &'a str) -> Result<LocalRef<'a>, Elsewhere<'a>> {
        LocalRef::of(own, &self.namespace, &self.name)
    }
}

/// One port of one switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SwitchPort {
    /// Management MAC address of the switch.
    #[serde(rename = "switchID")]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"))]
    pub switch_id: String,

    /// Name of the port on the switch.
    #[serde(rename = "portID")]
    pub port_id: String,
}
