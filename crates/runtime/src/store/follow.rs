//! Watches that fill stores, or whatever else wants to know.

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::ObjectKey;
use crate::error::{chain, is_not_found};

/// How many watches have not shown their first list yet.
#[derive(Clone, Debug, Default)]
pub struct Awaited(Arc<(AtomicUsize, tokio::sync::Notify)>);

impl Awaited {
    /// One more watch.
    pub fn expect(&self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }

    /// One of them has.
    pub fn arrived(&self) {
        if self.0.0.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.1.notify_waiters();
        }
    }

    /// Returns when all have.
    pub async fn all(&self) {
        loop {
            let arrived = self.0.1.notified();
            if self.0.0.load(Ordering::SeqCst) == 0 {
                return;
            }
            arrived.await;
        }
    }
}

/// What a watch fills.
pub trait Sink<K> {
    /// An object as the watch shows it. It may be shown again, and there may have been another one of its name before.
    fn put(&self, object: K);

    /// The object of this name and UID is gone.
    fn remove(&self, key: &ObjectKey, uid: &str);
}

/// One watch and what it fills. Several, one for each namespace, may fill the same.
#[derive(Debug)]
pub struct Follow<K, S> {
    /// What is watched.
    pub api: Api<K>,
    /// What is filled: a [`Store`](super::Store), or a part of a program that keeps objects in its own way.
    pub store: S,
    /// Which objects are watched, and how.
    pub config: watcher::Config,
    /// Whether the kind may be missing. Its watch then waits in silence until it is installed.
    pub is_optional: bool,
}

impl<K, S> Follow<K, S>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    /// Follows until `stop` is cancelled. Says to `awaited`, which must expect it, when the first list is complete, or
    /// when it is known that the kind is not there.
    pub async fn run(self, awaited: Awaited, stop: CancellationToken) {
        let kind = K::kind(&());
        let heard = |heard: Result<(), &watcher::Error>| {
            if let Err(error) = heard {
                warn!(error = %chain(error), %kind, "a watch was interrupted");
            }
        };
        self.run_heard(awaited, stop, heard).await;
    }

    /// The same, and tells `heard` how it goes: after each complete list, and what interrupts the watch. That is not logged:
    /// it may hold words of a server that nobody trusts.
    pub async fn run_heard(
        self,
        awaited: Awaited,
        stop: CancellationToken,
        mut heard: impl FnMut(Result<(), &watcher::Error>),
    ) {
        let mut shown = Shown::new(self.store);
        let (kind, mut is_awaited, mut was_missing) = (K::kind(&()), true, false);
        let mut arrive = || {
            if std::mem::take(&mut is_awaited) {
                awaited.arrived();
            }
        };
        let events = watcher(self.api, self.config)
            .default_backoff()
            .take_until(stop.cancelled_owned());
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let is_complete = matches!(event, watcher::Event::InitDone);
                    shown.apply(event);
                    if is_complete {
                        arrive();
                        heard(Ok(()));
                    }
                }
                Err(watcher::Error::InitialListFailed(error)) if self.is_optional && is_not_found(&error) => {
                    if !std::mem::replace(&mut was_missing, true) {
                        info!(%kind, "the kind is not installed; it is looked for now and then");
                    }
                    arrive();
                }
                Err(error) => heard(Err(&error)),
            }
        }
    }
}

/// What one watch has shown, so that it is noticed what is missing from a later list.
pub(super) struct Shown<S> {
    store: S,
    present: HashMap<ObjectKey, String>,
    /// During a new list: what was there before and has not been listed yet, with its UID.
    before: HashMap<ObjectKey, String>,
}

impl<S> Shown<S> {
    pub(super) fn new(store: S) -> Self {
        Self {
            store,
            present: HashMap::new(),
            before: HashMap::new(),
        }
    }

    pub(super) fn apply<K>(&mut self, event: watcher::Event<K>)
    where
        K: Resource<DynamicType = ()>,
        S: Sink<K>,
    {
        match event {
            // A list that was cut off and begins again has not said what is missing: those stay open.
            watcher::Event::Init => self.before.extend(std::mem::take(&mut self.present)),
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                let (key, uid) = (ObjectKey::of(&object), object.uid().unwrap_or_default());
                if let Some(other) = self.before.remove(&key).filter(|other| *other != uid) {
                    self.store.remove(&key, &other);
                }
                self.present.insert(key, uid);
                self.store.put(object);
            }
            watcher::Event::Delete(object) => {
                let (key, uid) = (ObjectKey::of(&object), object.uid().unwrap_or_default());
                self.present.remove(&key);
                self.store.remove(&key, &uid);
            }
            watcher::Event::InitDone => {
                for (key, uid) in self.before.drain() {
                    self.store.remove(&key, &uid);
                }
            }
        }
    }
}
