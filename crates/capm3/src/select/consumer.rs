//! Which consumer uses a host.

use crate::select::refusal::Consumer;
use crate::stores::owner::group_of;
use metal3_api::metal3::BareMetalHost;
use metal3_api::{capi, infra};
use metal3_runtime::store::ObjectKey;

/// The consumer of a host, relative to one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// None.
    ByNobody,
    /// The machine itself.
    ByUs,
    /// Another consumer.
    ByOther(Consumer),
}

/// The consumer of a host, relative to the Metal3Machine of this name and UID.
///
/// A reference without a UID was written by upstream and matches by name. A different UID belongs to an earlier machine of this
/// name: the host still runs what that machine wanted.
pub fn claimed(host: &BareMetalHost, machine: &ObjectKey, uid: &str) -> Claimed {
    let Some(reference) = host.consumer() else {
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

/// The Metal3Machine that uses a host, whatever the API version in the reference.
pub fn consumer_of(host: &BareMetalHost) -> Option<ObjectKey> {
    neighbour(host, infra::names::GROUP, "Metal3Machine")
}

/// The Cluster that reserves a host for the next machine of the same owner.
pub fn keeper_of(host: &BareMetalHost) -> Option<ObjectKey> {
    neighbour(host, capi::names::group::CORE, "Cluster")
}

/// The consumer of a host, if it is of this kind. It must be in the host's namespace: write access to hosts in one namespace must
/// not block machines and clusters of another.
fn neighbour(host: &BareMetalHost, group: &str, kind: &str) -> Option<ObjectKey> {
    let reference = host
        .consumer()
        .filter(|one| one.kind == kind && group_of(&one.api_version) == group)?;
    let here = host.metadata.namespace.as_deref().unwrap_or_default();
    reference.local(here).ok().map(ObjectKey::from)
}
