//! The skeleton that every controller is built on, and the loop around it.
//!
//! ```text
//!  watches ─▶ queue of keys ─▶ observe ─▶ decide (pure) ─▶ apply ─▶ report ─▶ when to look again
//!                                 ▲          │ Fetch
//!                                 └──────────┘
//! ```
//!
//! A [`Controller`] supplies the four steps and maps each change to the keys to enqueue. The loop shares the workers
//! among namespaces, records metrics, retries failed passes with back-off, and periodically resyncs all objects.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::Clock;
use crate::backoff::{Attempts, Backoff, random_seed};
use crate::error::{Class, Classified, chain};
use crate::events::Event;
use crate::metrics::{ControllerMetrics, PassEnd};
use crate::store::ObjectKey;
use crate::timing::controller::STALE;
use crate::work::Queue;

/// When to reconcile the object again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// When something that the decision depends on changes.
    #[default]
    Change,
    /// After this time, or earlier if something changes.
    After(Duration),
    /// Immediately, because the work is not finished. Earlier failures still count for the back-off.
    Now,
    /// Decide again in this pass, from the observed state and the results of the effects.
    Decide,
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision<R, E, S> {
    /// Read this first, then decide again.
    Fetch(R),
    /// Apply this plan.
    Act(Box<Plan<E, S>>),
}

impl<R, E, S> Decision<R, E, S> {
    /// There is nothing to do until something changes.
    pub fn idle() -> Self {
        Plan::default().into()
    }
}

impl<R, E, S> From<Plan<E, S>> for Decision<R, E, S> {
    fn from(plan: Plan<E, S>) -> Self {
        Self::Act(Box::new(plan))
    }
}

/// What one pass does, as data: it can be printed, compared, and tested in bulk.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<E, S> {
    /// Effects, applied in order up to the first failure.
    pub effects: Vec<E>,
    /// What to store and publish once the effects have succeeded.
    pub report: Report<S>,
    /// Effects that the report does not wait for, because the failure of another component must not delay it.
    pub afterwards: Vec<E>,
    /// When to reconcile again.
    pub next: Next,
}

impl<E, S> Default for Plan<E, S> {
    fn default() -> Self {
        Self {
            effects: Vec::new(),
            report: Report::default(),
            afterwards: Vec::new(),
            next: Next::Change,
        }
    }
}

impl<E, S> Plan<E, S> {
    /// A plan with one effect.
    pub fn of(effect: E) -> Self {
        Self {
            effects: vec![effect],
            ..Self::default()
        }
    }

    /// Adds an event.
    #[must_use]
    pub fn with(mut self, event: Event) -> Self {
        self.report.events.push(event);
        self
    }
}

/// What is reported to users: one status write, then events.
#[derive(Clone, Debug, PartialEq)]
pub struct Report<S> {
    /// The complete next status. `None` keeps the stored one.
    pub status: Option<S>,
    /// Events, published after the status is stored.
    pub events: Vec<Event>,
}

impl<S> Default for Report<S> {
    fn default() -> Self {
        Self {
            status: None,
            events: Vec::new(),
        }
    }
}

impl<S> Report<S> {
    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.status.is_none() && self.events.is_empty()
    }
}

/// What to do after an effect failed, instead of the rest of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<S> {
    /// What to store and publish.
    pub report: Report<S>,
    /// When to reconcile again.
    pub next: Next,
}

/// Reconciles the objects of one kind.
///
/// A crash between any two effects must be harmless: the next pass observes what was done. Only `decide`, `outcome` and
/// `refused` make choices; the other steps only execute.
pub trait Controller: Clone + Send + Sync + 'static {
    /// Its name in logs and metrics.
    const NAME: &'static str;

    /// Everything that a decision depends on.
    type Observed: Send + Sync;
    /// A read that a decision may request.
    type Read: Send;
    /// One write. It must be idempotent.
    type Effect: Send + Sync;
    /// The status of the object.
    type Status: Send + Sync;
    /// An error that fails the whole pass.
    type Error: Classified + Send + Sync + 'static;

    /// The source of the time that decisions are given.
    fn clock(&self) -> &Clock;

    /// Subscribes to the stores and enqueues the affected objects on every change.
    fn listen(&self, queue: &Queue<ObjectKey>);

    /// All keys. The loop calls this for a full resync.
    fn all(&self) -> Vec<ObjectKey>;

    /// Collects the cached state. Returns `None` if the object is gone or not managed by this controller.
    fn observe(&self, key: &ObjectKey) -> impl Future<Output = Result<Option<Self::Observed>, Self::Error>> + Send;

    /// Decides what to do. Pure: no client, clock, randomness or log.
    fn decide(seen: &Self::Observed, now: Timestamp) -> Decision<Self::Read, Self::Effect, Self::Status>;

    /// Performs the requested read and adds the result to the observed state.
    fn fetch(
        &self,
        seen: &mut Self::Observed,
        read: Self::Read,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Applies one effect against the observed resourceVersion, and adds the result to the observed state.
    fn apply(
        &self,
        seen: &mut Self::Observed,
        effect: &Self::Effect,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Stores the status if it differs, and publishes the events.
    fn report(
        &self,
        seen: &mut Self::Observed,
        report: Report<Self::Status>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Judges a failed effect; pure, like `decide`. By default the pass fails with the error and the loop retries it.
    fn outcome(
        _seen: &Self::Observed,
        _plan: &Plan<Self::Effect, Self::Status>,
        _effect: &Self::Effect,
        _error: &Self::Error,
        _now: Timestamp,
    ) -> Option<Outcome<Self::Status>> {
        None
    }

    /// What to report to users when a pass fails. The next successful report replaces it.
    fn refused(&self, _seen: &Self::Observed, _error: &Self::Error) -> Report<Self::Status> {
        Report::default()
    }

    /// Called at the end of the pass; `seen` is the observed state including the results of the effects.
    fn ended(&self, _key: &ObjectKey, _seen: Option<&Self::Observed>, _done: &Result<Next, Self::Error>) {}
}

/// Upper bound on the reads of one decision. Exceeding it is a bug: the decision keeps requesting what it already has.
const MOST_READS: usize = 64;

/// Upper bound on the plans of one pass. Exceeding it is a bug.
const MOST_STEPS: usize = 64;

/// Reconciles one object. [`Controller`] implements this; a controller that does not fit that trait explains why in its
/// module.
pub trait Reconcile: Clone + Send + Sync + 'static {
    /// Its name in logs and metrics.
    const NAME: &'static str;

    /// An error that fails the whole pass.
    type Error: Classified + Send + 'static;

    /// Subscribes to the stores and enqueues the affected objects on every change.
    fn listen(&self, queue: &Queue<ObjectKey>);

    /// All keys. The loop calls this for a full resync.
    fn all(&self) -> Vec<ObjectKey>;

    /// Reconciles one object once.
    fn reconcile(&self, key: &ObjectKey) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// Overrides when to retry after a failed pass. By default the loop decides.
    fn after_error(&self, _key: &ObjectKey, _error: &Self::Error) -> Option<Duration> {
        None
    }
}

impl<C: Controller> Reconcile for C {
    const NAME: &'static str = C::NAME;
    type Error = C::Error;

    fn listen(&self, queue: &Queue<ObjectKey>) {
        Controller::listen(self, queue);
    }

    fn all(&self) -> Vec<ObjectKey> {
        Controller::all(self)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Self::Error> {
        let mut seen = match self.observe(key).await {
            Ok(seen) => seen,
            Err(error) => {
                let done = Err(error);
                self.ended(key, None, &done);
                return done;
            }
        };
        let done = match &mut seen {
            Some(seen) => climb(self, key, seen).await,
            None => Ok(Next::Change),
        };
        self.ended(key, seen.as_ref(), &done);
        done
    }
}

/// Decide, apply and report.
async fn climb<C: Controller>(controller: &C, key: &ObjectKey, seen: &mut C::Observed) -> Result<Next, C::Error> {
    let done = act(controller, key, seen).await;
    if let Err(error) = &done {
        let report = controller.refused(seen, error);
        if !report.is_empty()
            && let Err(error) = controller.report(seen, report).await
        {
            tracing::debug!(controller = C::NAME, object = %key, error = %chain(&error), "cannot report what failed");
        }
    }
    done
}

async fn act<C: Controller>(controller: &C, key: &ObjectKey, seen: &mut C::Observed) -> Result<Next, C::Error> {
    for _ in 0..MOST_STEPS {
        let Some(plan) = decided(controller, seen).await? else {
            break;
        };
        match carry_out(controller, seen, plan).await? {
            Next::Decide => {}
            next => return Ok(next),
        }
    }
    tracing::error!(controller = C::NAME, object = %key, "a pass does not come to an end; this is a fault of the program");
    Ok(Next::After(crate::timing::controller::BROKEN))
}

/// The plan, after all reads that it needs. `None` if the decision never stops requesting reads.
async fn decided<C: Controller>(
    controller: &C,
    seen: &mut C::Observed,
) -> Result<Option<Plan<C::Effect, C::Status>>, C::Error> {
    for _ in 0..MOST_READS {
        match C::decide(seen, controller.clock().now()) {
            Decision::Fetch(read) => controller.fetch(seen, read).await?,
            Decision::Act(plan) => return Ok(Some(*plan)),
        }
    }
    Ok(None)
}

async fn carry_out<C: Controller>(
    controller: &C,
    seen: &mut C::Observed,
    plan: Plan<C::Effect, C::Status>,
) -> Result<Next, C::Error> {
    for effect in &plan.effects {
        let Err(error) = controller.apply(seen, effect).await else {
            continue;
        };
        let Some(outcome) = C::outcome(seen, &plan, effect, &error, controller.clock().now()) else {
            return Err(error);
        };
        report(controller, seen, outcome.report).await?;
        return Ok(outcome.next);
    }
    report(controller, seen, plan.report).await?;
    for effect in &plan.afterwards {
        controller.apply(seen, effect).await?;
    }
    Ok(plan.next)
}

async fn report<C: Controller>(
    controller: &C,
    seen: &mut C::Observed,
    report: Report<C::Status>,
) -> Result<(), C::Error> {
    if report.is_empty() {
        return Ok(());
    }
    controller.report(seen, report).await
}

/// After this many conflicts in a row the cache is probably stuck, so the delays start to grow.
const SOON: u32 = 3;

/// The growing delays after repeated conflicts.
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
    /// An empty set. The controllers end with `stop`.
    pub fn new(metrics: ControllerMetrics, clock: Clock, stop: CancellationToken) -> Self {
        Self {
            metrics,
            clock,
            stop,
            loops: Vec::new(),
            resyncs: Vec::new(),
        }
    }

    /// Adds a controller with this many workers. Call it before the watches start, because it subscribes to them.
    pub fn add<C: Reconcile>(&mut self, controller: C, workers: u16) {
        self.add_with(Queue::new(), controller, workers);
    }

    /// Like [`Self::add`], with a queue that other code also fills.
    pub fn add_with<C: Reconcile>(&mut self, queue: Queue<ObjectKey>, controller: C, workers: u16) {
        self.metrics.measure(C::NAME, &queue);
        controller.listen(&queue);
        let (own, keys) = (controller.clone(), queue.clone());
        self.resyncs.push(Box::new(move || {
            for key in own.all() {
                keys.push(key);
            }
        }));
        let (metrics, clock, stop) = (self.metrics.clone(), self.clock.clone(), self.stop.clone());
        self.loops
            .push(run(controller, queue, workers, metrics, clock, stop).boxed());
    }

    /// Runs all controllers until `stop` is cancelled and their passes have ended. After every `resync`, all objects
    /// are enqueued.
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

async fn run<C: Reconcile>(
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
            let result = controller.reconcile(&key).await;
            let outcome = result.as_ref().map_or_else(|error| error.class().as_str(), |_| "ok");
            let took = clock.elapsed().saturating_sub(start);
            let again = match result {
                Ok(Next::Now | Next::Decide) => Some(Duration::ZERO),
                Ok(next) => {
                    attempts.forget(&key);
                    match next {
                        Next::Change | Next::Now | Next::Decide => None,
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
    /// Conflicts: writes that lost to another writer.
    conflicts: Attempts<ObjectKey>,
}

impl Failed {
    fn forget(&self, key: &ObjectKey) {
        self.attempts.reset(key);
        self.conflicts.reset(key);
    }
}

fn after_error<C: Reconcile>(key: &ObjectKey, error: &C::Error, failed: &Failed) -> Duration {
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

    /// Its passes return these results in order, and then none.
    #[derive(Clone)]
    struct Played {
        ends: Vec<Result<Next, u16>>,
        passes: Arc<AtomicU32>,
        stop: CancellationToken,
    }

    impl Reconcile for Played {
        const NAME: &'static str = "played";
        type Error = kube::Error;

        fn listen(&self, _: &Queue<ObjectKey>) {}

        fn all(&self) -> Vec<ObjectKey> {
            Vec::new()
        }

        async fn reconcile(&self, _: &ObjectKey) -> Result<Next, kube::Error> {
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

    /// How long it takes until the passes have returned these results.
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
        // A success resets the back-off.
        let between: Vec<_> = (0..10)
            .flat_map(|_| [Err(409), Err(409), Ok(Next::After(STALE))])
            .collect();
        let between = time(&between).await;
        assert!(between < 31 * STALE, "{between:?}");
    }

    /// Otherwise a machine would try one host after another as fast as it can while all claims are rejected.
    #[tokio::test(start_paused = true)]
    async fn what_is_not_done_yet_ends_no_back_off() {
        let steps: Vec<_> = (0..10).flat_map(|_| [Err(403), Ok(Next::Now)]).collect();
        let time = time(&steps).await;
        assert!(time > Duration::from_secs(100), "{time:?}");
    }
}
