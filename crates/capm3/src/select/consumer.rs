//! Who uses a host.

use crate::select::refusal::Consumer;
use crate::stores::owner::group_of;
use metal3_api::metal3::BareMetalHost;
use metal3_api::reference::ObjectReference;
use metal3_api::{capi, infra};
use metal3_runtime::store::ObjectKey;

/// Whose a host is, seen by one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// Nobody's.
    ByNobody,
    /// The machine's own.
    ByUs,
    /// Somebody else's.
    ByOther(Consumer),
}

/// Whose a host is, seen by the Metal3Machine of this name and UID.
///
/// A reference without a UID was written by upstream and counts by its name. One with another UID was written for an earlier
/// machine of this name: the host still runs what that one wanted.
pub fn claimed(host: &BareMetalHost, machine: &ObjectKey, uid: &str) -> Claimed {
    let Some(reference) = consumer(host) else {
        return Claimed::ByNobody;
    };
    let is_namesake = consumer_of(host).as_ref() == Some(machine);
    if is_namesake && (reference.uid.is_empty() || reference.uid == uid) {
        return Claimed::ByUs;
    }
    Claimed::ByOther(Consumer {
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        is_predecessor: is_namesake,
    })
}

/// The Metal3Machine that uses a host, whatever the version in the reference.
pub fn consumer_of(host: &BareMetalHost) -> Option<ObjectKey> {
    neighbour(host, infra::names::GROUP, "Metal3Machine")
}

/// The Cluster that a host is kept for, so that its next machine of a kind gets it.
pub fn keeper_of(host: &BareMetalHost) -> Option<ObjectKey> {
    neighbour(host, capi::names::group::CORE, "Cluster")
}

/// What uses a host, if it is of this kind. It is in the host's own namespace: whoever may write hosts in one namespace must
/// not hold up, by a reference, the machines and clusters of another.
fn neighbour(host: &BareMetalHost, group: &str, kind: &str) -> Option<ObjectKey> {
    let reference = consumer(host).filter(|one| one.kind == kind && group_of(&one.api_version) == group)?;
    let here = host.metadata.namespace.as_deref().unwrap_or_default();
    reference.local(here).ok().map(ObjectKey::from)
}

/// Who uses a host, of whatever kind. Go clients may write a reference that is not there as an empty one.
pub fn consumer(host: &BareMetalHost) -> Option<&ObjectReference> {
    let reference = host.spec.consumer_ref.as_ref()?;
    (!reference.name.is_empty() || !reference.kind.is_empty()).then_some(reference)
}
