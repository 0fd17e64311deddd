//! Decides which hosts are reserved for the machines of one control plane, MachineDeployment or MachineSet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use metal3_api::capi::names::{KUBEADM_CONTROL_PLANE, annotation, group, label};
use metal3_api::capi::{Machine, MachineSet};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::find::find;
use metal3_runtime::store::ObjectKey;
use serde_json::Value;

use crate::labels;
use crate::stores::{Stores, group_of, owner};

/// The value of the node-reuse label on hosts reserved for this machine's owner. None if it cannot be determined.
pub fn kept_as(stores: &Stores, machine: &Machine) -> Option<String> {
    if machine.labels().contains_key(label::CONTROL_PLANE) {
        return control_plane(machine).map(|plane| kept_for("cp", &plane.name));
    }
    let set_name = owner(machine, group::CORE, "MachineSet")?;
    let key = ObjectKey::new(machine.namespace().unwrap_or_default(), set_name);
    let set = stores.machine_sets.get(&key)?;
    Some(kept_as_of(&set))
}

/// The control plane of a machine: an owner in Cluster API's group, otherwise the machine's controller.
fn control_plane(machine: &Machine) -> Option<&OwnerReference> {
    let owners = || machine.owner_references().iter();
    let of_group = owners().find(|owner| group_of(&owner.api_version) == group::CONTROL_PLANE);
    of_group.or_else(|| owners().find(|owner| owner.controller == Some(true)))
}

/// The same for machines of a MachineSet: the sets of one deployment share the label.
fn kept_as_of(set: &MachineSet) -> String {
    let deployment = owner(set, group::CORE, "MachineDeployment");
    deployment.map_or_else(|| kept_for("ms", &set.name_any()), |name| kept_for("md", name))
}

fn kept_for(prefix: &str, name: &str) -> String {
    labels::value(&format!("{prefix}-{name}"), name)
}

/// Whether a machine can still come for hosts with this node-reuse label. Not once the deployment's last MachineSet, or the
/// Cluster that names a control plane, is deleted or being deleted. The control plane itself is not read, as it can be of any
/// kind.
pub fn is_awaited(stores: &Stores, namespace: &str, kept_as: &str) -> bool {
    if kept_as.starts_with("cp-") {
        return stores.clusters.objects().iter().any(|cluster| {
            let plane = cluster.spec.control_plane_ref.as_ref();
            cluster.namespace().as_deref() == Some(namespace)
                && cluster.metadata.deletion_timestamp.is_none()
                && plane.is_some_and(|plane| kept_for("cp", &plane.name) == kept_as)
        });
    }
    let of_sets = kept_as.starts_with("md-") || kept_as.starts_with("ms-");
    let sets = stores.machine_sets.objects();
    let mut staying = sets
        .iter()
        .filter(|set| set.namespace().as_deref() == Some(namespace) && set.metadata.deletion_timestamp.is_none());
    !of_sets || staying.any(|set| kept_as_of(set) == kept_as)
}

/// Whether to reserve this machine's host for the next machine of the same owner: the current template of its control plane or
/// MachineSet decides, unless there will be no next machine. One request for machines of a KubeadmControlPlane, none for others.
/// Other kinds of control plane cannot be read; then the template of `ours`, the Metal3Machine, decides.
pub async fn is_kept(
    client: &kube::Client,
    stores: &Stores,
    machine: &Machine,
    ours: Option<&Metal3Machine>,
) -> Result<bool, kube::Error> {
    let namespace = machine.namespace().unwrap_or_default();
    if !kept_as(stores, machine).is_some_and(|kept_as| is_awaited(stores, &namespace, &kept_as)) {
        return Ok(false);
    }
    let template = if machine.labels().contains_key(label::CONTROL_PLANE) {
        template_of_control_plane(client, stores, machine, ours, &namespace).await?
    } else {
        let set = owner(machine, group::CORE, "MachineSet");
        let set = set.and_then(|name| stores.machine_sets.get(&ObjectKey::new(&namespace, name)));
        set.map(|set| set.infrastructure_template().name.clone())
    };
    let template = template.and_then(|name| stores.templates.get(&ObjectKey::new(&namespace, name)));
    Ok(template.is_some_and(|template| template.spec.node_reuse == Some(true)))
}

async fn template_of_control_plane(
    client: &kube::Client,
    stores: &Stores,
    machine: &Machine,
    ours: Option<&Metal3Machine>,
    namespace: &str,
) -> Result<Option<String>, kube::Error> {
    let Some(plane) = control_plane(machine) else {
        return Ok(None);
    };
    if group_of(&plane.api_version) != group::CONTROL_PLANE || plane.kind != KUBEADM_CONTROL_PLANE {
        let cluster = ObjectKey::new(namespace, &machine.spec.cluster_name);
        let cluster = stores.clusters.get(&cluster);
        let of_cluster = cluster
            .as_ref()
            .and_then(|cluster| cluster.spec.control_plane_ref.as_ref());
        // Its machines may have any other owner.
        let is_plane =
            of_cluster.is_some_and(|of| of.is_of(group_of(&plane.api_version), &plane.kind) && of.name == plane.name);
        if !is_plane {
            return Ok(None);
        }
        let cloned_from = ours.and_then(|ours| ours.annotations().get(annotation::CLONED_FROM_NAME));
        return Ok(cloned_from.cloned());
    }
    let version = plane.api_version.split_once('/').map_or("", |(_, version)| version);
    let kind = GroupVersionKind::gvk(group::CONTROL_PLANE, version, KUBEADM_CONTROL_PLANE);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind));
    let object = find(&api, &plane.name).await?;
    // A set being deleted creates no more machines.
    let current = object.filter(|object| object.metadata.deletion_timestamp.is_none());
    Ok(current.and_then(|object| template_name(&object.data)))
}

/// The current path, and that of older versions, which owner references may still name.
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
    use crate::sim::Site;
    use serde_json::json;

    // OWN 16f: machines of control planes in other groups silently got a different host each time.
    #[tokio::test]
    async fn hosts_are_kept_for_control_planes_of_other_groups() {
        let site = Site::new("", |method, path, _| panic!("{method} {path}"));
        let stores = &site.ctx.stores;
        site.shows(
            &stores.templates,
            "t",
            &json!({"spec": {"nodeReuse": true, "template": {"spec": {}}}}),
        );
        let plane = |kind: &str, meta: Value| {
            let plane = json!({"apiGroup": "planes.example", "kind": kind, "name": "p"});
            let mut cluster = json!({"metadata": {"name": "c", "namespace": crate::sim::NAMESPACE, "uid": "c"},
                "spec": {"controlPlaneRef": plane}});
            json_patch::merge(&mut cluster["metadata"], &meta);
            stores.clusters.created(serde_json::from_value(cluster).unwrap());
        };
        plane("Plane", json!({"resourceVersion": "1"}));
        let owner =
            json!([{"apiVersion": "planes.example/v1", "kind": "Plane", "name": "p", "uid": "u", "controller": true}]);
        let machine = json!({"metadata": {"labels": {"cluster.x-k8s.io/control-plane": ""}, "ownerReferences": owner},
            "spec": {"clusterName": "c", "infrastructureRef": {}, "bootstrap": {}}});
        site.shows(&stores.machines, "m", &machine);
        let cloned = json!({"metadata": {"annotations": {"cluster.x-k8s.io/cloned-from-name": "t"}}, "spec": {}});
        site.shows(&stores.metal3_machines, "m", &cloned);
        let key = ObjectKey::new(crate::sim::NAMESPACE, "m");
        let (machine, ours) = (stores.machines.get(&key).unwrap(), stores.metal3_machines.get(&key));
        assert_eq!(kept_as(stores, &machine).as_deref(), Some("cp-p"));
        let client = &site.ctx.client;
        assert!(is_kept(client, stores, &machine, ours.as_deref()).await.unwrap());
        assert!(
            !is_kept(client, stores, &machine, None).await.unwrap(),
            "its template is not known"
        );
        // Other owners do not create the next machine.
        plane("Other", json!({"resourceVersion": "2"}));
        assert!(!is_kept(client, stores, &machine, ours.as_deref()).await.unwrap());
        plane(
            "Plane",
            json!({"resourceVersion": "3", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        );
        assert!(!is_kept(client, stores, &machine, ours.as_deref()).await.unwrap());
        assert!(!is_awaited(stores, crate::sim::NAMESPACE, "cp-p"));
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
