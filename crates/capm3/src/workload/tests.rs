//! Which clusters are connected when there are too many.

use parking_lot::Mutex;
use std::sync::Arc;

use metal3_testkit::played;

use super::*;
use crate::sim::limits;

fn workloads() -> Workloads {
    let mut config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    config.default_retry = false;
    Workloads::new(Client::try_from(config).unwrap(), limits(), CancellationToken::new())
}

fn key(namespace: &str, number: usize) -> ObjectKey {
    ObjectKey::new(namespace, format!("c{number:04}"))
}

// OWN 23g: a cluster refused because its namespace had too many was retried only at the resync after one was removed.
#[tokio::test]
async fn a_refused_cluster_is_followed_when_another_one_goes() {
    let workloads = workloads();
    for number in 0..bounds::MOST_CLUSTERS + 2 {
        let is_refused = matches!(workloads.of(&key("ns", number)), Err(Unreachable::TooMany(_)));
        assert_eq!(is_refused, number >= bounds::MOST_CLUSTERS);
    }
    assert!(matches!(
        workloads.of(&key("other", 0)),
        Err(Unreachable::Connecting(_))
    ));
    let woken = Arc::new(Mutex::new(Vec::new()));
    let heard = woken.clone();
    workloads.listen(move |cluster, _| heard.lock().push(cluster.clone()));
    workloads.forget(&key("other", 0));
    assert_eq!(*woken.lock(), [], "its place is another namespace's");
    workloads.forget(&key("ns", 7));
    assert_eq!(*woken.lock(), [key("ns", bounds::MOST_CLUSTERS)]);
    let next = workloads.of(&key("ns", bounds::MOST_CLUSTERS));
    assert!(matches!(next, Err(Unreachable::Connecting(_))), "{next:?}");
    // A cluster removed before a place is free takes none.
    workloads.forget(&key("ns", bounds::MOST_CLUSTERS + 1));
    workloads.forget(&key("ns", 8));
    assert_eq!(woken.lock().len(), 1);
    assert_eq!(workloads.len(), bounds::MOST_CLUSTERS - 1);
}

fn refused(workloads: &Workloads, cluster: &ObjectKey, why: Exceeded) -> Arc<Notify> {
    let room = Arc::<Notify>::default();
    let followed = Followed {
        answer: Err(Unreachable::Exceeds {
            cluster: cluster.clone(),
            why,
        }),
        room: room.clone(),
        pace: workloads.0.paces.of(cluster.clone()),
        _task: CancellationToken::new().drop_guard(),
    };
    workloads.0.lock().followed.insert(cluster.clone(), followed);
    room
}

#[tokio::test]
async fn whoever_waits_for_memory_is_woken_when_a_cluster_goes() {
    use futures::FutureExt;
    let workloads = workloads();
    let wait = [
        ("ns", Exceeded::Namespace(1), true),
        ("ns", Exceeded::All(1), true),
        ("ns", Exceeded::Nodes, false),
        ("other", Exceeded::Namespace(1), false),
        ("other", Exceeded::All(1), true),
    ];
    let waiting = wait.iter().enumerate();
    let waiting: Vec<_> = waiting
        .map(|(number, (namespace, why, _))| refused(&workloads, &key(namespace, number), *why))
        .collect();
    let goes = key("ns", 99);
    assert!(workloads.of(&goes).is_err());
    workloads.forget(&goes);
    for (room, (namespace, why, is_woken)) in waiting.iter().zip(wait) {
        let woken = room.notified().now_or_never().is_some();
        assert_eq!(woken, is_woken, "{namespace} {why}");
    }
}

// OWN 31wx: such a cluster was said to be connecting for ever.
#[tokio::test(start_paused = true)]
async fn a_kubeconfig_that_may_not_be_read_is_told() {
    let client = played::client("default", |_| std::future::ready(played::failure(403, "Forbidden")));
    let workloads = Workloads::new(client, limits(), CancellationToken::new());
    let woken = Arc::new(Notify::new());
    let told = woken.clone();
    workloads.listen(move |_, _| told.notify_one());
    let cluster = key("ns", 1);
    assert!(matches!(workloads.of(&cluster), Err(Unreachable::Connecting(_))));
    woken.notified().await;
    let why = workloads.of(&cluster).unwrap_err();
    assert_eq!(why.reason(), "WorkloadClusterKubeconfigForbidden");
    let words = why.to_string();
    assert!(
        words.contains("Secret ns/c0001-kubeconfig") && words.contains("capm3-secrets-role"),
        "{words}"
    );
}
