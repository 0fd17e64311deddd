//! A work queue of keys: each key is processed by one worker at a time, and no key is lost.
//!
//! kube's controller only handles objects that exist. Some of our work is about objects that do not: claims that wait
//! for a pool nobody has created yet, or whose pool was force-deleted. kube's controller also has no order: among the
//! keys that are due it picks by hash, so some wait until no other is left. This queue is first in, first out, with a
//! second line for low-priority work.
//!
//! Workers are shared between namespaces. A free worker takes a key of the namespace with the fewest workers, and the
//! last free workers are reserved for namespaces that have none. So a namespace whose passes hang delays only its own
//! objects.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    hash::Hash,
    pin::pin,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use kube::Resource;
use parking_lot::{Mutex, MutexGuard};

use tokio::{
    sync::Notify,
    task::{Id, JoinSet},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::metrics::{Load, Loaded, QueueTimes};
use crate::store::{Change, ObjectKey, Store};
use crate::timing::controller::BROKEN;
use crate::timing::process::LAST_WORK;

/// The tenant that a key belongs to. Tenants share the workers of a queue fairly.
pub trait Tenanted {
    /// The key's namespace. Keys with an empty one form one tenant.
    fn tenant(&self) -> &str;
}

impl Tenanted for ObjectKey {
    fn tenant(&self) -> &str {
        &self.namespace
    }
}

/// Keys and their due times. Cheap to clone; clones share the queue.
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
    /// Where queue times are recorded, once metrics are attached.
    times: OnceLock<QueueTimes>,
}

#[derive(Debug)]
struct State<K> {
    /// When a key is due in each line. One run serves both lines.
    due: HashMap<K, [Option<Instant>; 2]>,
    /// The keys that are not due yet. A key in progress is neither here nor with its tenant.
    later: BTreeSet<(Instant, Line, K)>,
    /// Tenants with keys that are due or in progress.
    tenants: HashMap<Arc<str>, Tenant<K>>,
    /// The tenants with keys in each line, next first.
    turns: [BTreeSet<Turn>; 2],
    /// Keys in progress, and their start times.
    running: HashMap<K, Instant>,
    /// The maximum number of keys in progress.
    workers: usize,
    /// The number of keys taken, and how many of these panicked.
    taken: u64,
    broken: u64,
    /// How many keys were taken in a row while the second line had one due.
    passed_over: usize,
}

/// The due keys of one tenant, in order of due time, and the number in progress.
#[derive(Debug)]
struct Tenant<K> {
    lines: [BTreeSet<(Instant, K)>; 2],
    running: usize,
    /// The total number of keys taken when this tenant was last served. A new tenant starts with the current number, so
    /// that a tenant that comes and goes is not served before those that stay.
    served: u64,
}

/// The order of tenants: fewest workers first, then least recently served.
type Turn = (usize, u64, Arc<str>);

/// The line that a key waits in, as an index.
type Line = usize;
const FIRST: Line = 0;
const SECOND: Line = 1;

/// After this many keys of the first line, one due key of the second line is taken, so that the second line cannot
/// starve.
const BEFORE_SECOND: usize = 7;

/// One in this many workers, and at least one, is reserved for tenants without a worker.
const PER_RESERVED: usize = 8;

/// With fewer workers none is reserved, because too few would be left.
const LEAST_WITH_RESERVE: usize = 4;

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                due: HashMap::new(),
                later: BTreeSet::new(),
                tenants: HashMap::new(),
                turns: Default::default(),
                running: HashMap::new(),
                workers: 0,
                taken: 0,
                broken: 0,
                passed_over: 0,
            }),
            changed: Notify::new(),
            times: OnceLock::new(),
        }))
    }
}

impl<K: Tenanted + Clone + Ord + Hash + Debug + Send + 'static> Queue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Enqueues a key now. If the key is in progress, it runs again afterwards.
    pub fn push(&self, key: K) {
        self.push_in(key, Duration::ZERO);
    }

    /// Enqueues a key after a delay. An earlier due time is kept.
    pub fn push_in(&self, key: K, delay: Duration) {
        self.push_to(FIRST, key, delay);
    }

    /// Like [`Self::push_in`], for low-priority work such as the resync of an unchanged object. It runs when no other
    /// key is due, and now and then in between.
    pub fn push_behind(&self, key: K, delay: Duration) {
        self.push_to(SECOND, key, delay);
    }

    fn push_to(&self, line: Line, key: K, delay: Duration) {
        let mut state = self.lock();
        // Take the time under the lock: a key that became due while waiting for the lock would otherwise be ordered
        // before this one.
        let at = Instant::now() + delay;
        let due = &mut state.due.entry(key.clone()).or_default()[line];
        if due.is_some_and(|before| before <= at) {
            return;
        }
        let before = due.replace(at);
        if !state.running.contains_key(&key) {
            // A key that is already due is not after `at`.
            if let Some(before) = before {
                state.later.remove(&(before, line, key.clone()));
            }
            state.later.insert((at, line, key));
        }
        drop(state);
        self.0.changed.notify_one();
    }

    /// Processes keys until `stop` is cancelled, then waits for the work in progress, up to a time limit. `work`
    /// returns when to run its key again, if at all.
    pub async fn run<F, Fut>(&self, workers: usize, stop: CancellationToken, work: F)
    where
        F: Fn(K) -> Fut,
        Fut: Future<Output = Option<Duration>> + Send + 'static,
    {
        let workers = workers.max(1);
        self.lock().workers = workers;
        let mut tasks: JoinSet<Option<Duration>> = JoinSet::new();
        let mut keys: HashMap<Id, K> = HashMap::new();
        let mut end = pin!(async {
            stop.cancelled().await;
            sleep(LAST_WORK).await;
        });
        loop {
            let next = loop {
                if stop.is_cancelled() || tasks.len() >= workers {
                    break None;
                }
                match self.take() {
                    Ok(key) => {
                        let task = tasks.spawn(work(key.clone()));
                        keys.insert(task.id(), key);
                    }
                    Err(next) => break next,
                }
            };
            if stop.is_cancelled() && tasks.is_empty() {
                return;
            }
            tokio::select! {
                () = stop.cancelled(), if !stop.is_cancelled() => {}
                () = &mut end => {
                    warn!(keys = ?keys.values().collect::<Vec<_>>(), "work is cut off");
                    return; // which ends it
                }
                () = self.0.changed.notified() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                Some(ended) = tasks.join_next_with_id() => {
                    let (id, again) = match ended {
                        Ok(ended) => ended,
                        Err(broken) => {
                            error!(key = ?keys.get(&broken.id()), error = %broken, "a pass broke down");
                            self.lock().broken += 1;
                            (broken.id(), Some(BROKEN))
                        }
                    };
                    if let Some(key) = keys.remove(&id) {
                        let began = self.lock().end(&key);
                        if let (Some(times), Some(began)) = (self.0.times.get(), began) {
                            times.worked.observe(began.elapsed().as_secs_f64());
                        }
                        if let Some(delay) = again {
                            self.push_in(key, delay);
                        }
                    }
                }
            }
        }
    }

    /// Takes a key that is due and not in progress, and marks it in progress; otherwise returns when the next key is
    /// due.
    fn take(&self) -> Result<K, Option<Instant>> {
        let now = Instant::now();
        let mut state = self.lock();
        state.ripen(now);
        let next = state.next().and_then(|(line, tenant)| state.take(line, &tenant, now));
        let Some((at, key)) = next else {
            return Err(state.later.first().map(|(at, ..)| *at));
        };
        if let Some(times) = self.0.times.get() {
            times.waited.observe(now.duration_since(at).as_secs_f64());
        }
        Ok(key)
    }

    /// The number of waiting keys.
    pub fn len(&self) -> usize {
        self.lock().due.len()
    }

    /// Whether no key is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records queue times here from now on; only the first call has an effect.
    pub(crate) fn measure(&self, times: QueueTimes) {
        self.0.times.set(times).ok();
    }

    /// A weak handle that reports the load of this queue.
    pub(crate) fn loaded(&self) -> Weak<dyn Loaded> {
        let shared: Weak<Shared<K>> = Arc::downgrade(&self.0);
        shared
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.lock()
    }
}

impl Queue<ObjectKey> {
    /// Enqueues the keys that `keys` returns, after every change in a store from now on.
    pub fn follow<K, By, I>(&self, store: &Store<K, By>, keys: impl Fn(&Change<K>) -> I + Send + Sync + 'static)
    where
        K: Resource<DynamicType = ()>,
        By: Eq + Hash + Clone,
        I: IntoIterator<Item = ObjectKey>,
    {
        let queue = self.clone();
        store.listen(move |change| {
            for key in keys(change) {
                queue.push(key);
            }
        });
    }
}

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock()
    }
}

impl<K: Tenanted + Clone + Ord + Hash + Debug + Send> Loaded for Shared<K> {
    fn load(&self) -> Load {
        let now = Instant::now();
        let state = self.lock();
        let is_ready = |(key, due): &(&K, &[Option<Instant>; 2])| {
            due.iter().flatten().any(|at| *at <= now) && !state.running.contains_key(*key)
        };
        let under_way = state.running.values().map(|began| now.duration_since(*began));
        Load {
            ready: state.due.iter().filter(is_ready).count() as u64,
            taken: state.taken,
            broken: state.broken,
            running: state.running.len() as u64,
            workers: state.workers as u64,
            unfinished: under_way.clone().sum(),
            longest: under_way.max().unwrap_or_default(),
        }
    }
}

impl<K> Tenant<K> {
    fn turn(&self, name: &Arc<str>) -> Turn {
        (self.running, self.served, name.clone())
    }

    fn is_here(&self) -> bool {
        self.running > 0 || self.lines.iter().any(|line| !line.is_empty())
    }
}

impl<K: Tenanted + Clone + Ord + Hash> State<K> {
    /// Moves every key that is due to its tenant's line.
    fn ripen(&mut self, now: Instant) {
        while self.later.first().is_some_and(|(at, ..)| *at <= now) {
            if let Some((at, line, key)) = self.later.pop_first() {
                self.change(&key.clone(), |tenant| {
                    tenant.lines[line].insert((at, key));
                });
            }
        }
    }

    /// The line and the tenant to serve next. The first line goes first, unless a tenant with fewer workers waits in
    /// the second, or the second would starve.
    fn next(&mut self) -> Option<(Line, Arc<str>)> {
        let free = self.workers.saturating_sub(self.running.len());
        let reserved = match self.workers {
            ..LEAST_WITH_RESERVE => 0,
            workers => (workers / PER_RESERVED).max(1),
        };
        let may_start = |(running, ..): &&Turn| free > reserved || *running == 0;
        let [first, second] = [FIRST, SECOND].map(|line| self.turns[line].first().filter(may_start));
        let (line, (_, _, tenant)) = match (first, second) {
            (Some(first), Some(second)) => {
                let is_seconds = second.0 < first.0 || second.0 == first.0 && self.passed_over >= BEFORE_SECOND;
                if is_seconds { (SECOND, second) } else { (FIRST, first) }
            }
            (Some(first), None) => (FIRST, first),
            (None, second) => (SECOND, second?),
        };
        let is_passed_over = line == FIRST && second.is_some();
        self.passed_over = if is_passed_over { self.passed_over + 1 } else { 0 };
        Some((line, tenant.clone()))
    }

    /// Starts work on the first key in a tenant's line; also returns its due time.
    fn take(&mut self, line: Line, tenant: &str, now: Instant) -> Option<(Instant, K)> {
        let (at, key) = self.tenants.get(tenant)?.lines[line].first()?.clone();
        let due = self.due.remove(&key).unwrap_or_default();
        for (line, at) in due.into_iter().enumerate() {
            if let Some(at) = at {
                self.later.remove(&(at, line, key.clone()));
            }
        }
        self.taken += 1;
        let served = self.taken;
        self.change(&key, |tenant| {
            // Always remove the taken key from the line.
            tenant.lines[line].remove(&(at, key.clone()));
            for (line, at) in tenant.lines.iter_mut().zip(due) {
                if let Some(at) = at {
                    line.remove(&(at, key.clone()));
                }
            }
            tenant.running += 1;
            tenant.served = served;
        });
        self.running.insert(key.clone(), now);
        Some((at, key))
    }

    /// Ends work on a key. Returns when it started.
    fn end(&mut self, key: &K) -> Option<Instant> {
        let began = self.running.remove(key)?;
        self.change(key, |tenant| tenant.running -= 1);
        for (line, at) in self.due.get(key).into_iter().flatten().enumerate() {
            if let Some(at) = at {
                self.later.insert((*at, line, key.clone()));
            }
        }
        Some(began)
    }

    /// Updates a key's tenant and its place in the order of tenants.
    fn change(&mut self, key: &K, change: impl FnOnce(&mut Tenant<K>)) {
        let known = self.tenants.remove_entry(key.tenant());
        let (name, mut tenant) = known.unwrap_or_else(|| {
            let tenant = Tenant {
                lines: Default::default(),
                running: 0,
                served: self.taken,
            };
            (key.tenant().into(), tenant)
        });
        let before = tenant.turn(&name);
        change(&mut tenant);
        for (turns, line) in self.turns.iter_mut().zip(&tenant.lines) {
            turns.remove(&before);
            if !line.is_empty() {
                turns.insert(tenant.turn(&name));
            }
        }
        if tenant.is_here() {
            self.tenants.insert(name, tenant);
        }
    }
}

#[cfg(test)]
impl Tenanted for &str {
    fn tenant(&self) -> &'static str {
        ""
    }
}

#[cfg(test)]
impl Tenanted for u32 {
    fn tenant(&self) -> &'static str {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_is_cut_off_in_time() {
        // OWN 14b: Kubernetes kills a process ten seconds after SIGTERM.
        let queue = Queue::new();
        queue.push("stuck");
        let stop = CancellationToken::new();
        let (began, ended) = (stop.clone(), Arc::new(()));
        let alive = Arc::downgrade(&ended);
        let start = Instant::now();
        let work = move |_| {
            began.cancel();
            let ended = ended.clone();
            async move {
                std::future::pending::<()>().await;
                drop(ended);
                None
            }
        };
        queue.run(1, stop, work).await;
        assert_eq!(start.elapsed(), LAST_WORK);
        tokio::task::yield_now().await;
        assert_eq!(alive.strong_count(), 0, "it does not go on");
        assert!(LAST_WORK < crate::shutdown::GRACE);
    }

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
                log.lock().push((key, "begin"));
                let first = log.lock().iter().filter(|(k, _)| *k == key).count() == 1;
                if first {
                    queue.push(key);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                log.lock().push((key, "end"));
                if key == "late" && !first {
                    stop.cancel();
                }
                (key == "b" && first).then_some(Duration::from_secs(5))
            }
        };
        queue.run(4, stop, work).await;
        let log = log.lock();
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
    async fn work_that_breaks_down_is_begun_again_after_a_while() {
        let (queue, stop) = (Queue::new(), CancellationToken::new());
        queue.push("bad");
        let start = Instant::now();
        let (tries, end): (Arc<Mutex<Vec<_>>>, _) = (Arc::default(), stop.clone());
        let seen = tries.clone();
        let work = move |key| {
            let (tries, end) = (seen.clone(), end.clone());
            async move {
                let number = {
                    let mut tries = tries.lock();
                    tries.push((key, start.elapsed().as_secs()));
                    tries.len()
                };
                assert!(number > 1, "a bug");
                end.cancel();
                None
            }
        };
        queue.run(1, stop, work).await;
        assert_eq!(*tries.lock(), [("bad", 0), ("bad", BROKEN.as_secs())]);
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
                let mut times = seen.lock();
                times.push(start.elapsed().as_secs());
                if times.len() == 2 {
                    end.cancel();
                }
                std::future::ready(None)
            })
            .await;
        assert_eq!(*times.lock(), [5, 5]);
    }

    /// The order in which keys are processed, one at a time, one second each.
    async fn order_of(queue: &Queue<u32>, keys: usize) -> Vec<u32> {
        let (stop, order) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
        let (seen, end) = (order.clone(), stop.clone());
        let work = move |key| {
            seen.lock().push(key);
            if seen.lock().len() == keys {
                end.cancel();
            }
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                None
            }
        };
        queue.run(1, stop, work).await;
        std::mem::take(&mut *order.lock())
    }

    #[tokio::test(start_paused = true)]
    async fn keys_take_their_turns_and_what_can_wait_comes_last() {
        let queue = Queue::new();
        for key in [5, 1, 9] {
            queue.push_behind(key, Duration::ZERO);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        for key in [7, 3, 8, 1] {
            queue.push(key);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        // Key 1 was enqueued in both lines and runs once.
        assert_eq!(order_of(&queue, 6).await, [7, 3, 8, 1, 5, 9]);
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_passed_over_for_good() {
        let queue = Queue::new();
        queue.push_behind(100, Duration::ZERO);
        for key in 0..20 {
            queue.push(key);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let order = order_of(&queue, 21).await;
        assert_eq!(
            order.iter().position(|key| *key == 100),
            Some(BEFORE_SECOND),
            "{order:?}"
        );
        let others: Vec<_> = order.into_iter().filter(|key| *key != 100).collect();
        assert!(others.is_sorted(), "{others:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_wait_is_not_done_before_its_time() {
        let queue = Queue::new();
        queue.push_behind(1, Duration::from_secs(10));
        queue.push_in(2, Duration::from_secs(20));
        let start = Instant::now();
        assert_eq!(order_of(&queue, 2).await, [1, 2]);
        assert_eq!(start.elapsed().as_secs(), 21);
    }

    /// Processes keys until this time, each for as long as its namespace's name says, and returns when each started.
    async fn begins(queue: &Queue<ObjectKey>, workers: usize, until: Duration) -> Vec<(u64, String)> {
        let (stop, log) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
        let (start, seen, end) = (Instant::now(), log.clone(), stop.clone());
        let work = move |key: ObjectKey| {
            let took = if key.namespace == "tarpit" { 60 } else { 1 };
            seen.lock().push((start.elapsed().as_secs(), key.namespace));
            async move {
                sleep(Duration::from_secs(took)).await;
                None
            }
        };
        tokio::join!(queue.run(workers, stop, work), async {
            sleep(until).await;
            end.cancel();
        });
        std::mem::take(&mut *log.lock())
    }

    fn push_many(queue: &Queue<ObjectKey>, namespace: &str, keys: usize) {
        for n in 0..keys {
            queue.push(ObjectKey::new(namespace, n.to_string()));
        }
    }

    // OWN 22b: a tenant whose passes hung occupied all workers, and the others waited.
    #[tokio::test(start_paused = true)]
    async fn a_tenant_whose_work_hangs_leaves_workers_to_the_others() {
        for workers in [4, 8, 64] {
            let queue = Queue::new();
            push_many(&queue, "tarpit", 1000);
            queue.push_in(ObjectKey::new("new", "a"), Duration::from_secs(3));
            queue.push_in(ObjectKey::new("other", "a"), Duration::from_secs(5));
            let begins = begins(&queue, workers, Duration::from_secs(100)).await;
            for (at, namespace) in [(3, "new"), (5, "other")] {
                assert!(begins.contains(&(at, namespace.to_owned())), "{workers}: {begins:?}");
            }
            let hang = begins.iter().filter(|(at, _)| *at == 0).count();
            assert_eq!(hang, workers - (workers / 8).max(1), "all others are worked with");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_freed_worker_goes_to_the_tenant_with_the_fewest() {
        let queue = Queue::new();
        push_many(&queue, "tarpit", 1000);
        queue.push_in(ObjectKey::new("b", "first"), Duration::from_secs(1));
        let later = queue.clone();
        let push = async {
            sleep(Duration::from_secs(2)).await;
            push_many(&later, "b", 500);
        };
        let (begins, ()) = tokio::join!(begins(&queue, 8, Duration::from_secs(119)), push);
        // Seven hang for a minute and only the reserved worker is left; after that, each tenant gets half of the seven.
        let of = |namespace: &str, from: u64, to: u64| {
            let is_meant = |(at, n): &&(u64, String)| *n == namespace && (from..to).contains(at);
            begins.iter().filter(is_meant).count()
        };
        assert_eq!(of("b", 0, 60), 1 + 58);
        assert!((3..=4).contains(&of("tarpit", 60, 119)), "{}", of("tarpit", 60, 119));
        assert!(
            (3 * 59..=4 * 59 + 4).contains(&of("b", 60, 119)),
            "{}",
            of("b", 60, 119)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn tenants_take_turns_also_with_one_worker() {
        let queue = Queue::new();
        for namespace in ["a", "b"] {
            push_many(&queue, namespace, 100);
        }
        queue.push_in(ObjectKey::new("c", "only"), Duration::from_millis(1500));
        queue.push_behind(ObjectKey::new("d", "new"), Duration::ZERO);
        let begins: Vec<_> = begins(&queue, 1, Duration::from_secs(12)).await;
        let order: String = begins.into_iter().map(|(_, namespace)| namespace).collect();
        assert_eq!(order, "ababcabdabab");
    }
}
