//! Metal3Machine and its template.

use super::{ChecksumType, CustomDeploy, DeprecatedStatus, HostSelector, MachineAddress, ObjectRef, TemplateMetadata};
use crate::condition::Condition;
use crate::infra::shared::limits::conditions;
use crate::metal3::{CleaningMode, ImageFormat};
use crate::reference::SecretReference;
use crate::rules::machine_image;
use crate::wire::{is_default, optional_spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is wanted of a machine.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Machine",
    plural = "metal3machines",
    category = "cluster-api",
    shortname = "m3m",
    shortname = "m3machine",
    shortname = "m3machines",
    shortname = "metal3m",
    shortname = "metal3machine",
    namespaced,
    doc = "The server of a Cluster API Machine: which host to choose, and what to install on it.",
    status = "Metal3MachineStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3Machine was created"}"#,
    printcolumn = r#"{"name": "ProviderID", "type": "string", "jsonPath": ".spec.providerID", "description": "Provider ID of the node"}"#,
    printcolumn = r#"{"name": "Provisioned", "type": "string", "jsonPath": ".status.initialization.provisioned", "description": "Whether the host runs what is wanted"}"#,
    printcolumn = r#"{"name": "Waiting", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].message", "description": "What the machine waits for", "priority": 1}"#,
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name", "description": "Cluster that it belongs to"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = machine_image)]
pub struct Metal3MachineSpec {
    /// Provider ID of the node: metal3://, then namespace, host and machine, separated by slashes. Written by the
    /// controller.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: String,

    /// The image to install. Either this or customDeploy is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,

    /// A deploy step of a site's own ramdisk, instead of or in addition to image.
    #[serde(skip_serializing_if = "is_default")]
    pub custom_deploy: CustomDeploy,

    /// Secret with user data for the first boot. The bootstrap data of the Machine goes before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,

    /// Which hosts may be chosen. Absent admits every host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_selector: Option<HostSelector>,

    /// The Metal3DataTemplate that metadata and network data are rendered from, in the machine's namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub data_template: ObjectRef,

    /// Secret with metadata for the first boot, instead of what the template renders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,

    /// Secret with network data for the first boot, instead of what the template renders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,

    /// Whether the host's disks are cleaned after use: metadata or disabled. Absent leaves it to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated_cleaning_mode: Option<CleaningMode>,

    /// Failure domain that the host must stand in. Written by the controller from the Machine's.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: String,
}

optional_spec!(Metal3MachineSpec);

/// An image and how to check it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Location of the image: an absolute URL.
    #[schemars(length(min = 1, max = 512), extend("format" = "uri"))]
    pub url: String,

    /// Digest of the image, or a URL of a file of digests. Required unless the image is a live ISO or has an oci URL;
    /// must be absent with an oci URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 0, max = 512))]
    pub checksum: Option<String>,

    /// Algorithm of the checksum: md5, sha256 or sha512. Absent lets it be found out from the checksum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum_type: Option<ChecksumType>,

    /// Format of the image: raw, qcow2, vdi, vmdk or live-iso. live-iso boots the image instead of writing it to a disk.
    /// Absent lets the format be found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_format: Option<ImageFormat>,
}

/// How far an object has come for the first time. Never goes back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct Initialization {
    /// Whether the infrastructure has been complete once. Cluster API goes on when it is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// What is known of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3MachineStatus {
    /// Conditions: AssociateBareMetalHost, AssociateMetal3MachineMetaData, Metal3DataReady, Ready and Paused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = conditions)]
    pub conditions: Vec<Condition>,

    /// How far the machine has come for the first time.
    #[serde(skip_serializing_if = "is_default")]
    pub initialization: Initialization,

    /// When this status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// Addresses of the host, from its inventory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,

    /// Secret with the user data in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,

    /// Secret with the metadata in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,

    /// Secret with the network data in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,

    /// The Metal3Data that was rendered for this machine.
    #[serde(skip_serializing_if = "is_default")]
    pub rendered_data: ObjectRef,

    /// What earlier versions had and this one has given up.
    #[serde(skip_serializing_if = "is_default")]
    pub deprecated: DeprecatedStatus,
}

/// What Metal3Machines are made from.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3MachineTemplate",
    plural = "metal3machinetemplates",
    category = "cluster-api",
    shortname = "m3mt",
    shortname = "m3machinetemplate",
    shortname = "m3machinetemplates",
    shortname = "metal3mt",
    shortname = "metal3machinetemplate",
    namespaced,
    doc = "What Metal3Machines are made from, for a control plane or a machine deployment.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the Metal3MachineTemplate was created"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, extend("x-metal3-required" = true))]
pub struct Metal3MachineTemplateSpec {
    /// The Metal3Machines to be made.
    pub template: Metal3MachineTemplateResource,

    /// Whether a host that a machine leaves is kept for the next machine of the same control plane or machine deployment.
    /// The default is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-metal3-default" = false))]
    pub node_reuse: Option<bool>,
}

optional_spec!(Metal3MachineTemplateSpec);

/// A Metal3Machine to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Metal3MachineTemplateResource {
    /// Labels and annotations that it gets.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: TemplateMetadata,

    /// What is wanted of it.
    pub spec: Metal3MachineSpec,
}
