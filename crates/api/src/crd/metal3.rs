//! The definitions of the group `metal3.io`.

use super::{Crd, CrdError};
use crate::capi::names::label;
use crate::metal3::{
    BMCEventSubscription, BareMetalHost, BareMetalSwitch, DataImage, FirmwareSchema, HardwareData, HostClaim,
    HostDeployPolicy, HostFirmwareComponents, HostFirmwareSettings, HostNetworkAttachment, HostUpdatePolicy,
    PreprovisioningImage,
};

/// All of them, in any order.
pub fn all() -> Result<Vec<Crd>, CrdError> {
    Ok(vec![
        // `clusterctl move` has to be told to look at hosts, and to take along what they own, such as credentials.
        Crd::of::<BareMetalHost>()?
            .label(label::CLUSTERCTL, "")
            .label(label::MOVE, "")
            .label(label::MOVE_HIERARCHY, ""),
        Crd::of::<BareMetalSwitch>()?,
        Crd::of::<BMCEventSubscription>()?,
        Crd::of::<DataImage>()?,
        Crd::of::<FirmwareSchema>()?,
        Crd::of::<HardwareData>()?
            .label(label::CLUSTERCTL, "")
            .label(label::MOVE, ""),
        Crd::of::<HostClaim>()?,
        Crd::of::<HostDeployPolicy>()?,
        Crd::of::<HostFirmwareComponents>()?,
        Crd::of::<HostFirmwareSettings>()?,
        // Go clients ask for the subresource although there is no status.
        Crd::of::<HostNetworkAttachment>()?.status_subresource(true),
        // Go clients write its empty status together with the rest.
        Crd::of::<HostUpdatePolicy>()?.status_subresource(false),
        Crd::of::<PreprovisioningImage>()?,
    ])
}
