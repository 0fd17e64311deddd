//! Acting: the effects of a plan in their order, up to the first that fails. No choices are made here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use json_patch::{PatchOperation, RemoveOperation, TestOperation, jsonptr};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Resource, ResourceExt};
use metal3_api::metal3::names::finalizer;
use metal3_api::metal3::{
    BareMetalHost, DataImage, DataImageStatus, FirmwareUpdate, HardwareData, HardwareDataSpec, HardwareDetails,
    HostFirmwareComponents, PreprovisioningImage, PreprovisioningImageSpec,
};
use metal3_api::reference::SecretReference;
use metal3_ironic::{CreatePort, ErrorClass, PatchOp, Port, PowerTarget, Verb};
use metal3_runtime::error::is_not_found;
use metal3_runtime::patch::{self, Removal};

use super::cached;
use super::claim;
use super::context::Context;
use super::decide::port_mark;
use super::error::ApplyError;
use super::firmware;
use super::held;
use super::instance;
use super::observe::key_of;
use super::observed::{
    DiscRequest, ForeignPort, Lookup, Memory, NodeView, Observed, PowerRequest, PullSecretView, SecretView,
};
use super::plan::Effect;

/// How long a host may take to shut down before Ironic switches it off.
const SOFT_POWER_OFF_TIMEOUT: Duration = Duration::from_secs(180);

/// Who owns the fields of HardwareData that we write.
pub(super) const HARDWARE_DATA_MANAGER: &str = "baremetal-operator-hardware-data";

/// Who owns the fields of a PreprovisioningImage that we write.
const RAMDISK_MANAGER: &str = "baremetal-operator-preprovisioning-image";

const MAINTENANCE_REASON: &str = "set by the baremetal-operator to allow the removal of this node";

/// Applies one effect; what it taught goes into `seen`.
pub async fn apply(ctx: &Context, seen: &mut Observed, effect: &Effect) -> Result<(), ApplyError> {
    let label = effect.label();
    let kube = |source| ApplyError::Kube {
        effect: label.into(),
        source,
    };
    let of_secret = |failed: claim::Failed| ApplyError::Kube {
        effect: format!("{label} {}", failed.secret).into(),
        source: failed.source,
    };
    let ironic = |source| ApplyError::Ironic { effect: label, source };
    let client = || ctx.ironic.client().map_err(ironic);
    match effect {
        Effect::AddFinalizer { secrets } => add_finalizer(ctx, seen, secrets).await.map_err(kube),
        Effect::NoteSecrets(secrets) => note_secrets(ctx, seen, secrets).await.map_err(kube),
        Effect::RemoveFinalizer => remove_finalizer(ctx, seen).await.map_err(kube),
        Effect::RemoveAnnotation { key, value } => remove_annotation(ctx, seen, key, value).await.map_err(kube),
        Effect::ConfirmHost => confirm_host(ctx, seen).await.map_err(kube),
        Effect::ClaimSecret => {
            // Our marks give it another version; what it says stays what Ironic was given.
            if is_tried(seen) {
                learn_credentials(seen);
            }
            claim::secret(ctx, seen).await.map_err(of_secret)
        }
        Effect::WriteRamdisk(spec) => write_ramdisk(ctx, seen, spec).await.map_err(kube),
        Effect::ReleaseRamdisk => release_ramdisk(ctx, seen).await.map_err(kube),
        Effect::ClaimNetworkData => claim::network_data(ctx, seen).await.map_err(of_secret),
        Effect::ReleaseSecret => claim::release_all(ctx, seen).await.map_err(of_secret),
        Effect::ReleaseFormerSecret(name) => claim::release(ctx, seen, name).await.map_err(of_secret),
        Effect::UnclaimSecret => claim::undo(ctx, seen).await.map_err(of_secret),
        Effect::WriteHardwareData(details) => write_hardware_data(ctx, seen, details).await.map_err(kube),
        Effect::RecordFirmware(updates) => record_firmware(ctx, seen, updates).await,
        Effect::RecordDataImage(status) => record_data_image(ctx, seen, status).await.map_err(kube),
        Effect::ReleaseHardwareData => release_hardware_data(ctx, seen).await.map_err(kube),
        Effect::CreateNode(body) => {
            let asked = ctx.clock.elapsed();
            let node = client()?.create_node(body).await.map_err(ironic)?;
            learn_credentials(seen);
            ctx.fleet.learn(&node, &key_of(&seen.host), asked);
            seen.node = NodeView::Live(Arc::new(node));
            // A node that was not there a moment ago has no ports and no inventory.
            seen.ports = Lookup::NotFound;
            seen.memory.ports_with = None;
            seen.memory.foreign_ports.clear();
            seen.memory.refused_ports.clear();
            seen.memory.is_uninspected = true;
            untried(seen);
            Ok(())
        }
        Effect::CreatePort {
            node,
            mac,
            pxe_enabled,
            is_needed,
        } => {
            let body = CreatePort {
                node_uuid: node.clone(),
                address: mac.clone(),
                pxe_enabled: *pxe_enabled,
                extra: port_mark(&seen.host),
            };
            match client()?.create_port(&body).await {
                Ok(port) => now_there(seen, port),
                Err(error) if !is_needed && error.class() == ErrorClass::Duplicate => {
                    learn_owner(ctx, seen, node, mac).await.map_err(ironic)?;
                }
                Err(error) => return Err(ironic(error)),
            }
            Ok(())
        }
        Effect::SetPortBoot {
            node,
            port,
            pxe_enabled,
            ..
        } => {
            let ops = [PatchOp::add("/pxe_enabled", *pxe_enabled)];
            let port = client()?.patch_port(port, node, &ops).await.map_err(ironic)?;
            now_there(seen, port);
            Ok(())
        }
        Effect::DeletePort { node, port, .. } => {
            client()?.delete_port(port, node).await.map_err(ironic)?;
            if let Lookup::Found(ports) = &mut seen.ports {
                ports.retain(|known| known.uuid != *port);
            }
            Ok(())
        }
        Effect::PatchNode { node, ops } => {
            let asked = ctx.clock.elapsed();
            let mut node = client()?.patch_node(node, ops).await.map_err(ironic)?;
            // The answer shows the lock of this very call, which ended with it: the next step need not wait for it.
            node.reservation = None;
            if ops.iter().any(|op| op.path == "/driver_info") {
                learn_credentials(seen);
                untried(seen);
            }
            if ops.iter().any(|op| op.path == "/network_data") {
                seen.memory.network_data = seen.network_data.version().map(str::to_owned);
            }
            if instance::sends_pull_secret(ops)
                && let PullSecretView::Ready(secret) = &seen.pull_secret
            {
                seen.memory.sent_pull_secret = Some(secret.digest);
            }
            ctx.fleet.learn(&node, &key_of(&seen.host), asked);
            seen.node = NodeView::Live(Arc::new(node));
            Ok(())
        }
        Effect::SetTargetRaid { node, logical_disks } => {
            client()?.set_target_raid(node, logical_disks).await.map_err(ironic)?;
            look_again(seen);
            Ok(())
        }
        Effect::Provision { node, request } => {
            if request.target == Verb::Inspect {
                seen.memory.refused_ports.clear(); // it may find that they need not change, or Ironic that they may
            }
            let answer = client()?.provision(node, request).await;
            // Also after a failure: an answer that was lost on its way does not undo what was asked for.
            ctx.fleet.acted(&key_of(&seen.host), ctx.clock.elapsed());
            answer.map_err(ironic)?;
            ctx.fleet.agreed(node, ctx.clock.elapsed());
            seen.memory.deployed_with = Some(seen.deployment_secrets.clone());
            seen.memory.is_untried = false;
            seen.memory.is_uninspected &= request.target != Verb::Inspect;
            Ok(())
        }
        Effect::Power { node, target } => {
            let is_soft = matches!(target, PowerTarget::SoftOff | PowerTarget::SoftReboot);
            let timeout = is_soft.then_some(SOFT_POWER_OFF_TIMEOUT);
            let answer = client()?.power(node, *target, timeout).await;
            if is_soft && answer.as_ref().is_err_and(|e| e.class() == ErrorClass::BadRequest) {
                seen.memory.no_soft_power_off = true; // the next pass switches it off the hard way
            }
            answer.map_err(ironic)?;
            ctx.metrics
                .upstream
                .power(&key_of(&seen.host), *target == PowerTarget::On);
            seen.memory.power_request = Some(PowerRequest {
                on: *target == PowerTarget::On,
            });
            seen.memory.disc_request = None;
            Ok(())
        }
        Effect::AttachDisc { node, url } => {
            let answer = client()?.attach_disc(node, url).await;
            disc_changes(seen, DiscRequest::Attach, answer).map_err(ironic)
        }
        Effect::DetachDisc { node } => {
            let answer = client()?.detach_disc(node).await;
            disc_changes(seen, DiscRequest::Detach, answer).map_err(ironic)
        }
        Effect::SetMaintenance { node } => {
            client()?
                .set_maintenance(node, MAINTENANCE_REASON)
                .await
                .map_err(ironic)?;
            look_again(seen);
            Ok(())
        }
        Effect::ClearMaintenance { node } => {
            client()?.clear_maintenance(node).await.map_err(ironic)?;
            look_again(seen);
            Ok(())
        }
        Effect::DeleteNode { node } => {
            client()?.delete_node(node).await.map_err(ironic)?;
            seen.node = NodeView::Gone;
            // Its ports went with it.
            seen.ports = Lookup::NotFound;
            seen.boot_mac_owner = Lookup::NotLooked;
            // What was remembered of it says nothing of another node under this name.
            seen.memory = Memory::default();
            Ok(())
        }
    }
}

/// Who has the port that could not be created. Freed in the meantime, it is simply created by the next pass.
async fn learn_owner(ctx: &Context, seen: &mut Observed, node: &str, mac: &str) -> Result<(), metal3_ironic::Error> {
    let Some(port) = ctx.ironic.client()?.ports_with_address(mac).await?.into_iter().next() else {
        return Ok(());
    };
    if port.node_uuid == node {
        now_there(seen, port);
        return Ok(());
    }
    let name = ctx
        .ironic
        .client()?
        .node(&port.node_uuid)
        .await?
        .and_then(|owner| owner.name);
    let foreign = ForeignPort {
        owner: name.unwrap_or(port.node_uuid),
        at: ctx.clock.now(),
    };
    seen.memory.foreign_ports.insert(mac.to_owned(), foreign);
    Ok(())
}

/// A port as Ironic returned it.
fn now_there(seen: &mut Observed, port: Port) {
    seen.memory.foreign_ports.remove(&port.address.to_ascii_lowercase());
    if let Lookup::Found(ports) = &mut seen.ports {
        ports.retain(|known| known.uuid != port.uuid);
        ports.push(port);
    } else {
        seen.ports = Lookup::Found(vec![port]);
    }
}

/// The node and its drive have to be looked at again. A refusal is something seen, because it is told on the DataImage.
fn disc_changes(
    seen: &mut Observed,
    request: DiscRequest,
    answer: Result<(), metal3_ironic::Error>,
) -> Result<(), metal3_ironic::Error> {
    seen.disc = Lookup::NotLooked;
    look_again(seen);
    match answer {
        Ok(()) => seen.memory.disc_request = Some(request),
        Err(error) if error.class() == ErrorClass::BadRequest => seen.disc_refusal = Some(error.message()),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Remembered until Ironic tries the BMC, also over a lock or an outage that comes between.
fn untried(seen: &mut Observed) {
    seen.reconfigured = true;
    seen.memory.is_untried = true;
}

/// The answer did not say what the node looks like now.
fn look_again(seen: &mut Observed) {
    if let NodeView::Live(node) = &seen.node {
        seen.node = NodeView::Listed(node.clone());
    }
}

/// Whether the Secret is, to its version, the one that Ironic was given last: also by another operator, or in another cluster.
fn is_tried(seen: &Observed) -> bool {
    let SecretView::Found(found) = &seen.secret else {
        return false;
    };
    let tried = seen.host.status.as_ref().map(|status| &status.tried_credentials);
    tried.is_some_and(|tried| {
        let is_same = |reference: &SecretReference| reference.name == seen.host.spec.bmc.credentials_name;
        tried.credentials.as_ref().is_some_and(is_same) && tried.credentials_version == found.version
    })
}

fn learn_credentials(seen: &mut Observed) {
    if let SecretView::Found(found) = &seen.secret {
        seen.memory.accepted_digest = Some(found.digest);
    }
}

async fn add_finalizer(ctx: &Context, seen: &mut Observed, secrets: &BTreeSet<String>) -> Result<(), kube::Error> {
    let Some(mut change) = patch::finalizer_added(&seen.host.metadata, finalizer::HOST) else {
        return Ok(());
    };
    if let Some(note) = held::noted(&seen.host, secrets) {
        json_patch::merge(&mut change, &note);
    }
    write(ctx, seen, change).await
}

/// Says on the host which Secrets it may hold.
pub(super) async fn note_secrets(
    ctx: &Context,
    seen: &mut Observed,
    secrets: &BTreeSet<String>,
) -> Result<(), kube::Error> {
    match held::noted(&seen.host, secrets) {
        Some(note) => write(ctx, seen, note).await,
        None => Ok(()),
    }
}

async fn write(ctx: &Context, seen: &mut Observed, change: serde_json::Value) -> Result<(), kube::Error> {
    let api = hosts(ctx, &seen.host);
    let change = Patch::Merge(change);
    let host = api
        .patch(&seen.host.name_any(), &PatchParams::default(), &change)
        .await?;
    took(ctx, seen, host);
    Ok(())
}

async fn remove_finalizer(ctx: &Context, seen: &mut Observed) -> Result<(), kube::Error> {
    let api: Api<BareMetalHost> = hosts(ctx, &seen.host);
    if let Some(mut host) = patch::remove_finalizer(&api, &*seen.host, finalizer::HOST).await? {
        // With the last finalizer the object goes, and the server returns it as it was stored: with the finalizer.
        host.finalizers_mut().retain(|f| f != finalizer::HOST);
        took(ctx, seen, host);
    }
    Ok(())
}

async fn remove_annotation(ctx: &Context, seen: &mut Observed, key: &str, value: &str) -> Result<(), kube::Error> {
    let api = hosts(ctx, &seen.host);
    match patch::remove_annotation(&api, &seen.host.name_any(), key, value).await? {
        Removal::Removed(host) => {
            took(ctx, seen, host);
            Ok(())
        }
        Removal::Changed | Removal::Gone => Err(changed_meanwhile()),
    }
}

/// Read from the API server and not from the cache; another version counts as a conflict, so that the host is looked at
/// again.
async fn confirm_host(ctx: &Context, seen: &Observed) -> Result<(), kube::Error> {
    let host = &seen.host;
    let now = hosts(ctx, host).get_metadata(&host.name_any()).await?.metadata;
    if (&now.uid, &now.resource_version) == (&host.metadata.uid, &host.metadata.resource_version) {
        return Ok(());
    }
    Err(changed_meanwhile())
}

pub(super) fn changed_meanwhile() -> kube::Error {
    kube::Error::Api(Box::new(
        Status::failure("the host was changed meanwhile", "Conflict").with_code(409),
    ))
}

/// A write to the host returned it; the status in the making stays as it is.
fn took(ctx: &Context, seen: &mut Observed, mut host: BareMetalHost) {
    cached::trim(&mut host);
    ctx.written
        .record(&seen.host.resource_version().unwrap_or_default(), host.clone());
    host.status.clone_from(&seen.host.status);
    seen.host = Arc::new(host);
}

fn hosts(ctx: &Context, host: &BareMetalHost) -> Api<BareMetalHost> {
    Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default())
}

pub(super) fn secrets(ctx: &Context, host: &BareMetalHost) -> Api<Secret> {
    Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default())
}

async fn write_ramdisk(ctx: &Context, seen: &mut Observed, spec: &PreprovisioningImageSpec) -> Result<(), kube::Error> {
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

async fn release_ramdisk(ctx: &Context, seen: &Observed) -> Result<(), kube::Error> {
    let host = &seen.host;
    let api: Api<PreprovisioningImage> = Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default());
    match api.get_opt(&host.name_any()).await? {
        Some(image) => patch::remove_finalizer(&api, &image, finalizer::PREPROVISIONING_IMAGE_OF_HOST)
            .await
            .map(|_| ()),
        None => Ok(()),
    }
}

/// What was applied, and what is there now. Against the version that is read: a conflict is looked at again.
async fn record_firmware(ctx: &Context, seen: &Observed, updates: &[FirmwareUpdate]) -> Result<(), ApplyError> {
    let effect = Effect::RecordFirmware(Vec::new()).label();
    let kube = |source| ApplyError::Kube {
        effect: effect.into(),
        source,
    };
    let host = &seen.host;
    let api: Api<HostFirmwareComponents> = Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default());
    let Some(mut object) = api.get_opt(&host.name_any()).await.map_err(kube)? else {
        return Ok(());
    };
    let mut status = object.status.take().unwrap_or_default();
    if let NodeView::Live(node) | NodeView::Listed(node) = &seen.node {
        let ironic = |source| ApplyError::Ironic { effect, source };
        let client = ctx.ironic.client().map_err(ironic)?;
        let found = client.firmware(&node.uuid).await.map_err(ironic)?;
        status.components = found.into_iter().filter_map(firmware::component).collect();
    }
    status.updates = updates.to_vec();
    object.status = Some(status);
    let written = api
        .replace_status(&host.name_any(), &PostParams::default(), &object)
        .await;
    written.map_err(kube).map(|_| ())
}

/// Against the version that was read: a conflict is looked at again.
async fn record_data_image(ctx: &Context, seen: &mut Observed, status: &DataImageStatus) -> Result<(), kube::Error> {
    let Lookup::Found(image) = &seen.data_image else {
        return Ok(());
    };
    let mut image = (**image).clone();
    image.status = Some(status.clone());
    let name = image.name_any();
    let api: Api<DataImage> = Api::namespaced(ctx.kube.clone(), &image.namespace().unwrap_or_default());
    let written = api.replace_status(&name, &PostParams::default(), &image).await?;
    seen.data_image = Lookup::Found(Arc::new(written));
    seen.memory.disc_request = None;
    Ok(())
}

async fn write_hardware_data(ctx: &Context, seen: &Observed, details: &HardwareDetails) -> Result<(), kube::Error> {
    let host = &seen.host;
    let name = host.name_any();
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

async fn release_hardware_data(ctx: &Context, seen: &Observed) -> Result<(), kube::Error> {
    // Asked whatever the status says: it may not have been stored when the inventory was.
    let host = &seen.host;
    let name = host.name_any();
    let api: Api<HardwareData> = Api::namespaced(ctx.kube.clone(), &host.namespace().unwrap_or_default());
    // One call where the finalizers are as we wrote them; only otherwise they are read.
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
