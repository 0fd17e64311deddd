//! An object without its metadata.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// All fields of an object but apiVersion, kind and metadata.
pub type Body = Map<String, Value>;

/// Status of a kind that has none.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct NoStatus {}

#[derive(Deserialize)]
struct Given<Spec, Status> {
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Serialize)]
struct Made<Spec, Status> {
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Spec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

/// Converts through the types of the two versions. What they do not know is left out.
///
/// # Errors
///
/// A field has another type than it should.
pub fn through<Spec, OtherSpec, Status, OtherStatus>(body: &Body) -> Result<Body, serde_json::Error>
where
    Spec: DeserializeOwned,
    Status: DeserializeOwned,
    OtherSpec: From<Spec> + Serialize,
    OtherStatus: From<Status> + Serialize,
{
    let given: Given<Spec, Status> = given(body)?;
    made(given.spec.map(OtherSpec::from), given.status.map(OtherStatus::from))
}

/// The same for a kind whose spec must be there in the other version.
///
/// # Errors
///
/// A field has another type than it should.
pub fn through_with_spec<Spec, OtherSpec>(body: &Body) -> Result<Body, serde_json::Error>
where
    Spec: DeserializeOwned + Default,
    OtherSpec: From<Spec> + Serialize,
{
    let given: Given<Spec, NoStatus> = given(body)?;
    made(Some(OtherSpec::from(given.spec.unwrap_or_default())), None::<NoStatus>)
}

/// Reads it; an error begins with the path of the field. A field that is null is not there to Kubernetes, and must not keep
/// the object from being read; in fields that hold any JSON null is a value, so it stays where it can.
fn given<T: DeserializeOwned>(body: &Body) -> Result<T, serde_json::Error> {
    let read = |body: Body| serde_path_to_error::deserialize(Value::Object(body));
    read(body.clone())
        .or_else(|_| read(without_null_fields(body)))
        .map_err(|error| serde_json::Error::custom(format!("{}: {}", error.path(), error.inner())))
}

/// The same without fields that are null, at any depth.
pub fn without_null_fields(body: &Body) -> Body {
    fn below(value: &Value) -> Value {
        match value {
            Value::Object(fields) => Value::Object(without_null_fields(fields)),
            Value::Array(items) => Value::Array(items.iter().map(below).collect()),
            _ => value.clone(),
        }
    }
    let fields = body.iter().filter(|(_, value)| !value.is_null());
    fields.map(|(key, value)| (key.clone(), below(value))).collect()
}

fn made<Spec: Serialize, Status: Serialize>(
    spec: Option<Spec>,
    status: Option<Status>,
) -> Result<Body, serde_json::Error> {
    match serde_json::to_value(Made { spec, status })? {
        Value::Object(body) => Ok(body),
        _ => Ok(Body::new()),
    }
}
