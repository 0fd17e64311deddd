//! One pass over a pool: round after round until there is nothing to do.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use metal3_runtime::controller::{Next, Reconcile};
use metal3_runtime::events::{Recorder, Severity};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use metal3_runtime::{Clock, backoff};
use tokio_util::sync::CancellationToken;

use crate::books::{Books, open};
use crate::metrics::PoolMetrics;
use crate::pool::effect::{Effect, Moment, Outcome};
use crate::pool::seen::Claim;
use crate::pool::{Lists, Server, Told, gathered};

/// Requests of one pool that are under way at once. More would only queue in the server, and every other client with
/// them.
const AT_ONCE: usize = 32;

/// What all passes share.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// Lists of addresses.
    pub lists: Lists,
    /// What is known.
    pub books: Books,
    /// Events.
    pub recorder: Recorder,
    /// The time.
    pub clock: Clock,
    /// Figures.
    pub metrics: PoolMetrics,
    /// Cancelled when the process begins to end.
    pub stop: CancellationToken,
}

impl Reconcile for Context {
    const NAME: &'static str = "ippool";
    type Error = Infallible;

    /// The watches push what they show.
    fn listen(&self, _: &Queue<ObjectKey>) {}

    fn all(&self) -> Vec<ObjectKey> {
        self.books.resync()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Infallible> {
        Ok(self.work(key).await.map_or(Next::Change, Next::After))
    }
}

impl Context {
    fn now(&self) -> Moment {
        Moment {
            wall: self.clock.now(),
            elapsed: self.clock.elapsed(),
        }
    }

    /// Works on a pool until nothing is left to do now. Returns when to look again.
    async fn work(&self, key: &ObjectKey) -> Option<Duration> {
        let server = Server::new(self.client.clone(), self.lists.clone(), &key.namespace, &key.name);
        let again = loop {
            let book = self.books.get(key)?;
            let round = open(&book).decide(self.now(), backoff::random_seed());
            if round.effects.is_empty() || self.stop.is_cancelled() {
                self.metrics.pool(key, open(&book).usage());
                break round.again;
            }
            let ask = async |effect: Effect| {
                let start = self.clock.elapsed();
                let outcome = server.apply(&effect).await;
                (effect, outcome, self.clock.elapsed().saturating_sub(start))
            };
            let answers = futures::stream::iter(round.effects).map(ask).buffer_unordered(AT_ONCE);
            let mut answers = std::pin::pin!(answers);
            while let Some((effect, outcome, took)) = answers.next().await {
                self.account(key, &effect, &outcome, took);
                open(&book).done(&effect, outcome, self.now(), took);
            }
            let notes = open(&book).take_notes();
            let pool = open(&book).pool().map(|pool| pool.object_ref(&()));
            self.tell(key, pool, notes).await;
        };
        self.books.tidy(key);
        again
    }

    fn account(&self, key: &ObjectKey, effect: &Effect, outcome: &Outcome, took: Duration) {
        self.metrics.effect(effect, outcome, took);
        match outcome {
            Outcome::Failed(why) => {
                let (namespace, pool) = (&key.namespace, &key.name);
                let claim = effect.claim().map(ToString::to_string);
                tracing::warn!(
                    namespace,
                    pool,
                    claim,
                    effect = effect.label(),
                    error = why,
                    "a request failed"
                );
            }
            Outcome::Stale(_) => {
                tracing::debug!(pool = key.name, effect = effect.label(), "somebody else wrote first");
            }
            _ => {}
        }
    }

    async fn tell(&self, key: &ObjectKey, pool: Option<ObjectReference>, notes: Vec<Told>) {
        for told in &notes {
            self.metrics.told(told.note.reason);
            if told.claim.is_none() && told.note.severity == Severity::Warning {
                tracing::warn!(pool = %key, reason = told.note.reason, "{}", told.note.message);
            }
        }
        let tell = |told: Told| {
            let pool = pool.clone();
            async move {
                let claim = told.claim.as_ref().map(|claim| claim_reference(key, claim));
                match (claim, pool) {
                    (Some(claim), pool) => self.recorder.publish(&claim, pool.as_ref(), &told.note).await,
                    (None, Some(pool)) => self.recorder.publish(&pool, None, &told.note).await,
                    (None, None) => {}
                }
            }
        };
        futures::stream::iter(gathered(notes))
            .for_each_concurrent(AT_ONCE, tell)
            .await;
    }
}

fn claim_reference(key: &ObjectKey, claim: &Arc<Claim>) -> ObjectReference {
    ObjectReference {
        api_version: Some(claim.key.family.api_version().to_owned()),
        kind: Some(claim.key.family.claim_kind().to_owned()),
        namespace: Some(key.namespace.clone()),
        name: Some(claim.key.name.clone()),
        uid: Some(claim.meta.uid.clone()),
        ..ObjectReference::default()
    }
}
