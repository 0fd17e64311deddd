//! Events for users, in the form and with the permissions that Metal3's operators have always used: core/v1, `create`
//! and `patch`.
//!
//! kube's own recorder writes events.k8s.io/v1, which the deployed role does not allow. It also merges events that
//! differ only in their message, so a second, different error would not be seen.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use k8s_openapi::{
    api::core::v1::{self, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::json;
use tracing::warn;

use crate::{
    Clock,
    conditions::whole_seconds,
    error::{Class, Classified, chain, is_not_found},
    timing::process::{EVENT_AGAIN, EVENT_PATIENCE, SAME_EVENT},
};

/// The API server rejects longer messages.
const MAX_MESSAGE: usize = 1024;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Something happened as expected.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Severity {
    /// The value as written in the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What happened to an object, for its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// One CamelCase word for programs; a fixed text, so that the number of reasons is bounded.
    pub reason: &'static str,
    /// What happened and what to do, in words.
    pub message: String,
    /// The type of the event.
    pub severity: Severity,
}

impl Event {
    /// A `Normal` event.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            severity: Severity::Normal,
        }
    }

    /// A `Warning` event.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            severity: Severity::Warning,
        }
    }
}

/// The program that reports.
#[derive(Clone, Copy, Debug)]
pub struct Reporter {
    /// `source.component`, the name in `kubectl describe`.
    pub component: &'static str,
    /// `reportingComponent`, the qualified name.
    pub controller: &'static str,
}

/// Publishes events. One for each controller; clones share the memory of earlier events.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    reporter: Reporter,
    clock: Clock,
    recent: Arc<Recent>,
    count: Option<Arc<Count>>,
}

/// Told of each event: the kind of its object, and its reason.
type Count = dyn Fn(&str, &'static str) + Send + Sync;

impl Recorder {
    /// A recorder that has published nothing yet.
    pub fn new(client: Client, reporter: Reporter, clock: Clock) -> Self {
        Self {
            client,
            reporter,
            clock,
            recent: Arc::default(),
            count: None,
        }
    }

    /// Tells `count` of the kind of the object and the reason of each event, whether it can be published or not.
    #[must_use]
    pub fn counted(mut self, count: impl Fn(&str, &'static str) + Send + Sync + 'static) -> Self {
        self.count = Some(Arc::new(count));
        self
    }

    /// A recorder of another reporter, counted in the same way.
    #[must_use]
    pub fn of(&self, reporter: Reporter) -> Self {
        Self {
            reporter,
            recent: Arc::default(),
            ..self.clone()
        }
    }

    /// Publishes an event about an object in one request. A repetition costs a small patch that increases the count.
    ///
    /// A failure to publish is logged and never fails the caller.
    pub async fn publish(&self, regarding: &ObjectReference, related: Option<&ObjectReference>, event: &Event) {
        if let Some(count) = &self.count {
            count(regarding.kind.as_deref().unwrap_or_default(), event.reason);
        }
        match tokio::time::timeout(EVENT_PATIENCE, self.write_when_it_has_time(regarding, related, event)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(reason = event.reason, error = %chain(&error), "cannot write an event"),
            Err(_) => warn!(reason = event.reason, "cannot write an event: no answer in time"),
        }
    }

    /// A server that answers "too busy" has not started the request, and a lost event is not published again; so this
    /// retries.
    async fn write_when_it_has_time(
        &self,
        regarding: &ObjectReference,
        related: Option<&ObjectReference>,
        event: &Event,
    ) -> Result<(), kube::Error> {
        loop {
            let Err(error) = self.write(regarding, related, event).await else {
                return Ok(());
            };
            let pause = match (error.class(), &error) {
                (Class::Throttled(pause), _) => pause,
                (_, kube::Error::Api(status)) if status.code == 503 => EVENT_AGAIN,
                _ => return Err(error),
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn write(
        &self,
        regarding: &ObjectReference,
        related: Option<&ObjectReference>,
        event: &Event,
    ) -> Result<(), kube::Error> {
        let namespace = regarding
            .namespace
            .as_deref()
            .filter(|name| !name.is_empty())
            .unwrap_or("default");
        let api: Api<v1::Event> = Api::namespaced(self.client.clone(), namespace);
        let key = Key::new(regarding, event);
        let now = Time(whole_seconds(self.clock.now()));
        if let Some((name, count)) = self.recent.again(key, self.clock.elapsed()) {
            let patch = Patch::Merge(json!({ "count": count, "lastTimestamp": now }));
            match api.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => return Ok(()),
                // Expired on the server, or removed with its namespace: create a new one.
                Err(error) if is_not_found(&error) => self.recent.forget(key),
                Err(error) => return Err(error),
            }
        }
        let new = v1::Event {
            metadata: ObjectMeta {
                name: Some(self.recent.name(regarding, &self.clock)),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: regarding.clone(),
            related: related.cloned(),
            reason: Some(event.reason.to_owned()),
            message: Some(shortened(&event.message).into_owned()),
            type_: Some(event.severity.as_str().to_owned()),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            source: Some(EventSource {
                component: Some(self.reporter.component.to_owned()),
                host: None,
            }),
            reporting_component: Some(self.reporter.controller.to_owned()),
            ..v1::Event::default()
        };
        let created = api.create(&PostParams::default(), &new).await?;
        self.recent
            .remember(key, created.metadata.name.unwrap_or_default(), self.clock.elapsed());
        Ok(())
    }
}

/// Digest of object, reason, severity and message: events with the same digest are repetitions. A digest, because
/// thousands are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key(u64);

impl Key {
    fn new(regarding: &ObjectReference, event: &Event) -> Self {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
            ..
        } = regarding;
        let message = shortened(&event.message);
        let mut hasher = DefaultHasher::new();
        (kind, namespace, name, uid, event.reason, event.severity, message).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Recently published events.
#[derive(Debug, Default)]
struct Recent {
    events: Mutex<HashMap<Key, Published>>,
    sequence: AtomicU64,
}

#[derive(Debug)]
struct Published {
    name: String,
    count: i32,
    last: Duration,
}

/// The maximum number of remembered events; beyond it a repetition is written as a new event.
const MAX_RECENT: usize = 10_000;

impl Recent {
    /// Counts a repetition: returns the event's name and its new count.
    fn again(&self, key: Key, now: Duration) -> Option<(String, i32)> {
        let mut events = self.lock();
        let event = events
            .get_mut(&key)
            .filter(|event| now.saturating_sub(event.last) < SAME_EVENT)?;
        event.count = event.count.saturating_add(1);
        event.last = now;
        Some((event.name.clone(), event.count))
    }

    fn remember(&self, key: Key, name: String, now: Duration) {
        let mut events = self.lock();
        // Sweeping at powers of two keeps the amortized cost of each event constant.
        if events.len().is_power_of_two() || events.len() >= MAX_RECENT {
            events.retain(|_, event| now.saturating_sub(event.last) < SAME_EVENT);
        }
        if events.len() < MAX_RECENT {
            events.insert(
                key,
                Published {
                    name,
                    count: 1,
                    last: now,
                },
            );
        }
    }

    fn forget(&self, key: Key) {
        self.lock().remove(&key);
    }

    /// A unique name, as long as the clock or the sequence moves.
    fn name(&self, regarding: &ObjectReference, clock: &Clock) -> String {
        let object: String = regarding
            .name
            .as_deref()
            .unwrap_or("cluster")
            .chars()
            .take(200)
            .collect();
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        format!("{object}.{:x}{:04x}", clock.now().as_nanosecond(), sequence & 0xffff)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Published>> {
        self.events.lock()
    }
}

/// Truncates the message to the limit at a character boundary and marks the cut.
fn shortened(message: &str) -> std::borrow::Cow<'_, str> {
    const MARK: &str = "…";
    if message.len() <= MAX_MESSAGE {
        return message.into();
    }
    let end = (0..=MAX_MESSAGE - MARK.len())
        .rev()
        .find(|end| message.is_char_boundary(*end))
        .unwrap_or(0);
    format!("{}{MARK}", message.get(..end).unwrap_or_default()).into()
}

#[cfg(test)]
mod tests;
