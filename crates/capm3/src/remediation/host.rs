//! What a remediation reads from and writes to the host. Pure.

use crate::machine::decide::plan::HostPatch;
use crate::stores::remediation::REQUEST;
use kube::ResourceExt;
use metal3_api::infra::names::annotation::{RESTARTED_FOR, UNHEALTHY, UNHEALTHY_OLD};
use metal3_api::infra::v1beta2::Metal3Remediation;
use metal3_api::metal3::names::annotation::{DETACHED, PAUSED, REBOOT, REBOOT_PREFIX};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use serde_json::Value;

/// How the host is powered off: immediately, because its system does not respond, but not in a state in which that would break
/// something.
const ARGUMENTS: &str = r#"{"mode":"hard","force":false}"#;
/// Value of [`UNHEALTHY`].
const UNHEALTHY_NODE: &str = "capm3/UnhealthyNode";

/// The annotation by which this remediation keeps a host powered off.
pub fn request_key(remediation: &Metal3Remediation) -> String {
    format!("{REBOOT_PREFIX}{REQUEST}{}", remediation.uid().unwrap_or_default())
}

/// Whether this remediation requests the host to be off.
pub fn is_requested(host: &BareMetalHost, remediation: &Metal3Remediation) -> bool {
    host.annotations().contains_key(&request_key(remediation))
}

/// Whether the host is provisioned, so that powering it off interrupts no deployment.
pub fn is_provisioned(host: &BareMetalHost) -> bool {
    let state = host.status.as_ref().map(|status| &status.provisioning.state);
    matches!(
        state,
        Some(ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned)
    )
}

/// The annotation that has the host's operator leave the host alone, and with it what a remediation asks for.
pub fn held_by(host: &BareMetalHost) -> Option<&'static str> {
    [PAUSED, DETACHED]
        .into_iter()
        .find(|key| host.annotations().contains_key(*key))
}

/// Whether the host was on when last observed.
pub fn is_on(host: &BareMetalHost) -> bool {
    host.status.as_ref().is_some_and(|status| status.powered_on)
}

/// Requests power off until the annotation is removed.
pub fn request(host: &BareMetalHost, remediation: &Metal3Remediation) -> Value {
    let mut patch = HostPatch::default();
    forget(&mut patch, host);
    patch.annotate(&request_key(remediation), ARGUMENTS);
    patch.over(host.metadata.resource_version.as_deref())
}

/// Requests one reboot of a host that must never be off: keeping such a host off would reboot it again and again. The same write
/// records the attempt.
pub fn request_restart(host: &BareMetalHost, remediation: &Metal3Remediation, attempt: i32) -> Value {
    let mut patch = HostPatch::default();
    forget(&mut patch, host);
    patch.annotate(REBOOT, ARGUMENTS);
    patch.annotate(RESTARTED_FOR, restart_of(remediation, attempt));
    patch.over(host.metadata.resource_version.as_deref())
}

/// Whether that reboot was already requested.
pub fn is_restarted(host: &BareMetalHost, remediation: &Metal3Remediation, attempt: i32) -> bool {
    host.annotations().get(RESTARTED_FOR) == Some(&restart_of(remediation, attempt))
}

fn restart_of(remediation: &Metal3Remediation, attempt: i32) -> String {
    format!("{}/{attempt}", remediation.uid().unwrap_or_default())
}

/// Removes everything that remediations have written to the host, except the unhealthy mark. Nothing if there is none.
pub fn undo(host: &BareMetalHost) -> Option<Value> {
    let mut patch = HostPatch::default();
    forget(&mut patch, host);
    forget_restart(&mut patch, host);
    (!patch.is_empty()).then(|| patch.over(host.metadata.resource_version.as_deref()))
}

/// Lets the host power on again. Nothing if that is already so.
pub fn release(host: &BareMetalHost) -> Option<Value> {
    let mut patch = HostPatch::default();
    forget(&mut patch, host);
    (!patch.is_empty()).then(|| patch.over(host.metadata.resource_version.as_deref()))
}

/// The same, and excludes the host from selection. Nothing if all that is already so, under the current or the older key of the
/// unhealthy mark.
pub fn abandon(host: &BareMetalHost) -> Option<Value> {
    let mut patch = HostPatch::default();
    forget(&mut patch, host);
    forget_restart(&mut patch, host);
    if !is_abandoned(host) {
        patch.annotate(UNHEALTHY, UNHEALTHY_NODE);
    }
    (!patch.is_empty()).then(|| patch.over(host.metadata.resource_version.as_deref()))
}

/// Whether the host is excluded from selection.
pub fn is_abandoned(host: &BareMetalHost) -> bool {
    let annotations = host.annotations();
    annotations.contains_key(UNHEALTHY) || annotations.contains_key(UNHEALTHY_OLD)
}

fn forget_restart(patch: &mut HostPatch, host: &BareMetalHost) {
    if host.annotations().contains_key(RESTARTED_FOR) {
        patch.annotate(RESTARTED_FOR, Value::Null);
    }
}

/// Removes the annotations of all remediations. A host has one machine, and a machine one remediation: other annotations are left
/// over from a move to another management cluster, which changes UIDs.
fn forget(patch: &mut HostPatch, host: &BareMetalHost) {
    let of_remediation = |key: &&String| {
        key.strip_prefix(REBOOT_PREFIX)
            .is_some_and(|name| name.starts_with(REQUEST))
    };
    for key in host.annotations().keys().filter(of_remediation) {
        patch.annotate(key, Value::Null);
    }
}
