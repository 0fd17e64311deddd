//! The definitions of the group `metal3.io`.

use super::{Crd, CrdError};
use crate::metal3::{
    BMCEventSubscription, BareMetalHost, BareMetalSwitch, DataImage, FirmwareSchema, HardwareData, HostClaim,
    HostDeployPolicy, HostFirmwareComponents, HostFirmwareSettings, HostNetworkAttachment, HostUpdatePolicy,
    PreprovisioningImage,
};

/// All of them, in any order.
pub fn all() -> Result<Vec<Crd>, CrdError> {
    Ok(vec![
        Crd::of::<BareMetalHost>()?,
        Crd::of::<BareMetalSwitch>()?,
        Crd::of::<BMCEventSubscription>()?,
        Crd::of::<DataImage>()?,
        Crd::of::<FirmwareSchema>()?,
        Crd::of::<HardwareData>()?,
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
