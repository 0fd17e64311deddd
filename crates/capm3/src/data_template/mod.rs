//! The Metal3DataTemplate controller: gives every claim on a template an index, and a Metal3Data that carries it.
//!
//! It works on index spaces, one pass at a time for each: all claims of a space are answered together.
//!
//! Who else may be at work, another process of this program or a restored copy of the objects, is kept out by two locks
//! that the API server holds: the name of a Metal3Data, which can be taken once, locks the index; the version of a claim,
//! over which its answer is written, locks the claim. A Metal3Data that no claim names has no effect, and goes.

mod apply;
mod decide;
mod effect;
mod listen;
#[cfg(test)]
mod model;
mod news;
pub(crate) mod observed;
pub(crate) mod space;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt;
use kube::ResourceExt;
use metal3_runtime::controller::{Next, Reconcile};
use metal3_runtime::error::{Class, Classified as _, chain};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use self::apply::{Applied, apply, known_by};
use self::decide::{decide, finish, refused};
use self::effect::{Effect, Subject};
use self::news::{APART, Focus, News};
use self::observed::{Observed, concerns_list, is_empty, list, observe};
use crate::context::Context;
use crate::error::PassError;
use crate::refusals::Told;

pub use self::observed::{Hold, answers, hold_of, machine_of, owner_of};
pub use self::space::{slot_of, space_of};

/// Requests of one space that are under way at once: a hundred machines at a time must not wait for each other, and other
/// clients of the API server not for them.
const AT_ONCE: usize = 16;

/// A claim that waits for something without a watch, such as a list that showed nothing new, is looked at again then.
const AGAIN: Duration = Duration::from_millis(200);

/// The controller.
#[derive(Clone)]
pub struct Metal3DataTemplates {
    ctx: Context,
    news: News,
    refusals: Told,
    queue: Arc<OnceLock<Queue<ObjectKey>>>,
}

impl Metal3DataTemplates {
    /// The controller.
    pub fn new(ctx: Context) -> Self {
        Self {
            ctx,
            news: News::default(),
            refusals: Told::default(),
            queue: Arc::default(),
        }
    }

    /// What an API server will not do until somebody changes something is told by the claim, or by an event where no claim
    /// waits for it or none can be written.
    async fn tell_refusal(&self, space: &ObjectKey, effect: &Effect, error: &PassError) {
        // Written since, or gone.
        let claims = &self.ctx.world.data_claims;
        let claim = effect.claim().and_then(|claim| claims.get(&ObjectKey::of(&**claim)));
        match (effect, claim) {
            // Its watch fails as well, and nobody gets so far.
            (Effect::Look, _) => {}
            (_, Some(claim)) => {
                if let Some(message) = self.refusals.refusal(&self.ctx, claim.metadata.uid.as_deref(), error)
                    && let Some(explanation) = refused(&claim, message)
                    && let Err(error) = apply(&self.ctx, space, &explanation).await
                {
                    tracing::debug!(claim = claim.name_any(), error = %chain(&error), "cannot tell what was refused");
                }
            }
            (_, None) => self.refusals.hear(&self.ctx, &effect.regarding(), error).await,
        }
    }
}

impl Reconcile for Metal3DataTemplates {
    const NAME: &'static str = "metal3datatemplate";
    type Error = PassError;

    fn listen(&self, queue: &Queue<ObjectKey>) {
        self.queue.set(queue.clone()).ok();
        listen::listen(&self.ctx.world, &self.news, queue);
    }

    fn all(&self) -> Vec<ObjectKey> {
        let world = &self.ctx.world;
        let mut spaces: HashSet<ObjectKey> = HashSet::new();
        let templates = world.data_templates.all();
        let templates = templates.iter().filter_map(|key| world.data_templates.get(key));
        spaces.extend(templates.map(|template| space_of(&template)));
        let datas = world.datas.all();
        let datas = datas.iter().filter_map(|key| world.datas.get(key));
        spaces.extend(datas.filter_map(|data| slot_of(&data)).map(|(space, _)| space));
        for space in &spaces {
            self.news.add(space, Focus::whole());
        }
        spaces.into_iter().collect()
    }

    async fn reconcile(&self, space: &ObjectKey) -> Result<Next, PassError> {
        let world = &self.ctx.world;
        let (mut round, mut focus, mut is_listed) = (Round::default(), Focus::default(), true);
        loop {
            focus.extend(self.news.take(space));
            is_listed &= !concerns_list(world, space, &focus);
            let seen = observe(world, space, &focus, &self.news);
            let early = |effect: &Effect| self.news.wait(space, effect, self.ctx.clock.elapsed());
            let mut effects = round.left(decide(&seen), &seen, early);
            if effects.is_empty() && !is_listed {
                is_listed = true;
                effects = round.left(finish(&list(world, space)), &seen, early);
            }
            if effects.is_empty() {
                self.news.add(space, std::mem::take(&mut round.left_over));
                if is_empty(world, space) {
                    self.news.forget(space);
                }
                // What was put off waits for its own time, and not until the back-off of what failed is over.
                if let (Some(_), Some(again), Some(queue)) = (&round.failed, round.again, self.queue.get()) {
                    queue.push_in(space.clone(), again.max(APART));
                }
                return round.end();
            }
            // What else there is to do follows from what is written, which is news.
            focus = Focus::default();
            for effect in &effects {
                focus.extend(effect.concerns(&seen));
            }
            let ask = async |effect: Effect| {
                let answer = apply(&self.ctx, space, &effect).await;
                (effect, answer)
            };
            let answers = futures::stream::iter(effects).map(ask).buffer_unordered(AT_ONCE);
            let mut answers = std::pin::pin!(answers);
            while let Some((effect, answer)) = answers.next().await {
                let Err(error) = round.account(space, &effect, answer, &seen) else {
                    self.ctx.world.learn(known_by(&effect, &seen));
                    self.news.done(space, &effect, self.ctx.clock.elapsed());
                    self.refusals.forget(effect.regarding().uid.as_deref());
                    continue;
                };
                self.tell_refusal(space, &effect, &error).await;
                round.failed(error);
            }
        }
    }
}

/// What came of the writes of a pass so far.
#[derive(Default)]
struct Round {
    /// What is left for a later pass: one that cannot be answered must not hold up the others.
    put_off: HashSet<Subject>,
    /// What has to be looked at then.
    left_over: Focus,
    again: Option<Duration>,
    failed: Option<PassError>,
}

impl Round {
    /// Those that are not put off; `early` says for how long one has to be.
    fn left(
        &mut self,
        effects: Vec<Effect>,
        seen: &Observed,
        early: impl Fn(&Effect) -> Option<Duration>,
    ) -> Vec<Effect> {
        let mut left = Vec::new();
        for effect in effects {
            let wait = early(&effect);
            if wait.is_none() && !self.put_off.contains(&effect.subject()) {
                left.push(effect);
                continue;
            }
            self.left_over.extend(effect.left_over(seen));
            self.again = self.again.into_iter().chain(wait).min();
        }
        left
    }

    fn account(
        &mut self,
        space: &ObjectKey,
        effect: &Effect,
        answer: Result<Applied, kube::Error>,
        seen: &Observed,
    ) -> Result<(), PassError> {
        let subject = effect.subject();
        if !matches!(answer, Ok(Applied::Seen)) {
            self.left_over.extend(effect.left_over(seen));
        }
        match answer {
            Ok(Applied::Seen) => Ok(()),
            Ok(Applied::Unseen) => {
                self.put_off.insert(subject);
                self.again = self.again.into_iter().chain([AGAIN]).min();
                Ok(())
            }
            Err(source) => {
                let error = PassError {
                    what: effect.label(),
                    subject: format!("for {} {}/{}", subject.0, space.namespace, subject.1),
                    source,
                };
                self.put_off.insert(subject);
                Err(error)
            }
        }
    }

    fn failed(&mut self, error: PassError) {
        match &self.failed {
            // The first one that is not merely late tells when to go on.
            Some(before) if before.class() != Class::Stale || error.class() == Class::Stale => {
                tracing::debug!(error = %chain(&error), "a write failed, and not as the only one");
            }
            _ => self.failed = Some(error),
        }
    }

    fn end(self) -> Result<Next, PassError> {
        match (self.failed, self.again) {
            (Some(error), _) => Err(error),
            (None, Some(again)) => Ok(Next::After(again)),
            (None, None) => Ok(Next::Change),
        }
    }
}
