//! The Metal3Data controller: claims addresses, renders metadata and network data into Secrets, and releases all of it.
//!
//! ```text
//!  claim ─▶ Metal3Data ─┬▶ IPClaim, IPAddressClaim ─▶ addresses ─┐
//!  (announces it)       └────────── template, machine, host ─────┴▶ render ─▶ Secrets ─▶ ready
//! ```
//!
//! Only a Metal3Data that its claim references is reconciled. If two were created for one claim, the other has no effect.

mod address;
mod apply;
pub(crate) mod decide;
mod effect;
mod listen;
#[cfg(test)]
mod model_tests;
mod observed;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use metal3_api::infra::v1beta2::Metal3DataStatus;
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Next, Report};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use self::apply::Server;
use self::effect::{Decision, Effect, Read, SWEEP};
use self::observed::Observed;
use crate::context::Context;
use crate::error::PassError;
use crate::report::{STORE_STATUS, report};

pub use self::decide::{digest, secrets_of};
pub use crate::stores::SECRET_TYPE;

/// The kind, for errors.
const KIND: &str = "Metal3Data";

/// The controller.
#[derive(Clone)]
pub struct Metal3Datas {
    /// Shared by all controllers.
    pub ctx: Context,
    /// Whether IP claims are named after hosts, so that a pool can reserve an address for a host.
    pub by_host: bool,
}

impl Metal3Datas {
    fn server<'a>(&'a self, key: &'a ObjectKey) -> Server<'a> {
        Server {
            ctx: &self.ctx,
            namespace: &key.namespace,
            by_host: self.by_host,
        }
    }
}

impl Controller for Metal3Datas {
    const NAME: &'static str = "metal3data";
    type Observed = Observed;
    type Read = Read;
    type Effect = Effect;
    type Status = Metal3DataStatus;
    type Error = PassError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        listen::listen(&self.ctx.stores, queue);
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.stores.datas.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, PassError> {
        Ok(Some(observed::observe(&self.ctx.stores, key, self.by_host)))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision {
        decide::decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), PassError> {
        let key = seen.key.clone();
        let what = if read == Read::Uid {
            SWEEP
        } else {
            "look at what is needed"
        };
        let done = self.server(&key).fetch(seen, read).await;
        done.map_err(PassError::of(what, KIND, &key))
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), PassError> {
        let key = seen.key.clone();
        let done = self.server(&key).apply(seen, effect).await;
        done.map_err(PassError::with(effect.label(), effect.object(), KIND, &key))
    }

    async fn report(&self, seen: &mut Observed, new: Report<Metal3DataStatus>) -> Result<(), PassError> {
        let Some(view) = &mut seen.view else { return Ok(()) };
        report(&self.ctx, &self.ctx.stores.datas, &mut view.data, new).await
    }

    /// Leftovers of an earlier Metal3Data of the name are not reported on this one.
    fn refused(&self, seen: &Observed, error: &PassError) -> Report<Metal3DataStatus> {
        let view = seen
            .view
            .as_ref()
            .filter(|_| ![STORE_STATUS, SWEEP].contains(&error.what));
        let Some(data) = view.map(|view| &*view.data) else {
            return Report::default();
        };
        match self.ctx.refusal(data.metadata.uid.as_deref(), error) {
            Some(refusal) if refusal.is_new => decide::refused(data, refusal.message),
            Some(_) | None => Report::default(),
        }
    }

    fn ended(&self, _: &ObjectKey, seen: Option<&Observed>, done: &Result<Next, PassError>) {
        if let (Some(view), Ok(_)) = (seen.and_then(|seen| seen.view.as_ref()), done) {
            self.ctx.succeeded(view.data.metadata.uid.as_deref());
        }
    }
}
