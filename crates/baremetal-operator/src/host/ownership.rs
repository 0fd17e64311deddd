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
    /// No host: a user wrote it, perhaps before the host existed.
    Unowned,
    /// A host of the same name that is gone. The garbage collector removes the object.
    Former,
}

/// To which host an object belongs that has the name of this one.
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
    } else {
        Ownership::Former
    }
}

/// The merge patch that makes the host an owner of the object as it was seen.
pub fn adoption(object: &ObjectMeta, host: &BareMetalHost) -> Value {
    let mut owners = object.owner_references.clone().unwrap_or_default();
    owners.extend(host.owner_ref(&()));
    json!({"metadata": {"resourceVersion": object.resource_version, "ownerReferences": owners}})
}

/// The merge patch that puts a finalizer on the object as it was seen and makes the host its owner, in place of an earlier
/// host of the name; `None` if both is so.
pub fn held(object: &ObjectMeta, host: &BareMetalHost, finalizer: &str) -> Option<Value> {
    let finalizers = finalizer_added(object, finalizer);
    if ownership(object, host) == Ownership::Ours {
        return finalizers;
    }
    let mut object = object.clone();
    if let Some(owners) = &mut object.owner_references {
        owners.retain(|owner| !is_named(owner, host));
    }
    let mut patch = adoption(&object, host);
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

    #[rstest]
    #[case::nobody(&[], Ownership::Unowned)]
    #[case::another_kind(&[("ConfigMap", "h", "1")], Ownership::Unowned)]
    #[case::another_name(&[("BareMetalHost", "i", "1")], Ownership::Unowned)]
    #[case::ours(&[("ConfigMap", "c", "9"), ("BareMetalHost", "h", "2")], Ownership::Ours)]
    #[case::ours_and_the_former(&[("BareMetalHost", "h", "1"), ("BareMetalHost", "h", "2")], Ownership::Ours)]
    #[case::the_former(&[("BareMetalHost", "h", "1")], Ownership::Former)]
    fn an_object_belongs_to_the_host_of_its_uid(#[case] owners: &[(&str, &str, &str)], #[case] expected: Ownership) {
        let mut host = BareMetalHost::default();
        (host.metadata.name, host.metadata.uid) = (Some("h".to_owned()), Some("2".to_owned()));
        let object = ObjectMeta {
            owner_references: Some(owners.iter().map(|(kind, name, uid)| owner(kind, name, uid)).collect()),
            ..ObjectMeta::default()
        };
        assert_eq!(ownership(&object, &host), expected);
        let patch = adoption(&object, &host);
        let after = patch["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(after.len(), owners.len() + 1, "others stay");
        assert_eq!(after.last().unwrap()["controller"], Value::Null);
    }
}
