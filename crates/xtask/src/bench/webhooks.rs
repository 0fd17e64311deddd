//! `cargo xtask bench webhooks`: what the infrastructure provider's process takes to answer the API server's reviews, over TLS on
//! loopback. The benchmark plays the API server. It prints figures and does not judge them.

#![expect(clippy::cast_precision_loss, reason = "counts and sizes are small")]

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use metal3_lab::cluster_api;
use serde_json::{Value, json};

use super::env::{Measured, TestEnv};
use super::process::{machine, usage};
use super::program::{PROVIDER, ProgramArgs};
use super::table;

/// Arguments of `cargo xtask bench webhooks`.
#[derive(clap::Args)]
pub struct Args {
    /// Reviews of one object, each after the other; and as many from several callers
    #[arg(long, default_value_t = 5000)]
    reviews: usize,

    /// Callers at once
    #[arg(long, default_value_t = 16)]
    callers: usize,

    /// Objects of the long list
    #[arg(long, default_value_t = 10_000)]
    objects: usize,

    #[command(flatten)]
    program: ProgramArgs,
}

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const VALIDATE: &str = "/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3machine";
/// Objects of a page, as the API server and clients read lists.
const PAGE: usize = 500;
/// How many pages are converted.
const PAGES: usize = 40;

/// Runs the benchmark.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let provider = PROVIDER.build(&args.program)?;
    provider.run(async {
        let env = TestEnv::start(provider.program).await?;
        cluster_api::define(&env.client).await?;
        let env = env.run(&provider).await?;
        let measured = measure(&env, args).await;
        env.stop().await;
        measured
    })
}

async fn measure(env: &Measured, args: &Args) -> anyhow::Result<()> {
    // The program's own certificate: nobody else listens on this port.
    let client = reqwest::Client::builder().danger_accept_invalid_certs(true).build()?;
    let caller = Caller {
        client,
        url: env.webhooks_url(),
    };
    let review = admission();
    caller.repeat(VALIDATE, &review, args.reviews / 10, 1).await?; // warm
    let alone = caller.repeat(VALIDATE, &review, args.reviews, 1).await?;
    let crowded = caller.repeat(VALIDATE, &review, args.reviews, args.callers).await?;

    let page = conversion(PAGE);
    let pages = caller.repeat("/convert", &page, PAGES, 1).await?;
    let before = usage(env.pid())?;
    let list = conversion(args.objects);
    let long = caller.repeat("/convert", &list, 1, 1).await?;
    let after = usage(env.pid())?;

    let mib = list.len() as f64 / f64::from(1 << 20);
    let [of_page, of_list] =
        [(&pages, PAGE * PAGES), (&long, args.objects)].map(|(times, objects)| rate(times, objects));
    println!("(machine: {})", machine());
    let memory = format!("{:.0} / {:.0} / {:.0} MiB", before.rss, after.peak, after.rss);
    let growth = (after.peak - before.rss) / mib;
    let mut table = table::empty();
    table.set_header(["figure", "measured"]);
    for (figure, measured) in [
        ("admission, one caller, p50 / p99", percentiles(&alone)),
        ("admission, several callers, p50 / p99", percentiles(&crowded)),
        ("p99 / p50, one caller", ratio(&alone)),
        ("conversions per second, pages of 500", format!("{of_page:.0}")),
        ("conversions per second, long list", format!("{of_list:.0}")),
        (
            "size of the long list",
            format!("{} objects, {mib:.1} MiB", args.objects),
        ),
        ("RSS before / peak / after the long list", memory),
        ("growth at the peak, in sizes of the list", format!("{growth:.1}")),
    ] {
        table.add_row([figure, &measured]);
    }
    println!("{table}");
    Ok(())
}

/// The API server, as far as the webhooks notice.
struct Caller {
    client: reqwest::Client,
    url: String,
}

impl Caller {
    /// The times of as many reviews.
    async fn repeat(&self, path: &str, review: &str, times: usize, at_once: usize) -> anyhow::Result<Vec<Duration>> {
        stream::iter(0..times)
            .map(|_| self.review(path, review))
            .buffer_unordered(at_once)
            .try_collect()
            .await
    }

    async fn review(&self, path: &str, review: &str) -> anyhow::Result<Duration> {
        let request = self
            .client
            .post(format!("{}{path}", self.url))
            .header("Content-Type", "application/json")
            .body(review.to_owned());
        let start = Instant::now();
        let answer = request.send().await.context("no answer")?;
        let is_ok = answer.status().is_success();
        let body = answer.bytes().await.context("half an answer")?;
        let time = start.elapsed();
        let is_done = |words: &[u8]| body.windows(words.len()).any(|part| part == words);
        let is_done = is_done(br#""allowed":true"#) || is_done(br#""status":"Success""#);
        ensure!(is_ok && is_done, "{path}: {:.300}", String::from_utf8_lossy(&body));
        Ok(time)
    }
}

/// A machine as it is stored when it runs.
fn stored(number: usize) -> Value {
    let name = format!("workers-{number:05}");
    let labels = json!({"cluster.x-k8s.io/cluster-name": "bench", "cluster.x-k8s.io/deployment-name": "workers"});
    let condition = |of: &str| {
        json!({"type": of, "status": "True", "reason": of, "message": "", "observedGeneration": 2,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    json!({
        "apiVersion": format!("{GROUP}/v1beta2"), "kind": "Metal3Machine",
        "metadata": {"name": name, "namespace": "bench", "uid": format!("00000000-0000-4000-8000-{number:012}"),
            "labels": labels, "annotations": {"metal3.io/BareMetalHost": format!("bench/host-{number}")},
            "finalizers": ["metal3machine.infrastructure.cluster.x-k8s.io"],
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name,
                "uid": "00000000-0000-4000-9000-000000000000", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"providerID": format!("metal3://bench/host-{number}/{name}"), "automatedCleaningMode": "metadata",
            "image": {"url": "https://images.example/node.qcow2", "checksum": "https://images.example/node.qcow2.sha256sum",
                "checksumType": "sha256", "diskFormat": "qcow2"},
            "dataTemplate": {"name": "workers"},
            "hostSelector": {"matchLabels": {"rack": "1"}}},
        "status": {"initialization": {"provisioned": true}, "renderedData": {"name": format!("workers-{number}")},
            "metaData": {"name": format!("{name}-metadata")}, "networkData": {"name": format!("{name}-networkdata")},
            "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}, {"type": "Hostname", "address": name}],
            "conditions": [condition("Ready"), condition("AssociateBMHCondition"), condition("KubernetesNodeReady")]},
    })
}

fn conversion(objects: usize) -> String {
    let objects: Vec<Value> = (0..objects).map(stored).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": format!("{GROUP}/v1beta1"), "objects": objects}})
    .to_string()
}

fn admission() -> String {
    let kind = json!({"group": GROUP, "version": "v1beta2", "kind": "Metal3Machine"});
    let resource = json!({"group": GROUP, "version": "v1beta2", "resource": "metal3machines"});
    let object = stored(1);
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "kind": kind, "resource": resource, "name": "workers-00001", "namespace": "bench",
            "operation": "UPDATE", "userInfo": {"username": "bench"}, "object": object, "oldObject": object}})
    .to_string()
}

/// Milliseconds: the time that half of them took at most, and 99 of 100.
fn at(times: &[Duration], share: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    let place = (times.len() * share / 100).min(times.len().saturating_sub(1));
    times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

fn percentiles(times: &[Duration]) -> String {
    format!("{:.2} / {:.2} ms", at(times, 50), at(times, 99))
}

fn ratio(times: &[Duration]) -> String {
    format!("{:.1}", at(times, 99) / at(times, 50).max(f64::EPSILON))
}

fn rate(times: &[Duration], objects: usize) -> f64 {
    objects as f64 / times.iter().sum::<Duration>().as_secs_f64()
}
