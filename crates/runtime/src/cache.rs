//! What is kept out of the stores of watched objects.

use kube::{Resource, ResourceExt};

/// Where `kubectl apply` keeps a copy of the whole object as it was applied, as JSON.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Takes from an object what no controller reads: who wrote which field, and kubectl's copy of what was applied. The two
/// are often more than half of an object.
///
/// A trimmed object must not be written back as a whole, because kubectl's copy would be lost. Controllers write single
/// fields of metadata, and of the status what changed: see [`crate::patch`].
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
