//! ConversionReview: converts objects to another version, keeping their order.

use std::collections::BTreeMap;

use axum::body::Bytes;
use kube::core::TypeMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{Answer, Verdict};
use super::review::{self, Kind};
use crate::error::chain;
use crate::readable::mended;

const KIND: Kind = Kind {
    name: "ConversionReview",
    versions: ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"],
};

/// Objects are nested deeper than this: in a review, in its request, in a list.
pub(super) const OBJECTS_BELOW: usize = 3;

/// The longest object, in bytes of text: etcd accepts none above 1.5 MiB, and as JSON it may be longer.
const LONGEST: usize = 3 << 20;

/// Each object stays text until it is converted: parsed objects take several times as much memory, and there may be ten
/// thousand.
#[derive(Deserialize)]
struct Request<'a> {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    wanted: String,
    #[serde(borrow)]
    objects: Vec<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    api_version: String,
    kind: String,
    response: Response,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    result: Outcome,
    converted_objects: Vec<Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(tag = "status")]
enum Outcome {
    Success,
    Failure { message: String },
}

/// One object that cannot be converted fails the review, as the API server requires; the message contains its name.
pub(super) fn answer<E>(convert: fn(Value, &str) -> Result<Value, E>, body: Bytes) -> Answer
where
    E: std::error::Error + 'static,
{
    let (TypeMeta { api_version, kind }, request) = match review::read::<Request<'_>>(&body, &KIND) {
        Ok(read) => read,
        Err(answer) => return answer,
    };
    let mut of_kinds = BTreeMap::new();
    let converted: Result<Vec<_>, String> = request
        .objects
        .iter()
        .enumerate()
        .map(|(index, object)| {
            let (kind, object) =
                one(convert, object, &request.wanted).map_err(|error| format!("objects[{index}]: {error}"))?;
            *of_kinds.entry(kind).or_default() += 1;
            Ok(object)
        })
        .collect();
    let uid = request.uid;
    // From here on only the converted objects are held.
    drop(body);
    let (result, converted_objects, verdict) = match converted {
        Ok(objects) => (Outcome::Success, objects, Verdict::Done),
        Err(message) => (Outcome::Failure { message }, Vec::new(), Verdict::Failed),
    };
    let answered = Answered {
        api_version,
        kind,
        response: Response {
            uid,
            result,
            converted_objects,
        },
    };
    let mut answer = Answer::review(&answered, verdict);
    if verdict == Verdict::Done {
        answer.converted = of_kinds;
    }
    answer
}

/// The converted object and its kind, which is one that can be converted.
fn one<E>(
    convert: fn(Value, &str) -> Result<Value, E>,
    object: &RawValue,
    wanted: &str,
) -> Result<(String, Box<RawValue>), String>
where
    E: std::error::Error + 'static,
{
    let length = object.get().len();
    if length > LONGEST {
        return Err(format!("its {length} bytes are more than the limit of {LONGEST}"));
    }
    let converted = try_one(convert, object.get(), wanted).or_else(|error| {
        // Who may write one object must not make all of its kind unreadable. Of the metadata, the API server takes only
        // labels and annotations from the answer.
        match mended(object.get()) {
            Ok(Some(mended)) => try_one(convert, &mended, wanted),
            Ok(None) | Err(_) => Err(error),
        }
    })?;
    let kind = converted["kind"].as_str().unwrap_or_default().to_owned();
    let object = serde_json::value::to_raw_value(&converted).map_err(|error| error.to_string())?;
    Ok((kind, object))
}

fn try_one<E>(convert: fn(Value, &str) -> Result<Value, E>, text: &str, wanted: &str) -> Result<Value, String>
where
    E: std::error::Error + 'static,
{
    let object = serde_json::from_str(text).map_err(|error| error.to_string())?;
    convert(object, wanted).map_err(|error| chain(&error).to_string())
}
