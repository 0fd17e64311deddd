//! Which hosts are kept for the machines of one control plane, machine deployment or machine set.

use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use metal3_api::capi::names::{group, label};
use metal3_api::capi::{Machine, MachineSet};
use metal3_runtime::error::is_not_found;
use metal3_runtime::store::ObjectKey;
use serde_json::Value;

use crate::world::{World, group_of, owner};

/// The longest value of a label.
const LONGEST: usize = 63;

/// What the node-reuse label says of hosts that are kept for machines such as this one. None if that cannot be told.
pub fn kept_as(world: &World, machine: &Machine) -> Option<String> {
    if machine.labels().contains_key(label::CONTROL_PLANE) {
        let owners = machine.owner_references().iter();
        let mut planes = owners.filter(|owner| group_of(&owner.api_version) == group::CONTROL_PLANE);
        return planes.next().map(|plane| label_value("cp", &plane.name));
    }
    let set_name = owner(machine, group::CORE, "MachineSet")?;
    let key = ObjectKey::new(machine.namespace().unwrap_or_default(), set_name);
    let set = world.machine_sets.get(&key)?;
    Some(kept_as_of(&set))
}

/// The same for machines of a set: sets of one deployment follow each other.
fn kept_as_of(set: &MachineSet) -> String {
    let deployment = owner(set, group::CORE, "MachineDeployment");
    deployment.map_or_else(|| label_value("ms", &set.name_any()), |name| label_value("md", name))
}

/// Whether machines can still come for whom hosts with this node-reuse label are kept. Not once the last machine set of a
/// deployment is there no more or is being deleted. Of control planes, which can be of any kind, nobody knows.
pub fn is_awaited(world: &World, namespace: &str, kept_as: &str) -> bool {
    let of_sets = kept_as.starts_with("md-") || kept_as.starts_with("ms-");
    let sets = world.machine_sets.objects();
    let mut staying = sets
        .iter()
        .filter(|set| set.namespace().as_deref() == Some(namespace) && set.metadata.deletion_timestamp.is_none());
    !of_sets || staying.any(|set| kept_as_of(set) == kept_as)
}

/// A name that is too long for a label is cut, and a number made from the whole takes the place of the rest.
fn label_value(prefix: &str, name: &str) -> String {
    let value = format!("{prefix}-{name}");
    if value.len() <= LONGEST {
        return value;
    }
    let number = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let cut: String = value.chars().take(LONGEST - 9).collect();
    format!("{}-{number:08x}", cut.trim_end_matches(['-', '.', '_']))
}

/// Whether the host of this machine is kept for the next one of the same kind: what the template of its control plane or
/// machine set says now, unless there will be no next one. One request for machines of a control plane, which is of any kind;
/// none for others.
pub async fn is_kept(client: &kube::Client, world: &World, machine: &Machine) -> Result<bool, kube::Error> {
    let namespace = machine.namespace().unwrap_or_default();
    if !kept_as(world, machine).is_some_and(|kept_as| is_awaited(world, &namespace, &kept_as)) {
        return Ok(false);
    }
    let template = if machine.labels().contains_key(label::CONTROL_PLANE) {
        template_of_control_plane(client, machine, &namespace).await?
    } else {
        let set = owner(machine, group::CORE, "MachineSet");
        let set = set.and_then(|name| world.machine_sets.get(&ObjectKey::new(&namespace, name)));
        set.map(|set| set.infrastructure_template().name.clone())
    };
    let template = template.and_then(|name| world.templates.get(&ObjectKey::new(&namespace, name)));
    Ok(template.is_some_and(|template| template.spec.node_reuse == Some(true)))
}

async fn template_of_control_plane(
    client: &kube::Client,
    machine: &Machine,
    namespace: &str,
) -> Result<Option<String>, kube::Error> {
    let owners = machine.owner_references().iter();
    let mut planes = owners.filter(|owner| group_of(&owner.api_version) == group::CONTROL_PLANE);
    let Some(plane) = planes.next() else { return Ok(None) };
    let version = plane.api_version.split_once('/').map_or("", |(_, version)| version);
    let kind = GroupVersionKind::gvk(group::CONTROL_PLANE, version, &plane.kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind));
    match api.get(&plane.name).await {
        // One that is being deleted makes no machines any more.
        Ok(object) if object.metadata.deletion_timestamp.is_some() => Ok(None),
        Ok(object) => Ok(template_name(&object.data)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path of today, and that of older versions, which owner references may still name.
fn template_name(object: &Value) -> Option<String> {
    [
        "/spec/machineTemplate/spec/infrastructureRef/name",
        "/spec/machineTemplate/infrastructureRef/name",
    ]
    .into_iter()
    .find_map(|path| object.pointer(path)?.as_str())
    .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_names_stay_labels_and_stay_apart() {
        assert_eq!(label_value("cp", "plane"), "cp-plane");
        let long = format!("{}.{}", "a".repeat(50), "b".repeat(40));
        let other = format!("{}.{}c", "a".repeat(50), "b".repeat(39));
        let (first, second) = (label_value("md", &long), label_value("md", &other));
        assert!(first.len() <= 63 && first != second, "{first} {second}");
        assert!(first.ends_with(|c: char| c.is_ascii_alphanumeric()));
    }

    #[test]
    fn the_template_is_found_in_both_versions() {
        let new = json!({"spec": {"machineTemplate": {"spec": {"infrastructureRef": {"name": "t"}}}}});
        let old = json!({"spec": {"machineTemplate": {"infrastructureRef": {"name": "t"}}}});
        assert_eq!(template_name(&new).as_deref(), Some("t"));
        assert_eq!(template_name(&old).as_deref(), Some("t"));
        assert_eq!(template_name(&json!({})), None);
    }
}
