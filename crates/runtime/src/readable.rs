//! Lists and watches in which an object that does not fit its type does not hide the others.
//!
//! kube reads an answer as a whole: one object that cannot be read fails the list or the watch of all namespaces, for ever. A
//! user can write such an object: the API server takes `9999-12-31T23:59:59Z` as the time of an entry of managedFields or of a
//! status, which is beyond the years that our type for times can hold, and managedFields of any depth.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicResourceScope;
use kube::{Api, Resource};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// An object of a list or a watch.
#[derive(Clone, Debug)]
pub enum Readable<K> {
    /// It fits its type, [mended](parse_leniently) if it has to be.
    Read(K),
    /// It does not: its name, namespace, UID and version.
    Unread(Box<ObjectMeta>),
}

impl<K> Readable<K> {
    /// The API of the same objects, for lists and watches.
    pub fn api<O>(api: Api<O>, kind: &K::DynamicType) -> Api<Self>
    where
        K: Resource,
        O: Resource,
    {
        let namespace = api.namespace().map(ToOwned::to_owned);
        match namespace {
            Some(namespace) => Api::namespaced_with(api.into_client(), &namespace, kind),
            None => Api::all_with(api.into_client(), kind),
        }
    }

    /// The object, for lists in which none may be missing.
    ///
    /// # Errors
    /// Names an object that does not fit its type.
    pub fn read(self) -> Result<K, kube::Error>
    where
        K: Resource<DynamicType = ()>,
    {
        match self {
            Self::Read(object) => Ok(object),
            Self::Unread(outline) => {
                let of = |text: Option<String>| text.unwrap_or_default();
                let (kind, namespace, name) = (K::kind(&()), of(outline.namespace), of(outline.name));
                let words = format!(
                    "{kind} {namespace}/{name} does not fit its type: correct its times and types, or delete it"
                );
                Err(kube::Error::SerdeError(serde_json::Error::custom(words)))
            }
        }
    }

    fn of(text: &str) -> Result<Self, serde_json::Error>
    where
        K: DeserializeOwned,
    {
        let error = match parse_leniently(text) {
            Ok(object) => return Ok(Self::Read(object)),
            Err(error) => error,
        };
        let pieces: Pieces = serde_json::from_str(text)?;
        let Some(metadata) = pieces.get("metadata") else {
            return Err(error);
        };
        let outline: Outline = serde_json::from_str(metadata.get())?;
        // Without a version, a watch could not go on after it.
        if outline.name.is_none() || outline.resource_version.is_none() {
            return Err(error);
        }
        Ok(Self::Unread(Box::new(outline.into())))
    }
}

/// An object. If it does not fit its type otherwise, it is read without its managedFields, and with the times of its
/// status as [`mended`] has them: a user may have written either.
///
/// # Errors
/// the rest does not fit either
pub fn parse_leniently<K: DeserializeOwned>(text: &str) -> Result<K, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| serde_json::from_str(&mended(text)?.ok_or(error)?))
}

/// The text of an object without its managedFields and with [`LATEST`] for each time of its status that our type for
/// times does not hold. `None` if it had neither.
///
/// # Errors
/// it is no object
pub(crate) fn mended(text: &str) -> Result<Option<String>, serde_json::Error> {
    // Read piece by piece: what is in a piece may be nested too deeply to be read at all.
    let mut object: Pieces = serde_json::from_str(text)?;
    let mut is_mended = false;
    if let Some(metadata) = object.get_mut("metadata") {
        let mut fields: Pieces = serde_json::from_str(metadata.get())?;
        is_mended |= fields.remove("managedFields").is_some();
        *metadata = to_raw_value(&fields)?;
    }
    if let Some(status) = object.get_mut("status")
        && let Ok(mut fields) = serde_json::from_str(status.get())
        && bound_times(&mut fields)
    {
        is_mended = true;
        *status = to_raw_value(&fields)?;
    }
    is_mended.then(|| serde_json::to_string(&object)).transpose()
}

/// Stands for each time that is later than what our type for times holds. Something can be added to it.
const LATEST: &str = "9999-01-01T00:00:00Z";

/// Stands for what passes for a time at the API server, and means none.
const EARLIEST: &str = "1970-01-01T00:00:00Z";

/// Replaces the times that cannot be read. Returns whether there was one.
fn bound_times(value: &mut Value) -> bool {
    match value {
        Value::String(text) => readable_time(text).is_some_and(|time| {
            *text = time;
            true
        }),
        Value::Array(items) => items.iter_mut().fold(false, |found, item| bound_times(item) | found),
        Value::Object(fields) => fields
            .values_mut()
            .fold(false, |found, field| bound_times(field) | found),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The nearest time that our type holds, for a text that the API server takes for a time, and we cannot read: it admits any number
/// of decimals, any offset, and letters before and after the time of day.
fn readable_time(text: &str) -> Option<String> {
    const DATE: &str = "0000-00-00T";
    const SECONDS: usize = "0000-00-00T00:00:00".len();
    const NANOSECONDS: usize = SECONDS + ".000000000".len();
    let is_like = |(is, like): (u8, u8)| match like {
        b'0' => is.is_ascii_digit(),
        _ => is.eq_ignore_ascii_case(&like),
    };
    let is_time = text.len() >= DATE.len() && text.bytes().zip(DATE.bytes()).all(is_like);
    let can_be_read = |text: &str| text.parse::<jiff::Timestamp>().is_ok();
    if !is_time || text.contains(char::is_whitespace) || can_be_read(text) {
        return None;
    }
    if text.starts_with("9999-12-") {
        return Some(LATEST.to_owned());
    }
    let shorter = |text: &str| {
        let decimals = text.get(NANOSECONDS..)?;
        let zone = decimals.find(|c: char| !c.is_ascii_digit())?;
        Some(format!("{}{}", text.get(..NANOSECONDS)?, decimals.get(zone..)?))
    };
    let whole = text.get(..SECONDS).map(|seconds| format!("{seconds}Z"));
    let nearest = [shorter(text), whole]
        .into_iter()
        .flatten()
        .find(|time| can_be_read(time));
    nearest.or_else(|| Some(EARLIEST.to_owned()))
}

/// The fields of an object, unread.
type Pieces = BTreeMap<String, Box<RawValue>>;

/// What is read of an object that does not fit its type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outline {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl From<Outline> for ObjectMeta {
    fn from(outline: Outline) -> Self {
        Self {
            name: outline.name,
            namespace: outline.namespace,
            uid: outline.uid,
            resource_version: outline.resource_version,
            ..Self::default()
        }
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::of(text.get()).map_err(D::Error::custom)
    }
}

impl<K: Resource> Resource for Readable<K> {
    type DynamicType = K::DynamicType;
    type Scope = DynamicResourceScope;

    fn kind(kind: &K::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &K::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &K::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &K::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Read(object) => object.meta(),
            Self::Unread(outline) => outline,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Read(object) => object.meta_mut(),
            Self::Unread(outline) => outline,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::{ObjectList, PartialObjectMeta, WatchEvent};
    use serde_json::json;

    use super::*;

    // OWN 31sr: such a time in one status made all objects of its kind unreadable in the other version.
    #[rstest::rstest]
    #[case::ten_decimals("2026-01-01T00:00:00.0000000001Z", Some("2026-01-01T00:00:00.000000000Z"))]
    #[case::ten_decimals_and_an_offset(
        "2026-01-01T00:00:00.1234567899+02:00",
        Some("2026-01-01T00:00:00.123456789+02:00")
    )]
    #[case::offset("2026-01-01T00:00:00+26:00", Some("2026-01-01T00:00:00Z"))]
    #[case::late_by_its_offset("9999-12-29T23:59:59-23:00", Some(LATEST))]
    #[case::late("9999-12-31T23:59:59Z", Some(LATEST))]
    #[case::letter_for_the_point("2026-01-01T00:00:00x5Z", Some("2026-01-01T00:00:00Z"))]
    #[case::more_behind("2026-01-01T00:00:00ZTjunk", Some("2026-01-01T00:00:00Z"))]
    #[case::more_before("2026-01-01Tjunk00:00:00Z", Some(EARLIEST))]
    #[case::no_such_day("2026-02-31T00:00:00Z", Some(EARLIEST))]
    #[case::umlaut("2026-01-01T00:00:0ä", Some(EARLIEST))]
    #[case::time("2026-01-01T00:00:00Z", None)]
    #[case::time_with_decimals("2026-01-01T00:00:00.123456789Z", None)]
    #[case::message("2026-01-01T00:00:00Z is the day of", None)]
    #[case::other_text("2026-01-01", None)]
    fn a_time_that_our_type_does_not_hold_becomes_the_nearest(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(readable_time(text).as_deref(), expected);
        assert!(expected.is_none_or(|time| time.parse::<jiff::Timestamp>().is_ok()));
    }

    /// The last second that Go can write in RFC 3339, which jiff cannot read.
    const TIME: &str = "9999-12-31T23:59:59Z";

    fn named(name: &str) -> Value {
        json!({"metadata": {"name": name, "resourceVersion": "7", "labels": {"a": "b"}}})
    }

    fn read<K: DeserializeOwned>(object: &Value) -> Readable<K> {
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn managed_fields_that_cannot_be_read_are_left_out() {
        let mut object = named("a");
        object["metadata"]["managedFields"] = json!([{"manager": "m", "time": "2026-01-01T00:00:00Z"}]);
        let Readable::Read(map) = read::<ConfigMap>(&object) else {
            panic!("it can be read");
        };
        assert!(map.metadata.managed_fields.is_some());
        object["metadata"]["managedFields"][0]["time"] = json!(TIME);
        serde_json::from_value::<ConfigMap>(object.clone()).expect_err("the time cannot be read");
        let Readable::Read(map) = read::<ConfigMap>(&object) else {
            panic!("it can be read without");
        };
        assert_eq!(map.metadata.managed_fields, None);
        assert!(map.metadata.labels.is_some());
        let read = read::<PartialObjectMeta<ConfigMap>>(&object);
        assert!(matches!(read, Readable::Read(_)));
    }

    #[test]
    fn managed_fields_of_any_depth_are_left_out() {
        let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(200), "}".repeat(200));
        let object = format!(
            r#"{{"kind":"ConfigMap","metadata":{{"name":"a","resourceVersion":"7","managedFields":[{{"manager":"m","fieldsV1":{deep}}}]}},"data":{{"k":"v"}}}}"#
        );
        serde_json::from_str::<ConfigMap>(&object).expect_err("it is nested too deeply");
        let list = format!(r#"{{"apiVersion":"v1","kind":"ConfigMapList","metadata":{{}},"items":[{object}]}}"#);
        let list: ObjectList<Readable<ConfigMap>> = serde_json::from_str(&list).unwrap();
        let Readable::Read(map) = &list.items[0] else {
            panic!("it can be read without");
        };
        assert_eq!(map.data.as_ref().unwrap()["k"], "v");
        let event = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
        let event: WatchEvent<Readable<PartialObjectMeta<ConfigMap>>> = serde_json::from_str(&event).unwrap();
        assert!(matches!(event, WatchEvent::Modified(Readable::Read(_))));
    }

    #[test]
    fn times_of_a_status_that_cannot_be_read_are_bounded() {
        use k8s_openapi::api::core::v1::Pod;
        let mut object = named("a");
        object["metadata"]["annotations"] = json!({"t": TIME});
        object["status"] = json!({"startTime": TIME, "message": "9999-12-31 is no time", "conditions": [
            {"type": "Ready", "status": "True", "lastProbeTime": TIME, "lastTransitionTime": "9999-12-30T21:00:00Z"}]});
        let Readable::Read(pod) = read::<Pod>(&object) else {
            panic!("it can be read");
        };
        assert_eq!(pod.metadata.annotations.unwrap()["t"], TIME);
        let status = json!(pod.status);
        assert_eq!(status["startTime"], LATEST);
        assert_eq!(status["conditions"][0]["lastProbeTime"], LATEST);
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "9999-12-30T21:00:00Z");
    }

    // OWN 31sb: one such object failed the list or the watch of all.
    #[test]
    fn the_other_objects_of_an_answer_are_read() {
        let mut wrong = named("wrong");
        wrong["data"] = json!(7);
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "9"},
            "items": [named("a"), wrong, named("b")]});
        let list: ObjectList<Readable<ConfigMap>> = serde_json::from_str(&list.to_string()).unwrap();
        let read: Vec<_> = list
            .items
            .iter()
            .map(|object| (object.meta().name.as_deref(), matches!(object, Readable::Read(_))))
            .collect();
        assert_eq!(read, [(Some("a"), true), (Some("wrong"), false), (Some("b"), true)]);
        // The API server writes the type first.
        let event = format!(r#"{{"type":"MODIFIED","object":{wrong}}}"#);
        let event: WatchEvent<Readable<ConfigMap>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Modified(Readable::Unread(outline)) = event else {
            panic!("{event:?}");
        };
        assert_eq!(outline.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn an_object_that_must_not_be_missing_is_named() {
        let mut object = named("a");
        assert!(read::<ConfigMap>(&object).read().is_ok());
        object["data"] = json!(7);
        let error = read::<ConfigMap>(&object).read().unwrap_err().to_string();
        assert!(error.contains("ConfigMap /a does not fit its type"), "{error}");
    }

    #[test]
    fn an_object_without_a_name_fails_the_answer() {
        for wrong in [json!({"metadata": {}, "data": 7}), json!(7), json!({"metadata": 7})] {
            serde_json::from_str::<Readable<ConfigMap>>(&wrong.to_string()).expect_err("nothing is known of it");
        }
    }
}
