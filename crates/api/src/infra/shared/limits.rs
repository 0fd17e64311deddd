//! Limits in schemas: the usual ones of v1beta2's lists, and how v1beta1 gets rid of them.

use schemars::Schema;
use serde_json::{Value, json};

/// Marker of a schema: keywords that it has in v1beta1 instead, null for none. The description is one of them.
pub const IN_V1BETA1: &str = "x-metal3-v1beta1";

/// The same schema as it is in v1beta1, which has patterns and upper bounds of numbers, but no lower bounds, no sizes of
/// texts and lists, and no keys of lists.
pub fn loose(schema: &mut Schema) {
    if let Some(schema) = schema.as_object_mut() {
        let mut value = Value::Object(std::mem::take(schema));
        loosen(&mut value);
        if let Value::Object(loosened) = value {
            *schema = loosened;
        }
    }
}

fn loosen(schema: &mut Value) {
    let Value::Object(keywords) = schema else {
        return;
    };
    // A text with a pattern is a name that something else limits, such as the kernel.
    if !keywords.contains_key("pattern") {
        keywords.remove("maxLength");
    }
    for keyword in [
        "minLength",
        "minItems",
        "maxItems",
        "minimum",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    ] {
        keywords.remove(keyword);
    }
    if keywords.get("type") == Some(&json!("integer")) {
        keywords.remove("format");
    }
    if let Some(Value::Object(changes)) = keywords.remove(IN_V1BETA1) {
        for (keyword, value) in changes {
            if value.is_null() {
                keywords.remove(&keyword);
            } else {
                keywords.insert(keyword, value);
            }
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(below) = keywords.get_mut(keyword) {
            loosen(below);
        }
    }
    for below in keywords
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(serde_json::Map::values_mut)
    {
        loosen(below);
    }
    for below in keywords
        .get_mut("anyOf")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        loosen(below);
    }
}

/// A list of one to 512 structures, told apart by `key`.
pub fn by_key(schema: &mut Schema) {
    keyed(schema, "key", 512);
}

/// A list of one to 512 structures, told apart by `id`.
pub fn by_id(schema: &mut Schema) {
    keyed(schema, "id", 512);
}

/// A list of one to 32 network interfaces, told apart by `id`.
pub fn ethernets(schema: &mut Schema) {
    keyed(schema, "id", 32);
}

/// A list of one to 512 VLANs, told apart by their numbers.
pub fn by_vlan_id(schema: &mut Schema) {
    keyed(schema, "vlanID", 512);
}

/// A list of one to 512 entries, told apart by their indexes.
pub fn by_index(schema: &mut Schema) {
    keyed(schema, "index", 512);
}

/// A list of one to 512 structures, told apart by `name`.
pub fn by_name(schema: &mut Schema) {
    keyed(schema, "name", 512);
}

/// A list of one to 512 routes, told apart by the network that they lead to.
pub fn by_network(schema: &mut Schema) {
    keyed(schema, "network", 512);
}

/// A list of one to 100 failure domains, told apart by their names.
pub fn failure_domains(schema: &mut Schema) {
    keyed(schema, "name", 100);
}

/// A list of at most 32 conditions, told apart by their types.
pub fn conditions(schema: &mut Schema) {
    keyed(schema, "type", 32);
    schema.remove("minItems");
}

/// A list of structures, told apart by `key`.
fn keyed(schema: &mut Schema, key: &str, max: u32) {
    schema.insert("minItems".to_owned(), json!(1));
    schema.insert("maxItems".to_owned(), json!(max));
    schema.insert("x-kubernetes-list-type".to_owned(), json!("map"));
    schema.insert("x-kubernetes-list-map-keys".to_owned(), json!([key]));
}
