//! What the operator reports about a host.

use super::{BootMode, FirmwareConfig};
use crate::condition::Condition;
use crate::metal3::{CustomDeploy, HardwareDetails, Image, RaidConfig, RootDeviceHints};
use crate::reference::SecretReference;
use crate::wire::{int, is_default, wire_enum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

wire_enum! {
    /// Where a host is on its way through provisioning. A plain text in the schema.
    #[derive(Default)]
    open enum ProvisioningState {
        /// Not looked at yet.
        #[default]
        None = "",
        /// Without BMC details, so nothing is done with it.
        Unmanaged = "unmanaged",
        /// BMC credentials are being checked and the host made known to Ironic.
        Registering = "registering",
        /// Legacy; goes on to preparing at once.
        MatchProfile = "match profile",
        /// Hardware is being found out.
        Inspecting = "inspecting",
        /// RAID and firmware are being set up.
        Preparing = "preparing",
        /// Legacy name of available.
        Ready = "ready",
        /// Waits for an image.
        Available = "available",
        /// An image is being written.
        Provisioning = "provisioning",
        /// Runs the image.
        Provisioned = "provisioned",
        /// Runs something that was not deployed here.
        ExternallyProvisioned = "externally provisioned",
        /// The image is being removed.
        Deprovisioning = "deprovisioning",
        /// Is being powered off, to be deleted then.
        PoweringOffBeforeDelete = "powering off before delete",
        /// Is being removed from Ironic.
        Deleting = "deleting",
    }
}

wire_enum! {
    /// Coarse health of a host.
    #[derive(Default)]
    closed enum OperationalStatus {
        /// Not known yet.
        #[default]
        None = "",
        /// All is well.
        Ok = "OK",
        /// Known, but without BMC details.
        Discovered = "discovered",
        /// The last operation failed; errorType and errorMessage tell more.
        Error = "error",
        /// Waits for its turn, because too many hosts are busy.
        Delayed = "delayed",
        /// Taken out of Ironic by annotation.
        Detached = "detached",
        /// Firmware is being serviced while provisioned.
        Servicing = "servicing",
    }
}

wire_enum! {
    /// Which kind of operation failed last.
    ///
    /// A failed detachment has none: the reference operator writes `detach error`, which no API server stores. It is stored
    /// as a registration error whose message says so.
    closed enum ErrorType {
        /// A provisioned host could not be registered again after Ironic had lost it.
        ProvisionedRegistration = "provisioned registration error",
        /// BMC unreachable, credentials wrong, or the ramdisk image could not be built.
        Registration = "registration error",
        /// Inspection failed.
        Inspection = "inspection error",
        /// RAID or firmware setup failed.
        Preparation = "preparation error",
        /// Provisioning or deprovisioning failed.
        Provisioning = "provisioning error",
        /// Power could not be read or changed.
        PowerManagement = "power management error",
        /// Servicing of a provisioned host failed.
        Servicing = "servicing error",
    }
}

/// What is known of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetalHostStatus {
    /// Coarse health: empty, OK, discovered, error, delayed, detached or servicing.
    pub operational_status: OperationalStatus,

    /// Which kind of operation failed last. Absent when the last one went well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorType>,

    /// When this status was last written. Absent means that there is no status yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// Name of the hardware profile in use. Stays once it is chosen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hardware_profile: String,

    /// The hardware that inspection found. A copy of what HardwareData holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Box<HardwareDetails>>,

    /// Where the host is on its way through provisioning, and with what settings.
    pub provisioning: ProvisionStatus,

    /// The BMC credentials that worked last.
    #[serde(skip_serializing_if = "is_default")]
    pub good_credentials: CredentialsStatus,

    /// The BMC credentials that were tried last.
    #[serde(skip_serializing_if = "is_default")]
    pub tried_credentials: CredentialsStatus,

    /// Why the last operation failed, in words. Empty when it went well.
    pub error_message: String,

    /// Whether the host was powered on when last asked.
    pub powered_on: bool,

    /// When operations began and ended.
    #[serde(skip_serializing_if = "is_default")]
    pub operation_history: OperationHistory,

    /// How many times in a row an operation has failed. Retries come more slowly as it grows.
    #[schemars(schema_with = "int", extend("x-metal3-default" = 0))]
    pub error_count: i32,

    /// How many times provisioning with the present image has failed. It outlives deprovisioning.
    #[schemars(schema_with = "int", extend("x-metal3-default" = 0))]
    pub provisioning_fail_count: i32,

    /// The image of the last attempt to provision, successful or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_image: Option<Image>,

    /// Aspects of the state: Ready, AvailableForProvisioning, Healthy, Manageable, Progressing and Provisioned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
}

/// Where a host is on its way through provisioning, and with what settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisionStatus {
    /// The state, such as available or provisioned.
    pub state: ProvisioningState,

    /// UUID of the host's node in Ironic. Empty when it has none.
    #[serde(rename = "ID")]
    pub id: String,

    /// The image that was deployed. Absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "image_with_url")]
    pub image: Option<Image>,

    /// The custom deployment that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,

    /// The root device hints in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,

    /// The boot mode in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,

    /// The RAID volumes that were set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidConfig>,

    /// Deprecated and always empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareConfig>,
}

/// Go writes an image that is not there as `{"url": ""}`.
fn image_with_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Image>, D::Error> {
    let image = Option::<Image>::deserialize(deserializer)?;
    Ok(image.filter(|image| !image.url.is_empty()))
}

/// Which version of which Secret was used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialsStatus {
    /// The Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretReference>,

    /// The Secret's resource version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub credentials_version: String,
}

/// When each operation last began and ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationHistory {
    /// Registration.
    #[serde(skip_serializing_if = "is_default")]
    pub register: OperationMetric,

    /// Inspection.
    #[serde(skip_serializing_if = "is_default")]
    pub inspect: OperationMetric,

    /// Provisioning.
    #[serde(skip_serializing_if = "is_default")]
    pub provision: OperationMetric,

    /// Deprovisioning.
    #[serde(skip_serializing_if = "is_default")]
    pub deprovision: OperationMetric,
}

/// When one operation last began and ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationMetric {
    /// When it began. Absent when it never has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-metal3-nullable" = true))]
    pub start: Option<Time>,

    /// When it ended. Absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-metal3-nullable" = true))]
    pub end: Option<Time>,
}
