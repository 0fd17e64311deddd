//! Reads companion objects, and parts of the host that are not cached.

use std::sync::Arc;

use kube::{Api, ResourceExt};
use metal3_api::metal3::{BareMetalHost, DataImage, HardwareData, PreprovisioningImage};

use crate::host::context::Context;
use crate::host::disc;
use crate::host::error::ObserveError;
use crate::host::firmware;
use crate::host::observed::{HardwareView, Lookup, Observed};
use crate::host::ownership::{Ownership, ownership};
use crate::host::record;

pub(super) async fn ramdisk(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let api: Api<PreprovisioningImage> = Api::namespaced(ctx.kube.clone(), &seen.host.namespace().unwrap_or_default());
    seen.ramdisk = match api.get_opt(&seen.host.name_any()).await? {
        Some(image) => Lookup::Found(Arc::new(image)),
        None => Lookup::NotFound,
    };
    Ok(())
}

/// Keeps an object that does not belong to an earlier host of the name.
fn own<K: ResourceExt>(host: &BareMetalHost) -> impl Fn(K) -> Option<K> {
    move |object| Some(object).filter(|object| ownership(object.meta(), host) != Ownership::Former)
}

pub(super) async fn hardware_data(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let api: Api<HardwareData> = Api::namespaced(ctx.kube.clone(), &seen.host.namespace().unwrap_or_default());
    let found = api.get_opt(&seen.host.name_any()).await?;
    seen.hardware_data = match found.and_then(own(&seen.host)).and_then(|data| data.spec.hardware) {
        Some(details) => Lookup::Found(Arc::new(*details)),
        None => Lookup::NotFound,
    };
    Ok(())
}

/// Read from the host itself: a HardwareData may be missing, or differ.
pub(super) async fn stored_hardware(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let api: Api<BareMetalHost> = Api::namespaced(ctx.kube.clone(), &seen.host.namespace().unwrap_or_default());
    let found = api.get_opt(&seen.host.name_any()).await?;
    seen.hardware = match found.and_then(|host| host.status).and_then(|status| status.hardware) {
        Some(details) => HardwareView::Known(Arc::new(*details)),
        None => HardwareView::None,
    };
    Ok(())
}

pub(super) async fn data_image(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let api: Api<DataImage> = Api::namespaced(ctx.kube.clone(), &seen.host.namespace().unwrap_or_default());
    let mut image = api.get_opt(&seen.host.name_any()).await?.and_then(own(&seen.host));
    if let Some(image) = &mut image {
        image.status = record::status_of(image);
    }
    seen.data_image = match disc::with_note(image, &seen.host) {
        Some(image) => Lookup::Found(Arc::new(image)),
        None => Lookup::NotFound,
    };
    Ok(())
}

pub(super) async fn firmware_objects(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let name = seen.host.name_any();
    let namespace = seen.host.namespace().unwrap_or_default();
    let settings = Api::namespaced(ctx.kube.clone(), &namespace);
    let updates = Api::namespaced(ctx.kube.clone(), &namespace);
    let policies = Api::namespaced(ctx.kube.clone(), &namespace);
    // If the kinds are not installed, nothing can be requested.
    seen.firmware_objects = Lookup::Found(Arc::new(firmware::Objects {
        settings: settings.get_opt(&name).await?,
        updates: updates.get_opt(&name).await?,
        policy: match seen.firmware.on_reboot {
            Some(_) => None,
            None => policies.get_opt(&name).await?.and_then(own(&seen.host)),
        },
    }));
    Ok(())
}
