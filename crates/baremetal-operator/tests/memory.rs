//! What the annotations of a host cost in memory when it is admitted.

use std::alloc::System;

use baremetal_operator::webhooks;
use cap::Cap;
use metal3_testkit::peak::Peak;
use serde_json::json;

#[path = "../../runtime/src/webhook/weight.rs"]
mod weight;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const PATH: &str = "/validate-metal3-io-v1alpha1-baremetalhost";

#[test]
fn the_annotations_of_a_host_take_no_more_than_their_estimate() {
    let webhooks = webhooks::all(|_| Ok(Vec::new()));
    let list = |field: &str, one: &str, many: usize| format!("{{{field}:[{}]}}", vec![one; many].join(","));
    let keys: Vec<String> = (0..32_000).map(|n| format!("\"{n:05}\":0")).collect();
    let in_status = |hardware: String| format!(r#"{{"hardware":{hardware}}}"#);
    let mac = r#"{"mac":"52:54:00:12:34:56"}"#;
    for text in [
        list(r#""x""#, r#"{"":0}"#, 3_600),
        list(r#""x""#, r#"{"":0}"#, 40_000),
        list(r#""x""#, "[]", 10_000),
        list(r#""x""#, "0", 32_000),
        list(r#""nics""#, mac, 3_600),
        list(
            r#""nics""#,
            r#"{"mac":"52:54:00:12:34:56","name":"a","ip":"b","model":"c"}"#,
            2_700,
        ),
        list(r#""storage""#, r#"{"name":"a"}"#, 3_600),
        list(r#""storage""#, r#"{"alternateNames":["a","b"]}"#, 2_500),
        r#"{"cpu":"#.to_owned() + &list(r#""flags""#, r#""abc""#, 32_000) + "}",
        format!("{{{}}}", keys.join(",")),
    ] {
        for (key, text) in [
            ("inspect.metal3.io/hardwaredetails", text.clone()),
            ("baremetalhost.metal3.io/status", in_status(text)),
        ] {
            let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                "metadata": {"name": "h", "namespace": "n", "annotations": {key: text}},
                "spec": {"online": true, "inspectionMode": "disabled"}});
            let request = json!({"uid": "u", "kind": {"group": "metal3.io", "version": "v1alpha1", "kind": "BareMetalHost"},
                "resource": {"group": "", "version": "", "resource": ""}, "operation": "CREATE", "userInfo": {}, "object": host});
            let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
            let review = review.to_string();
            let mut estimated = weight::Weight::new(0);
            estimated.count(review.as_bytes());
            // The schema is loaded once.
            let small = review.replace(&text.replace('"', "\\\""), "{}");
            webhooks.answer(PATH, small.into()).unwrap();
            let peak = Peak::watch(|| ALLOCATOR.allocated());
            let length = review.len();
            webhooks.answer(PATH, review.into()).unwrap();
            let taken = peak.most();
            let estimated = estimated.bytes();
            eprintln!("{key}: {length} bytes of text, {taken} taken, {estimated} estimated");
            assert!(
                taken <= estimated,
                "{}: {taken} bytes are taken, {estimated} estimated",
                &text[..20]
            );
        }
    }
}
