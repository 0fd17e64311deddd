//! What lets `clusterctl move` take a claim and its host to another cluster. Pure.
//!
//! ```text
//!  old cluster   the user pauses the claim ─▶ 1. the host is paused, with a copy of its status ─▶ 2. the claim names its host
//!  new cluster   both arrive with new UIDs ─▶ the user ends the pause ─▶ the host gets the claim's new UID, and is no longer paused
//! ```
//!
//! Until these are done, both carry the annotation that `clusterctl move` waits for. A host belongs to a moved claim if the claim
//! names it, it names the claim with the UID that the claim had, and it was moved itself: it carries the UID of another host. So a
//! claim that only has the name of a deleted one gets nothing, nor does one whose user writes the annotation by hand.

use kube::ResourceExt;
use metal3_api::capi::names::annotation::{BLOCK_MOVE, DELETE_FOR_MOVE, PAUSED as CLAIM_PAUSED};
use metal3_api::metal3::names::annotation::{CLAIMED, HOST_OF_CLAIM, PAUSED, PAUSED_BY_HOST_CLAIM, STATUS};
use metal3_api::metal3::names::finalizer;
use metal3_api::metal3::{BareMetalHost, HostClaim};
use metal3_runtime::store::ObjectKey;
use serde_json::{Map, Value, json};

use super::stores::{claim_of, claim_uid, has_uid, has_uid_of};

/// Whether a claim is left alone, and its host with it.
pub fn is_paused(claim: &HostClaim) -> bool {
    claim.annotations().contains_key(CLAIM_PAUSED)
}

/// Whether a claim is about to be deleted because it was copied to another cluster.
pub fn is_moved_away(claim: &HostClaim) -> bool {
    claim.annotations().contains_key(DELETE_FOR_MOVE)
}

/// The UID that a claim had and the host that it had, from before it was moved.
pub fn origin(claim: &HostClaim) -> Option<(&str, ObjectKey)> {
    let mut parts = claim.annotations().get(HOST_OF_CLAIM)?.splitn(3, '/');
    let (uid, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    Some((uid, ObjectKey::new(namespace, name)))
}

/// Whether a claim was moved here and has not got its host yet.
pub fn is_moved_here(claim: &HostClaim) -> bool {
    let is_bound = claim
        .status
        .as_ref()
        .is_some_and(|status| status.bare_metal_host.is_some());
    let is_of_another = |uid| Some(uid) != claim.metadata.uid.as_deref();
    !is_bound && origin(claim).is_some_and(|(uid, _)| is_of_another(uid))
}

/// Whether the host was claimed where it is now.
pub fn is_claimed_here(host: &BareMetalHost) -> bool {
    let uid = host.annotations().get(CLAIMED);
    uid.is_some() && uid == host.metadata.uid.as_ref()
}

/// Whether this host was moved here together with this claim.
pub fn is_moved_with(host: &BareMetalHost, claim: &HostClaim) -> bool {
    let is_named = |(uid, key): (&str, ObjectKey)| uid == claim_uid(host) && key == ObjectKey::of(host);
    is_moved_here(claim)
        && has_uid(host)
        && claim_of(host) == Some(ObjectKey::of(claim))
        && origin(claim).is_some_and(is_named)
        && host.annotations().contains_key(CLAIMED)
        && !is_claimed_here(host)
}

/// The change that pauses a host, with a copy of its status, in one write; `None` if it is done. A host in deletion is not held up.
pub fn hold(host: &BareMetalHost) -> Option<Value> {
    if host.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let (annotations, mut change) = (host.annotations(), Map::new());
    if !annotations.contains_key(PAUSED) {
        change.insert(PAUSED.to_owned(), PAUSED_BY_HOST_CLAIM.into());
    }
    if let Some(status) = status_text(host)
        && annotations.get(STATUS) != Some(&status)
    {
        change.insert(STATUS.to_owned(), status.into());
    }
    if annotations.contains_key(BLOCK_MOVE) {
        change.insert(BLOCK_MOVE.to_owned(), Value::Null);
    }
    (!change.is_empty()).then(|| json!({"metadata": {"annotations": change}}))
}

/// The host's status, without the hardware details, which have an object of their own.
fn status_text(host: &BareMetalHost) -> Option<String> {
    let mut status = json!(host.status.as_ref()?);
    status.as_object_mut()?.remove("hardware");
    Some(status.to_string())
}

/// The annotations of a host that has a claim, where they differ: it was claimed here, and is not ready to move.
pub fn marks(host: &BareMetalHost) -> Map<String, Value> {
    let mut change = unpause(host);
    if !is_claimed_here(host) {
        change.insert(CLAIMED.to_owned(), json!(host.metadata.uid));
    }
    let annotations = host.annotations();
    let is_pause_of_another = annotations.contains_key(PAUSED) && change.get(PAUSED).is_none();
    if !is_pause_of_another && !annotations.contains_key(BLOCK_MOVE) {
        change.insert(BLOCK_MOVE.to_owned(), "".into());
    }
    change
}

/// Removes what [`marks`] adds, except what a machine that has taken the host needs as well.
pub fn unmark(host: &BareMetalHost) -> Map<String, Value> {
    let mut change = unpause(host);
    let is_of_machine = host.consumer().is_some_and(|one| one.kind == "Metal3Machine");
    let ours = [CLAIMED, BLOCK_MOVE].into_iter();
    let ours = ours.filter(|key| *key != BLOCK_MOVE || !is_of_machine);
    let there = ours.filter(|key| host.annotations().contains_key(*key));
    change.extend(there.map(|key| (key.to_owned(), Value::Null)));
    change
}

/// Ends the pause for a claim, and no other.
pub fn unpause(host: &BareMetalHost) -> Map<String, Value> {
    let paused = host.annotations().get(PAUSED);
    let is_ours = paused.is_some_and(|value| value == PAUSED_BY_HOST_CLAIM);
    let pause = is_ours.then(|| (PAUSED.to_owned(), Value::Null));
    pause.into_iter().collect()
}

/// The change of the claim itself, with its first host: the finalizer, and what `clusterctl move` and the next cluster need; `None` if
/// it is done.
pub fn of_claim(claim: &HostClaim, host: Option<&BareMetalHost>) -> Option<Value> {
    let annotations = claim.annotations();
    let (mut metadata, mut change) = (Map::new(), Map::new());
    let host = host.filter(|host| has_uid_of(host, claim));
    if is_paused(claim) {
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let origin = host.map(|host| format!("{uid}/{}", ObjectKey::of(host)));
        if origin.is_some() && annotations.get(HOST_OF_CLAIM) != origin.as_ref() {
            change.insert(HOST_OF_CLAIM.to_owned(), json!(origin));
        }
        if annotations.contains_key(BLOCK_MOVE) {
            change.insert(BLOCK_MOVE.to_owned(), Value::Null);
        }
    } else {
        if !annotations.contains_key(BLOCK_MOVE) {
            change.insert(BLOCK_MOVE.to_owned(), "".into());
        }
        if host.is_some() && annotations.contains_key(HOST_OF_CLAIM) {
            change.insert(HOST_OF_CLAIM.to_owned(), Value::Null);
        }
        let finalizers = claim.finalizers();
        if !finalizers.iter().any(|present| present == finalizer::HOST_CLAIM) {
            let with_ours = finalizers.iter().map(String::as_str).chain([finalizer::HOST_CLAIM]);
            metadata.insert("finalizers".to_owned(), with_ours.collect());
        }
    }
    if !change.is_empty() {
        metadata.insert("annotations".to_owned(), change.into());
    }
    (!metadata.is_empty()).then(|| json!({"metadata": metadata}))
}
