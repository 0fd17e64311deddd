//! To which host a companion object belongs. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::patch::finalizer_added;
use serde_json::{Value, json};

/// The owner of an object that has the name of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The host.
    Ours,
    /// No host: a user wrote it, perhaps before the host existed, or restored it from a backup, with a reference to a host
    /// that this cluster never had.
    Unowned,
    /// A host of the same name that is gone. The garbage collector removes the object, and nothing in it counts.
    Former,
}

/// To which host an object belongs that has the name of this one.
///
/// An object of an earlier host is older than this host. One that is not was written by a user who kept the reference of
/// another cluster: `clusterctl move` puts the new UIDs into references, and backups do not.
pub fn ownership(object: &ObjectMeta, host: &BareMetalHost) -> Ownership {
    let mut hosts = object
        .owner_references
        .iter()
        .flatten()
        .filter(|owner| is_named(owner, host))
        .peekable();
    if hosts.peek().is_none() {
        Ownership::Unowned
    } else if hosts.any(|owner| Some(&owner.uid) == host.metadata.uid.as_ref()) {
        Ownership::Ours
    } else if is_younger(object, host) {
        Ownership::Unowned
    } else {
        Ownership::Former
    }
}

/// Whether the object was created after the host, or in the same second.
fn is_younger(object: &ObjectMeta, host: &BareMetalHost) -> bool {
    let times = object
        .creation_timestamp
        .as_ref()
        .zip(host.metadata.creation_timestamp.as_ref());
    times.is_some_and(|(object, host)| object.0 >= host.0)
}

/// The owner references with the host, in place of other hosts of its name.
pub fn owners(object: &ObjectMeta, host: &BareMetalHost) -> Vec<OwnerReference> {
    let mut owners = object.owner_references.clone().unwrap_or_default();
    owners.retain(|owner| !is_named(owner, host));
    owners.extend(host.owner_ref(&()));
    owners
}

/// The merge patch that makes the host an owner of the object as it was seen.
pub fn adoption(object: &ObjectMeta, host: &BareMetalHost) -> Value {
    json!({"metadata": {"resourceVersion": object.resource_version, "ownerReferences": owners(object, host)}})
}

/// The merge patch that puts a finalizer on the object as it was seen and makes the host its owner; `None` if both is so.
pub fn held(object: &ObjectMeta, host: &BareMetalHost, finalizer: &str) -> Option<Value> {
    let finalizers = finalizer_added(object, finalizer);
    if ownership(object, host) == Ownership::Ours {
        return finalizers;
    }
    let mut patch = adoption(object, host);
    patch["metadata"]["finalizers"] = match finalizers {
        Some(mut added) => added["metadata"]["finalizers"].take(),
        None => json!(object.finalizers),
    };
    Some(patch)
}

/// Whether this is a reference to a host of this name.
fn is_named(owner: &OwnerReference, host: &BareMetalHost) -> bool {
    owner.kind == BareMetalHost::kind(&()) && owner.name == host.name_any()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn owner(kind: &str, name: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "metal3.io/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        }
    }

    fn host() -> BareMetalHost {
        let metadata = json!({"name": "h", "uid": "2", "creationTimestamp": "2026-01-02T00:00:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"online": true}})).unwrap()
    }

    fn object(owners: &[(&str, &str, &str)], created: &str) -> ObjectMeta {
        ObjectMeta {
            owner_references: Some(owners.iter().map(|(kind, name, uid)| owner(kind, name, uid)).collect()),
            creation_timestamp: serde_json::from_value(json!(created)).unwrap(),
            ..ObjectMeta::default()
        }
    }

    const BEFORE: &str = "2026-01-01T23:59:59Z";

    #[rstest]
    #[case::nobody(&[], Ownership::Unowned)]
    #[case::another_kind(&[("ConfigMap", "h", "1")], Ownership::Unowned)]
    #[case::another_name(&[("BareMetalHost", "i", "1")], Ownership::Unowned)]
    #[case::ours(&[("ConfigMap", "c", "9"), ("BareMetalHost", "h", "2")], Ownership::Ours)]
    #[case::ours_and_the_former(&[("BareMetalHost", "h", "1"), ("BareMetalHost", "h", "2")], Ownership::Ours)]
    #[case::the_former(&[("BareMetalHost", "h", "1")], Ownership::Former)]
    fn an_object_belongs_to_the_host_of_its_uid(#[case] owners: &[(&str, &str, &str)], #[case] expected: Ownership) {
        assert_eq!(ownership(&object(owners, BEFORE), &host()), expected);
    }

    #[rstest]
    #[case::restored_after_the_host("2026-01-02T00:00:01Z", Ownership::Unowned)]
    #[case::restored_with_the_host("2026-01-02T00:00:00Z", Ownership::Unowned)]
    #[case::left_by_an_earlier_host(BEFORE, Ownership::Former)]
    fn what_is_not_older_than_the_host_was_restored(#[case] created: &str, #[case] expected: Ownership) {
        let object = object(&[("BareMetalHost", "h", "1")], created);
        assert_eq!(ownership(&object, &host()), expected);
    }

    #[test]
    fn the_host_takes_the_place_of_others_of_its_name() {
        let owners = [
            ("ConfigMap", "c", "9"),
            ("BareMetalHost", "h", "1"),
            ("BareMetalHost", "i", "3"),
        ];
        let patch = adoption(&object(&owners, BEFORE), &host());
        let after = patch["metadata"]["ownerReferences"].as_array().unwrap();
        let uids: Vec<_> = after.iter().map(|owner| owner["uid"].as_str().unwrap()).collect();
        assert_eq!(uids, ["9", "3", "2"]);
        assert_eq!(after[2]["controller"], Value::Null);
    }
}
