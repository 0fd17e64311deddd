//! A queue of keys to be worked on: each by one worker at a time, early or late, and never lost.
//!
//! kube's controller does this for objects that exist. Some work is about what does not: claims that wait for a pool
//! nobody has made yet, or whose pool was taken away by force.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt::Debug,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::error;

/// Keys and when they are due. Cheap to clone; clones are the same queue.
#[derive(Debug)]
pub struct Queue<K>(Arc<Shared<K>>);

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    due: HashMap<K, Instant>,
    order: BTreeSet<(Instant, K)>,
    running: HashSet<K>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                due: HashMap::new(),
                order: BTreeSet::new(),
                running: HashSet::new(),
            }),
            changed: Notify::new(),
        }))
    }
}

impl<K: Clone + Ord + Hash + Debug + Send + 'static> Queue<K> {
    /// Nothing is due.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for work on a key now. If it is being worked on, it will be again afterwards.
    pub fn push(&self, key: K) {
        self.push_in(key, Duration::ZERO);
    }

    /// Asks for work on a key after a time, or at the time that was asked for before if that is earlier.
    pub fn push_in(&self, key: K, delay: Duration) {
        let at = Instant::now() + delay;
        let mut state = self.lock();
        match state.due.get(&key).copied() {
            Some(before) if before <= at => return,
            Some(before) => {
                state.order.remove(&(before, key.clone()));
            }
            None => {}
        }
        state.due.insert(key.clone(), at);
        state.order.insert((at, key));
        drop(state);
        self.0.changed.notify_one();
    }

    /// Works until `stop` is cancelled, and then until the work under way has ended. `work` says when to work on its key
    /// again without being asked, if at all; it has to notice `stop` itself if it takes long.
    pub async fn run<F, Fut>(&self, workers: usize, stop: CancellationToken, work: F)
    where
        F: Fn(K) -> Fut,
        Fut: Future<Output = Option<Duration>> + Send + 'static,
    {
        let mut tasks: JoinSet<(K, Option<Duration>)> = JoinSet::new();
        loop {
            let next = loop {
                if stop.is_cancelled() || tasks.len() >= workers.max(1) {
                    break None;
                }
                match self.take() {
                    Ok(key) => {
                        let task = work(key.clone());
                        tasks.spawn(async move { (key, task.await) });
                    }
                    Err(next) => break next,
                }
            };
            if stop.is_cancelled() && tasks.is_empty() {
                return;
            }
            tokio::select! {
                () = stop.cancelled(), if !stop.is_cancelled() => {}
                () = self.0.changed.notified() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                Some(ended) = tasks.join_next() => match ended {
                    Ok((key, again)) => {
                        self.lock().running.remove(&key);
                        if let Some(delay) = again {
                            self.push_in(key, delay);
                        }
                    }
                    // Its key stays marked as running: whatever broke, it is not repeated.
                    Err(broken) => error!(error = %broken, "a pass broke down"),
                }
            }
        }
    }

    /// A key that is due and not being worked on, which it then is; or when there will be one.
    fn take(&self) -> Result<K, Option<Instant>> {
        let mut state = self.lock();
        let first = state
            .order
            .iter()
            .find(|(_, key)| !state.running.contains(key))
            .cloned();
        let Some((at, key)) = first else { return Err(None) };
        if at > Instant::now() {
            return Err(Some(at));
        }
        state.order.remove(&(at, key.clone()));
        state.due.remove(&key);
        state.running.insert(key.clone());
        Ok(key)
    }

    /// The number of keys that wait.
    pub fn len(&self) -> usize {
        self.lock().due.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_worked_on_by_one_at_a_time_and_again_if_asked_meanwhile() {
        let queue = Queue::new();
        let log: Arc<Mutex<Vec<(&str, &str)>>> = Arc::default();
        let stop = CancellationToken::new();
        queue.push("a");
        queue.push("a");
        queue.push("b");
        queue.push_in("late", Duration::from_secs(60));
        let (seen, asked, end) = (log.clone(), queue.clone(), stop.clone());
        let start = Instant::now();
        let work = move |key| {
            let (log, queue, stop) = (seen.clone(), asked.clone(), end.clone());
            async move {
                log.lock().unwrap().push((key, "begin"));
                let first = log.lock().unwrap().iter().filter(|(k, _)| *k == key).count() == 1;
                if first {
                    queue.push(key);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                log.lock().unwrap().push((key, "end"));
                if key == "late" && !first {
                    stop.cancel();
                }
                (key == "b" && first).then_some(Duration::from_secs(5))
            }
        };
        queue.run(4, stop, work).await;
        let log = log.lock().unwrap();
        for key in ["a", "b", "late"] {
            let own: Vec<_> = log.iter().filter(|(k, _)| *k == key).map(|(_, what)| *what).collect();
            assert_eq!(own[..4], ["begin", "end", "begin", "end"], "{key}");
        }
        assert_eq!(
            log.iter().filter(|(key, _)| *key == "a").count(),
            4,
            "two pushes at once are one"
        );
        assert!(start.elapsed() >= Duration::from_secs(61) && queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_times_counts() {
        let queue = Queue::new();
        let stop = CancellationToken::new();
        queue.push_in(1, Duration::from_secs(5));
        queue.push_in(1, Duration::from_secs(50));
        queue.push_in(2, Duration::from_secs(50));
        queue.push_in(2, Duration::from_secs(5));
        let start = Instant::now();
        let (times, end): (Arc<Mutex<Vec<_>>>, _) = (Arc::default(), stop.clone());
        let seen = times.clone();
        queue
            .run(1, stop, move |_| {
                let mut times = seen.lock().unwrap();
                times.push(start.elapsed().as_secs());
                if times.len() == 2 {
                    end.cancel();
                }
                std::future::ready(None)
            })
            .await;
        assert_eq!(*times.lock().unwrap(), [5, 5]);
    }
}
