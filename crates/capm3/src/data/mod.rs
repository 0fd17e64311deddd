//! The Metal3Data controller: claims addresses, renders metadata and network data into Secrets, and releases all of it.
//!
//! ```text
//!  claim ─▶ Metal3Data ─┬▶ IPClaim, IPAddressClaim ─▶ addresses ─┐
//!  (announces it)       └────────── template, machine, host ─────┴▶ render ─▶ Secrets ─▶ ready
//! ```
//!
//! Only a Metal3Data that its claim announces is worked on: of two that were made for one claim, the other has no effect.

mod address;
mod apply;
pub(crate) mod decide;
mod effect;
mod listen;
#[cfg(test)]
mod model;
mod observed;
#[cfg(test)]
mod tests;

use std::time::Duration;

use kube::{Api, Resource, ResourceExt};
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataStatus};
use metal3_api::ipam::IPClaim;
use metal3_runtime::controller::{Next, Reconcile};
use metal3_runtime::error::chain;
use metal3_runtime::events::{Note, Severity};
use metal3_runtime::status;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use self::address::{AddressClaim, Family};
use self::apply::Server;
use self::decide::{decide, refused, rendered_again};
use self::effect::{Effect, Rest, Says, Step};
use self::observed::{Read, address_claims, observe};
use crate::conditions::cut;
use crate::context::Context;
use crate::data_template::{Hold, hold_of};
use crate::error::PassError;

pub use self::apply::SECRET_TYPE;
pub use self::decide::{digest, secrets_of};

/// Of what it looks after, for errors.
const KIND: &str = "Metal3Data";
/// Of what is done to the status, and to what an earlier one has left, for the same.
const STORE_STATUS: &str = "store the status";
const SWEEP: &str = "release what was left";

/// As many characters fit an error message.
const MESSAGE: usize = 512;

/// More writes than this in one pass do not happen; the bound is there to have one.
const MAX_STEPS: usize = 200;

/// The controller.
#[derive(Clone)]
pub struct Metal3Datas {
    /// What all controllers share.
    pub ctx: Context,
    /// Whether claims on addresses are named after hosts, so that a pool can reserve an address for a host.
    pub by_host: bool,
}

impl Reconcile for Metal3Datas {
    const NAME: &'static str = "metal3data";
    type Error = PassError;

    fn listen(&self, queue: &Queue<ObjectKey>) {
        listen::listen(&self.ctx.world, queue);
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.world.datas.all()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, PassError> {
        let done = self.work(key).await;
        match &done {
            Ok(_) => {
                let data = self.ctx.world.datas.get(key);
                self.ctx.succeeded(data.and_then(|data| data.uid()).as_deref());
            }
            Err(error) => self.tell_refusal(key, error).await,
        }
        done
    }
}

impl Metal3Datas {
    async fn work(&self, key: &ObjectKey) -> Result<Next, PassError> {
        let failed = |what| PassError::of(what, KIND, key);
        let server = Server {
            ctx: &self.ctx,
            namespace: &key.namespace,
            by_host: self.by_host,
        };
        self.sweep(&server, key).await.map_err(failed(SWEEP))?;
        let mut read = Read::default();
        for _ in 0..MAX_STEPS {
            let Some(seen) = observe(&self.ctx.world, key, self.by_host) else {
                return Ok(Next::Change);
            };
            match decide(&seen, &read, self.ctx.clock.now()) {
                Step::Look(need) => server
                    .look(need, &mut read)
                    .await
                    .map_err(failed("look at what is needed"))?,
                Step::Write(effect) => {
                    let done = server.apply(&seen.data, &effect, &mut read).await;
                    done.map_err(PassError::with(effect.label(), effect.object(), KIND, key))?;
                    if let Effect::Secret(secret) = &effect
                        && let Some(note) = rendered_again(&seen, secret)
                    {
                        let data = seen.data.object_ref(&());
                        self.ctx.recorder.publish(&data, None, &note).await;
                    }
                    if effect == Effect::LetGo {
                        return Ok(Next::Change);
                    }
                }
                Step::Rest(rest) => {
                    let reported = self.report(&seen.data, &rest).await;
                    reported.map_err(failed(STORE_STATUS))?;
                    let again = rest.again.map(Duration::from_secs);
                    return Ok(again.map_or(Next::Change, Next::After));
                }
            }
        }
        Ok(Next::After(Duration::from_secs(1)))
    }

    /// What an API server will not do until somebody changes something. What has to do with an earlier Metal3Data of this name
    /// is not this one's to tell.
    async fn tell_refusal(&self, key: &ObjectKey, error: &PassError) {
        if [STORE_STATUS, SWEEP].contains(&error.what) {
            return;
        }
        // The pass may have written it.
        let world = &self.ctx.world;
        let Some(data) = world.datas.get(key).filter(|data| world.is_ours(&**data)) else {
            return;
        };
        let refusal = self.ctx.refusal(data.metadata.uid.as_deref(), error);
        let Some(refusal) = refusal.filter(|refusal| refusal.is_new) else {
            return;
        };
        let rest = Rest {
            says: Some(refused(&data, refusal.message)),
            again: None,
        };
        if let Err(error) = self.report(&data, &rest).await {
            tracing::debug!(data = %key, error = %chain(&error), "cannot tell what was refused");
        }
    }

    /// Stores the status if it differs from what is there.
    async fn report(&self, data: &Metal3Data, rest: &Rest) -> Result<(), kube::Error> {
        let Some(says) = &rest.says else { return Ok(()) };
        let (is_ready, mut message) = match says {
            Says::Ready => (Some(true), String::new()),
            Says::Waiting(why) => (Some(false), why.clone()),
            Says::Held(why) => (data.status.as_ref().and_then(|status| status.ready), why.clone()),
        };
        cut(&mut message, MESSAGE);
        let wanted = Metal3DataStatus {
            ready: is_ready,
            error_message: message.clone(),
        };
        if data.status.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let written = status::replace(&self.ctx.client, data, wanted).await?;
        self.ctx.world.datas.written(written);
        if !message.is_empty() {
            let note = Note {
                reason: "NotRendered",
                message,
                severity: Severity::Warning,
            };
            self.ctx.recorder.publish(&data.object_ref(&()), None, &note).await;
        }
        Ok(())
    }

    /// Releases claims on addresses whose Metal3Data is gone: a process that died could not.
    async fn sweep(&self, server: &Server<'_>, key: &ObjectKey) -> Result<(), kube::Error> {
        let world = &self.ctx.world;
        let there = world.datas.get(key).and_then(|data| data.uid());
        let is_left = |claim: &AddressClaim| {
            let is_of_other = claim.owner().is_some_and(|(_, uid)| Some(uid) != there.as_deref());
            is_of_other && claim.is_held() && !is_paused(world, claim)
        };
        let left: Vec<_> = address_claims(world, key).into_iter().filter(is_left).collect();
        if left.is_empty() {
            return Ok(());
        }
        let api: Api<Metal3Data> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let now = api.get_opt(&key.name).await?;
        let uid = now.as_ref().and_then(ResourceExt::uid);
        for claim in left {
            if claim.owner().map(|(_, uid)| uid) != uid.as_deref() {
                let (data, mut read) = (now.clone().unwrap_or_default(), Read::default());
                server
                    .apply(&data, &Effect::Release(Box::new(claim)), &mut read)
                    .await?;
            }
        }
        Ok(())
    }
}

fn is_paused(world: &crate::world::World, claim: &AddressClaim) -> bool {
    match claim.family {
        Family::Metal3 => {
            let claim = IPClaim {
                metadata: claim.meta.clone(),
                ..IPClaim::default()
            };
            hold_of(world, &claim) == Some(Hold::Paused)
        }
        Family::ClusterApi => {
            let claim = metal3_api::capi::IPAddressClaim {
                metadata: claim.meta.clone(),
                ..metal3_api::capi::IPAddressClaim::default()
            };
            hold_of(world, &claim) == Some(Hold::Paused)
        }
    }
}
