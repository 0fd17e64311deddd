//! A machine that goes: its host is emptied and given back.

use kube::ResourceExt;
use metal3_api::capi::names::annotation::BLOCK_MOVE;
use metal3_api::capi::names::group;
use metal3_api::capi::names::label::CLUSTER_NAME;
use metal3_api::infra::names::annotation::INSTALLED;
use metal3_api::infra::names::{finalizer, label};
use metal3_api::metal3::names::annotation::{PAUSED, STATUS};
use metal3_api::metal3::{BareMetalHost, CleaningMode, ProvisioningState};
use metal3_runtime::events::Severity;
use serde_json::{Value, json};

use super::associate;
use super::draft::Draft;
use super::host_spec;
use super::pause;
use super::words;
use crate::machine::decide::plan::{Decision, Effect, HostPatch, Need};
use crate::machine::observed::{Host, Related};

pub(super) fn decide(mut draft: Draft<'_>) -> Decision {
    let seen = draft.seen;
    match &seen.host {
        Host::Ours(host) => empty(draft, host),
        // Another process may have claimed it, and the watch be late: nobody would ever give the host back.
        Host::Missing(_) | Host::Unclaimed(_) | Host::Foreign(..) if !seen.looks.is_host_fresh => {
            Decision::Look(Need::FreshHost)
        }
        Host::Foreign(host, other) => {
            // Released and taken by the next, or kept for it; or taken from us. Whichever: it is not ours to touch.
            if other.kind == "Metal3Machine" {
                let message = format!(
                    "BareMetalHost {} is used by {}: it is left alone",
                    host.name_any(),
                    other.name
                );
                draft.note(Severity::Normal, "BareMetalHostLeftAlone", message);
            }
            farewell(draft)
        }
        Host::Unclaimed(host) => {
            associate::mark_passed_over(&mut draft, host);
            farewell(draft)
        }
        Host::None | Host::Missing(_) => farewell(draft),
    }
}

/// Nothing of the machine is on any host. Only now its data is given back: until the host was switched off, it was in the
/// network with the addresses that it was given.
fn farewell(mut draft: Draft<'_>) -> Decision {
    let seen = draft.seen;
    if let Some(claim) = seen.own_claim()
        && (claim.metadata.deletion_timestamp.is_none()
            || claim.finalizers().iter().any(|present| present == finalizer::MACHINE))
    {
        draft.effects.push(Effect::DeleteClaim(claim.clone()));
    }
    draft.farewell()
}

fn empty(mut draft: Draft<'_>, host: &BareMetalHost) -> Decision {
    let name = host.name_any();
    // Without the Cluster nobody says that the move is over. At the place that it moved away from, touching the host would
    // wipe what runs at the other.
    if !matches!(draft.seen.cluster, Related::Found(_)) && pause::is_paused_by_us(host) {
        draft.deleting(&format!(
            "BareMetalHost {name} was paused for a move of its cluster, which is not here: remove its annotation {PAUSED} to \
             have it deprovisioned"
        ));
        return draft.plan();
    }
    let patch = cleared(&draft, host);
    if !patch.is_empty() {
        draft.host(host, &patch, "deprovision the host");
        draft.deleting(&format!("BareMetalHost {name} is being deprovisioned"));
        return draft.plan();
    }
    if !is_released(host) {
        let error = words::error_of(host).map_or_else(String::new, |error| format!("; {error}"));
        let state = words::state(host);
        let message = format!(
            "waiting until BareMetalHost {name} is available: it is {}{error}{}",
            words::word(&state),
            words::held_up(host)
        );
        draft.deleting(&message);
        return draft.plan();
    }
    let keep = match keep(&draft) {
        Ok(keep) => keep,
        Err(need) => return Decision::Look(need),
    };
    let patch = released(&draft, host, keep.as_deref());
    let freed = match &keep {
        Some(kept_as) => format!("BareMetalHost {name} is free, and kept for {kept_as}"),
        None => format!("BareMetalHost {name} is free"),
    };
    // Before the host is released, after which nobody knows any more whose label it was.
    let (secret, cluster) = (&host.spec.bmc.credentials_name, cluster_name(&draft));
    if let Some(cluster) = cluster.filter(|_| !secret.is_empty()) {
        draft.effects.push(Effect::UnlabelSecret {
            secret: secret.clone(),
            cluster,
        });
    }
    draft.host(host, &patch, "release the host");
    draft.note(Severity::Normal, "BareMetalHostReleased", freed);
    farewell(draft)
}

/// What takes everything off the host that a machine puts on it.
fn cleared(draft: &Draft<'_>, host: &BareMetalHost) -> HostPatch {
    let mut patch = HostPatch::default();
    let spec = &host.spec;
    let present = [
        ("image", spec.image.is_some()),
        ("customDeploy", spec.custom_deploy.is_some()),
    ];
    let installed = present.into_iter().filter(|(_, is_present)| *is_present);
    let references = host_spec::written_references(draft, host);
    for field in installed.map(|(field, _)| field).chain(references) {
        patch.set(field, Value::Null);
    }
    if host.annotations().contains_key(INSTALLED) {
        patch.annotate(INSTALLED, Value::Null);
    }
    let is_cleaned = spec.automated_cleaning_mode != CleaningMode::Disabled;
    let online = spec.disable_power_off || (draft.seen.is_fast_track && is_cleaned);
    if spec.online != online {
        patch.set("online", online);
    }
    if pause::is_paused_by_us(host) {
        patch.annotate(PAUSED, Value::Null);
    }
    patch
}

/// Whether nothing of the machine is left on the host.
fn is_released(host: &BareMetalHost) -> bool {
    match words::state(host) {
        // Moved here, and its status not restored yet.
        ProvisioningState::None => !host.annotations().contains_key(STATUS),
        ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Ready
        | ProvisioningState::Available => true,
        // Nothing is deprovisioned, only switched off, unless that is forbidden.
        ProvisioningState::ExternallyProvisioned => {
            host.spec.disable_power_off || host.status.as_ref().is_none_or(|status| !status.powered_on)
        }
        ProvisioningState::Preparing
        | ProvisioningState::Provisioning
        | ProvisioningState::Provisioned
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => false,
    }
}

/// For whom the host is kept, if for anyone; or what has to be looked up first.
fn keep(draft: &Draft<'_>) -> Result<Option<String>, Need> {
    let cluster = draft.seen.cluster.found();
    let is_staying = cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none());
    let kept_as = draft.seen.kept_as.clone().filter(|_| is_staying);
    if kept_as.is_none() {
        return Ok(None);
    }
    let is_kept = draft.seen.looks.is_kept.ok_or(Need::Kept)?;
    Ok(kept_as.filter(|_| is_kept))
}

/// What gives the host back, or keeps it for the next machine of the same kind.
fn released(draft: &Draft<'_>, host: &BareMetalHost, keep: Option<&str>) -> HostPatch {
    let mut patch = HostPatch::default();
    let cluster = cluster_name(draft);
    match (keep, &cluster) {
        (Some(kept_as), Some(cluster)) => {
            patch.label(label::NODE_REUSE, kept_as);
            let holder = json!({
                "apiVersion": format!("{}/v1beta2", group::CORE),
                "kind": "Cluster",
                "name": cluster,
                "namespace": draft.seen.key().namespace,
                "uid": null,
            });
            patch.set("consumerRef", holder);
        }
        _ => patch.set("consumerRef", Value::Null),
    }
    let label = host.labels().get(CLUSTER_NAME);
    if label.is_some() && (label == cluster.as_ref() || cluster.is_none()) {
        patch.label(CLUSTER_NAME, Value::Null);
    }
    if host.annotations().contains_key(BLOCK_MOVE) {
        patch.annotate(BLOCK_MOVE, Value::Null);
    }
    patch
}

fn cluster_name(draft: &Draft<'_>) -> Option<String> {
    match &draft.seen.cluster {
        Related::Found(cluster) => Some(cluster.name_any()),
        Related::Missing(name) => Some(name.clone()),
        Related::Unset => None,
    }
}
