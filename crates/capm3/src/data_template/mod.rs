//! The Metal3DataTemplate controller: assigns every claim on a template an index, and creates a Metal3Data with it.
//!
//! Its keys are index spaces. A space has one pass at a time, which answers all its claims concurrently.
//!
//! Two locks in the API server protect against other writers (another process of this program, or a restored copy of the
//! objects). The name of a Metal3Data, which is unique, locks the index. The resource version of a claim, which guards its
//! answer, locks the claim. A Metal3Data that no claim references has no effect and is deleted.

mod apply;
mod decide;
mod effect;
mod listen;
#[cfg(test)]
mod model_tests;
pub(crate) mod observed;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::convert::Infallible;

use futures::StreamExt;
use jiff::Timestamp;
use kube::ResourceExt;
use metal3_runtime::Clock;
use metal3_runtime::controller::{self, Controller, Report};
use metal3_runtime::error::{Class, Classified as _, chain};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use self::apply::{Applied, apply, known_by};
use self::decide::{decide, refused};
use self::effect::{Batch, Effect};
use self::observed::{Observed, observe};
use crate::context::Context;
use crate::error::PassError;
use crate::refusals::Refusals;

pub use crate::stores::{answers, hold_of, machine_of};
use crate::stores::{slot_of, space_of};

/// Concurrent requests of one space: a hundred machines must not wait for each other, and must not hold up other clients of the
/// API server.
const AT_ONCE: usize = 16;

/// The decision. Everything it needs has been observed.
pub type Decision = controller::Decision<Infallible, Batch, ()>;

/// The controller. Its keys are index spaces.
#[derive(Clone)]
pub struct Metal3DataTemplates {
    ctx: Context,
    refusals: Refusals,
}

impl Metal3DataTemplates {
    /// The controller.
    pub fn new(ctx: Context) -> Self {
        Self {
            ctx,
            refusals: Refusals::default(),
        }
    }

    /// Reports a rejection on the claim, or as an event if there is no such claim or its status cannot be written.
    async fn report_refusal(&self, space: &ObjectKey, effect: &Effect, error: &PassError) {
        // Written in the meantime, or deleted.
        let claims = &self.ctx.stores.data_claims;
        let claim = effect.claim().and_then(|claim| claims.get(&ObjectKey::of(&**claim)));
        let regarding = effect.regarding();
        let now = self.ctx.clock.elapsed();
        match (effect, claim) {
            // It concerns no single claim: the log says what failed, with the name of a Metal3Data that cannot be read.
            (Effect::List, _) => {}
            (_, Some(claim)) => {
                let uid = claim.metadata.uid.as_deref();
                let refusal = self.refusals.failed(uid, error, now).filter(|refusal| refusal.is_new);
                if let Some(explanation) = refusal.and_then(|refusal| refused(&claim, refusal.message))
                    && let Err(error) = apply(&self.ctx, space, &explanation).await
                {
                    self.refusals.unreported(uid);
                    tracing::debug!(claim = claim.name_any(), error = %chain(&error), "cannot report what was refused");
                }
            }
            (_, None) => {
                if let Some(event) = self.refusals.event(regarding.uid.as_deref(), error, now) {
                    self.ctx.recorder.publish(&regarding, None, &event).await;
                }
            }
        }
    }

    /// Records the result of one write.
    async fn account(
        &self,
        seen: &mut Observed,
        effect: &Effect,
        answer: Result<Applied, kube::Error>,
    ) -> Result<(), PassError> {
        let subject = effect.subject();
        match answer {
            Ok(applied) => {
                if applied == Applied::Unseen {
                    seen.put_off.insert(subject);
                }
                self.ctx.stores.learn(known_by(effect, seen));
                self.refusals.succeeded(effect.regarding().uid.as_deref());
                Ok(())
            }
            Err(source) => {
                let error = PassError {
                    what: effect.label(),
                    subject: format!("for {} {}/{}", subject.0, seen.space.namespace, subject.1),
                    source,
                };
                self.report_refusal(&seen.space, effect, &error).await;
                Err(error)
            }
        }
    }
}

impl Controller for Metal3DataTemplates {
    const NAME: &'static str = "metal3datatemplate";
    type Observed = Observed;
    type Read = Infallible;
    type Effect = Batch;
    type Status = (); // effects write the statuses of templates and claims
    type Error = PassError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        listen::listen(&self.ctx.stores, queue);
    }

    fn all(&self) -> Vec<ObjectKey> {
        let stores = &self.ctx.stores;
        let templates = stores.data_templates.objects();
        let of_templates = templates.iter().map(|template| space_of(template));
        let datas = stores.datas.objects();
        let of_datas = datas.iter().filter_map(|data| slot_of(data)).map(|(space, _)| space);
        let spaces: HashSet<ObjectKey> = of_templates.chain(of_datas).collect();
        spaces.into_iter().collect()
    }

    async fn observe(&self, space: &ObjectKey) -> Result<Option<Observed>, PassError> {
        Ok(Some(observe(&self.ctx.stores, space)))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision {
        decide(seen, now)
    }

    async fn fetch(&self, _: &mut Observed, read: Infallible) -> Result<(), PassError> {
        match read {}
    }

    /// A claim that cannot be answered does not hold up others: all writes are tried, then the first failure that is not just a
    /// stale read is returned.
    async fn apply(&self, seen: &mut Observed, batch: &Batch) -> Result<(), PassError> {
        let space = seen.space.clone();
        let ask = async |effect: Effect| {
            let answer = apply(&self.ctx, &space, &effect).await;
            (effect, answer)
        };
        let effects = futures::stream::iter(batch.0.clone());
        let answers = effects.map(ask).buffer_unordered(AT_ONCE);
        let mut answers = std::pin::pin!(answers);
        let mut failed: Option<PassError> = None;
        while let Some((effect, answer)) = answers.next().await {
            let Err(error) = self.account(seen, &effect, answer).await else {
                continue;
            };
            if failed.as_ref().is_none_or(|before| before.class() == Class::Stale) {
                failed = Some(error);
            } else {
                tracing::debug!(error = %chain(&error), "a write failed, and not as the only one");
            }
        }
        let put_off = std::mem::take(&mut seen.put_off);
        *seen = Observed {
            put_off,
            ..observe(&self.ctx.stores, &space)
        };
        failed.map_or(Ok(()), Err)
    }

    async fn report(&self, _: &mut Observed, _: Report<()>) -> Result<(), PassError> {
        Ok(())
    }
}
