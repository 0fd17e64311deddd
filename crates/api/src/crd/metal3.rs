//! The definitions of the group `metal3.io`.

use super::{Crd, CrdError};
use crate::capi::names::label;
use crate::metal3::{
    BMCEventSubscription, BareMetalHost, BareMetalSwitch, DataImage, FirmwareSchema, HardwareData, HostClaim,
    HostDeployPolicy, HostFirmwareComponents, HostFirmwareSettings, HostNetworkAttachment, HostUpdatePolicy,
    PreprovisioningImage,
};
use crate::rules::{host_rules, staying_spec};
use kube::CustomResourceExt;
use schemars::JsonSchema;

/// All of them, in any order.
pub fn all() -> Result<Vec<Crd>, CrdError> {
    Ok(vec![
        // `clusterctl move` has to be told to look at hosts, and to take along what they own, such as credentials.
        moved::<BareMetalHost>()?
            .label(label::MOVE_HIERARCHY, "")
            .validations(&host_rules()),
        moved::<BareMetalSwitch>()?,
        moved::<BMCEventSubscription>()?.validations(&staying_spec()),
        // What users ask of a host beside the host: without it the host would get other settings, or lose its disc, at the
        // new place.
        moved::<DataImage>()?,
        Crd::of::<FirmwareSchema>()?,
        moved::<HardwareData>()?,
        // Their hosts are moved by the namespace that those are in.
        moved::<HostClaim>()?,
        moved::<HostDeployPolicy>()?,
        moved::<HostFirmwareComponents>()?,
        moved::<HostFirmwareSettings>()?,
        // Go clients ask for the subresource although there is no status.
        moved::<HostNetworkAttachment>()?.status_subresource(true),
        // Go clients write its empty status together with the rest.
        moved::<HostUpdatePolicy>()?.status_subresource(false),
        Crd::of::<PreprovisioningImage>()?,
    ])
}

/// A kind that `clusterctl move` takes along, whether or not anything owns its objects.
fn moved<K: CustomResourceExt + JsonSchema>() -> Result<Crd, CrdError> {
    Ok(Crd::of::<K>()?.label(label::CLUSTERCTL, "").label(label::MOVE, ""))
}
