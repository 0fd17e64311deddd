//! What only the status of a companion object knows, kept in an annotation as well.
//!
//! `clusterctl move` and most backups create objects without their status. Ironic knows most of it, but not which disc was
//! inserted and which firmware was written for an object. Without these records the disc would count as another medium,
//! and the firmware would be written again. The annotation follows the status, and is used only while there is none.

use kube::core::object::HasStatus;
use kube::{Resource, ResourceExt};
use metal3_api::metal3::names::annotation::RECORDED_STATUS;
use metal3_api::metal3::{DataImage, DataImageStatus, HostFirmwareComponents, HostFirmwareComponentsStatus};
use metal3_runtime::store::ObjectKey;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::mark;

/// Bytes of a record that are kept. All annotations of an object together may have 256 KiB.
const LONGEST: usize = 64 * 1024;

/// A kind whose status contains such a record.
pub trait Recorded: Resource<DynamicType = ()> + HasStatus<Status: Clone + Serialize + DeserializeOwned> {
    /// The record alone; `None` if there is nothing to keep.
    fn record(status: &Self::Status) -> Option<Self::Status>;
}

impl Recorded for DataImage {
    /// The disc that we have inserted, or may have.
    fn record(status: &DataImageStatus) -> Option<DataImageStatus> {
        let attached_image = status.attached_image.clone();
        (!attached_image.url.is_empty()).then(|| DataImageStatus {
            attached_image,
            ..DataImageStatus::default()
        })
    }
}

impl Recorded for HostFirmwareComponents {
    /// The updates that were made.
    fn record(status: &HostFirmwareComponentsStatus) -> Option<HostFirmwareComponentsStatus> {
        let updates = status.updates.clone();
        (!updates.is_empty()).then(|| HostFirmwareComponentsStatus {
            updates,
            ..HostFirmwareComponentsStatus::default()
        })
    }
}

/// The annotation's value.
#[derive(Serialize, Deserialize)]
struct Record<S> {
    /// A digest of the object's namespace and name: a copy of the object for another host inherits nothing.
    object: String,
    status: S,
}

/// The status of an object; if it has none, its record.
pub fn status_of<K: Recorded>(object: &K) -> Option<K::Status> {
    object.status().cloned().or_else(|| restored(object))
}

/// The record of an object that was created without its status.
pub fn restored<K: Recorded>(object: &K) -> Option<K::Status> {
    if object.status().is_some() {
        return None;
    }
    let text = object.annotations().get(RECORDED_STATUS)?;
    let record: Record<K::Status> = serde_json::from_str(text).ok()?;
    K::record(&record.status).filter(|_| record.object == digest(object))
}

/// The merge patch that makes the annotation follow the status, conditional on the version that was seen; `None` if it
/// does.
pub fn noted<K: Recorded>(object: &K) -> Option<Value> {
    let status = K::record(object.status()?);
    let record = status.map(|status| Record {
        object: digest(object),
        status,
    });
    let wanted = record.map(|record| json!(record).to_string());
    let wanted = wanted.filter(|text| text.len() <= LONGEST);
    let version = &object.meta().resource_version;
    let patch = || json!({ "metadata": { "resourceVersion": version, "annotations": { RECORDED_STATUS: wanted } } });
    (object.annotations().get(RECORDED_STATUS) != wanted.as_ref()).then(patch)
}

fn digest<K: Recorded>(object: &K) -> String {
    mark::name(&ObjectKey::of(object).to_string())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const URL: &str = "http://images/d.iso";

    fn image(name: &str, annotation: Option<&Value>, attached: Option<&str>) -> DataImage {
        let annotations = annotation.map(|text| json!({ RECORDED_STATUS: text }));
        let status = attached.map(|url| json!({"attachedImage": {"url": url}, "error": {"count": 2, "message": "no"}}));
        serde_json::from_value(
            json!({"apiVersion": "metal3.io/v1alpha1", "kind": "DataImage", "status": status,
            "metadata": {"name": name, "namespace": "n", "resourceVersion": "7", "annotations": annotations},
            "spec": {"url": URL}}),
        )
        .unwrap()
    }

    /// The annotation that a DataImage gets.
    fn annotation_of(image: &DataImage) -> Option<Value> {
        let mut patch = noted(image)?;
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        Some(patch["metadata"]["annotations"][RECORDED_STATUS].take())
    }

    #[test]
    fn the_record_survives_the_loss_of_the_status() {
        let annotation = annotation_of(&image("h", None, Some(URL))).unwrap();
        let moved = image("h", Some(&annotation), None);
        let status = restored(&moved).unwrap();
        assert_eq!(status.attached_image.url, URL);
        assert_eq!(status.error.count, 0, "its failures are no record");
        assert_eq!(status_of(&moved), Some(status));
        assert_eq!(annotation_of(&moved), None, "there is no status to follow");
    }

    #[rstest]
    #[case::written_once(Some(URL), None)]
    #[case::of_another_disc(Some("http://images/e.iso"), Some(false))]
    #[case::of_no_disc(Some(""), Some(true))]
    fn the_annotation_follows_the_status(#[case] attached: Option<&str>, #[case] is_removed: Option<bool>) {
        let annotation = annotation_of(&image("h", None, Some(URL))).unwrap();
        let next = image("h", Some(&annotation), attached);
        assert_eq!(annotation_of(&next).map(|text| text.is_null()), is_removed);
        assert_eq!(restored(&next), None, "the status counts");
        assert_eq!(status_of(&next), next.status);
    }

    #[test]
    fn nothing_is_written_for_an_object_that_has_nothing_to_record() {
        assert_eq!(annotation_of(&image("h", None, None)), None);
        assert_eq!(annotation_of(&image("h", None, Some(""))), None);
    }

    #[test]
    fn a_copy_for_another_host_inherits_nothing() {
        let annotation = annotation_of(&image("h", None, Some(URL))).unwrap();
        assert_eq!(restored(&image("i", Some(&annotation), None)), None);
    }

    #[rstest]
    #[case("")]
    #[case("{}")]
    #[case("by hand")]
    fn a_text_of_others_is_no_record(#[case] text: &str) {
        assert_eq!(restored(&image("h", Some(&json!(text)), None)), None);
    }

    #[test]
    fn a_record_that_would_not_fit_is_not_written() {
        let url = format!("http://images/{}", "x".repeat(LONGEST));
        assert_eq!(annotation_of(&image("h", None, Some(&url))), None);
    }

    #[test]
    fn made_updates_are_a_record() {
        let object = |annotation: Option<&Value>, status: Value| -> HostFirmwareComponents {
            let annotations = annotation.map(|text| json!({ RECORDED_STATUS: text }));
            serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareComponents",
                "metadata": {"name": "h", "namespace": "n", "annotations": annotations}, "spec": {"updates": []}, "status": status}))
            .unwrap()
        };
        let updates = json!([{"component": "bios", "url": "http://f/1"}]);
        let made = object(
            None,
            json!({"updates": updates, "components": [{"component": "bios", "initialVersion": "1"}]}),
        );
        let mut patch = noted(&made).unwrap();
        let annotation = patch["metadata"]["annotations"][RECORDED_STATUS].take();
        let status = restored(&object(Some(&annotation), Value::Null)).unwrap();
        assert_eq!(json!(status.updates), updates);
        assert!(status.components.is_empty(), "Ironic knows them");
    }
}
