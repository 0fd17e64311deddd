//! Conversion between the two versions, for the API server.
//!
//! [`convert`] takes a whole object and gives it in the other version. Of its metadata it touches annotations only.
//!
//! # Nothing is lost
//!
//! Either version can say things that the other cannot: v1beta2 knows the labels of what a template makes, v1beta1 the
//! kind of a referenced object. What the other version cannot say travels along as JSON in an annotation and is put back
//! on the way back, field by field, as far as the object has not been changed there in between:
//!
//! | annotation | on an object in | holds |
//! |---|---|---|
//! | [`CONVERSION_DATA`] | v1beta1 | spec and status in v1beta2; never stored |
//! | [`V1BETA1_DATA`] | v1beta2 | spec or status in v1beta1, if v1beta2 cannot express it |
//!
//! The first is Cluster API's, and upstream writes it for the four kinds of clusters and machines always. The others get
//! it here when something would be lost without it. Fields that nobody knows are kept by the same means.
//!
//! ```text
//! mod            which kind and version, annotations
//! preserve       puts back what the other version could not say
//! cluster …      the fields, one file for each pair of kinds
//! ```

mod body;
mod cluster;
mod data;
mod data_template;
mod duration;
mod machine;
mod preserve;
mod remediation;

use super::names::GROUP;
use super::names::annotation::V1BETA1_DATA;
use super::{v1beta1, v1beta2};
use crate::capi::names::annotation::CONVERSION_DATA;
use crate::carried::is_light;
use body::{Body, NoStatus, through, through_with_spec, without_null_fields};
use serde_json::{Map, Value, json};

/// Why an object cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// It is no JSON object with apiVersion and kind.
    #[error("not an object with apiVersion and kind")]
    NotAnObject,

    /// The kind is none of this group's nine.
    #[error("{api_version} {kind} is no kind that can be converted")]
    UnknownKind {
        /// The object's apiVersion.
        api_version: String,
        /// The object's kind.
        kind: String,
    },

    /// The version that is wanted or given is none of the two.
    #[error("{0} is no version that can be converted")]
    UnknownVersion(String),

    /// A field has a value of another type than its schema says.
    #[error("{kind} {name} has a field of the wrong type")]
    Malformed {
        /// The object's kind.
        kind: String,
        /// Its namespace and name: one such object fails the list that it is in.
        name: String,
        /// Which field, and what is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

/// How a kind is converted.
struct Kind {
    name: &'static str,
    /// Whether v1beta1 always carries the whole object in v1beta2, as upstream has it.
    carries_always: bool,
    /// References, which are put back whole or not at all.
    references: &'static [&'static str],
    up: Convert,
    down: Convert,
}

/// Converts spec and status, without looking at annotations.
type Convert = fn(&Body) -> Result<Body, serde_json::Error>;

macro_rules! kind {
    ($kind:ident, $spec:ident, $status:ident, $always:literal, $references:expr) => {
        Kind {
            name: stringify!($kind),
            carries_always: $always,
            references: $references,
            up: through::<v1beta1::$spec, v1beta2::$spec, v1beta1::$status, v1beta2::$status>,
            down: through::<v1beta2::$spec, v1beta1::$spec, v1beta2::$status, v1beta1::$status>,
        }
    };
    // Without a status; its spec must be there in v1beta2.
    ($kind:ident, $spec:ident, $always:literal, $references:expr) => {
        Kind {
            name: stringify!($kind),
            carries_always: $always,
            references: $references,
            up: through_with_spec::<v1beta1::$spec, v1beta2::$spec>,
            down: through::<v1beta2::$spec, v1beta1::$spec, NoStatus, NoStatus>,
        }
    };
}

const KINDS: [Kind; 9] = [
    kind!(Metal3Cluster, Metal3ClusterSpec, Metal3ClusterStatus, true, &[]),
    kind!(Metal3ClusterTemplate, Metal3ClusterTemplateSpec, true, &[]),
    kind!(
        Metal3Machine,
        Metal3MachineSpec,
        Metal3MachineStatus,
        true,
        &["/spec/dataTemplate", "/status/renderedData"]
    ),
    kind!(
        Metal3MachineTemplate,
        Metal3MachineTemplateSpec,
        true,
        &["/spec/template/spec/dataTemplate"]
    ),
    Kind {
        down: data_template::down,
        ..kind!(
            Metal3DataTemplate,
            Metal3DataTemplateSpec,
            Metal3DataTemplateStatus,
            false,
            &[]
        )
    },
    kind!(
        Metal3DataClaim,
        Metal3DataClaimSpec,
        Metal3DataClaimStatus,
        false,
        &["/spec/template", "/status/renderedData"]
    ),
    kind!(
        Metal3Data,
        Metal3DataSpec,
        Metal3DataStatus,
        false,
        &["/spec/claim", "/spec/template"]
    ),
    kind!(
        Metal3Remediation,
        Metal3RemediationSpec,
        Metal3RemediationStatus,
        false,
        &[]
    ),
    kind!(
        Metal3RemediationTemplate,
        Metal3RemediationTemplateSpec,
        Metal3RemediationTemplateStatus,
        false,
        &[]
    ),
];

/// Converts an object of one of the nine kinds to the version of `to`, an apiVersion such as
/// `infrastructure.cluster.x-k8s.io/v1beta2`. An object that has that version already comes back as it is.
///
/// # Errors
///
/// The kind or a version is unknown, or a field has the wrong type. What is merely invalid converts: the API server may
/// have stored it long ago.
pub fn convert(object: Value, to: &str) -> Result<Value, ConversionError> {
    let Value::Object(mut object) = object else {
        return Err(ConversionError::NotAnObject);
    };
    let (Some(from), Some(name)) = (text(&object, "apiVersion"), text(&object, "kind")) else {
        return Err(ConversionError::NotAnObject);
    };
    let wanted = version(to)?;
    let known = KINDS.iter().find(|kind| kind.name == name);
    let (Some(kind), true) = (known, from.starts_with(&format!("{GROUP}/"))) else {
        return Err(ConversionError::UnknownKind {
            api_version: from,
            kind: name,
        });
    };
    let given = version(&from)?;
    if given == wanted {
        return Ok(Value::Object(object));
    }
    let mut metadata = object.remove("metadata");
    let mut annotations = take_annotations(&mut metadata);
    object.retain(|key, _| key != "apiVersion" && key != "kind");
    let converted = match wanted {
        Version::V1Beta2 => kind.to_new(&object, &mut annotations),
        Version::V1Beta1 => {
            cluster::list_domains(&mut object);
            kind.to_old(&object, &mut annotations)
        }
    };
    let mut converted = converted.map_err(|source| ConversionError::Malformed {
        kind: name.clone(),
        name: full_name(metadata.as_ref()),
        source,
    })?;
    put_annotations(&mut metadata, annotations);
    converted.insert("apiVersion".to_owned(), json!(to));
    converted.insert("kind".to_owned(), json!(name));
    if let Some(metadata) = metadata {
        converted.insert("metadata".to_owned(), metadata);
    }
    Ok(Value::Object(converted))
}

impl Kind {
    fn to_new(&self, old: &Body, annotations: &mut Map<String, Value>) -> Result<Body, serde_json::Error> {
        annotations.remove(V1BETA1_DATA);
        let saved = saved(annotations.remove(CONVERSION_DATA));
        let plain = (self.up)(old)?;
        let new = match saved {
            Some(saved) => preserve::restore(plain, saved, self.down, self.up, self.references)?,
            None => plain,
        };
        let lost = preserve::inexpressible(old, &(self.down)(&new)?);
        if !lost.is_empty() {
            attach(annotations, V1BETA1_DATA, &lost)?;
        }
        Ok(new)
    }

    fn to_old(&self, new: &Body, annotations: &mut Map<String, Value>) -> Result<Body, serde_json::Error> {
        annotations.remove(CONVERSION_DATA);
        let saved = saved(annotations.remove(V1BETA1_DATA));
        let plain = (self.down)(new)?;
        let old = match saved {
            Some(saved) => preserve::restore(plain, saved, self.up, self.down, self.references)?,
            None => plain,
        };
        if self.carries_always || &(self.up)(&old)? != new {
            attach(annotations, CONVERSION_DATA, new)?;
        }
        Ok(old)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1Beta1,
    V1Beta2,
}

fn version(api_version: &str) -> Result<Version, ConversionError> {
    match api_version.strip_prefix(GROUP) {
        Some("/v1beta1") => Ok(Version::V1Beta1),
        Some("/v1beta2") => Ok(Version::V1Beta2),
        _ => Err(ConversionError::UnknownVersion(api_version.to_owned())),
    }
}

fn text(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key)?.as_str().map(str::to_owned)
}

/// `<namespace>/<name>`, as far as the object has them.
fn full_name(metadata: Option<&Value>) -> String {
    let part = |key| metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
    match (part("namespace"), part("name")) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        (None, Some(name)) => name.to_owned(),
        _ => "without a name".to_owned(),
    }
}

/// What an annotation holds. One that cannot be read is none of ours, and of no use: it must not keep the object from being
/// read. What is null in it was nothing before: Go writes so what was never set.
fn saved(annotation: Option<Value>) -> Option<Body> {
    let annotation = annotation?;
    let text = annotation.as_str().filter(|text| is_light(text))?;
    let saved: Body = serde_json::from_str(text).ok()?;
    Some(without_null_fields(&saved))
}

/// Kubernetes' limit for all annotations of an object, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

/// Adds an annotation, unless the object could not be stored with it, or it would not be read. Then what it would carry is lost, which is what
/// upstream does with it in any case.
fn attach(annotations: &mut Map<String, Value>, key: &str, body: &Body) -> Result<(), serde_json::Error> {
    let text = serde_json::to_string(body)?;
    let size = |key: &str, value: &Value| key.len() + value.as_str().map_or(0, str::len);
    let others: usize = annotations.iter().map(|(key, value)| size(key, value)).sum();
    if others + key.len() + text.len() <= ANNOTATIONS_LIMIT && is_light(&text) {
        annotations.insert(key.to_owned(), Value::String(text));
    }
    Ok(())
}

fn take_annotations(metadata: &mut Option<Value>) -> Map<String, Value> {
    match metadata.as_mut().and_then(|metadata| metadata.get_mut("annotations")) {
        Some(Value::Object(annotations)) => std::mem::take(annotations),
        _ => Map::new(),
    }
}

fn put_annotations(metadata: &mut Option<Value>, annotations: Map<String, Value>) {
    match metadata {
        Some(Value::Object(metadata)) if annotations.is_empty() => {
            metadata.remove("annotations");
        }
        Some(Value::Object(metadata)) => {
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
        _ if annotations.is_empty() => {}
        _ => *metadata = Some(json!({ "annotations": annotations })),
    }
}
