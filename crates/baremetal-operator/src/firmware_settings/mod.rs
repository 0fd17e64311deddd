//! The controller of HostFirmwareSettings: it creates one for each managed host, and says what BIOS settings the host
//! has, what they may be, and whether the wanted ones are different and possible.
//!
//! ```text
//!  host, its node ─┐                ┌─▶ HostFirmwareSettings: created, taken up, its status
//!  object edited ──┼─▶ decide (pure)┼─▶ FirmwareSchema of the kind of host: created once, shared
//!  schema gone ────┘     ▲ Bios     └─▶ HostUpdatePolicy of a user: taken up
//!                     Ironic
//! ```
//!
//! The host applies the changes while it is prepared or serviced, and records them itself before it reports that it is
//! done (`host::decide::firmware::record`).

mod apply;
pub mod decide;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Next, Report};
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use self::decide::{Decision, Effect, Observed, Read, Status, is_open};
use crate::companion::{self, Looks, Surroundings, identity_of};
use crate::host::ReconcileError;
use crate::host::companions::schema_of;
use crate::host::context::Context;

const REPORTER: Reporter = Reporter {
    component: "metal3-hostfirmwaresettings-controller",
    controller: "metal3.io/hostfirmwaresettings-controller",
};

/// The controller. Its keys are those of hosts.
#[derive(Clone)]
pub struct FirmwareSettings {
    ctx: Arc<Context>,
    recorder: Recorder,
    /// What it has looked at.
    looks: Looks,
    /// Held while a schema is created: a thousand new hosts of one model need it at the same moment.
    creating: Arc<tokio::sync::Mutex<()>>,
}

impl FirmwareSettings {
    /// A controller that has looked at nothing; `looks` is shared with the controller of schemas.
    pub fn new(ctx: Arc<Context>, looks: Looks) -> Self {
        Self {
            recorder: ctx.recorder.of(REPORTER),
            ctx,
            looks,
            creating: Arc::default(),
        }
    }
}

impl Controller for FirmwareSettings {
    const NAME: &'static str = "hostfirmwaresettings";
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
        let companions = &self.ctx.companions;
        let (of_settings, of_policy) = (queue.clone(), queue.clone());
        companions.settings.listen(move |change| {
            if change.affects(|object| (identity_of(object), is_open(object))) {
                of_settings.push(change.key.clone());
            }
        });
        companions.policies.listen(move |change| {
            if change.affects(identity_of) {
                of_policy.push(change.key.clone());
            }
        });
        let (of_schema, settings, looks) = (queue.clone(), companions.settings.clone(), self.looks.clone());
        companions.schemas.listen(move |change| {
            if change.after.is_none() {
                let hosts = settings
                    .names(&change.key)
                    .into_iter()
                    .chain(looks.expecting(&change.key));
                hosts.for_each(|host| of_schema.push(host));
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        Vec::new()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, ReconcileError> {
        let companions = &self.ctx.companions;
        Ok(Surroundings::of(&self.ctx, key, &self.looks).map(|around| {
            let settings = companions.settings.get(key);
            let schema = settings.as_deref().and_then(schema_of);
            Observed {
                around,
                settings,
                policy: companions.policies.get(key),
                lacks_schema: schema.is_some_and(|schema| companions.schemas.get(&schema).is_none()),
                bios: None,
                whole: None,
            }
        }))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision {
        decide::decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), ReconcileError> {
        Ok(self.read(seen, read).await?)
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), ReconcileError> {
        self.act(seen, effect).await
    }

    async fn report(&self, seen: &mut Observed, report: Report<Status>) -> Result<(), ReconcileError> {
        self.store(seen, report).await
    }

    fn ended(&self, key: &ObjectKey, _: Option<&Observed>, done: &Result<Next, ReconcileError>) {
        companion::ended(&self.ctx, key, |trouble| &mut trouble.settings, done);
    }
}
