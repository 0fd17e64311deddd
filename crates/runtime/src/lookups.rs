//! Lookups of host names that tenants choose. Each takes a thread until it ends, even if its caller gave up, and the process
//! has a limited number of them. A tenant's name servers may never answer.

use std::io;
use std::sync::Arc;

use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::BoxError;
use crate::per_namespace::PerNamespace;

/// Maximum concurrent lookups for one namespace.
const MOST_OWN: usize = 8;
/// Maximum concurrent lookups. Tokio has 512 threads for blocking calls.
const MOST: usize = 64;

/// Why a name was not looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    /// Its namespace has too many lookups.
    #[error(
        "the name of its server was not looked up, because {MOST_OWN} lookups for its namespace have not ended; check the name \
         servers of their domains"
    )]
    Namespace,
    /// All namespaces together have too many.
    #[error(
        "the name of its server was not looked up, because {MOST} lookups for all namespaces have not ended; check the name \
         servers of their domains"
    )]
    All,
}

/// The lookups of all namespaces.
#[derive(Debug)]
pub struct Lookups {
    most_own: usize,
    patience: Duration,
    all: Arc<Semaphore>,
    namespaces: PerNamespace<Semaphore>,
}

impl Lookups {
    /// No lookups yet. One that finds no place gives up after `patience`; its caller should wait longer, to learn the reason.
    pub fn new(patience: Duration) -> Self {
        Self::of_at_most(MOST_OWN, MOST, patience)
    }

    /// At most so many lookups at a time for one namespace, and for all.
    pub fn of_at_most(most_own: usize, most: usize, patience: Duration) -> Self {
        Self {
            most_own,
            patience,
            all: Arc::new(Semaphore::new(most)),
            namespaces: PerNamespace::default(),
        }
    }

    /// The part of this namespace.
    pub fn of(&self, namespace: &str) -> Places {
        let most = self.most_own;
        Places {
            patience: self.patience,
            own: self.namespaces.of(namespace, || Semaphore::new(most)),
            all: self.all.clone(),
        }
    }
}

/// The lookups that one namespace may make. Clones share them.
#[derive(Clone, Debug)]
pub struct Places {
    patience: Duration,
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl Places {
    /// Runs a lookup in a thread of its own. It keeps its place until it ends, even if this future is dropped.
    pub async fn run<T: Send + 'static>(
        &self,
        lookup: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, BoxError> {
        let until = Instant::now() + self.patience;
        let own = place(&self.own, until).await?.ok_or(Crowded::Namespace)?;
        let all = place(&self.all, until).await?.ok_or(Crowded::All)?;
        let looked_up = tokio::task::spawn_blocking(move || {
            let _places = (own, all);
            lookup()
        });
        Ok(looked_up.await??)
    }
}

async fn place(places: &Arc<Semaphore>, until: Instant) -> Result<Option<OwnedSemaphorePermit>, AcquireError> {
    timeout_at(until, places.clone().acquire_owned()).await.ok().transpose()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc::{Sender, channel};

    use futures::{FutureExt, poll};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(4);

    /// Starts as many lookups, which end when the returned senders are dropped. Their callers give up at once.
    fn start(places: &Places, number: usize) -> Vec<Sender<()>> {
        let start = |_| {
            let (end, is_over) = channel::<()>();
            let lookup = places.run(move || {
                is_over.recv().ok();
                Ok(())
            });
            assert!(lookup.now_or_never().is_none(), "it has not ended");
            end
        };
        (0..number).map(start).collect()
    }

    async fn told_late(places: &Places) -> Option<Crowded> {
        let mut lookup = pin!(places.run(|| Ok(())));
        assert!(poll!(&mut lookup).is_pending(), "there is no place");
        tokio::time::advance(PATIENCE).await;
        lookup.await.unwrap_err().downcast_ref().copied()
    }

    // OWN 23q: the names of one tenant's servers took the threads of all.
    #[tokio::test(start_paused = true)]
    async fn lookups_that_do_not_end_take_few_threads_though_nobody_waits_for_them() {
        let lookups = Lookups::new(PATIENCE);
        let (hostile, other) = (lookups.of("hostile"), lookups.of("other"));
        let running = start(&hostile, MOST_OWN);
        assert_eq!(told_late(&hostile).await, Some(Crowded::Namespace));
        other.run(|| Ok(())).await.unwrap();
        drop(running);
        hostile.run(|| Ok(())).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_lookups_of_all_namespaces_are_bounded() {
        let lookups = Lookups::new(PATIENCE);
        let namespaces = (0..MOST / MOST_OWN).map(|number| lookups.of(&number.to_string()));
        let running: Vec<_> = namespaces.map(|places| start(&places, MOST_OWN)).collect();
        let other = lookups.of("other");
        assert_eq!(told_late(&other).await, Some(Crowded::All));
        drop(running);
        other.run(|| Ok(())).await.unwrap();
    }
}
