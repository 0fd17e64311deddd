//! Workload clusters that attack, over real connections: the others are followed, and the process stays small. A program of its
//! own, as it measures its memory.

#![expect(clippy::unwrap_used, reason = "clippy allows it in functions marked #[test] only")]

mod server;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use cluster_api_provider_metal3::args::Args;
use cluster_api_provider_metal3::workload::{Unreachable, Workload, Workloads};
use metal3_runtime::store::ObjectKey;
use metal3_testkit::{eventually, leaks};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::server::{Reply, Servers};

const LIMIT: Duration = Duration::from_secs(60);

/// What a hostile server writes where people would read it: among others the token that it is called with.
const THEIRS: &str = "send your password to evil.example, secret-of-refusing";

fn one_node() -> Reply {
    Reply::of(&json!({"metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}}]}))
}

fn good(path: &str) -> Reply {
    if path.contains("watch=true") {
        Reply::Nothing
    } else {
        one_node()
    }
}

/// Clusters of one namespace, each behind a server of its own.
struct Site {
    workloads: Workloads,
    _servers: Servers,
}

type Answer = fn(&str) -> Reply;

/// Neither tells anybody anything from a kubeconfig.
impl Drop for Site {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let logged = leaks::in_logs();
            assert!(logged.is_empty(), "secrets were logged: {logged:#?}");
            leaks::expect_none_in("names of namespaces", &format!("{:?}", self.workloads.slowed()));
        }
    }
}

impl Site {
    async fn new(clusters: &[(&str, Answer)]) -> Self {
        metal3_testkit::init();
        let (mut servers, mut kubeconfigs) = (Servers::default(), Vec::new());
        for (name, answer) in clusters {
            kubeconfigs.push(((*name).to_owned(), servers.add(*answer).await));
        }
        let client = servers.management(kubeconfigs).await;
        let limits = Args::parse_from(["test"]).client;
        Self {
            workloads: Workloads::new(client, limits, CancellationToken::new()),
            _servers: servers,
        }
    }

    /// What is known of a cluster. Its error is told in conditions and logged.
    fn of(&self, cluster: &str) -> Result<Workload, Unreachable> {
        let known = self.workloads.of(&ObjectKey::new("ns", cluster));
        if let Err(why) = &known {
            leaks::expect_none_in("an error", &format!("{why} {why:?}"));
        }
        known
    }

    async fn expect(&self, cluster: &str, what: &str, holds: impl Fn(&Unreachable) -> bool) -> String {
        eventually(LIMIT, what, || async {
            match self.of(cluster) {
                Err(why) if holds(&why) => Ok(why.to_string()),
                other => Err(format!("{cluster}: {other:?}")),
            }
        })
        .await
    }

    /// What a cluster sends first has been read, and was too much or is kept.
    async fn expect_settled(&self, cluster: &str) {
        eventually(LIMIT, "a cluster has been read", || async {
            match self.of(cluster) {
                Ok(_) | Err(Unreachable::Exceeds { .. }) => Ok(()),
                Err(other) => Err(other),
            }
        })
        .await;
    }

    async fn expect_exceeded(&self, cluster: &str) -> String {
        let is_exceeded = |why: &Unreachable| matches!(why, Unreachable::Exceeds { .. });
        self.expect(cluster, "a bound is exceeded", is_exceeded).await
    }
}

fn refusal(_: &str) -> Reply {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": THEIRS,
        "reason": THEIRS, "code": 403});
    Reply::Whole(403, status.to_string())
}

fn endless_list(_: &str) -> Reply {
    Reply::Endless(200, " ")
}

fn endless_objects(_: &str) -> Reply {
    Reply::Endless(200, "{}")
}

fn single_bytes(_: &str) -> Reply {
    Reply::SingleBytes
}

fn single_writes(_: &str) -> Reply {
    Reply::SingleWrites
}

fn endless_refusal(_: &str) -> Reply {
    Reply::Endless(500, "x")
}

fn endless_line(path: &str) -> Reply {
    if path.contains("watch=true") {
        Reply::Endless(200, "x")
    } else {
        one_node()
    }
}

/// As many as fit into one answer.
fn many_nodes(_: &str) -> Reply {
    let nodes = |number| format!("{{\"metadata\":{{\"name\":\"{number}\"}}}}");
    let items: Vec<String> = (0..29_000).map(nodes).collect();
    let items = items.join(",");
    Reply::Whole(
        200,
        format!("{{\"metadata\":{{\"resourceVersion\":\"1\"}},\"items\":[{items}]}}"),
    )
}

/// Texts of no bytes, as many as fit into one answer.
fn many_texts(_: &str) -> Reply {
    let texts = vec!["\"\""; 1_300_000].join(",");
    Reply::Whole(
        200,
        format!(
            "{{\"metadata\":{{\"resourceVersion\":\"1\"}},\"items\":[{{\"metadata\":{{\"name\":\"n\",\"finalizers\":[{texts}]}}}}]}}"
        ),
    )
}

/// One Node that changes without end.
fn endless_changes(path: &str) -> Reply {
    if path.contains("watch=true") {
        Reply::Endless(
            200,
            "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"2\"}}}\n",
        )
    } else {
        one_node()
    }
}

/// Pages of one Node that changes, without end.
fn endless_pages(path: &str) -> Reply {
    static VERSION: AtomicUsize = AtomicUsize::new(1);
    if path.contains("watch=true") {
        return Reply::Nothing;
    }
    let version = VERSION.fetch_add(1, Ordering::Relaxed).to_string();
    Reply::of(&json!({"metadata": {"resourceVersion": version, "continue": "x"},
        "items": [{"metadata": {"name": "n", "uid": "u", "resourceVersion": version}}]}))
}

fn trickle(_: &str) -> Reply {
    Reply::Trickle
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_followed_beside_those_that_attack() {
    let site = Site::new(&[
        ("trickling", trickle),
        ("endless", endless_list),
        ("refusing", refusal),
        ("good", good),
    ])
    .await;
    for cluster in ["trickling", "endless", "refusing", "good"] {
        assert!(site.of(cluster).is_err(), "not known yet");
    }
    let workload = eventually(LIMIT, "the good cluster is followed", || async { site.of("good") }).await;
    assert_eq!(workload.nodes.len(), 1);
    site.expect_exceeded("endless").await;
    let is_silent = |why: &Unreachable| matches!(why, Unreachable::Silent { .. });
    let refused = site.expect("refusing", "the refusal is told", is_silent).await;
    assert!(refused.contains("403") && !refused.contains("evil"), "{refused}");
    let trickling = site.of("trickling");
    assert!(matches!(trickling, Err(Unreachable::Connecting(_))), "{trickling:?}");
    assert!(site.of("good").is_ok(), "it goes on");
}

// OWN 23o: a list of Nodes whose pages do not end was read for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_whose_pages_do_not_end_is_given_up() {
    let site = Site::new(&[("paging", endless_pages), ("good", good)]).await;
    assert!(site.of("good").is_err(), "not known yet");
    let told = site.expect_exceeded("paging").await;
    assert!(told.contains("more than 220 pages"), "{told}");
    assert!(site.of("good").is_ok(), "the other one is followed");
}

// OWN 23l: a workload cluster that streamed changes as fast as it could took the CPU of the provider.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_sends_changes_without_end_is_read_slowly() {
    let site = Site::new(&[("changing", endless_changes), ("good", good)]).await;
    eventually(LIMIT, "its watch pauses", || async {
        let slowed = site.workloads.slowed();
        let followed = site.of("changing").map(|workload| workload.nodes.len());
        if slowed == ["ns"] && followed == Ok(1) {
            Ok(())
        } else {
            Err(format!("{slowed:?} {followed:?}"))
        }
    })
    .await;
    eventually(LIMIT, "the other cluster is followed", || async { site.of("good") }).await;
    assert_eq!(site.workloads.slowed(), ["ns"]);
}

/// A line of `/proc/self/status` in bytes.
fn memory(what: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    let kib: usize = line
        .trim_matches([':', ' ', '\t'])
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .unwrap();
    kib << 10
}

/// Three clusters of each kind send all that they can at once: up to 16 MiB each, which is read in a few seconds, and on each of
/// two threads an answer that takes up to 128 MiB while it is turned into objects. Without bounds one server sends more than
/// this in those seconds.
const MOST: usize = 400 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_stays_small_whatever_the_clusters_of_a_namespace_send() {
    let kinds: [Answer; 9] = [
        endless_list,
        endless_objects,
        single_bytes,
        single_writes,
        endless_refusal,
        endless_line,
        many_nodes,
        many_texts,
        endless_pages,
    ];
    let names: Vec<String> = (0..kinds.len() * 3).map(|number| format!("hostile-{number}")).collect();
    let clusters: Vec<(&str, Answer)> = names
        .iter()
        .map(String::as_str)
        .zip(kinds.into_iter().cycle())
        .collect();
    let site = Site::new(&clusters).await;
    // The peak is measured from here on.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS");
    for name in &names {
        assert!(site.of(name).is_err());
    }
    for (name, _) in &clusters {
        site.expect_settled(name).await;
    }
    let grown = memory("VmHWM").saturating_sub(before);
    assert!(grown < MOST, "the process grew by {} MiB", grown >> 20);
}
