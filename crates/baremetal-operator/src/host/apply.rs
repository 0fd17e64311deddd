//! Applies the effects of a plan in order, up to the first failure. It makes no choices.

pub(super) mod host;
mod node;
mod objects;
mod port;

use metal3_api::reference::SecretReference;

use super::claim;
use super::context::Context;
use super::error::ApplyError;
use super::observed::{Observed, SecretView};
use super::plan::Effect;

/// Applies one effect and adds the result to `seen`.
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
    match effect {
        Effect::AddFinalizer { secrets } => host::add_finalizer(ctx, seen, secrets).await.map_err(kube),
        Effect::NoteSecrets(secrets) => host::note_secrets(ctx, seen, secrets).await.map_err(kube),
        Effect::RemoveFinalizer => host::remove_finalizer(ctx, seen).await.map_err(kube),
        Effect::RemoveAnnotation { key, value } => host::remove_annotation(ctx, seen, key, value).await.map_err(kube),
        Effect::ConfirmHost { intent } => host::confirm(ctx, seen, intent.as_deref()).await.map_err(kube),
        Effect::ClaimSecret => {
            // Our marks change its version, but the content is still what Ironic was given.
            if is_tried(seen) {
                seen.learn_credentials();
            }
            claim::secret(ctx, seen).await.map_err(of_secret)
        }
        Effect::WriteRamdisk(spec) => objects::write_ramdisk(ctx, seen, spec).await.map_err(kube),
        Effect::ReleaseRamdisk => objects::release_ramdisk(ctx, seen).await.map_err(kube),
        Effect::ClaimNetworkData => claim::network_data(ctx, seen).await.map_err(of_secret),
        Effect::ReleaseSecret => claim::release_all(ctx, seen).await.map_err(of_secret),
        Effect::ReleaseFormerSecret(name) => {
            let released = claim::release(ctx, seen, name).await.map_err(of_secret);
            seen.learn_release(name, released, ctx.clock.now())
        }
        Effect::UnclaimSecret => claim::undo(ctx, seen).await.map_err(of_secret),
        Effect::WriteHardwareData(details) => objects::write_hardware_data(ctx, seen, details).await.map_err(kube),
        Effect::RecordFirmware { updates, unchanged } => {
            objects::record_firmware(ctx, seen, updates, unchanged.as_deref()).await
        }
        Effect::RecordSettings { is_made } => objects::record_settings(ctx, seen, *is_made).await.map_err(kube),
        Effect::RecordDataImage(record) => objects::record_data_image(ctx, seen, record).await.map_err(kube),
        Effect::NoteDisc(record) => host::note_disc(ctx, seen, record).await.map_err(kube),
        Effect::ReleaseHardwareData => objects::release_hardware_data(ctx, seen).await.map_err(kube),
        Effect::CreateNode(body) => node::create(ctx, seen, body).await.map_err(ironic),
        Effect::CreatePort {
            node,
            mac,
            pxe_enabled,
            is_needed,
        } => port::create(ctx, seen, node, mac, *pxe_enabled, *is_needed)
            .await
            .map_err(ironic),
        Effect::SetPortBoot {
            node,
            port,
            pxe_enabled,
            ..
        } => port::set_boot(ctx, seen, node, port, *pxe_enabled)
            .await
            .map_err(ironic),
        Effect::DeletePort { node, port, .. } => port::delete(ctx, seen, node, port).await.map_err(ironic),
        Effect::PatchNode { node, ops } => node::change(ctx, seen, node, ops).await.map_err(ironic),
        Effect::SetTargetRaid { node, logical_disks } => node::set_target_raid(ctx, seen, node, logical_disks)
            .await
            .map_err(ironic),
        Effect::Provision { node, request } => node::provision(ctx, seen, node, request).await.map_err(ironic),
        Effect::Power { node, target } => node::power(ctx, seen, node, *target).await.map_err(ironic),
        Effect::AttachDisc { node, url } => node::attach_disc(ctx, seen, node, url).await.map_err(ironic),
        Effect::DetachDisc { node } => node::detach_disc(ctx, seen, node).await.map_err(ironic),
        Effect::SetMaintenance { node } => node::set_maintenance(ctx, seen, node).await.map_err(ironic),
        Effect::ClearMaintenance { node } => node::clear_maintenance(ctx, seen, node).await.map_err(ironic),
        Effect::DeleteNode { node } => node::delete(ctx, seen, node).await.map_err(ironic),
    }
}

/// Whether the Secret, in this version, is the one that Ironic was given last, possibly by another operator or in
/// another cluster.
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
