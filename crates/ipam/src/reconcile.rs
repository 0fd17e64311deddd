//! One pass over a pool: rounds until nothing is left to do.
//!
//! The steps are those of the staircase in [`metal3_runtime::controller`]: observe (the watches fill a [`PoolState`]), decide,
//! apply, report. The pool implements [`Reconcile`] and not the staircase itself, because what a pass decides on outlives
//! it and changes while its requests are under way, the effects of a round run side by side with a failure each, and a
//! round reports to many objects.

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
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::metrics::PoolMetrics;
use crate::pool::effect::{Effect, Moment, Outcome};
use crate::pool::objects::Claim;
use crate::pool::{Answer, Lists, PoolState, Server, UserEvent, decide, events, gathered, judge};
use crate::pools::Pools;

/// Maximum concurrent requests of one pool. More would only queue in the server and delay its other clients.
const AT_ONCE: usize = 32;

/// State shared by all passes.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// Lists of addresses and claims.
    pub lists: Lists,
    /// The states of the pools.
    pub pools: Pools,
    /// Events.
    pub recorder: Recorder,
    /// The time.
    pub clock: Clock,
    /// Figures.
    pub metrics: PoolMetrics,
    /// Cancelled when the process starts to shut down.
    pub stop: CancellationToken,
}

impl Reconcile for Context {
    const NAME: &'static str = "ippool";
    type Error = Infallible;

    /// The watches push what they show.
    fn listen(&self, _: &Queue<ObjectKey>) {}

    fn all(&self) -> Vec<ObjectKey> {
        self.pools.resync()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Infallible> {
        let server = Server::new(self.client.clone(), self.lists.clone(), &key.namespace, &key.name);
        while let Some(state) = self.pools.get(key) {
            state.lock().round_over();
            let round = decide(&state.lock(), self.now(), backoff::random_seed());
            if round.effects.is_empty() || self.stop.is_cancelled() {
                self.metrics.pool(key, round.usage);
                self.pools.tidy(key);
                return Ok(round.again.map_or(Next::Change, Next::After));
            }
            let events = self.apply(key, &state, &server, round.effects).await;
            let pool = state.lock().pool().map(|pool| pool.object_ref(&()));
            self.publish(key, pool, events).await;
        }
        Ok(Next::Change)
    }
}

impl Context {
    fn now(&self) -> Moment {
        Moment {
            wall: self.clock.now(),
            elapsed: self.clock.elapsed(),
        }
    }

    /// Sends the requests of a round concurrently. Returns the events for users.
    async fn apply(
        &self,
        key: &ObjectKey,
        state: &Mutex<PoolState>,
        server: &Server,
        effects: Vec<Effect>,
    ) -> Vec<UserEvent> {
        let ask = async |effect: Effect| {
            let start = self.clock.elapsed();
            let answer = judge(&effect, server.apply(&effect).await);
            (effect, answer, self.clock.elapsed().saturating_sub(start))
        };
        let answers = futures::stream::iter(effects).map(ask).buffer_unordered(AT_ONCE);
        let mut answers = std::pin::pin!(answers);
        let mut told = Vec::new();
        while let Some((effect, answer, took)) = answers.next().await {
            self.account(key, &effect, &answer, took);
            let mut state = state.lock();
            state.absorb_answer(&effect, &answer, self.clock.elapsed(), took);
            told.extend(events(&state, &effect, &answer));
        }
        told
    }

    fn account(&self, key: &ObjectKey, effect: &Effect, answer: &Answer, took: Duration) {
        self.metrics.effect(effect, answer, took);
        let (pool, claim, label) = (key, effect.claim().map(ToString::to_string), effect.label());
        match answer {
            Answer::Failed(why) => {
                tracing::warn!(%pool, claim, effect = label, error = why, "a request failed");
            }
            Answer::Seen(Outcome::Stale(_)) => {
                tracing::debug!(%pool, claim, effect = label, "something else wrote first");
            }
            Answer::Seen(_) | Answer::Dropped(_) => {}
        }
    }

    async fn publish(&self, key: &ObjectKey, pool: Option<ObjectReference>, events: Vec<UserEvent>) {
        for event in &events {
            self.metrics.event(event.event.reason);
            if event.claim.is_none() && event.event.severity == Severity::Warning {
                tracing::warn!(pool = %key, reason = event.event.reason, "{}", event.event.message);
            }
        }
        let publish = |event: UserEvent| {
            let pool = pool.clone();
            async move {
                let claim = event.claim.as_ref().map(|claim| claim_reference(key, claim));
                match (claim, pool) {
                    (Some(claim), pool) => self.recorder.publish(&claim, pool.as_ref(), &event.event).await,
                    (None, Some(pool)) => self.recorder.publish(&pool, None, &event.event).await,
                    (None, None) => {}
                }
            }
        };
        futures::stream::iter(gathered(events))
            .for_each_concurrent(AT_ONCE, publish)
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
