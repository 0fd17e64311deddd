//! How many calls are under way at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metal3_ironic::{Client, ClientConfig, Exchange, Observer, on_behalf_of};
use serde_json::json;
use tokio::task::JoinSet;

use crate::server::{Server, respond};

/// Counts what the server is working on, by the order of begin (in the answer) and end (seen by the client).
#[derive(Default)]
struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Load {
    fn begin(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }
}

impl Observer for Load {
    fn observe(&self, exchange: &Exchange) {
        if !matches!(exchange.operation.label(), "discover" | "list_drivers") {
            self.now.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

async fn most_at_once(max_concurrent: usize, validate: bool) -> usize {
    let load = Arc::new(Load::default());
    let counting = Arc::clone(&load);
    let server = Server::start_slow(move |_, _| {
        counting.begin();
        (Duration::from_millis(30), respond(200, &json!({"uuid": "u"})))
    })
    .await;
    let client = Client::new(ClientConfig {
        max_concurrent,
        observer: Some(load.clone()),
        ..server.config()
    })
    .unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        tasks.spawn(async move {
            if validate {
                client.validate("u").await.unwrap();
            } else {
                client.node("u").await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(server.seen().len(), 20);
    load.most.load(Ordering::SeqCst)
}

#[tokio::test]
async fn calls_queue_for_a_slot() {
    assert_eq!(most_at_once(4, false).await, 4);
    assert_eq!(most_at_once(1, false).await, 1);
}

/// Slow BMCs may take half the slots, so that the rest of the fleet goes on.
#[tokio::test]
async fn bmc_calls_take_half_the_slots() {
    assert_eq!(most_at_once(4, true).await, 2);
    assert_eq!(most_at_once(1, true).await, 1);
}

/// OWN 22c: Calls were made in the order of asking: those for BMCs that hang kept all others waiting, lists of nodes too.
#[tokio::test]
async fn calls_of_a_tenant_that_hang_do_not_keep_another_waiting() {
    let server = Server::start_slow(|seen, _| {
        let hangs = seen.path.contains("tarpit");
        let delay = if hangs { Duration::from_secs(20) } else { Duration::ZERO };
        (delay, respond(200, &json!({"uuid": "u", "nodes": []})))
    })
    .await;
    let client = Client::new(ClientConfig {
        max_concurrent: 16,
        ..server.config()
    })
    .unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        for waits_for_bmc in [true, false] {
            let client = client.clone();
            tasks.spawn(on_behalf_of("tarpit", async move {
                if waits_for_bmc {
                    client.validate("tarpit").await.ok();
                } else {
                    client.node("tarpit").await.ok();
                }
            }));
        }
    }
    let hang = || server.seen().iter().filter(|seen| seen.path.contains("tarpit")).count();
    while hang() < 14 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let others = async {
        on_behalf_of("other", client.validate("u")).await.unwrap();
        on_behalf_of("other", client.node("u")).await.unwrap();
        client.nodes().await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(5), others).await.unwrap();
    assert_eq!(hang(), 14, "two are kept for others");
}
