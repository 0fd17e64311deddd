//! By what Metal3Remediations are found.

use kube::{Resource, ResourceExt};
use metal3_api::capi::Machine;
use metal3_api::capi::names::group;
use metal3_api::infra::v1beta2::Metal3Remediation;
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::annotation::REBOOT_PREFIX;
use metal3_runtime::store::ObjectKey;

use super::owner;

/// What follows [`REBOOT_PREFIX`] in the annotations of remediations, before the UID.
pub const REQUEST: &str = "metal3-remediation-";

/// What a Metal3Remediation is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RemediationBy {
    /// The Machine that it is to remedy.
    Machine(ObjectKey),
}

/// The Machine that a Metal3Remediation is to remedy: its owner.
pub fn machine_of_remediation(remediation: &Metal3Remediation) -> Option<ObjectKey> {
    let name = owner(remediation, group::CORE, &Machine::kind(&()))?;
    Some(ObjectKey::new(remediation.namespace().unwrap_or_default(), name))
}

pub(super) fn keys_of(remediation: &Metal3Remediation) -> Vec<RemediationBy> {
    let machine = machine_of_remediation(remediation);
    machine.map(RemediationBy::Machine).into_iter().collect()
}

/// The UIDs of the remediations that keep a host switched off.
pub fn requested_by(host: &BareMetalHost) -> impl Iterator<Item = &str> {
    let keys = host.annotations().keys();
    keys.filter_map(|key| key.strip_prefix(REBOOT_PREFIX)?.strip_prefix(REQUEST))
}
