//! Who owns an object.

use kube::ResourceExt;

/// The name of the owner of this group and kind, whatever its version. The controller flag says nothing: Cluster API sets
/// it in some cases only.
pub fn owner<'a>(object: &'a impl ResourceExt, group: &str, kind: &str) -> Option<&'a str> {
    let owners = object.owner_references().iter();
    let mut owners = owners.filter(|owner| owner.kind == kind && group_of(&owner.api_version) == group);
    owners.next().map(|owner| owner.name.as_str())
}

/// The group in a group and version.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
