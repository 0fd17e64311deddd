//! Watches that fill stores or other sinks.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{ObjectKey, Store};
use crate::by_name::{read_metadata, watch_metadata, watch_or_read};
use crate::error::{chain, is_not_found};
use crate::readable::Readable;

/// The number of watches that have not completed their first list.
#[derive(Clone, Debug, Default)]
pub struct Awaited(Arc<(AtomicUsize, tokio::sync::Notify)>);

impl Awaited {
    /// Adds one watch to the count.
    pub fn expect(&self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Marks one watch as listed.
    pub fn arrived(&self) {
        if self.0.0.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.1.notify_waiters();
        }
    }

    /// Returns once all watches are listed.
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

/// A target of a watch.
pub trait Sink<K> {
    /// Adds or replaces an object. The same version may come again, and the name may have belonged to a different
    /// object before.
    fn put(&self, object: K);

    /// Removes the object with this name and UID.
    fn remove(&self, key: &ObjectKey, uid: &str);
}

/// One watch and its sink. Several watches, one for each namespace, may share a sink.
#[derive(Debug)]
pub struct Follow<K, S> {
    /// The API to watch.
    pub api: Api<K>,
    /// The target: a [`Store`](super::Store), or a part of a program that keeps objects in its own way.
    pub store: S,
    /// Selectors and other options of the watch.
    pub config: watcher::Config,
    /// Whether the kind may be missing. Its watch then waits without logging until the kind is installed.
    pub is_optional: bool,
}

impl<K, S> Follow<K, S>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    /// Follows until `stop` is cancelled. Notifies `awaited`, which must expect it, when the first list is complete, or
    /// when the kind is known to be missing.
    pub async fn run(self, awaited: Awaited, stop: CancellationToken) {
        let kind = K::kind(&());
        let heard = |heard: Result<(), &watcher::Error>| {
            if let Err(error) = heard {
                warn!(error = %chain(error), %kind, "a watch was interrupted");
            }
        };
        let unread = |object: &ObjectKey| {
            warn!(%kind, %object, "an object cannot be read and is ignored until it changes: check its times and types");
        };
        self.run_until(awaited, stop, heard, unread).await;
    }

    /// Like [`Self::run`], and calls `heard` after each complete list and on each interruption. Nothing is logged here,
    /// because it may contain text from an untrusted server.
    pub async fn run_heard(
        self,
        awaited: Awaited,
        stop: CancellationToken,
        heard: impl FnMut(Result<(), &watcher::Error>),
    ) {
        self.run_until(awaited, stop, heard, |_| {}).await;
    }

    async fn run_until(
        self,
        awaited: Awaited,
        stop: CancellationToken,
        heard: impl FnMut(Result<(), &watcher::Error>),
        unread: impl Fn(&ObjectKey),
    ) {
        let api = Readable::<K>::api(self.api.clone(), &());
        let events = watcher(api, self.config.clone()).default_backoff();
        self.take(events, awaited, stop, heard, unread).await;
    }

    async fn take(
        self,
        events: impl Stream<Item = watcher::Result<watcher::Event<Readable<K>>>>,
        awaited: Awaited,
        stop: CancellationToken,
        mut heard: impl FnMut(Result<(), &watcher::Error>),
        unread: impl Fn(&ObjectKey),
    ) {
        let mut shown = Shown::new(self.store);
        let (kind, mut is_awaited, mut was_missing) = (K::kind(&()), true, false);
        let mut arrive = || {
            if std::mem::take(&mut is_awaited) {
                awaited.arrived();
            }
        };
        let mut events = pin!(events.take_until(stop.cancelled_owned()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let is_complete = matches!(event, watcher::Event::InitDone);
                    if let Some(object) = shown.apply_readable(event) {
                        unread(&object);
                    }
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

impl<By> Follow<PartialObjectMeta<Secret>, Store<PartialObjectMeta<Secret>, By>>
where
    By: Eq + Hash + Clone + Send + Sync + 'static,
{
    /// Like [`Self::run_heard`], in one namespace. While its Secrets may not be watched, those with `names` are read at intervals
    /// ([`by_name`](crate::by_name)), whatever the selectors are.
    pub async fn run_or_read(
        self,
        names: impl Fn() -> Vec<String> + Send,
        awaited: Awaited,
        stop: CancellationToken,
        heard: impl FnMut(Result<(), &watcher::Error>),
    ) {
        let namespace = self.api.namespace().unwrap_or_default().to_owned();
        let secrets: Api<Secret> = Api::namespaced(self.api.clone().into_client(), &namespace);
        let (store, reads) = (self.store.clone(), secrets.clone());
        let read = move |name: String| {
            let (store, secrets, key) = (store.clone(), reads.clone(), ObjectKey::new(&namespace, name));
            async move {
                // No list has shown what was made and deleted between two of them.
                let known = store.get(&key).and_then(|known| known.uid());
                read_metadata(&secrets, &key.name, known).await
            }
        };
        let events = watch_or_read(secrets, self.config.clone(), watch_metadata, names, read);
        self.take(events, awaited, stop, heard, |_| {}).await;
    }
}

/// The key of an object by its metadata.
fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    ObjectKey::new(of(&metadata.namespace), of(&metadata.name))
}

/// What one watch has shown, in order to detect what is missing from a later list.
pub(super) struct Shown<S> {
    store: S,
    present: HashMap<ObjectKey, String>,
    /// During a new list: the earlier objects that have not been listed yet, with their UIDs.
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

    /// Applies an event of an object that may not be readable. Returns the name of one that is not: what the store has of it
    /// stays.
    pub(super) fn apply_readable<K>(&mut self, event: watcher::Event<Readable<K>>) -> Option<ObjectKey>
    where
        K: Resource<DynamicType = ()>,
        S: Sink<K>,
    {
        let event = match event {
            watcher::Event::Init => watcher::Event::Init,
            watcher::Event::InitDone => watcher::Event::InitDone,
            watcher::Event::InitApply(Readable::Read(object)) => watcher::Event::InitApply(object),
            watcher::Event::Apply(Readable::Read(object)) => watcher::Event::Apply(object),
            watcher::Event::Delete(object) => {
                self.delete::<K>(object.meta());
                return None;
            }
            watcher::Event::InitApply(Readable::Unread(outline)) | watcher::Event::Apply(Readable::Unread(outline)) => {
                return Some(self.keep::<K>(&outline));
            }
        };
        self.apply(event);
        None
    }

    /// A list has shown this object, or a watch a change of it, and it cannot be read.
    fn keep<K>(&mut self, outline: &ObjectMeta) -> ObjectKey
    where
        S: Sink<K>,
    {
        let (key, uid) = (key_of(outline), outline.uid.clone().unwrap_or_default());
        let earlier = self.before.remove(&key).or_else(|| self.present.remove(&key));
        if let Some(earlier) = earlier {
            if earlier == uid {
                self.present.insert(key.clone(), uid);
            } else {
                self.store.remove(&key, &earlier);
            }
        }
        key
    }

    fn delete<K>(&mut self, object: &ObjectMeta)
    where
        S: Sink<K>,
    {
        let key = key_of(object);
        self.present.remove(&key);
        self.store.remove(&key, object.uid.as_deref().unwrap_or_default());
    }

    pub(super) fn apply<K>(&mut self, event: watcher::Event<K>)
    where
        K: Resource<DynamicType = ()>,
        S: Sink<K>,
    {
        match event {
            // A list that was interrupted and restarts has not shown what is missing: those objects stay pending.
            watcher::Event::Init => self.before.extend(std::mem::take(&mut self.present)),
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                let (key, uid) = (ObjectKey::of(&object), object.uid().unwrap_or_default());
                if let Some(other) = self.before.remove(&key).filter(|other| *other != uid) {
                    self.store.remove(&key, &other);
                }
                self.present.insert(key, uid);
                self.store.put(object);
            }
            watcher::Event::Delete(object) => self.delete::<K>(object.meta()),
            watcher::Event::InitDone => {
                for (key, uid) in self.before.drain() {
                    self.store.remove(&key, &uid);
                }
            }
        }
    }
}
