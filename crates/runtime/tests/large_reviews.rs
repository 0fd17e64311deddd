//! What reviews cost in memory.

use std::alloc::System;
use std::convert::Infallible;
use std::net::TcpListener;

use cap::Cap;
use clap::Parser;
use metal3_runtime::args::TlsArgs;
use metal3_runtime::metrics::{Build, Registry};
use metal3_runtime::tls::{Certificate, Policy};
use metal3_runtime::webhook::{Endpoint, Webhooks};
use metal3_testkit::peak::Peak;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[path = "../src/webhook/weight.rs"]
mod weight;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Whose turn it is to count what is allocated.
static COUNTING: Mutex<()> = Mutex::const_new(());

const OBJECTS: usize = 10_000;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    tls: TlsArgs,
}

/// Objects of many small fields, which take most when they are parsed.
fn review() -> String {
    let fields: Value = (0..100).map(|n| (format!("f{n}"), json!(n))).collect();
    let objects: Vec<Value> = (0..OBJECTS)
        .map(|n| json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": n.to_string()}, "spec": fields}))
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "g/v2", "objects": objects}})
    .to_string()
}

#[expect(clippy::unnecessary_wraps, reason = "conversions can fail")]
fn turned(mut object: Value, wanted: &str) -> Result<Value, Infallible> {
    object["apiVersion"] = json!(wanted);
    Ok(object)
}

#[tokio::test]
async fn ten_thousand_objects_take_a_few_times_their_text() {
    let _turn = COUNTING.lock().await;
    rustls::crypto::ring::default_provider().install_default().ok();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("https://{}/convert", listener.local_addr().unwrap());
    let policy = Policy::from_args(&Flags::parse_from(["test"]).tls).unwrap();
    let certificate = Certificate::load(policy, "/does/not/exist".as_ref()).unwrap();
    let registry = Registry::new(Build {
        component: "test",
        version: "",
    });
    let endpoint = Endpoint::on(listener, certificate, Webhooks::new().convert(turned), &registry);
    let mut tasks = JoinSet::new();
    tasks.spawn(endpoint.serve(CancellationToken::new()));

    let review = review();
    let text = review.len();
    let client = reqwest::Client::builder();
    let client = client.tls_danger_accept_invalid_certs(true).build().unwrap();
    let peak = Peak::watch(|| ALLOCATOR.allocated());
    let answer = client.post(url).body(review).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer = answer.bytes().await.unwrap();
    let most = peak.most();
    assert!(most > 0 && answer.len() >= text, "{most}");
    // The review itself is counted before. Here it is read, converted, written, and read by the client: once each, and twice
    // where a buffer grows. All objects parsed at once would take more than that by themselves.
    eprintln!("{text} bytes of text, at most {most} bytes allocated");
    assert!(most < 6 * text, "{text} bytes of text took {most} bytes");
}

// OWN 30g: reviews counted by their text, which took a hundredth of what their objects took.
#[test]
fn a_parsed_review_takes_no_more_than_its_estimate() {
    let _turn = COUNTING.blocking_lock();
    let many = |one: &str| format!("[{}]", vec![one; 20_000].join(","));
    let keys: Vec<String> = (0..20_000).map(|n| format!("\"{n:05}\":0")).collect();
    for text in [
        many("{}"),
        many(r#"{"":0}"#),
        many(r#"{"a":{"":0}}"#),
        many("[0]"),
        many("[[[[0]]]]"),
        many("[]"),
        many("0"),
        many(r#""""#),
        many(r#""abcdefghijklmnopqrstuvwxyz""#),
        format!("{{{}}}", keys.join(",")),
        format!("[\"{}\"]", "a".repeat(1 << 20)),
    ] {
        let mut estimated = weight::Weight::new(0);
        estimated.count(text.as_bytes());
        let before = ALLOCATOR.allocated();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        let taken = ALLOCATOR.allocated().saturating_sub(before);
        drop(parsed);
        let (estimated, start) = (estimated.bytes(), &text[..20]);
        eprintln!(
            "{start}: {} bytes of text, {taken} parsed, {estimated} estimated",
            text.len()
        );
        assert!(
            taken <= estimated,
            "{start}: {taken} bytes are taken, {estimated} estimated"
        );
    }
}
