//! What `kubectl explain` reads: the schemas that the API server publishes.

use crate::objects;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use metal3_testkit::{DEADLINE, eventually, namespace};
use serde_json::Value;

/// Where a published schema has no description, as paths.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if below["description"].as_str().is_none_or(str::is_empty) {
            found.push(path.clone());
        }
        undescribed(below, &path, found);
        undescribed(&below["items"], &format!("{path}[]"), found);
        undescribed(&below["additionalProperties"], &format!("{path}{{}}"), found);
    }
}

/// The published schema of a kind, which takes a while to appear after the kind is served.
async fn published(client: &Client, group: &str, version: &str, kind: &str) -> Value {
    let mut reversed: Vec<_> = group.split('.').collect();
    reversed.reverse();
    let name = format!("{}.{version}.{kind}", reversed.join("."));
    let probe = async || {
        let request = Request::new(format!("/openapi/v3/apis/{group}")).get(version, &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        let document: Value = client.request(request).await.map_err(|error| error.to_string())?;
        let schema = &document["components"]["schemas"][&name];
        if schema.is_object() {
            Ok(schema.clone())
        } else {
            Err(format!("no schema {name}"))
        }
    };
    eventually(DEADLINE, "the schema is published", probe).await
}

#[tokio::test]
async fn every_field_is_explained() {
    let namespace = namespace!().await;
    for kind in objects::all() {
        let schema = published(&namespace.client, kind.group(), kind.version(), kind.name()).await;
        let mut missing = Vec::new();
        // All fields are published; descriptions of lists' items and maps' values are those of the lists and maps.
        objects::walk(kind.schema(), "", &mut |path, _| {
            let mut pointer = String::new();
            for name in path.split('/').skip(1) {
                let (items, values) = (format!("{pointer}/items"), format!("{pointer}/additionalProperties"));
                pointer = match name {
                    "*" if schema.pointer(&items).is_some() => items,
                    "*" => values,
                    name => format!("{pointer}/properties/{name}"),
                };
            }
            if schema.pointer(&pointer).is_none() {
                missing.push(path.to_owned());
            }
        });
        assert!(missing.is_empty(), "{} does not publish {missing:?}", kind.name());
        let mut found = Vec::new();
        undescribed(&schema, "", &mut found);
        assert!(found.is_empty(), "{}: {found:?}", kind.name());
    }
}
