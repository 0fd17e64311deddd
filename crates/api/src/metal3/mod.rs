//! Group `metal3.io`, version `v1alpha1`: the machines and what is known about them.

mod annotations;
mod claim;
mod data_image;
mod event_subscription;
mod firmware;
pub mod hardware;
mod hints;
mod host;
mod image;
pub mod names;
mod network_attachment;
mod preprovisioning_image;
mod profile;
mod raid;
mod switch;

pub use annotations::{DeleteAction, DetachedArguments, RebootArguments, RebootMode, RebootRequest, reboot_requests};
pub use claim::*;
pub use data_image::{AttachedImage, DataImage, DataImageError, DataImageSpec, DataImageStatus};
pub use event_subscription::{BMCEventSubscription, BMCEventSubscriptionSpec, BMCEventSubscriptionStatus};
pub use firmware::*;
pub use hardware::{HardwareData, HardwareDataSpec, HardwareDetails, Nic};
pub use hints::RootDeviceHints;
pub use host::*;
pub use image::{Checksum, ChecksumError, ChecksumType, CustomDeploy, Image, ImageFormat};
pub use network_attachment::{HostNetworkAttachment, HostNetworkAttachmentSpec, SwitchPortMode};
pub use preprovisioning_image::{
    PreprovisioningImage, PreprovisioningImageSpec, PreprovisioningImageStatus, RamdiskFormat, SecretStatus,
};
pub use profile::{HardwareProfile, UnknownProfile};
pub use raid::{HardwareRaidLevel, HardwareRaidVolume, RaidConfig, SoftwareRaidLevel, SoftwareRaidVolume};
pub use switch::{BareMetalSwitch, BareMetalSwitchSpec, BareMetalSwitchStatus, SwitchDriver};
