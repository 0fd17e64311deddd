//! Effects on the companion objects of the host.

use std::sync::Arc;

use json_patch::{PatchOperation, RemoveOperation, TestOperation, jsonptr};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Resource, ResourceExt};
use metal3_api::metal3::names::finalizer;
use metal3_api::metal3::{
    DataImage, FirmwareUpdate, HardwareData, HardwareDataSpec, HardwareDetails, HostFirmwareComponents,
    PreprovisioningImage, PreprovisioningImageSpec,
};
use metal3_runtime::error::is_not_found;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::{patch, status};

use crate::host::companions::HARDWARE_DATA_MANAGER;
use crate::host::context::Context;
use crate::host::error::ApplyError;
use crate::host::firmware::pending::Kind;
use crate::host::firmware::{self, Made, components, settings};
use crate::host::observed::{Lookup, NodeView, Observed};
use crate::host::ownership::{Ownership, ownership};
use crate::host::plan::DiscRecord;
use crate::host::record;

/// The field manager for the fields of a PreprovisioningImage that we write.
const RAMDISK_MANAGER: &str = "baremetal-operator-preprovisioning-image";

pub(super) async fn write_ramdisk(
    ctx: &Context,
    seen: &mut Observed,
    spec: &PreprovisioningImageSpec,
) -> Result<(), kube::Error> {
    let host = &seen.host;
    let name = host.name_any();
    let api: Api<PreprovisioningImage> = Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default());
    let mut image = PreprovisioningImage::new(&name, spec.clone());
    image.metadata.labels.clone_from(&host.metadata.labels);
    image.metadata.owner_references = host.controller_owner_ref(&()).map(|owner| vec![owner]);
    image.metadata.finalizers = Some(vec![finalizer::PREPROVISIONING_IMAGE_OF_HOST.to_owned()]);
    let written = api
        .patch(
            &name,
            &PatchParams::apply(RAMDISK_MANAGER).force(),
            &Patch::Apply(&image),
        )
        .await?;
    seen.ramdisk = Lookup::Found(Arc::new(written));
    Ok(())
}

pub(super) async fn release_ramdisk(ctx: &Context, seen: &Observed) -> Result<(), kube::Error> {
    let host = &seen.host;
    let api: Api<PreprovisioningImage> = Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default());
    match api.get_opt(&host.name_any()).await? {
        Some(image) => patch::remove_finalizer(&api, &image, finalizer::PREPROVISIONING_IMAGE_OF_HOST)
            .await
            .map(|_| ()),
        None => Ok(()),
    }
}

/// Records what was applied, and the current versions. The write is conditional on the version that was read: a
/// conflict is retried.
pub(super) async fn record_firmware(
    ctx: &Context,
    seen: &mut Observed,
    updates: &[FirmwareUpdate],
    unchanged: Option<&str>,
) -> Result<(), ApplyError> {
    let effect = "record firmware";
    let kube = |source| ApplyError::Kube {
        effect: effect.into(),
        source,
    };
    let host = &seen.host;
    let api: Api<HostFirmwareComponents> = Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default());
    let Some(mut object) = api.get_opt(&host.name_any()).await.map_err(kube)? else {
        return Ok(());
    };
    let mut known = object.status.clone().unwrap_or_default().components;
    if let Lookup::Found(found) = &seen.components {
        known.clone_from(found);
    } else if let NodeView::Live(node) | NodeView::Listed(node) = &seen.node {
        let ironic = |source| ApplyError::Ironic { effect, source };
        let client = ctx.ironic.client().map_err(ironic)?;
        let found = client.firmware(&node.uuid).await.map_err(ironic)?;
        known = found.into_iter().filter_map(firmware::component).collect();
    }
    object.status.get_or_insert_default().updates = updates.to_vec();
    let denied = &seen.settings.denied_url_ranges;
    let pending = pending(ctx, seen, Kind::Updates);
    let made = unchanged.map_or(Made::No(&pending), Made::Unchanged);
    let recorded = components::status(&object, known, denied, made, ctx.clock.now());
    let written = status::replace(&ctx.kube, &object, recorded).await.map_err(kube)?;
    ctx.companions.updates.written(written.clone());
    seen.learn_firmware_objects(|objects| objects.updates = Some(written));
    Ok(())
}

/// The same for BIOS settings, as they were read in this pass.
pub(super) async fn record_settings(ctx: &Context, seen: &mut Observed, is_made: bool) -> Result<(), kube::Error> {
    let (Lookup::Found(objects), Lookup::Found(bios)) = (&seen.firmware_objects, &seen.bios) else {
        return Ok(());
    };
    let Some(object) = &objects.settings else {
        return Ok(());
    };
    let pending = pending(ctx, seen, Kind::Settings);
    let made = if is_made { Made::NotApplied } else { Made::No(&pending) };
    if let Some(recorded) = settings::applied(object, bios, made, ctx.clock.now()) {
        let written = status::replace(&ctx.kube, object, recorded).await?;
        ctx.companions.settings.written(written.clone());
        seen.learn_firmware_objects(|objects| objects.settings = Some(written));
    }
    Ok(())
}

/// What is said of changes that are left.
fn pending(ctx: &Context, seen: &Observed, kind: Kind) -> String {
    let policy = ctx.companions.policies.get(&ObjectKey::of(&*seen.host));
    firmware::pending::pending(&seen.host, policy.as_deref(), kind)
}

/// The status, then the annotation that survives a move. Conditional on the version that was read: a conflict is retried.
pub(super) async fn record_data_image(
    ctx: &Context,
    seen: &mut Observed,
    record: &DiscRecord,
) -> Result<(), kube::Error> {
    let Lookup::Found(image) = &seen.data_image else {
        return Ok(());
    };
    let mut image = (**image).clone();
    image.status = Some(record.status.clone());
    let name = image.name_any();
    let api: Api<DataImage> = Api::namespaced(ctx.kube.clone(), &image.namespace().unwrap_or_default());
    let mut written = api.replace_status(&name, &PostParams::default(), &image).await?;
    if let Some(note) = record::noted(&written) {
        written = api.patch(&name, &PatchParams::default(), &Patch::Merge(note)).await?;
    }
    ctx.companions.data_images.written(written.clone());
    seen.data_image = Lookup::Found(Arc::new(written));
    seen.memory.disc_request = None;
    seen.memory.disc_failure = record.failure;
    Ok(())
}

pub(super) async fn write_hardware_data(
    ctx: &Context,
    seen: &Observed,
    details: &HardwareDetails,
) -> Result<(), kube::Error> {
    let host = &seen.host;
    let name = host.name_any();
    // It would go, with what is written to it.
    let going = ctx.companions.going_hardware.0.get(&ObjectKey::of(&**host));
    if going.is_some_and(|going| ownership(&going.metadata, host) == Ownership::Former) {
        let message = format!("HardwareData {name} of an earlier host of the name is being deleted");
        return Err(kube::Error::Api(Box::new(
            Status::failure(&message, "Conflict").with_code(409),
        )));
    }
    let api: Api<HardwareData> = Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default());
    let mut data = HardwareData::new(
        &name,
        HardwareDataSpec {
            hardware: Some(Box::new(details.clone())),
        },
    );
    data.metadata.owner_references = host.controller_owner_ref(&()).map(|owner| vec![owner]);
    data.metadata.finalizers = Some(vec![finalizer::HARDWARE_DATA.to_owned()]);
    api.patch(
        &name,
        &PatchParams::apply(HARDWARE_DATA_MANAGER).force(),
        &Patch::Apply(&data),
    )
    .await
    .map(|_| ())
}

pub(super) async fn release_hardware_data(ctx: &Context, seen: &Observed) -> Result<(), kube::Error> {
    // Try this whatever the status says: it may not have been stored when the inventory was.
    let host = &seen.host;
    let name = host.name_any();
    let api: Api<HardwareData> = Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default());
    // One call if the finalizers are as we wrote them; otherwise they are read first.
    let path = jsonptr::PointerBuf::from_tokens(["metadata", "finalizers", "0"]);
    let first = json_patch::Patch(vec![
        PatchOperation::Test(TestOperation {
            path: path.clone(),
            value: finalizer::HARDWARE_DATA.into(),
        }),
        PatchOperation::Remove(RemoveOperation { path }),
    ]);
    match api
        .patch_metadata(&name, &PatchParams::default(), &Patch::<()>::Json(first))
        .await
    {
        Ok(_) => return Ok(()),
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(kube::Error::Api(status)) if status.is_invalid() => {}
        Err(error) => return Err(error),
    }
    let metadata = match api.get_metadata(&name).await {
        Ok(data) => data.metadata,
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    if let Some(body) = patch::finalizer_removed(&metadata, finalizer::HARDWARE_DATA) {
        match api
            .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(body))
            .await
        {
            Err(error) if !is_not_found(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
