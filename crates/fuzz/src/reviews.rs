//! Reviews from anyone who can connect to a webhook's port.

use crate::bounded::is_bounded;
use axum::body::Bytes;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use metal3_api::metal3::HostNetworkAttachment;
use metal3_runtime::webhook::Webhooks;
use serde_json::{Value, json};
use std::sync::LazyLock;

static PROGRAMS: LazyLock<[Webhooks; 3]> = LazyLock::new(|| {
    [
        baremetal_operator::webhooks::all(users),
        cluster_api_provider_metal3::webhooks::all(),
        ip_address_manager::webhooks::all(),
    ]
});

/// The users of an object, by its name.
fn users(object: &HostNetworkAttachment) -> Result<Vec<String>, String> {
    match object.metadata.name.as_deref() {
        Some("used") => Ok(vec!["BareMetalHost n/a".to_owned()]),
        Some("unknown") => Err("no answer".to_owned()),
        _ => Ok(Vec::new()),
    }
}

/// All paths of all programs.
pub fn paths() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().flat_map(Webhooks::paths)
}

/// Whether a review of this kind is put to a path: to that of its kind, and to some of each sort.
pub fn is_put_to(path: &str, review: &Value) -> bool {
    let kind = review.pointer("/request/kind/kind").and_then(Value::as_str);
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    let is_for_all = path == "/convert" || path.ends_with("-v1beta2-metal3machine");
    is_for_all || path.rsplit('-').next() == Some(&kind)
}

/// A review gets an answer with its uid, or an HTTP error with a reason; a refusal says why, and defaults are set once.
pub fn check(input: &[u8]) {
    let read = serde_json::from_slice::<Value>(input);
    // The server skips what it does not need, such as a text with half a character, which is no JSON for the parser here.
    let is_skipped_over = read.is_err();
    let review = read.unwrap_or_default();
    let body = Bytes::copy_from_slice(input);
    for webhooks in PROGRAMS.iter() {
        for path in webhooks.paths() {
            if !is_put_to(path, &review) {
                continue;
            }
            let (status, answer) = webhooks.answer(path, body.clone()).expect("a path of the list");
            is_bounded(input, answer.len());
            if status != StatusCode::OK {
                assert!(status.is_client_error(), "{path}: {status}");
                assert!(!answer.is_empty(), "{path}: {status} without a reason");
                continue;
            }
            let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
            if is_skipped_over {
                continue;
            }
            let (asked, answered) = (&review["request"], &answer["response"]);
            assert_eq!(answered["uid"], asked["uid"], "{path}: the uid");
            assert_eq!(answer["apiVersion"], review["apiVersion"], "{path}: the version");
            assert_eq!(answer["kind"], review["kind"], "{path}: the kind");
            if path == "/convert" {
                is_conversion(asked, answered);
            } else {
                is_admission(path, asked, answered);
                is_defaulted(webhooks, path, &review, answered);
            }
        }
    }
}

fn is_conversion(asked: &Value, answered: &Value) {
    let objects = answered["convertedObjects"].as_array().map_or(0, Vec::len);
    if answered["result"]["status"] == "Success" {
        assert_eq!(objects, asked["objects"].as_array().map_or(0, Vec::len));
        return;
    }
    assert_eq!(answered["result"]["status"], "Failure");
    let message = answered["result"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("objects["), "{message:?}");
    assert_eq!(objects, 0);
}

fn is_admission(path: &str, asked: &Value, answered: &Value) {
    let is_judged = match asked["operation"].as_str() {
        Some("CREATE" | "UPDATE") => true,
        // Its users keep it.
        Some("DELETE") => path.ends_with("-hostnetworkattachment"),
        _ => false,
    };
    match answered["allowed"].as_bool() {
        Some(true) => {}
        Some(false) => {
            assert!(is_judged, "{}: not to be judged", asked["operation"]);
            let message = answered["status"]["message"].as_str().unwrap_or_default();
            let code = answered["status"]["code"].as_u64().unwrap_or_default();
            assert!(!message.is_empty() && (400..500).contains(&code), "{answered}");
        }
        None => panic!("neither allowed nor refused: {answered}"),
    }
}

/// The patch can be applied, and the object with it needs no other.
fn is_defaulted(webhooks: &Webhooks, path: &str, review: &Value, answered: &Value) {
    let Some(encoded) = answered["patch"].as_str() else {
        return;
    };
    let defaults = STANDARD.decode(encoded).expect("a patch in base64");
    let defaults: json_patch::Patch = serde_json::from_slice(&defaults).expect("a JSON patch");
    let mut review = review.clone();
    json_patch::patch(&mut review["request"]["object"], &defaults).expect("a patch of this object");
    let (status, answer) = webhooks
        .answer(path, Bytes::from(review.to_string()))
        .expect("the same path");
    assert_eq!(status, StatusCode::OK);
    let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
    assert_eq!(answer["response"].get("patch"), None, "after {}", json!(defaults));
}
