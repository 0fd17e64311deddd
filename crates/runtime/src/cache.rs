//! What is removed from cached objects.

use kube::{Resource, ResourceExt};

/// The annotation in which `kubectl apply` keeps a JSON copy of the applied object.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Removes what no controller reads: managedFields and kubectl's copy of the applied object. The two are often more
/// than half of an object.
///
/// A trimmed object must not be written back as a whole, because kubectl's copy would be lost. Controllers write single
/// fields of metadata, and the changed fields of the status: see [`crate::patch`].
pub fn trim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
    object.annotations_mut().remove(LAST_APPLIED);
    if object.annotations().is_empty() {
        object.meta_mut().annotations = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    #[test]
    fn only_what_nobody_reads_is_taken() {
        let object = json!({
            "metadata": {
                "name": "a",
                "resourceVersion": "1",
                "labels": { "l": "1" },
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1" },
                "finalizers": ["f"],
                "managedFields": [{ "manager": "kubectl", "operation": "Apply", "fieldsV1": { "f:data": {} } }],
            },
            "data": { "k": "v" },
        });
        let mut map: ConfigMap = serde_json::from_value(object).unwrap();
        trim(&mut map);
        let expected = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "a",
                "resourceVersion": "1",
                "labels": { "l": "1" },
                "annotations": { "mine": "1" },
                "finalizers": ["f"],
            },
            "data": { "k": "v" },
        });
        assert_eq!(serde_json::to_value(&map).unwrap(), expected);
    }

    #[test]
    fn an_object_without_metadata_stays_as_it_is() {
        let mut map = ConfigMap::default();
        trim(&mut map);
        assert_eq!(map, ConfigMap::default());
    }
}
