//! The loop around the candidate, with a store in memory and tokio's paused time.

use parking_lot::Mutex;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::{sync::watch, task::JoinSet, time::Instant};

use super::*;

#[derive(Default)]
struct Memory(Mutex<State>);

#[derive(Default)]
struct State {
    lease: Option<Lease>,
    version: u64,
    /// Requests get no answer at all.
    dead: bool,
}

impl LeaseStore for std::sync::Arc<Memory> {
    async fn read(&self) -> Result<Option<Lease>, StoreError> {
        self.alive().await;
        Ok(self.0.lock().lease.clone())
    }

    async fn write(&self, lease: &Lease) -> Result<Lease, StoreError> {
        self.alive().await;
        let mut state = self.0.lock();
        let present = state
            .lease
            .as_ref()
            .and_then(|lease| lease.metadata.resource_version.clone());
        if present != lease.metadata.resource_version {
            return Err(StoreError::Conflict);
        }
        state.version += 1;
        let mut lease = lease.clone();
        lease.metadata.resource_version = Some(state.version.to_string());
        state.lease = Some(lease.clone());
        Ok(lease)
    }
}

impl Memory {
    async fn alive(&self) {
        while self.0.lock().dead {
            time::sleep(Duration::from_secs(3600)).await;
        }
    }

    fn holder(&self) -> Option<String> {
        self.0.lock().lease.as_ref()?.spec.as_ref()?.holder_identity.clone()
    }
}

type Store = std::sync::Arc<Memory>;

struct Replica {
    signals: Signals,
    leading: watch::Receiver<bool>,
    task: JoinSet<Result<(), Lost>>,
    /// Moves the replica's clock with tokio's.
    _hands: JoinSet<()>,
}

fn start(store: &Store, name: &str) -> Replica {
    let (sender, leading) = watch::channel(false);
    let signals = Signals {
        stop: CancellationToken::new(),
        drained: CancellationToken::new(),
        leading: sender,
    };
    let clock = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let (mut task, mut hands) = (JoinSet::new(), JoinSet::new());
    let moving = clock.clone();
    hands.spawn(async move {
        let mut before = Instant::now();
        loop {
            time::sleep(Duration::from_millis(50)).await;
            let now = Instant::now();
            moving.advance(now - before);
            before = now;
        }
    });
    let candidate = Candidate::new(name.to_owned(), Timing::default(), 7);
    let (store, passed) = (store.clone(), signals.clone());
    task.spawn(async move { run(&store, candidate, clock, passed).await });
    Replica {
        signals,
        leading,
        task,
        _hands: hands,
    }
}

impl Replica {
    async fn leads(&mut self, yes: bool) -> Duration {
        let before = Instant::now();
        self.leading.wait_for(|leading| *leading == yes).await.unwrap();
        before.elapsed()
    }

    async fn result(&mut self) -> Result<(), Lost> {
        self.task.join_next().await.unwrap().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_is_given_back_after_draining_and_taken_over_at_once() {
    let store = Store::default();
    let mut first = start(&store, "first");
    first.leads(true).await;
    let mut second = start(&store, "second");

    first.signals.stop.cancel();
    time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        store.holder().as_deref(),
        Some("first"),
        "held and renewed while controllers drain"
    );
    first.signals.drained.cancel();
    first.result().await.unwrap();
    assert!(!*first.leading.borrow());
    assert!(second.leads(true).await < Duration::from_secs(4));
    assert_eq!(store.holder().as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_follower_stops_when_asked() {
    let store = Store::default();
    let mut first = start(&store, "first");
    first.leads(true).await;
    let mut second = start(&store, "second");
    time::sleep(Duration::from_secs(60)).await;
    assert!(!*second.leading.borrow());
    second.signals.stop.cancel();
    second.result().await.unwrap();
    assert_eq!(store.holder().as_deref(), Some("first"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_ends_leadership_in_time() {
    let store = Store::default();
    let mut first = start(&store, "first");
    first.leads(true).await;
    time::sleep(Duration::from_secs(30)).await;
    store.0.lock().dead = true;
    let took = first.leads(false).await;
    assert!(took <= Duration::from_secs(10), "{took:?}");
    assert!(matches!(first.result().await, Err(Lost::NotRenewed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_replaced_after_its_lease() {
    let store = Store::default();
    let mut first = start(&store, "first");
    first.leads(true).await;
    let mut second = start(&store, "second");
    time::sleep(Duration::from_secs(5)).await;
    first.task.shutdown().await;
    let took = second.leads(true).await;
    assert!(
        took > Duration::from_secs(12) && took < Duration::from_secs(20),
        "{took:?}"
    );
}
