//! Deletes a machine: its host is deprovisioned and released.

use kube::ResourceExt;
use metal3_api::capi::names::annotation::BLOCK_MOVE;
use metal3_api::capi::names::group;
use metal3_api::capi::names::label::CLUSTER_NAME;
use metal3_api::infra::names::annotation::INSTALLED;
use metal3_api::infra::names::{finalizer, label};
use metal3_api::metal3::names::annotation::{PAUSED, STATUS};
use metal3_api::metal3::{BareMetalHost, CleaningMode, ProvisioningState};
use metal3_runtime::events::Event;
use serde_json::{Value, json};

use super::builder::PlanBuilder;
use super::host_spec;
use super::installed;
use super::pause;
use super::words;
use crate::machine::decide::plan::{Decision, Effect, HostPatch, Read};
use crate::machine::observed::{Host, Related};

pub(super) fn decide(mut builder: PlanBuilder<'_>) -> Decision {
    let seen = builder.seen;
    match &seen.host {
        Host::Ours(host) => empty(builder, host),
        Host::Foreign(host, other) => {
            // Released and claimed by the next machine, reserved for it, or taken from us. In each case it is not ours to change.
            if other.kind == "Metal3Machine" {
                let message = format!(
                    "BareMetalHost {} is used by {}: it is left alone",
                    host.name_any(),
                    other.name
                );
                builder.event(Event::normal("BareMetalHostLeftAlone", message));
            }
            finish(builder)
        }
        Host::Unclaimed(host) if still_runs(&builder, host) => {
            let (name, machine) = (host.name_any(), builder.seen.key().name);
            builder.deleting(&format!(
                "BareMetalHost {name} runs what this machine installed, and lost its spec.consumerRef: it keeps the machine's addresses, \
                 and the machine, until it is given back to be deprovisioned (spec.consumerRef naming Metal3Machine {machine}), or \
                 deprovisioned without it (no spec.image, no spec.customDeploy)"
            ));
            builder.plan()
        }
        Host::None | Host::Missing(_) | Host::Unclaimed(_) => finish(builder),
    }
}

/// Whether a host that nobody claims is still as the machine set it up.
fn still_runs(builder: &PlanBuilder<'_>, host: &BareMetalHost) -> bool {
    let is_asked = host.spec.image.is_some() || host.spec.custom_deploy.is_some();
    host.spec.consumer_ref.is_none()
        && (is_asked || !is_released(host))
        && installed::is_by(
            host,
            &builder.seen.machine,
            builder.seen.owner.found().map(|owner| &**owner),
        )
}

/// No host runs anything of the machine. Its data is released only now: until the host was powered off, it used its addresses on
/// the network.
fn finish(mut builder: PlanBuilder<'_>) -> Decision {
    let seen = builder.seen;
    if let Some(claim) = seen.own_claim()
        && (claim.metadata.deletion_timestamp.is_none()
            || claim.finalizers().iter().any(|present| present == finalizer::MACHINE))
    {
        builder.effects.push(Effect::DeleteClaim(claim.clone()));
    }
    builder.finish_deletion()
}

fn empty(mut builder: PlanBuilder<'_>, host: &BareMetalHost) -> Decision {
    let name = host.name_any();
    // Without the Cluster it is unknown whether a move is complete. In the management cluster that it left, changing the host
    // would wipe what runs under the new one.
    if !matches!(builder.seen.cluster, Related::Found(_)) && pause::is_paused_by_us(host) {
        builder.deleting(&format!(
            "BareMetalHost {name} was paused for a move of its cluster, which is not here: remove its annotation {PAUSED} to \
             have it deprovisioned"
        ));
        return builder.plan();
    }
    let patch = cleared(&builder, host);
    if !patch.is_empty() {
        builder.write_host(host, &patch, "deprovision the host");
        builder.deleting(&format!("BareMetalHost {name} is being deprovisioned"));
        return builder.plan();
    }
    if !is_released(host) {
        let error = words::error_of(host).map_or_else(String::new, |error| format!("; {error}"));
        let state = words::state(host);
        let message = format!(
            "waiting until BareMetalHost {name} is available: it is {}{error}{}",
            words::word(&state),
            words::held_up(host)
        );
        builder.deleting(&message);
        return builder.plan();
    }
    let keep = match keep(&builder) {
        Ok(keep) => keep,
        Err(need) => return Decision::Fetch(need),
    };
    let patch = released(&builder, host, keep.as_deref());
    let freed = match &keep {
        Some(kept_as) => format!("BareMetalHost {name} is free, and kept for {kept_as}"),
        None => format!("BareMetalHost {name} is free"),
    };
    // Done before the host is released, because afterwards the owner of the label is unknown.
    let (secret, cluster) = (&host.spec.bmc.credentials_name, cluster_name(&builder));
    if let Some(cluster) = cluster.filter(|_| !secret.is_empty()) {
        builder.effects.push(Effect::UnlabelSecret {
            secret: secret.clone(),
            cluster,
        });
    }
    builder.write_host(host, &patch, "release the host");
    builder.event(Event::normal("BareMetalHostReleased", freed));
    finish(builder)
}

/// Removes everything that a machine sets on its host.
fn cleared(builder: &PlanBuilder<'_>, host: &BareMetalHost) -> HostPatch {
    let mut patch = HostPatch::default();
    let spec = &host.spec;
    let present = [
        ("image", spec.image.is_some()),
        ("customDeploy", spec.custom_deploy.is_some()),
    ];
    let installed = present.into_iter().filter(|(_, is_present)| *is_present);
    let references = host_spec::written_references(builder, host);
    for field in installed.map(|(field, _)| field).chain(references) {
        patch.set(field, Value::Null);
    }
    if host.annotations().contains_key(INSTALLED) {
        patch.annotate(INSTALLED, Value::Null);
    }
    let is_cleaned = spec.automated_cleaning_mode != CleaningMode::Disabled;
    let online = spec.disable_power_off || (builder.seen.is_fast_track && is_cleaned);
    if spec.online != online {
        patch.set("online", online);
    }
    if pause::is_paused_by_us(host) {
        patch.annotate(PAUSED, Value::Null);
    }
    patch
}

/// Whether the host is clear of the machine.
fn is_released(host: &BareMetalHost) -> bool {
    match words::state(host) {
        // Moved here, and its status not yet restored.
        ProvisioningState::None => !host.annotations().contains_key(STATUS),
        ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Ready
        | ProvisioningState::Available => true,
        // Not deprovisioned, only powered off, unless that is disabled.
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

/// For which owner the host is reserved, if for any; or what to look up first.
fn keep(builder: &PlanBuilder<'_>) -> Result<Option<String>, Read> {
    let cluster = builder.seen.cluster.found();
    let is_staying = cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none());
    let kept_as = builder.seen.kept_as.clone().filter(|_| is_staying);
    if kept_as.is_none() {
        return Ok(None);
    }
    let is_kept = builder.seen.reads.is_kept.ok_or(Read::Kept)?;
    Ok(kept_as.filter(|_| is_kept))
}

/// Releases the host, or reserves it for the next machine of the same owner.
fn released(builder: &PlanBuilder<'_>, host: &BareMetalHost, keep: Option<&str>) -> HostPatch {
    let mut patch = HostPatch::default();
    let cluster = cluster_name(builder);
    match (keep, &cluster) {
        (Some(kept_as), Some(cluster)) => {
            patch.label(label::NODE_REUSE, kept_as);
            let holder = json!({
                "apiVersion": format!("{}/v1beta2", group::CORE),
                "kind": "Cluster",
                "name": cluster,
                "namespace": builder.seen.key().namespace,
                "uid": null,
            });
            patch.set("consumerRef", holder);
        }
        (None, _) | (Some(_), None) => patch.set("consumerRef", Value::Null),
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

fn cluster_name(builder: &PlanBuilder<'_>) -> Option<String> {
    match &builder.seen.cluster {
        Related::Found(cluster) => Some(cluster.name_any()),
        Related::Missing(name) => Some(name.clone()),
        Related::Unset => None,
    }
}
