//! Who owns an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::core::ObjectMeta;

/// The name of the owner of this group and kind, whatever its version. The controller flag says nothing: Cluster API sets
/// it in some cases only.
pub fn owner<'a>(object: &'a impl ResourceExt, group: &str, kind: &str) -> Option<&'a str> {
    owner_of(object.meta(), group, kind).map(|owner| owner.name.as_str())
}

/// The same, the whole reference.
pub fn owner_of<'a>(meta: &'a ObjectMeta, group: &str, kind: &str) -> Option<&'a OwnerReference> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| owner.kind == kind && group_of(&owner.api_version) == group)
}

/// The group in a group and version.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
