//! The Metal3Machine controller: finds a host for each Machine of Cluster API, sets what it runs, and releases it.
//!
//! ```text
//!  observe ─▶ decide (pure) ─▶ apply: machine, host, claim on data ─▶ report: one status, events ─▶ provider ID of the Node
//!     ▲          │ Fetch
//!     └──────────┘ choice of a host (waiting.rs), Secrets, node reuse
//! ```
//!
//! The invariants, regardless of concurrent processes and of crashes between two writes:
//!
//! - **No host has two machines.** A claim is guarded by the observed resource version of the host, and is only written to an
//!   unused host.
//! - **No host is deployed that its machine does not name.** Each of these writes requires the one before: the machine names the
//!   host; the host names the machine (the claim); the status says so; the host gets its image. All are guarded by the observed
//!   resource versions, and a machine whose status has a host never names another.
//!
//! Remaining races heal: a claim that arrives after its machine has chosen another host, or is gone, is released by the next pass
//! of that name, as nothing was deployed with it (decide/strays.rs). A machine whose claim is rejected tries another host, and
//! avoids the rejected one for a while (waiting.rs).
//!
//! A machine's Node is looked up among those of its workload cluster (workload/), without blocking: the Node gets its provider ID
//! after the status is stored, and its later changes trigger the machine.

mod apply;
pub(crate) mod decide;
mod fetch;
mod listen;
mod names;
mod node;
pub(crate) mod observed;
mod payload;
mod preview;
mod reuse;
#[cfg(test)]
mod tests;
mod waiting;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use metal3_api::infra::v1beta2::Metal3MachineStatus;
use metal3_runtime::Clock;
use metal3_runtime::args::Namespaces;
use metal3_runtime::controller::{Controller, Next, Report};
use metal3_runtime::secrets::SecretVersions;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::provider::REPORTED_AGAIN;
use metal3_runtime::work::Queue;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::decide::{Decision, Effect, Read, Refused};
pub use self::names::{ASSOCIATED, BOOTSTRAP_DATA, DATA_READY, METADATA, NODE};
pub use self::node::{NodeView, ProviderIdPatch};
pub use self::observed::{Host, Observed, Reads, Related, Subject, host_seen, observe};
pub use self::preview::{Payload, Preview};
pub(crate) use self::reuse::is_awaited;
use self::waiting::{Waiter, Waiting};
use crate::args::HostChoice;
use crate::conditions::carry_over;
use crate::context::Context;
use crate::error::PassError;
use crate::report::{self, STORE_STATUS};
use crate::select::HostRequest;
use crate::workload::Workloads;

/// The kind, for errors.
const KIND: &str = "Metal3Machine";

/// The controller.
#[derive(Clone)]
pub struct Metal3Machines {
    ctx: Context,
    is_fast_track: bool,
    host_choice: HostChoice,
    workloads: Workloads,
    waiting: Waiting,
    secrets: SecretVersions<ObjectKey>,
    queue: Arc<OnceLock<Queue<ObjectKey>>>,
}

impl Metal3Machines {
    /// The controller; `is_fast_track` leaves hosts powered on between two machines.
    pub fn new(ctx: Context, workloads: Workloads, is_fast_track: bool, host_choice: HostChoice) -> Self {
        Self {
            ctx,
            is_fast_track,
            host_choice,
            workloads,
            waiting: Waiting::default(),
            secrets: SecretVersions::default(),
            queue: Arc::default(),
        }
    }

    /// Watches the metadata of Secrets until `stop`, and triggers the machines that wait for one.
    pub fn follow_secrets(&self, namespaces: &Namespaces, tasks: &mut JoinSet<()>, stop: &CancellationToken) {
        let watched = match namespaces {
            Namespaces::All => vec![None],
            Namespaces::Only(names) => names.iter().cloned().map(Some).collect(),
        };
        for namespace in watched {
            let (own, stop) = (self.clone(), stop.clone());
            tasks.spawn(async move {
                let waker = own.clone();
                let wake = move |machine| waker.wake(Some(machine));
                own.secrets
                    .follow(&own.ctx.client, namespace.as_deref(), stop, wake)
                    .await;
            });
        }
    }

    fn wake(&self, machine: Option<ObjectKey>) {
        if let (Some(machine), Some(queue)) = (machine, self.queue.get()) {
            queue.push(machine);
        }
    }

    fn wake_in(&self, key: ObjectKey, after: Duration) {
        if let Some(queue) = self.queue.get() {
            queue.push_in(key, after);
        }
    }

    /// The machines currently without a host.
    fn waiters(&self) -> Vec<Waiter> {
        let of = |key: &ObjectKey| match observe(&self.ctx.stores, key, self.is_fast_track)? {
            Subject::Machine(seen) => {
                let request = decide::wanted(&seen)?;
                Some((waiting::since(&*seen.machine), request, seen.host.unclaimed().cloned()))
            }
            Subject::Gone(_) => None,
        };
        Controller::all(self).iter().filter_map(of).collect()
    }

    /// Drops cached state that a machine no longer needs.
    fn forget(&self, key: &ObjectKey, seen: Option<&Observed>, has_failed: bool) {
        let wants_host = |seen: &Observed| {
            if has_failed {
                decide::wanted(seen).is_some()
            } else {
                seen.reads.choice.is_some()
            }
        };
        if !seen.is_some_and(wants_host) {
            self.waiting.forget(key);
        }
        if !has_failed && seen.is_none_or(|seen| seen.reads.secrets.is_none()) {
            self.secrets.remove_owner(key);
            self.waiting.forget_plain(key);
        }
    }
}

impl Controller for Metal3Machines {
    const NAME: &'static str = "metal3machine";
    type Observed = Subject;
    type Read = Read;
    type Effect = Effect;
    type Status = Metal3MachineStatus;
    type Error = PassError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        self.queue.set(queue.clone()).ok();
        self.listen_to_all(queue);
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.stores.metal3_machines.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Subject>, PassError> {
        if *key == listen::all_waiting(&key.namespace) {
            for machine in self.waiting.of(&key.namespace) {
                self.wake(Some(machine));
            }
            return Ok(None);
        }
        let order = |request: &HostRequest| self.host_choice.seed(&request.uid);
        self.waiting.seed(&self.ctx.stores, || self.waiters(), order);
        self.waiting.begin(key, self.ctx.clock.elapsed());
        let mut subject = observe(&self.ctx.stores, key, self.is_fast_track);
        if let Some(Subject::Machine(seen)) = &mut subject {
            seen.node = node::find(&self.workloads, &self.ctx.stores, seen);
        }
        Ok(subject)
    }

    fn decide(seen: &Subject, now: Timestamp) -> Decision {
        decide::decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Subject, read: Read) -> Result<(), PassError> {
        match seen {
            Subject::Machine(seen) => self.read(seen, read).await,
            Subject::Gone(leftovers) => self.read_owner(leftovers).await,
        }
    }

    async fn apply(&self, seen: &mut Subject, effect: &Effect) -> Result<(), PassError> {
        let key = seen.key();
        let applied = apply::apply(&self.ctx, &self.workloads, seen, effect).await;
        let applied = applied.map_err(PassError::with(effect.label(), effect.object(), KIND, &key));
        if effect.is_claim() {
            match &applied {
                Ok(()) => self.waiting.forget(&key),
                Err(error) if error.refusal().is_some() || error.failure().is_some() => {
                    self.waiting.avoid(&key, self.ctx.clock.elapsed());
                }
                Err(_) => {}
            }
        }
        applied
    }

    async fn report(&self, seen: &mut Subject, mut report: Report<Metal3MachineStatus>) -> Result<(), PassError> {
        let Subject::Machine(seen) = seen else { return Ok(()) };
        if let Some(status) = &mut report.status {
            // Later writes are this pass's own, guarded by the observed resource version.
            carry_over(&mut status.conditions, seen.judged, seen.machine.metadata.generation);
        }
        report::report(&self.ctx, &self.ctx.stores.metal3_machines, &mut seen.machine, report).await
    }

    fn refused(&self, seen: &Subject, error: &PassError) -> Report<Metal3MachineStatus> {
        let Subject::Machine(seen) = seen else {
            return Report::default();
        };
        if error.what == STORE_STATUS {
            return Report::default();
        }
        let refusal = self.ctx.refusal(seen.machine.metadata.uid.as_deref(), error);
        let message = refusal.filter(|refusal| refusal.is_new).map(|refusal| refusal.message);
        let what = if error.what == decide::SET_PROVIDER_ID {
            Refused::ProviderId
        } else {
            Refused::Write
        };
        decide::refused(seen, what, message.as_deref(), self.ctx.clock.now())
    }

    fn ended(&self, key: &ObjectKey, seen: Option<&Subject>, done: &Result<Next, PassError>) {
        let seen = match seen {
            Some(Subject::Machine(seen)) => Some(&**seen),
            Some(Subject::Gone(_)) | None => None,
        };
        self.forget(key, seen, done.is_err());
        match done {
            // The next pass follows immediately and takes the reserved host.
            Ok(Next::Now | Next::Decide) => return,
            Ok(Next::Change | Next::After(_)) => {
                self.ctx
                    .succeeded(seen.and_then(|seen| seen.machine.metadata.uid.as_deref()));
            }
            // Its host is free again, for machines that found none in the meantime.
            Err(_) if seen.is_some_and(|seen| seen.reads.choice.is_some()) => {
                self.wake_in(listen::all_waiting(&key.namespace), REPORTED_AGAIN);
            }
            Err(_) => {}
        }
        self.wake(self.waiting.end(key, &self.ctx.stores, done.is_err()));
    }
}
