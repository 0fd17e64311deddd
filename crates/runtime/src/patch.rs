//! Small writes to objects that others write too: finalizers, annotations, and changed fields of a status.

use std::fmt::Debug;

use json_patch::{
    AddOperation, MoveOperation, Patch as JsonPatch, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    jsonptr::PointerBuf,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::error::is_not_found;

/// The merge patch that adds a finalizer; `None` if it exists.
///
/// A merge patch replaces lists as a whole, so it is conditional on the resourceVersion that was seen: on 409, read
/// again.
pub fn finalizer_added(seen: &ObjectMeta, finalizer: &str) -> Option<Value> {
    let mut finalizers = seen.finalizers.clone().unwrap_or_default();
    if finalizers.iter().any(|present| present == finalizer) {
        return None;
    }
    finalizers.push(finalizer.to_owned());
    Some(json!({ "metadata": { "resourceVersion": seen.resource_version, "finalizers": finalizers } }))
}

/// The merge patch that removes a finalizer; `None` if it does not exist.
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

/// The marks of a controller on an object that it uses but does not own.
#[derive(Clone, Debug)]
pub struct Marks<'a> {
    /// Labels and their values.
    pub labels: &'a [(&'a str, &'a str)],
    /// The finalizer that keeps the object as long as it is used.
    pub finalizer: &'a str,
}

/// The JSON patch that marks an unread object, and whose response is the object: one request instead of a read and a
/// write.
///
/// It succeeds for an object that has the fields `needed` and nothing in the places of the marks. For any other the
/// server answers 422; such an object must be read first.
pub fn unmarked_marked(marks: &Marks<'_>, needed: &[&[&str]]) -> JsonPatch {
    // Moving a field onto itself leaves it unchanged and requires that it exists.
    let needed = needed.iter().map(|field| {
        let path = PointerBuf::from_tokens(field.iter().copied());
        PatchOperation::Move(MoveOperation {
            from: path.clone(),
            path,
        })
    });
    let labels: Map<String, Value> = marks
        .labels
        .iter()
        .map(|(label, value)| ((*label).to_owned(), (*value).into()))
        .collect();
    let added = [("labels", json!(labels)), ("finalizers", json!([marks.finalizer]))];
    let added = added.into_iter().flat_map(|(field, value)| {
        let path = PointerBuf::from_tokens(["metadata", field]);
        // In a test, the server treats a missing field as null.
        let value_of_none = TestOperation {
            path,
            value: Value::Null,
        };
        [PatchOperation::Test(value_of_none), add(&["metadata", field], value)]
    });
    JsonPatch(needed.chain(added).collect())
}

/// The JSON patch that turns a status `before` into `after`; `None` if they are equal.
///
/// Only the differing fields directly below `status` are written, each as a whole; fields in neither of the two stay as
/// stored. So a store need not keep fields that no decision uses. The patch is conditional on the resourceVersion that
/// was seen: on 409, read again. `before` is `None` if the object had no status.
///
/// # Errors
///
/// The status is not a JSON object.
pub fn status_changed<S: Serialize>(
    seen: &ObjectMeta,
    before: Option<&S>,
    after: &S,
) -> Result<Option<JsonPatch>, serde_json::Error> {
    let fields = |status: &S| serde_json::from_value::<Map<String, Value>>(serde_json::to_value(status)?);
    let after = fields(after)?;
    let mut changes = match before.map(fields).transpose()? {
        None => vec![add(&["status"], Value::Object(after))],
        Some(before) => field_changes(&before, &after),
    };
    if changes.is_empty() {
        return Ok(None);
    }
    if let Some(version) = &seen.resource_version {
        let insist = ReplaceOperation {
            path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
            value: version.as_str().into(),
        };
        changes.insert(0, PatchOperation::Replace(insist));
    }
    Ok(Some(JsonPatch(changes)))
}

fn field_changes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<PatchOperation> {
    let gone = before.keys().filter(|key| !after.contains_key(*key)).flat_map(|key| {
        let path = PointerBuf::from_tokens(["status", key]);
        // A missing field cannot be removed. If another client removed it, the patch must still reach the version test,
        // or it would count as invalid instead of as a conflict.
        [
            add(&["status", key], Value::Null),
            PatchOperation::Remove(RemoveOperation { path }),
        ]
    });
    let other = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    let other = other.map(|(key, value)| add(&["status", key], value.clone()));
    gone.chain(other).collect()
}

/// Adds or replaces a value.
fn add(path: &[&str], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: PointerBuf::from_tokens(path.iter().copied()),
        value,
    })
}

/// Adds a finalizer to an object as it was seen. `Ok(None)`: it exists already, nothing was written.
pub async fn add_finalizer<K>(api: &Api<K>, seen: &K, finalizer: &str) -> Result<Option<K>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    merge(api, seen, finalizer_added(seen.meta(), finalizer)).await
}

/// Removes a finalizer from an object as it was seen. `Ok(None)`: it does not exist, or the object is gone.
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

/// The result of removing an annotation.
#[derive(Debug)]
pub enum Removal<K> {
    /// It was removed; this is the current object.
    Removed(K),
    /// It was removed, or given another value (a new request), in the meantime. Read the object again.
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
    #[case::first(None, json!({"a": 1}), json!({"a": 1}))]
    #[case::set(Some(json!({"a": 1, "b": {"c": 1, "d": 1}})), json!({"a": 1, "b": {"c": 2}}), json!({"a": 1, "b": {"c": 2}}))]
    #[case::new(Some(json!({"a": 1})), json!({"a": 1, "b": [1]}), json!({"a": 1, "b": [1]}))]
    #[case::gone(Some(json!({"a": 1, "b/~": 1})), json!({"a": 2}), json!({"a": 2}))]
    fn a_status_becomes_what_was_decided(#[case] before: Option<Value>, #[case] after: Value, #[case] expected: Value) {
        let patch = status_changed(&meta(&[]), before.as_ref(), &after).unwrap().unwrap();
        let mut object = json!({"metadata": {"resourceVersion": "8"}});
        if let Some(before) = before {
            object["status"] = before;
        }
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(
            object,
            json!({"metadata": {"resourceVersion": "7"}, "status": expected})
        );
    }

    #[test]
    fn what_is_not_shown_stays_and_what_is_equal_is_not_written() {
        let before = json!({"a": 1, "b": 1});
        assert!(
            status_changed(&meta(&[]), Some(&before), &before.clone())
                .unwrap()
                .is_none()
        );
        let patch = status_changed(&meta(&[]), Some(&before), &json!({"a": 2}))
            .unwrap()
            .unwrap();
        let mut object = json!({"metadata": {"resourceVersion": "7"}, "status": {"a": 1, "unseen": {"x": 1}}});
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(object["status"], json!({"a": 2, "unseen": {"x": 1}}));
        assert!(status_changed(&meta(&[]), Some(&json!([])), &json!([])).is_err());
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
