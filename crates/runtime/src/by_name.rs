//! Secrets that are watched, or are read by their names where they may not be watched.
//!
//! Whoever may list the Secrets of a namespace can read them all. Users who cannot say in advance which namespaces have hosts or
//! clusters need not give that right away for all: a program also works with single reads of the Secrets whose names it knows.

use std::pin::pin;
use std::time::Duration;

use async_stream::stream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use crate::error::{is_forbidden, is_forbidden_watch};
use crate::find::find_metadata;
use crate::readable::Readable;
use crate::timing::process::{BETWEEN_SECRETS, RIGHT_TO_WATCH, SECRETS_BY_NAME};

/// The metadata of a Secret.
pub type Metadata = Readable<PartialObjectMeta<Secret>>;

/// A watch of the metadata of Secrets.
pub fn watch_metadata(
    secrets: &Api<Secret>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<Metadata>>> + Send + use<> {
    let watched: Api<Metadata> = Readable::<PartialObjectMeta<Secret>>::api(secrets.clone(), &());
    watcher::watcher(watched, config).default_backoff()
}

/// What a read by name has found.
#[derive(Debug)]
pub enum Found<K> {
    /// The object.
    Here(K),
    /// Nothing: the name and namespace of what is missing, and its UID where it was known.
    Gone(K),
}

/// The metadata of the Secret of this name. `uid` is that of the one that was known there.
///
/// # Errors
/// The read failed.
pub async fn read_metadata(
    secrets: &Api<Secret>,
    name: &str,
    uid: Option<String>,
) -> Result<Found<Metadata>, kube::Error> {
    Ok(match find_metadata(secrets, name).await? {
        Some(found) => Found::Here(Readable::Read(found)),
        None => Found::Gone(Readable::Unread(Box::new(missing(secrets, name, uid)))),
    })
}

/// The metadata of a Secret that does not exist.
pub fn missing(secrets: &Api<Secret>, name: &str, uid: Option<String>) -> ObjectMeta {
    ObjectMeta {
        namespace: secrets.namespace().map(ToOwned::to_owned),
        name: Some(name.to_owned()),
        uid,
        ..ObjectMeta::default()
    }
}

/// The events of a watch of the `secrets` that `config` selects, or of lists in its place.
///
/// While the API server refuses the watch for want of a right, `names` are read one after another at intervals. What exists is
/// shown as a list, and what does not as deleted; a list of which a read failed ends with that error instead of its end. The right
/// is asked for once a minute.
pub fn watch_or_read<K, W, R>(
    secrets: Api<Secret>,
    config: watcher::Config,
    watch: impl Fn(&Api<Secret>, watcher::Config) -> W + Send,
    names: impl Fn() -> Vec<String> + Send,
    read: impl Fn(String) -> R + Send,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Send,
    W: Stream<Item = watcher::Result<Event<K>>> + Send,
    R: Future<Output = Result<Found<K>, kube::Error>> + Send,
{
    stream! {
        // When the names are to be read, and when the right is to be asked for; unknown until a watch is refused.
        let mut due: Option<Instant> = None;
        let mut ask_at = Instant::now();
        loop {
            let is_worth_asking = ask_at <= Instant::now();
            // Each refused watch would be logged.
            if due.is_none() || (is_worth_asking && !is_refused(&secrets, &config).await) {
                let mut events = pin!(watch(&secrets, config.clone()));
                while let Some(event) = events.next().await {
                    if event.as_ref().is_err_and(is_forbidden_watch) {
                        break;
                    }
                    yield event;
                }
            }
            if is_worth_asking {
                ask_at = Instant::now() + RIGHT_TO_WATCH;
            }
            if due.is_none() {
                tracing::info!(
                    namespace = secrets.namespace(),
                    "the Secrets of this namespace may not be watched: those that are named are read at intervals, and changes take effect later"
                );
            }
            if due.is_none_or(|due| due <= Instant::now()) {
                // What is named after this is not expected of the list.
                yield Ok(Event::Init);
                let names = names();
                let pause = BETWEEN_SECRETS.saturating_mul(u32::try_from(names.len()).unwrap_or(u32::MAX));
                let mut failure = None;
                for name in names {
                    match read(name).await {
                        Ok(Found::Here(object)) => yield Ok(Event::InitApply(object)),
                        Ok(Found::Gone(outline)) => yield Ok(Event::Delete(outline)),
                        Err(error) => {
                            failure.get_or_insert(error);
                        }
                    }
                }
                // What failed for want of a right fails again; the rest is worth another try soon.
                let is_tried_soon = failure.as_ref().is_some_and(|error| !is_forbidden(error));
                yield failure.map_or(Ok(Event::InitDone), |error| Err(watcher::Error::InitialListFailed(error)));
                due = Some(Instant::now() + if is_tried_soon { Duration::ZERO } else { pause });
            }
            tokio::time::sleep(SECRETS_BY_NAME).await;
        }
    }
}

/// Whether these Secrets may not be listed.
async fn is_refused(secrets: &Api<Secret>, config: &watcher::Config) -> bool {
    let one = ListParams {
        limit: Some(1),
        field_selector: config.field_selector.clone(),
        label_selector: config.label_selector.clone(),
        ..ListParams::default()
    };
    let answer = secrets.list_metadata(&one).await;
    answer.is_err_and(|error| is_forbidden(&error))
}
