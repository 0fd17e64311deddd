//! What the reference refuses is refused, and the message says where.

use crate::objects::{self, Kind, Refusal, at, generate, walk, written_as};
use crate::server::{Run, Server};
use metal3_testkit::{TestNamespace, namespace};
use serde_json::{Value, json};

/// Puts a value at a pointer; null takes away what is there.
fn change(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match object
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("nothing at {parent}"))
    {
        Value::Object(fields) if value.is_null() => {
            assert!(fields.remove(name).is_some(), "nothing at {pointer}");
        }
        Value::Object(fields) => {
            fields.insert(name.to_owned(), value.clone());
        }
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = value.clone(),
        _ => panic!("nothing at {pointer}"),
    }
}

/// Asks whether the API server would take a changed object. `full` is there already.
async fn answer(namespace: &TestNamespace, kind: &Kind, pointer: &str, changed: &Value) -> Result<Value, String> {
    let server = Server::new(namespace, kind);
    if pointer.starts_with("/status") && kind.has_status_subresource() {
        server.replace_status(changed, Run::Dry).await
    } else {
        let mut changed = changed.clone();
        changed["metadata"] = json!({ "name": "changed", "namespace": namespace.name });
        server.create(&changed, Run::Dry).await
    }
}

/// Creates `full`, for its status to be replaced, and returns it as it was sent but for the version.
async fn full(namespace: &TestNamespace, kind: &Kind) -> Value {
    let mut object = written_as(kind, "full");
    generate::obey(&mut object);
    object["metadata"]["namespace"] = json!(namespace.name);
    // One name for each version: both are the same kind.
    object["metadata"]["name"] = json!(format!("full-{}", kind.version()));
    let created = Server::new(namespace, kind).create(&object, Run::Wet).await;
    let created = created.unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
    object["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    object
}

#[tokio::test]
async fn what_is_wrong_is_refused_with_its_path() {
    let namespace = namespace!().await;
    for kind in objects::all() {
        assert!(!kind.refusals().is_empty(), "{} names nothing", kind.name());
        let full = full(&namespace, &kind).await;
        for Refusal { at, value, because } in kind.refusals() {
            let mut object = full.clone();
            change(&mut object, at, value);
            let answer = answer(&namespace, &kind, at, &object).await;
            let message = answer.expect_err(&format!("{} with {at} {value} is accepted", kind.name()));
            assert!(
                message.contains(because),
                "{} with {at} {value}: {message}",
                kind.name()
            );
        }
    }
}

/// Values that break what a schema says about one field.
fn broken(schema: &Value, value: &Value) -> Vec<Value> {
    let mut broken = Vec::new();
    if schema["type"].is_null() && schema["x-kubernetes-preserve-unknown-fields"] == true {
        return broken; // nothing is wrong there
    }
    let text = |length: u64| Value::String("a".repeat(usize::try_from(length).unwrap()));
    let number = |keyword: &str| schema[keyword].as_i64();
    let wrong_type = match schema["type"].as_str() {
        Some("string") => json!(7),
        Some(_) => json!("text"),
        None => json!(true), // a number or a text
    };
    broken.push(wrong_type);
    if schema["enum"].is_array() && schema["type"] == "string" {
        broken.push(json!("none of them"));
    }
    if schema["pattern"].is_string() {
        broken.push(json!("!"));
    }
    broken.extend(number("minimum").map(|n| json!(n - 1)));
    broken.extend(number("maximum").map(|n| json!(n + 1)));
    broken.extend(schema["maxLength"].as_u64().map(|n| text(n + 1)));
    broken.extend(schema["minLength"].as_u64().filter(|n| *n > 0).map(|n| text(n - 1)));
    if let (Some(items), Some(most)) = (value.as_array(), schema["maxItems"].as_u64()) {
        let items = items.iter().cycle().take(usize::try_from(most + 1).unwrap());
        broken.push(items.cloned().collect());
    }
    if let (Some(items), Some(least @ 1..)) = (value.as_array(), schema["minItems"].as_u64()) {
        broken.push(
            items
                .iter()
                .take(usize::try_from(least - 1).unwrap())
                .cloned()
                .collect(),
        );
    }
    broken
}

/// A pointer in the way in which the API server names fields: `spec.nics[1].name`.
fn path(pointer: &str) -> String {
    let mut path = String::new();
    for name in pointer.split('/').skip(1) {
        if !name.is_empty() && name.chars().all(|c| c.is_ascii_digit()) {
            path.extend(["[", name, "]"]);
        } else {
            let dot = if path.is_empty() { "" } else { "." };
            path.extend([dot, name]);
        }
    }
    path
}

/// All changes that break one word of the schema, each with the path that the message must name.
fn breaches(kind: &Kind, full: &Value) -> Vec<(String, Value, String)> {
    let mut breaches = Vec::new();
    walk(kind.schema(), "", &mut |pattern, schema| {
        if pattern.is_empty() {
            return;
        }
        let Some((pointer, value)) = at(full, pattern).into_iter().next() else {
            return;
        };
        for broken in broken(schema, &value) {
            breaches.push((pointer.clone(), broken, path(&pointer)));
        }
        for field in schema["required"].as_array().into_iter().flatten() {
            let field = field.as_str().unwrap();
            if schema["properties"][field].get("default").is_none() {
                let pointer = format!("{pointer}/{field}");
                breaches.push((pointer.clone(), Value::Null, path(&pointer)));
            }
        }
    });
    breaches
}

#[tokio::test]
async fn every_limit_of_every_schema_holds() {
    let namespace = namespace!().await;
    let (mut tried, mut wrong) = (0, Vec::new());
    for kind in objects::all() {
        let full = full(&namespace, &kind).await;
        for (pointer, value, path) in breaches(&kind, &full) {
            let mut object = full.clone();
            change(&mut object, &pointer, &value);
            tried += 1;
            let value: String = value.to_string().chars().take(40).collect();
            let what = format!("{} {} with {pointer} {value}", kind.api_version(), kind.name());
            match answer(&namespace, &kind, &pointer, &object).await {
                Ok(_) => wrong.push(format!("{what} is accepted")),
                Err(message) if !message.contains(&path) => wrong.push(format!("{what}: {message}")),
                Err(_) => {}
            }
        }
    }
    assert!(tried > 300, "only {tried} breaches were tried");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}
