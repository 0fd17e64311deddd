//! What a conversion of ten thousand objects costs in memory.

use std::alloc::System;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cap::Cap;
use clap::Parser;
use metal3_runtime::args::TlsArgs;
use metal3_runtime::metrics::{Build, Registry};
use metal3_runtime::tls::{Certificate, Policy};
use metal3_runtime::webhook::{Endpoint, Webhooks};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

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
    let before = ALLOCATOR.allocated();
    let is_over = Arc::new(AtomicBool::new(false));
    let watched = is_over.clone();
    let sampler = std::thread::spawn(move || {
        let mut most = 0;
        while !watched.load(Ordering::Relaxed) {
            most = most.max(ALLOCATOR.allocated());
            std::thread::sleep(Duration::from_micros(200));
        }
        most
    });
    let answer = client.post(url).body(review).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer = answer.bytes().await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let most = sampler.join().unwrap().saturating_sub(before);
    assert!(most > 0 && answer.len() >= text, "{most}");
    // The review itself is counted before. Here it is read, converted, written, and read by the client: once each, and twice
    // where a buffer grows. All objects parsed at once would take more than that by themselves.
    eprintln!("{text} bytes of text, at most {most} bytes allocated");
    assert!(most < 6 * text, "{text} bytes of text took {most} bytes");
}
