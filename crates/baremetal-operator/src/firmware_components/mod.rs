//! The controller of HostFirmwareComponents: it creates one for each host whose BMC reports components, and says what
//! versions they have and whether updates are wanted and possible.
//!
//! ```text
//!  host, its node ─┐                 ┌─▶ HostFirmwareComponents: created, taken up
//!  object edited ──┴─▶ decide (pure) ┴─▶ its status
//!                        ▲ Components
//!                      Ironic
//! ```
//!
//! The host makes the updates while it is prepared or serviced, and records them itself before it reports that it is
//! done (`host::decide::firmware::record`).

pub mod decide;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use metal3_api::metal3::{HostFirmwareComponents, HostFirmwareComponentsSpec};
use metal3_ironic::on_behalf_of;
use metal3_runtime::controller::{Controller, Next, Report};
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use metal3_runtime::{Clock, status};

use self::decide::{Decision, Effect, Observed, Read, Status, is_open};
use crate::companion::{self, Looks, Surroundings, adopt, delete_seen, identity_of, proven_node};
use crate::host::ReconcileError;
use crate::host::context::Context;
use crate::host::error::{ApplyError, ObserveError};
use crate::host::{firmware, record};

const REPORTER: Reporter = Reporter {
    component: "metal3-hostfirmwarecomponents-controller",
    controller: "metal3.io/hostfirmwarecomponents-controller",
};

/// The controller. Its keys are those of hosts.
#[derive(Clone)]
pub struct FirmwareComponents {
    ctx: Arc<Context>,
    recorder: Recorder,
    looks: Looks,
}

impl FirmwareComponents {
    /// A controller that has looked at nothing.
    pub fn new(ctx: Arc<Context>) -> Self {
        Self {
            recorder: ctx.recorder.of(REPORTER),
            ctx,
            looks: Looks::default(),
        }
    }

    async fn change(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        let updates = &self.ctx.companions.updates;
        let host = seen.around.host.clone();
        let key = ObjectKey::of(&*host);
        let api: Api<HostFirmwareComponents> = Api::namespaced(self.ctx.kube.clone(), &key.namespace);
        match effect {
            Effect::Create => {
                let mut object = HostFirmwareComponents::new(&key.name, HostFirmwareComponentsSpec::default());
                object.metadata.owner_references = host.owner_ref(&()).map(|owner| vec![owner]);
                updates.created(api.create(&PostParams::default(), &object).await?);
                seen.object = updates.get(&key);
            }
            Effect::Adopt => {
                if let Some(object) = &seen.object {
                    updates.written(adopt(&api, &object.metadata, &host).await?);
                    seen.object = updates.get(&key);
                }
            }
            Effect::DeleteFormer => {
                if let Some(object) = &seen.object {
                    delete_seen(&api, updates, &object.metadata).await?;
                    seen.object = None;
                }
            }
            Effect::Note(note) => {
                let note = Patch::Merge(note);
                updates.written(api.patch(&key.name, &PatchParams::default(), &note).await?);
                seen.object = updates.get(&key);
            }
            Effect::Remember(look) => self.looks.done(&host, look.clone()),
        }
        Ok(())
    }
}

impl Controller for FirmwareComponents {
    const NAME: &'static str = "hostfirmwarecomponents";
    type Observed = Observed;
    type Read = Read;
    type Effect = Effect;
    type Status = Status;
    type Error = ReconcileError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        companion::listen(&self.ctx, queue);
        let (of_object, looks, of_policy) = (queue.clone(), self.looks.clone(), queue.clone());
        self.ctx.companions.policies.listen(move |change| {
            if change.affects(identity_of) {
                of_policy.push(change.key.clone());
            }
        });
        self.ctx.companions.updates.listen(move |change| {
            if change.after.is_none() {
                // It is made again if the host has components.
                looks.forget(&change.key);
            }
            if change.affects(|object| (identity_of(object), record::noted(object).is_some(), is_open(object))) {
                of_object.push(change.key.clone());
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        Vec::new()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, ReconcileError> {
        let around = Surroundings::of(&self.ctx, key, &self.looks);
        Ok(around.map(|around| Observed {
            around,
            object: self.ctx.companions.updates.get(key),
            policy: self.ctx.companions.policies.get(key),
            components: None,
            settings: self.ctx.settings.clone(),
        }))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision {
        decide::decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Observed, Read::Components: Read) -> Result<(), ReconcileError> {
        let Some(node) = proven_node(&self.ctx, &mut seen.around).await? else {
            return Ok(());
        };
        let namespace = seen.around.host.metadata.namespace.clone().unwrap_or_default();
        let client = self.ctx.ironic.client().map_err(ObserveError::from)?;
        let found = on_behalf_of(&namespace, client.firmware(&node)).await;
        let found = found.map_err(ObserveError::from)?;
        seen.components = Some(found.into_iter().filter_map(firmware::component).collect());
        Ok(())
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), ReconcileError> {
        let label = match effect {
            Effect::Create => "create HostFirmwareComponents",
            Effect::Adopt => "take up HostFirmwareComponents",
            Effect::DeleteFormer => "delete the HostFirmwareComponents of an earlier host",
            Effect::Note(_) => "record the updates that were made",
            Effect::Remember(_) => "remember a look",
        };
        self.change(seen, effect).await.map_err(|source| {
            let effect = label.into();
            ApplyError::Kube { effect, source }.into()
        })
    }

    async fn report(&self, seen: &mut Observed, report: Report<Status>) -> Result<(), ReconcileError> {
        let Some(object) = seen.object.as_deref() else {
            return Ok(());
        };
        if let Some(status) = report.status {
            let written = status::replace(&self.ctx.kube, object, *status).await;
            let written = written.map_err(ReconcileError::Report)?;
            self.ctx.companions.updates.written(written);
        }
        let regarding = object.object_ref(&());
        for event in &report.events {
            self.recorder.publish(&regarding, None, event).await;
        }
        Ok(())
    }

    fn ended(&self, key: &ObjectKey, _: Option<&Observed>, done: &Result<Next, ReconcileError>) {
        companion::ended(&self.ctx, key, |trouble| &mut trouble.updates, done);
    }
}
