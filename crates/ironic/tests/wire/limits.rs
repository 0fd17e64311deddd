//! How many calls are under way at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metal3_ironic::{Client, ClientConfig, Exchange, Observer};
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
