//! Objects of the nine infrastructure kinds, converted there and back.

use crate::json::{bare, without_empty, without_null};
use metal3_api::infra::convert;
use serde_json::Value;

const VERSIONS: [&str; 2] = [
    "infrastructure.cluster.x-k8s.io/v1beta1",
    "infrastructure.cluster.x-k8s.io/v1beta2",
];

/// Above it an object may not be able to carry its other version: Kubernetes limits annotations to 256 KiB.
const CARRIED: usize = 32 << 10;

/// Conversion loses nothing, changes nothing of metadata but our own annotations, and the second conversion changes nothing
/// that the first has not.
pub fn check(input: &[u8]) {
    let Ok(object) = serde_json::from_slice::<Value>(input) else {
        return;
    };
    // The API server has checked what every object has.
    let annotations = object.pointer("/metadata/annotations");
    let is_one = object["metadata"].is_object() && object["spec"].is_object();
    if !is_one || !annotations.is_none_or(Value::is_object) {
        return;
    }
    let from = object["apiVersion"].as_str().unwrap_or_default();
    let is_new = from == VERSIONS[1];
    let (from, to) = if is_new {
        (VERSIONS[1], VERSIONS[0])
    } else {
        (VERSIONS[0], VERSIONS[1])
    };
    let Ok(there) = convert(object.clone(), to) else {
        return;
    };
    assert_eq!(there["apiVersion"], to);
    assert_eq!(there["kind"], object["kind"]);
    if object["apiVersion"] == to {
        assert_eq!(there, object, "nothing was to be converted");
        return;
    }
    let metadata = |object: &Value| bare(object.clone()).get("metadata").cloned();
    assert_eq!(metadata(&there), metadata(&object), "metadata");
    let back = convert(there.clone(), from).expect("what was converted can be converted back");
    let again = convert(back.clone(), to).expect("and there once more");
    // Go's clients write null for what they leave out.
    let seen = |object: Value| without_null(bare(object));
    assert_eq!(seen(again), seen(there), "the second conversion differs from the first");
    if input.len() > CARRIED {
        return;
    }
    let (sent, returned) = (seen(object), seen(back));
    if is_new {
        assert_eq!(returned, sent, "v1beta2 comes back as it was");
    } else {
        let (sent, returned) = (without_empty(&sent), without_empty(&returned));
        assert_eq!(returned, sent, "v1beta1 comes back as it was");
    }
}
