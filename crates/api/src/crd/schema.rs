//! Makes a type's schema the way Kubernetes' own generator writes schemas.
//!
//! What a type cannot say with serde and schemars it says with markers, `#[schemars(extend("…" = …))]`:
//!
//! | marker | effect |
//! |---|---|
//! | `x-metal3-default` | the API server stores this value where the field is missing |
//! | `x-metal3-nullable` | null is a value of the field, and not the same as its absence to every reader |
//! | `x-metal3-required` | on the type of a spec: an object without a spec is refused |
//! | `x-metal3-v1beta1` | keywords that differ in v1beta1, see [`limits::loose`](crate::infra::shared::limits::loose) |
//!
//! Without the first, a serde default is only about reading and leaves no trace in the schema: a default in the
//! schema changes what is stored. Without the second, an `Option` means that the field may be missing.
//!
//! A field is required exactly if it is always written, which schemars calls the contract of serialisation.

use crate::infra::shared::limits::IN_V1BETA1;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

const DEFAULT: &str = "x-metal3-default";
const NULLABLE: &str = "x-metal3-nullable";
const REQUIRED: &str = "x-metal3-required";

/// The normalised schema of a root type.
pub fn of<K: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true; // definitions and references are not allowed in a CRD
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<K>().to_value();
    let mut schema = normalise(schema);
    if let Value::Object(root) = &mut schema {
        // The server requires apiVersion, kind and metadata by itself, and few kinds insist on a spec.
        root.remove("required");
        let properties = root.entry("properties").or_insert_with(|| json!({}));
        let required = properties["spec"]
            .as_object_mut()
            .and_then(|spec| spec.remove(REQUIRED));
        if required == Some(Value::Bool(true)) {
            root.insert("required".to_owned(), json!(["spec"]));
        }
        let properties = &mut root["properties"];
        properties["apiVersion"] = json!({
            "type": "string",
            "description": "Group and version of this object's format. Servers convert to the version they store, and may \
                            refuse versions they do not know.",
        });
        properties["kind"] = json!({
            "type": "string",
            "description": "What this object is, in CamelCase. Cannot be changed.",
        });
        properties["metadata"] = json!({ "type": "object" });
    }
    schema
}

/// Normalises one schema and all below it. Anything that is not an object is no schema and stays as it is.
fn normalise(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else {
        return schema;
    };
    for keyword in ["title", "default", "nullable", IN_V1BETA1] {
        schema.remove(keyword);
    }
    drop_null(&mut schema);
    drop_unsigned(&mut schema);
    if let Some(default) = schema.remove(DEFAULT) {
        schema.insert("default".to_owned(), default);
    }
    if schema.remove(NULLABLE) == Some(Value::Bool(true)) {
        schema.insert("nullable".to_owned(), Value::Bool(true));
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = unwrap_lines(text);
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(keyword) {
            *below = normalise(below.take());
        }
    }
    for below in schema
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(Map::values_mut)
    {
        *below = normalise(below.take());
    }
    Value::Object(schema)
}

/// Takes back what schemars does for an `Option`: null as one more type, as one more text of an enum, or as the other
/// branch of a choice. What was the only branch left takes the place of the choice; its own description gives way to the
/// field's.
fn drop_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [single] = types.as_slice() {
            let single = single.clone();
            schema.insert("type".to_owned(), single);
        }
    }
    if let Some(Value::Array(texts)) = schema.get_mut("enum") {
        texts.retain(|text| !text.is_null());
    }
    let Some(Value::Array(branches)) = schema.get_mut("anyOf") else {
        return;
    };
    branches.retain(|branch| branch != &json!({ "type": "null" }));
    if let [Value::Object(single)] = branches.as_mut_slice() {
        let single = std::mem::take(single);
        schema.remove("anyOf");
        for (keyword, value) in single {
            schema.entry(keyword).or_insert(value);
        }
        // The branch came from a type of its own and may again be an option.
        drop_null(schema);
    }
}

/// Go has no unsigned numbers in its APIs. A type that wants a minimum of 0 in the schema is signed and says so.
fn drop_unsigned(schema: &mut Map<String, Value>) {
    let unsigned = schema
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(|format| format.starts_with("uint"));
    if unsigned {
        schema.remove("format");
        schema.remove("minimum");
    }
}

/// Joins the lines of a paragraph: doc comments break lines where source code does, `kubectl explain` breaks them
/// where the terminal does.
fn unwrap_lines(text: &str) -> String {
    let paragraphs = text
        .split("\n\n")
        .map(|paragraph| paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
