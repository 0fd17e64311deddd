//! The disc in a server's virtual drive: its changes, and the note on the host about a disc that no DataImage records.
//!
//! A DataImage that is deleted while its host is detached goes at once: nothing can be done about its disc, and nothing
//! says when that ends. So its record is kept on the host, in an annotation that is written first. Decisions see it as
//! the record of a DataImage that asks for no disc, or of the next DataImage, until the drive is empty. The same is done for
//! a disc that the drive does not have yet: a BMC that was asked for it may insert it later.

use kube::ResourceExt;
use metal3_api::metal3::names::annotation::LEFT_DISC;
use metal3_api::metal3::{BareMetalHost, DataImage, DataImageSpec, DataImageStatus};
use serde_json::{Value, json};

use super::{annotations, record};

/// A change of the disc in a server's virtual drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscRequest {
    /// One is put in.
    Attach,
    /// The drive is emptied.
    Detach,
}

/// A change of the disc that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscFailure {
    /// Which change.
    pub request: DiscRequest,
    /// `metadata.generation` of the DataImage at that time.
    pub generation: Option<i64>,
}

/// The URL in a note that is not ours: which disc it is does not matter.
const UNKNOWN: &str = "unknown";

/// What the note on a host says of the disc in its drive.
pub fn left(host: &BareMetalHost) -> Option<DataImageStatus> {
    let text = annotations::value(host, LEFT_DISC)?;
    let mut status: DataImageStatus = serde_json::from_str(text).unwrap_or_default();
    if status.attached_image.url.is_empty() {
        UNKNOWN.clone_into(&mut status.attached_image.url);
    }
    Some(status)
}

/// The merge patch that makes this the note on a host, or removes it if no disc is attached. It is conditional on the
/// judged version.
pub fn noted(host: &BareMetalHost, status: &DataImageStatus) -> Value {
    let is_attached = !status.attached_image.url.is_empty();
    let text = is_attached.then(|| json!(status).to_string());
    let version = &host.metadata.resource_version;
    json!({ "metadata": { "resourceVersion": version, "annotations": { LEFT_DISC: text } } })
}

/// The note that the DataImage needs before it goes; `None` if the host has it.
pub fn note_of(image: &DataImage, host: &BareMetalHost) -> Option<Value> {
    let status = DataImageStatus {
        attached_image: record::status_of(image).unwrap_or_default().attached_image,
        ..DataImageStatus::default()
    };
    let is_noted = left(host).is_some_and(|left| left.attached_image == status.attached_image);
    (!is_noted).then(|| noted(host, &status))
}

/// The DataImage with what the note says; if there is none, one that stands for the note.
pub fn with_note(image: Option<DataImage>, host: &BareMetalHost) -> Option<DataImage> {
    let Some(left) = left(host) else { return image };
    let Some(mut image) = image else {
        let mut image = DataImage::new(&host.name_any(), DataImageSpec::default());
        image.metadata.namespace = host.namespace();
        image.status = Some(left);
        return Some(image);
    };
    let status = image.status.get_or_insert_default();
    if status.attached_image.url.is_empty() {
        status.attached_image = left.attached_image;
    }
    Some(image)
}

/// Whether this stands for the note, and is not an object.
pub fn is_note(image: &DataImage) -> bool {
    image.metadata.uid.is_none()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const URL: &str = "http://images/d.iso";

    fn host(note: Option<&str>) -> BareMetalHost {
        let annotations = note.map(|note| json!({ LEFT_DISC: note }));
        let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h", "namespace": "n", "resourceVersion": "7", "annotations": annotations}, "spec": {"online": true}});
        serde_json::from_value(host).unwrap()
    }

    fn image(attached: &str) -> DataImage {
        let image = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "DataImage", "metadata": {"name": "h", "uid": "u"},
            "spec": {"url": "http://images/e.iso"}, "status": {"attachedImage": {"url": attached}, "error": {"count": 2, "message": "no"}}});
        serde_json::from_value(image).unwrap()
    }

    #[test]
    fn the_note_is_what_the_data_image_recorded() {
        let patch = note_of(&image(URL), &host(None)).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let note = patch["metadata"]["annotations"][LEFT_DISC].as_str().unwrap();
        let host = host(Some(note));
        assert_eq!(left(&host).unwrap().attached_image.url, URL);
        assert_eq!(left(&host).unwrap().error.count, 0, "its failures end with the object");
        assert_eq!(note_of(&image(URL), &host), None, "it is written once");
        let stand_in = with_note(None, &host).unwrap();
        assert!(is_note(&stand_in) && stand_in.spec.url.is_empty());
        assert_eq!(stand_in.status, left(&host));
        let removal = noted(&host, &DataImageStatus::default());
        assert_eq!(removal["metadata"]["annotations"][LEFT_DISC], Value::Null);
    }

    #[rstest]
    #[case::nothing_recorded("", URL)]
    #[case::another_disc_since("http://images/e.iso", "http://images/e.iso")]
    fn the_next_data_image_inherits_the_record(#[case] own: &str, #[case] expected: &str) {
        let host = host(Some(r#"{"attachedImage": {"url": "http://images/d.iso"}}"#));
        let image = with_note(Some(image(own)), &host).unwrap();
        assert!(!is_note(&image));
        let status = image.status.unwrap();
        assert_eq!((status.attached_image.url.as_str(), status.error.count), (expected, 2));
    }

    #[rstest]
    #[case("")]
    #[case("{}")]
    #[case("by hand")]
    fn a_text_of_others_says_that_there_is_a_disc(#[case] text: &str) {
        assert_eq!(left(&host(Some(text))).unwrap().attached_image.url, UNKNOWN);
    }

    #[test]
    fn without_a_note_nothing_differs() {
        assert_eq!(with_note(None, &host(None)), None);
        assert_eq!(with_note(Some(image("")), &host(None)), Some(image("")));
    }
}
