//! Small writes to metadata that others write too: finalizers and annotations.

use std::fmt::Debug;

use json_patch::{Patch as JsonPatch, PatchOperation, RemoveOperation, TestOperation, jsonptr::PointerBuf};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::is_not_found;

/// The merge patch that adds a finalizer, or nothing if it is there.
///
/// Lists are replaced whole by a merge patch, so it insists on the resourceVersion that was seen: 409 means look again.
pub fn finalizer_added(seen: &ObjectMeta, finalizer: &str) -> Option<Value> {
    let mut finalizers = seen.finalizers.clone().unwrap_or_default();
    if finalizers.iter().any(|present| present == finalizer) {
        return None;
    }
    finalizers.push(finalizer.to_owned());
    Some(json!({ "metadata": { "resourceVersion": seen.resource_version, "finalizers": finalizers } }))
}

/// The merge patch that removes a finalizer, or nothing if it is not there.
pub fn finalizer_removed(seen: &ObjectMeta, finalizer: &str) -> Option<Value> {
    let before = seen.finalizers.as_deref().unwrap_or_default();
    let finalizers: Vec<_> = before.iter().filter(|present| *present != finalizer).collect();
    if finalizers.len() == before.len() {
        return None;
    }
    Some(json!({ "metadata": { "resourceVersion": seen.resource_version, "finalizers": finalizers } }))
}

/// The JSON patch that removes an annotation if it still has this value.
pub fn annotation_removed(key: &str, value: &str) -> JsonPatch {
    let path = PointerBuf::from_tokens(["metadata", "annotations", key]);
    JsonPatch(vec![
        PatchOperation::Test(TestOperation {
            path: path.clone(),
            value: value.into(),
        }),
        PatchOperation::Remove(RemoveOperation { path }),
    ])
}

/// Adds a finalizer to an object as it was seen. `Ok(None)`: it is there already, nothing was written.
pub async fn add_finalizer<K>(api: &Api<K>, seen: &K, finalizer: &str) -> Result<Option<K>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    merge(api, seen, finalizer_added(seen.meta(), finalizer)).await
}

/// Removes a finalizer from an object as it was seen. `Ok(None)`: it is not there, or the object is gone.
pub async fn remove_finalizer<K>(api: &Api<K>, seen: &K, finalizer: &str) -> Result<Option<K>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    match merge(api, seen, finalizer_removed(seen.meta(), finalizer)).await {
        Err(error) if is_not_found(&error) => Ok(None),
        result => result,
    }
}

async fn merge<K>(api: &Api<K>, seen: &K, patch: Option<Value>) -> Result<Option<K>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let Some(patch) = patch else { return Ok(None) };
    api.patch(&seen.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(Some)
}

/// What became of an annotation that was to be removed.
#[derive(Debug)]
pub enum Removal<K> {
    /// It is removed; this is the object now.
    Removed(K),
    /// It was removed, or given another value (a new request), in the meantime. Look again.
    Changed,
    /// The object is gone.
    Gone,
}

/// Removes an annotation if it still has the value that was acted upon, whatever else changed in the object.
pub async fn remove_annotation<K>(api: &Api<K>, name: &str, key: &str, value: &str) -> Result<Removal<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let patch: Patch<()> = Patch::Json(annotation_removed(key, value));
    match api.patch(name, &PatchParams::default(), &patch).await {
        Ok(object) => Ok(Removal::Removed(object)),
        // The server answers 422 when the test does not hold, and when the path does not exist.
        Err(kube::Error::Api(status)) if status.is_invalid() => Ok(Removal::Changed),
        Err(error) if is_not_found(&error) => Ok(Removal::Gone),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn meta(finalizers: &[&str]) -> ObjectMeta {
        ObjectMeta {
            resource_version: Some("7".into()),
            finalizers: Some(finalizers.iter().map(ToString::to_string).collect()),
            ..ObjectMeta::default()
        }
    }

    #[rstest]
    #[case(&[], Some(json!(["mine"])), None)]
    #[case(&["other"], Some(json!(["other", "mine"])), None)]
    #[case(&["mine"], None, Some(json!([])))]
    #[case(&["a", "mine", "b"], None, Some(json!(["a", "b"])))]
    fn finalizers_are_written_against_a_version(
        #[case] before: &[&str],
        #[case] added: Option<Value>,
        #[case] removed: Option<Value>,
    ) {
        let full = |list: Option<Value>| {
            list.map(|list| json!({ "metadata": { "resourceVersion": "7", "finalizers": list } }))
        };
        assert_eq!(finalizer_added(&meta(before), "mine"), full(added));
        assert_eq!(finalizer_removed(&meta(before), "mine"), full(removed));
    }

    #[rstest]
    #[case("reboot.metal3.io", "", true)]
    #[case("reboot.metal3.io", "{\"mode\":\"hard\"}", false)]
    #[case("reboot.metal3.io/~key", "x", true)]
    #[case("missing", "", false)]
    fn an_annotation_is_removed_only_with_the_value_that_was_seen(
        #[case] key: &str,
        #[case] value: &str,
        #[case] removed: bool,
    ) {
        let mut object =
            json!({ "metadata": { "annotations": { "reboot.metal3.io": "", "reboot.metal3.io/~key": "x" } } });
        assert_eq!(
            json_patch::patch(&mut object, &annotation_removed(key, value)).is_ok(),
            removed
        );
        assert_eq!(
            object["metadata"]["annotations"].get(key).is_none(),
            removed || key == "missing"
        );
    }
}
