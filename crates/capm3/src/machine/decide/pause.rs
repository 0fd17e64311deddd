//! Hosts of a paused cluster: this is how `clusterctl move` moves them.
//!
//! clusterctl waits while any object to be moved has the block-move annotation. Our hosts always have it. It is removed when the
//! cluster is paused, in the same write that pauses the host and saves a copy of its status.

use kube::ResourceExt;
use metal3_api::capi::names::annotation::BLOCK_MOVE;
use metal3_api::capi::names::label::CLUSTER_NAME;
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::annotation::{PAUSED, PAUSED_BY_CAPM3, STATUS};
use serde_json::{Value, json};

use super::builder::PlanBuilder;
use crate::machine::decide::plan::HostPatch;
use crate::machine::observed::{Host, Observed};

/// Pauses the host of a paused cluster.
pub(super) fn hold(builder: &mut PlanBuilder<'_>) {
    let is_cluster_paused = builder.seen.cluster.found().is_some_and(|cluster| cluster.is_paused());
    let Host::Ours(host) = &builder.seen.host else { return };
    if !is_cluster_paused {
        return;
    }
    let (is_paused, is_blocked) = (
        host.annotations().contains_key(PAUSED),
        host.annotations().contains_key(BLOCK_MOVE),
    );
    let mut patch = HostPatch::default();
    if !is_paused {
        patch.annotate(PAUSED, PAUSED_BY_CAPM3);
    }
    // Also for a host paused by another client: it moves like the others, and if its status were lost, a running server would be
    // registered as new when that pause ends.
    if let Some(status) = status_text(host)
        && host.annotations().get(STATUS) != Some(&status)
    {
        patch.annotate(STATUS, status);
    }
    if is_blocked {
        patch.annotate(BLOCK_MOVE, Value::Null);
    }
    // In one write, guarded by the resource version that the status copy was made from.
    builder.write_host(host, &patch, "pause the host");
}

/// The host's status, without the hardware details, which have an object of their own.
fn status_text(host: &BareMetalHost) -> Option<String> {
    let mut status = json!(host.status.as_ref()?);
    status.as_object_mut()?.remove("hardware");
    Some(status.to_string())
}

/// The cluster is not paused: removes our pause, and marks the host as not ready to move.
pub(super) fn release(patch: &mut HostPatch, seen: &Observed, host: &BareMetalHost) {
    let paused = host.annotations().get(PAUSED);
    let is_ours = is_paused_by_us(host) && {
        let label = host.labels().get(CLUSTER_NAME);
        let cluster = seen.cluster.found().map(|cluster| cluster.name_any());
        label.is_some() && label == cluster.as_ref()
    };
    if is_ours {
        patch.annotate(PAUSED, Value::Null);
    }
    if (paused.is_none() || is_ours) && !host.annotations().contains_key(BLOCK_MOVE) {
        patch.annotate(BLOCK_MOVE, "");
    }
}

/// Whether the host is paused on behalf of its cluster.
pub(super) fn is_paused_by_us(host: &BareMetalHost) -> bool {
    host.annotations()
        .get(PAUSED)
        .is_some_and(|value| value == PAUSED_BY_CAPM3)
}
