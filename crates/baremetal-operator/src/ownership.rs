//! How a companion object is tied to its host.

use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use metal3_api::metal3::BareMetalHost;
use serde_json::{Value, json};

/// The merge patch that puts a finalizer on a companion and makes the host its owner, on the version that was seen;
/// `None` if both is so. A host of the same name that is gone is an owner no more.
pub fn held(seen: &ObjectMeta, host: &BareMetalHost, finalizer: &str) -> Option<Value> {
    let owner = host.owner_ref(&())?;
    let owners = seen.owner_references.as_deref().unwrap_or_default();
    let is_owned = owners.iter().any(|known| known.uid == owner.uid);
    let finalizers = seen.finalizers.as_deref().unwrap_or_default();
    let is_held = finalizers.iter().any(|known| known == finalizer);
    if is_owned && is_held {
        return None;
    }
    let mut owners = owners.to_vec();
    if !is_owned {
        owners.retain(|known| (&known.kind, &known.name) != (&owner.kind, &host.name_any()));
        owners.push(owner);
    }
    let mut finalizers = finalizers.to_vec();
    if !is_held {
        finalizers.push(finalizer.to_owned());
    }
    let version = &seen.resource_version;
    Some(json!({"metadata": {"resourceVersion": version, "ownerReferences": owners, "finalizers": finalizers}}))
}
