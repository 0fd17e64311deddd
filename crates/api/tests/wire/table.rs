//! Objects of every kind are stored as they were sent.

use crate::objects::{self, Kind, generate, written};
use crate::server::{Run, Server};
use metal3_api::capi::names::annotation::CONVERSION_DATA;
use metal3_api::infra::names::annotation::V1BETA1_DATA;
use metal3_testkit::{TestNamespace, namespace};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// What is compared: the user's part of an object.
fn content(object: &Value) -> Value {
    let mut content = json!({});
    for part in object.as_object().unwrap().keys().filter(|part| *part != "metadata") {
        content[part] = object[part].clone();
    }
    for part in ["labels", "annotations", "finalizers"] {
        content["metadata"][part] = object["metadata"][part].clone();
    }
    // What conversion carries for the other version is not the user's.
    if let Some(annotations) = content["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| key != CONVERSION_DATA && key != V1BETA1_DATA);
        if annotations.is_empty() {
            content["metadata"]["annotations"] = Value::Null;
        }
    }
    content
}

/// Sends an object under this name, its status apart where the kind has it so, and returns what the API server made of it.
async fn store(namespace: &TestNamespace, kind: &Kind, name: &str, object: &Value) -> Value {
    let server = Server::new(namespace, kind);
    let what = format!("{} {} {name}", kind.api_version(), kind.name());
    let mut object = object.clone();
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!(namespace.name);
    let created = server.create(&object, Run::Wet).await;
    let created = created.unwrap_or_else(|error| panic!("{what}: {error}\n{object:#}"));
    if !kind.has_status_subresource() || object.get("status").is_none() {
        return created;
    }
    assert_eq!(created.get("status"), None, "{what}: status is a subresource");
    let mut with_status = created.clone();
    with_status["status"] = object["status"].clone();
    let stored = server.replace_status(&with_status, Run::Wet).await;
    let stored = stored.unwrap_or_else(|error| panic!("{what}: {error}\n{object:#}"));
    assert_eq!(stored["spec"], created["spec"], "{what}");
    stored
}

/// Nothing is dropped, and nothing added but the defaults that the table names.
#[tokio::test]
async fn written_objects_come_back_as_they_were_sent() {
    let namespace = namespace!().await;
    for kind in objects::all() {
        for (name, mut object) in written(&kind) {
            generate::obey(&mut object);
            let what = format!("{} {} {name}", kind.api_version(), kind.name());
            let stored = store(&namespace, &kind, &format!("{name}-{}", kind.version()), &object).await;
            if name.starts_with("go-") {
                // The API server drops nulls.
                assert_eq!(
                    kind.meaning(&content(&stored)),
                    kind.meaning(&kind.stored(&content(&object))),
                    "{what}"
                );
            } else {
                assert_eq!(content(&stored), kind.stored(&content(&object)), "{what}");
                assert_eq!(content(&kind.rewrite(&stored)), content(&stored), "{what}");
            }
        }
    }
}

/// The same for objects from empty to full that nobody has chosen; the same ones in each run.
#[tokio::test]
async fn generated_objects_come_back_as_our_types_sent_them() {
    let namespace = namespace!().await;
    for kind in objects::all() {
        let mut runner = TestRunner::deterministic();
        for (n, fullness) in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 1.0].into_iter().enumerate() {
            let mut object = generate::with_spec(&kind, fullness)
                .new_tree(&mut runner)
                .unwrap()
                .current();
            generate::obey(&mut object);
            let sent = kind.rewrite(&object);
            let stored = store(&namespace, &kind, &format!("generated{n}-{}", kind.version()), &sent).await;
            let what = format!("{} {} {n}", kind.api_version(), kind.name());
            let (stored, sent) = (content(&stored), kind.stored(&content(&sent)));
            if kind.is_converted() {
                // The version that is stored has no place for all the ways of saying nothing.
                assert_eq!(kind.meaning(&stored), kind.meaning(&sent), "{what}");
            } else {
                assert_eq!(stored, sent, "{what}");
            }
        }
    }
}

/// Few kinds need a spec.
#[tokio::test]
async fn an_object_needs_no_spec() {
    let namespace = namespace!().await;
    for kind in objects::all() {
        let bare = json!({ "apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {} });
        if kind.requires_spec() {
            let mut bare = bare;
            bare["metadata"] = json!({ "name": "bare", "namespace": namespace.name });
            let refused = Server::new(&namespace, &kind)
                .create(&bare, Run::Dry)
                .await
                .unwrap_err();
            assert!(refused.contains("spec: Required value"), "{}: {refused}", kind.name());
            continue;
        }
        // One name for each version: both are the same kind.
        let stored = store(&namespace, &kind, &format!("bare-{}", kind.version()), &bare).await;
        if kind.is_converted() {
            // The version that is stored may need a spec.
            assert_eq!(
                kind.meaning(&content(&stored)),
                kind.meaning(&content(&bare)),
                "{}",
                kind.name()
            );
        } else {
            assert_eq!(stored.get("spec"), None, "{}", kind.name());
        }
        kind.rewrite(&stored);
    }
}
