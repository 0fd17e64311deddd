//! The loop around the passes of a controller, the same for every kind.
//!
//! ```text
//!  watches ─▶ queue of keys ─▶ pass: observe ─▶ decide ─▶ apply ─▶ report ─▶ when to look again
//! ```
//!
//! A controller says which keys a change wakes ([`Controller::listen`]) and looks at one key once ([`Controller::pass`]). The
//! loop shares the workers among namespaces, measures, repeats what failed at growing intervals, and looks at everything again
//! now and then.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::Clock;
use crate::backoff::{Attempts, Backoff, random_seed};
use crate::error::{Class, Classified, chain};
use crate::metrics::{ControllerMetrics, PassEnd};
use crate::store::ObjectKey;
use crate::work::Queue;

/// When a pass wants the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes that it has to do with.
    Change,
    /// After this time at the latest.
    After(Duration),
    /// At once: what there is to do is not done yet. Failures before it still count.
    Now,
}

/// Looks after the objects of one kind.
pub trait Controller: Clone + Send + Sync + 'static {
    /// Its name in logs and metrics.
    const NAME: &'static str;

    /// What makes a pass fail as a whole.
    type Error: Classified + Send + 'static;

    /// Says which objects have to be looked at when something changes, by listening to the stores.
    fn listen(&self, queue: &Queue<ObjectKey>);

    /// All keys. The loop asks for them when everything is to be looked at anew.
    fn all(&self) -> Vec<ObjectKey>;

    /// Looks at an object once, and does what there is to do.
    fn pass(&self, key: &ObjectKey) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// When to look again after a pass that failed, where that is not for the loop to say.
    fn after_error(&self, _key: &ObjectKey, _error: &Self::Error) -> Option<Duration> {
        None
    }
}

/// A write that lost against somebody else's is judged anew after this time: the watch has usually shown it by then.
const STALE: Duration = Duration::from_millis(50);

/// After so many in a row it has not, and may stand still: then the times grow.
const SOON: u32 = 3;

/// How they do.
const LATE: Backoff = Backoff {
    base: Duration::from_millis(200),
    max: Duration::from_secs(10),
};

/// Controllers that are about to run.
pub struct Controllers {
    metrics: ControllerMetrics,
    clock: Clock,
    stop: CancellationToken,
    loops: Vec<BoxFuture<'static, ()>>,
    resyncs: Vec<Box<dyn Fn() + Send>>,
}

impl Controllers {
    /// None yet. They end with `stop`.
    pub fn new(metrics: ControllerMetrics, clock: Clock, stop: CancellationToken) -> Self {
        Self {
            metrics,
            clock,
            stop,
            loops: Vec::new(),
            resyncs: Vec::new(),
        }
    }

    /// One more, which works on so many objects at once. To be added before the watches start: it listens to them.
    pub fn add<C: Controller>(&mut self, controller: C, workers: u16) {
        self.add_with(Queue::new(), controller, workers);
    }

    /// The same with a queue that others fill, too.
    pub fn add_with<C: Controller>(&mut self, queue: Queue<ObjectKey>, controller: C, workers: u16) {
        self.metrics.measure(C::NAME, &queue);
        controller.listen(&queue);
        let (own, bell) = (controller.clone(), queue.clone());
        self.resyncs.push(Box::new(move || {
            for key in own.all() {
                bell.push(key);
            }
        }));
        let (metrics, clock, stop) = (self.metrics.clone(), self.clock.clone(), self.stop.clone());
        self.loops
            .push(run(controller, queue, workers, metrics, clock, stop).boxed());
    }

    /// Runs them all until `stop` is cancelled and their passes have ended. Everything is looked at again, without a
    /// reason, after each `resync`.
    pub async fn run(self, resync: Duration) {
        let resyncs = self.resyncs;
        let again = async move {
            loop {
                tokio::time::sleep(resync.max(Duration::from_secs(1))).await;
                for all in &resyncs {
                    all();
                }
            }
        };
        tokio::select! {
            _ = futures::future::join_all(self.loops) => {}
            () = again => {}
        }
    }
}

async fn run<C: Controller>(
    controller: C,
    queue: Queue<ObjectKey>,
    workers: u16,
    metrics: ControllerMetrics,
    clock: Clock,
    stop: CancellationToken,
) {
    let attempts = Arc::new(Failed::default());
    let work = |key: ObjectKey| {
        let (controller, metrics, clock, attempts) =
            (controller.clone(), metrics.clone(), clock.clone(), attempts.clone());
        async move {
            let start = clock.elapsed();
            let result = controller.pass(&key).await;
            let outcome = result.as_ref().map_or_else(|error| error.class().as_str(), |_| "ok");
            let took = clock.elapsed().saturating_sub(start);
            let again = match result {
                Ok(Next::Now) => Some(Duration::ZERO),
                Ok(next) => {
                    attempts.forget(&key);
                    match next {
                        Next::Change | Next::Now => None,
                        Next::After(after) => Some(after),
                    }
                }
                Err(error) => {
                    let own = controller.after_error(&key, &error);
                    Some(own.unwrap_or_else(|| after_error::<C>(&key, &error, &attempts)))
                }
            };
            let is_requeued = again.is_some();
            metrics.observe(C::NAME, PassEnd { outcome, is_requeued }, took);
            again
        }
    };
    queue.run(workers.into(), stop, work).await;
}

/// How often passes have failed in a row, by object.
#[derive(Default)]
struct Failed {
    attempts: Attempts<ObjectKey>,
    /// Those that came too late for somebody else's write.
    conflicts: Attempts<ObjectKey>,
}

impl Failed {
    fn forget(&self, key: &ObjectKey) {
        self.attempts.reset(key);
        self.conflicts.reset(key);
    }
}

fn after_error<C: Controller>(key: &ObjectKey, error: &C::Error, failed: &Failed) -> Duration {
    match error.class() {
        Class::Stale => {
            tracing::debug!(controller = C::NAME, object = %key, error = %chain(error), "somebody else wrote first");
            match failed.conflicts.failed(key).checked_sub(SOON) {
                None => STALE,
                Some(more) => LATE.delay(more, random_seed()),
            }
        }
        Class::Throttled(after) => after,
        Class::Transient | Class::User | Class::Fault | Class::Bug => {
            tracing::warn!(controller = C::NAME, object = %key, error = %chain(error), "a pass failed");
            Backoff::TRANSIENT.delay(failed.attempts.failed(key), random_seed())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use kube::core::Status;
    use tokio::time::Instant;

    use super::*;
    use crate::metrics::{Build, Registry};

    /// Its passes come to these ends, one after the other, and then to none.
    #[derive(Clone)]
    struct Played {
        ends: Vec<Result<Next, u16>>,
        passes: Arc<AtomicU32>,
        stop: CancellationToken,
    }

    impl Controller for Played {
        const NAME: &'static str = "played";
        type Error = kube::Error;

        fn listen(&self, _: &Queue<ObjectKey>) {}

        fn all(&self) -> Vec<ObjectKey> {
            Vec::new()
        }

        async fn pass(&self, _: &ObjectKey) -> Result<Next, kube::Error> {
            let number = self.passes.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(end) = self.ends.get(number) else {
                self.stop.cancel();
                return Ok(Next::Change);
            };
            end.map_err(|code| {
                let reason = if code == 409 { "Conflict" } else { "Forbidden" };
                let status = Status::failure("no", reason).with_code(code);
                kube::Error::Api(Box::new(status))
            })
        }
    }

    /// How long the passes take until they have come to these ends.
    async fn time(ends: &[Result<Next, u16>]) -> Duration {
        let (queue, stop, start) = (Queue::new(), CancellationToken::new(), Instant::now());
        queue.push(ObjectKey::new("ns", "o"));
        let build = Build {
            component: "test",
            version: "0",
        };
        let metrics = ControllerMetrics::new(&Registry::new(build));
        let played = Played {
            ends: ends.to_vec(),
            passes: Arc::default(),
            stop: stop.clone(),
        };
        run(played, queue, 1, metrics, Clock::system(), stop).await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_late_again_and_again_is_tried_less_and_less_often() {
        let few = time(&[Err(409); 3]).await;
        assert!(few >= 3 * STALE && few < 4 * STALE, "{few:?}");
        let many = time(&[Err(409); 30]).await;
        assert!(many > Duration::from_secs(100), "{many:?}");
        // Whoever comes through begins anew.
        let between: Vec<_> = (0..10)
            .flat_map(|_| [Err(409), Err(409), Ok(Next::After(STALE))])
            .collect();
        let between = time(&between).await;
        assert!(between < 31 * STALE, "{between:?}");
    }

    /// Or a machine would try one host after the other as fast as it can, where all refuse.
    #[tokio::test(start_paused = true)]
    async fn what_is_not_done_yet_ends_no_back_off() {
        let steps: Vec<_> = (0..10).flat_map(|_| [Err(403), Ok(Next::Now)]).collect();
        let time = time(&steps).await;
        assert!(time > Duration::from_secs(100), "{time:?}");
    }
}
