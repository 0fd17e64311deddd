//! One task for each namespace in which it is needed.
//!
//! Secrets are watched this way: a program needs the right to list them only in namespaces that have its objects, never
//! in the whole cluster.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::timing::process::LINGER;

/// The number of uses in each namespace. Cheap to clone; clones count together.
#[derive(Clone, Debug)]
pub struct Needed(watch::Sender<BTreeMap<String, usize>>);

impl Default for Needed {
    fn default() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }
}

impl Needed {
    /// Adds a use in this namespace.
    pub fn add(&self, namespace: &str) {
        self.0.send_if_modified(|needed| {
            let count = needed.entry(namespace.to_owned()).or_default();
            *count += 1;
            *count == 1
        });
    }

    /// Removes a use.
    pub fn remove(&self, namespace: &str) {
        self.0.send_if_modified(|needed| {
            let Some(count) = needed.get_mut(namespace) else {
                return false;
            };
            *count -= 1;
            let is_last = *count == 0;
            if is_last {
                needed.remove(namespace);
            }
            is_last
        });
    }

    /// The namespaces in use.
    pub fn now(&self) -> BTreeSet<String> {
        self.0.borrow().keys().cloned().collect()
    }

    /// Runs `task` once for each needed namespace until `stop`. Its token is cancelled when the namespace has not been
    /// needed for five minutes. `only` restricts this to one namespace.
    pub async fn run<F>(
        &self,
        only: Option<&str>,
        stop: CancellationToken,
        mut task: impl FnMut(String, CancellationToken) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut updates = self.0.subscribe();
        let mut tasks = JoinSet::new();
        let mut running: BTreeMap<String, Running> = BTreeMap::new();
        loop {
            let needed = updates.borrow_and_update().clone();
            let needed = needed.into_keys().filter(|name| only.is_none_or(|only| only == name));
            let needed: BTreeSet<String> = needed.collect();
            let now = Instant::now();
            running.retain(|name, running| running.stays(needed.contains(name), now));
            for name in needed {
                running.entry(name.clone()).or_insert_with(|| {
                    let token = stop.child_token();
                    tasks.spawn(task(name, token.clone()));
                    Running {
                        ends: None,
                        _token: token.drop_guard(),
                    }
                });
            }
            let next_end = running.values().filter_map(|running| running.ends).min();
            tokio::select! {
                () = stop.cancelled() => break,
                Ok(()) = updates.changed() => {}
                () = sleep_until(next_end.unwrap_or(now)), if next_end.is_some() => {}
                Some(_) = tasks.join_next() => {}
            }
        }
        // Their tokens are children of `stop`, or dropped here.
        drop(running);
        while tasks.join_next().await.is_some() {}
    }
}

#[derive(Debug)]
struct Running {
    /// When it ends unless it is needed again.
    ends: Option<Instant>,
    _token: DropGuard,
}

impl Running {
    /// Whether the task continues, given whether it is needed now.
    fn stays(&mut self, is_needed: bool, now: Instant) -> bool {
        if is_needed {
            self.ends = None;
            return true;
        }
        *self.ends.get_or_insert(now + LINGER) > now
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    /// Records which tasks run.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);

    impl Seen {
        fn task(
            &self,
        ) -> impl FnMut(String, CancellationToken) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + use<>
        {
            let seen = self.clone();
            move |name, token| {
                let seen = seen.clone();
                Box::pin(async move {
                    seen.0.lock().push(format!("+{name}"));
                    token.cancelled().await;
                    seen.0.lock().push(format!("-{name}"));
                })
            }
        }

        fn taken(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock())
        }
    }

    async fn pass(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_runs_for_each_namespace_as_long_as_it_is_needed() {
        let (needed, seen, stop) = (Needed::default(), Seen::default(), CancellationToken::new());
        needed.add("a");
        needed.add("a");
        let mut running = JoinSet::new();
        let (own, task, until) = (needed.clone(), seen.task(), stop.clone());
        running.spawn(async move { own.run(None, until, task).await });
        pass(1).await;
        assert_eq!(seen.taken(), ["+a"], "once, however often it is needed");
        needed.add("b");
        needed.remove("a");
        pass(1000).await;
        assert_eq!(seen.taken(), ["+b"], "it is still needed once");
        needed.remove("a");
        pass(200).await;
        needed.add("a");
        pass(1000).await;
        assert!(seen.taken().is_empty(), "it was needed again in time");
        needed.remove("a");
        pass(301).await;
        assert_eq!(seen.taken(), ["-a"]);
        needed.add("a");
        pass(1).await;
        assert_eq!(seen.taken(), ["+a"]);
        stop.cancel();
        running.join_next().await.unwrap().unwrap();
        let mut ended = seen.taken();
        ended.sort();
        assert_eq!(ended, ["-a", "-b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_alone_is_served_where_only_it_is_watched() {
        let (needed, seen) = (Needed::default(), Seen::default());
        needed.add("a");
        needed.add("b");
        let stop = CancellationToken::new();
        let until = stop.clone();
        tokio::join!(needed.run(Some("b"), stop.clone(), seen.task()), async move {
            pass(1).await;
            until.cancel();
        });
        assert_eq!(seen.taken(), ["+b", "-b"]);
        assert_eq!(needed.now(), ["a".to_owned(), "b".to_owned()].into());
    }

    #[test]
    fn one_less_than_none_is_none() {
        let needed = Needed::default();
        needed.remove("a");
        needed.add("a");
        assert_eq!(needed.now().len(), 1);
    }
}
