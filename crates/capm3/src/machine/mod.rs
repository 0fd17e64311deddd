//! The Metal3Machine controller: finds a host for each Machine of Cluster API, says what it shall run, and gives it back.
//!
//! ```text
//!  observe ─▶ decide (pure) ─▶ apply: machine, host, wish for data ─▶ report: one status, events
//!     ▲          │ Look
//!     └──────────┘ choice of a host (waiting.rs), Secrets, node reuse
//! ```
//!
//! A claim is two writes, each over the version that was judged: the machine names the host, then the host names the
//! machine. Whoever comes second anywhere starts again, and a host that was named and will not do is marked before another
//! is named, unless no claim of it can be under way (claims.rs): so one machine has one host, however many processes run.
//!
//! The Node of a machine is looked for among those of its workload cluster (workload/), which nothing here waits for: it
//! gets its provider ID after the status is stored, and whatever it says later wakes the machine.

mod apply;
mod claims;
pub(crate) mod decide;
mod listen;
mod look;
mod names;
mod node;
pub(crate) mod observed;
mod payload;
mod preview;
mod reuse;
#[cfg(test)]
mod tests;
mod untold;
mod waiting;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineStatus};
use metal3_runtime::args::Namespaces;
use metal3_runtime::conditions::whole_seconds;
use metal3_runtime::controller::{Next, Reconcile};
use metal3_runtime::error::chain;
use metal3_runtime::secrets::SecretVersions;
use metal3_runtime::status;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::claims::Claims;
use self::decide::{CLAIM, Decision, Effect, Plan, Refused};
pub use self::names::{ASSOCIATED, BOOTSTRAP_DATA, DATA_READY, METADATA, NODE};
pub use self::node::{Gift, NodeView};
pub use self::observed::{Host, Looks, Observed, Related, host_seen, observe};
use self::payload::Plain;
pub use self::preview::{Payload, Preview};
pub(crate) use self::reuse::is_awaited;
use self::untold::Untold;
use self::waiting::{Waiter, Waiting};
use crate::args::HostChoice;
use crate::conditions;
use crate::context::Context;
use crate::error::PassError;
use crate::select::Wish;
use crate::workload::Workloads;

/// Of what it looks after, for errors.
const KIND: &str = "Metal3Machine";
/// Of what is done to the Node and to the status, for the same.
const GIVE: &str = "set the provider ID of the node";
const STORE_STATUS: &str = "store the status";

/// The controller.
#[derive(Clone)]
pub struct Metal3Machines {
    ctx: Context,
    is_fast_track: bool,
    host_choice: HostChoice,
    workloads: Workloads,
    waiting: Waiting,
    untold: Untold,
    claims: Claims,
    plain: Plain,
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
            untold: Untold::default(),
            claims: Claims::default(),
            plain: Plain::default(),
            secrets: SecretVersions::default(),
            queue: Arc::default(),
        }
    }

    /// Watches the metadata of Secrets until `stop`, and wakes the machines that wait for one.
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

    fn wake_in(&self, machine: &ObjectKey, after: Duration) {
        if let Some(queue) = self.queue.get() {
            queue.push_in(machine.clone(), after);
        }
    }

    async fn carry_out(&self, key: &ObjectKey, seen: &Observed, plan: Plan) -> Result<Next, PassError> {
        let ctx = &self.ctx;
        let mut machine = (*seen.machine).clone();
        for effect in &plan.effects {
            let before = machine.clone();
            let is_only = effect.claimed_over().map(|version| self.claims.send(key, version));
            let applied = apply::apply(ctx, &mut machine, effect).await;
            let applied = applied.map_err(PassError::with(effect.label(), effect.object(), KIND, key));
            if let (Some(is_only), Err(error)) = (is_only, &applied) {
                if is_only && error.is_unwritten() {
                    self.claims.was_not_written(key);
                }
                if error.refusal().is_some() || error.failure().is_some() {
                    self.waiting.refused(key);
                }
            }
            applied?;
            self.claims.wrote(&before, &machine);
            if let Effect::Host { is_claim, .. } = effect {
                self.untold.wrote(&machine, plan.claim, ctx.clock.elapsed());
                if *is_claim {
                    self.waiting.forget(key);
                    self.claims.forget(key);
                }
            }
        }
        match (plan.status, plan.patience) {
            (Some(_), Some(patience)) => self.wake_in(key, patience),
            (Some(mut status), None) => {
                // What was written since was written by this pass, over the version that was judged.
                let (judged, now) = (seen.machine.metadata.generation, machine.metadata.generation);
                conditions::carry_over(&mut status.conditions, judged, now);
                self.store(key, &machine, status).await?;
                self.untold.forget(key);
            }
            (None, _) => {}
        }
        for note in &plan.notes {
            ctx.recorder.publish(&machine.object_ref(&()), None, note).await;
        }
        if let (Some(gift), Some(cluster)) = (&plan.gift, seen.cluster.found()) {
            self.give(key, &ObjectKey::of(&**cluster), gift).await?;
        }
        Ok(if plan.is_again { Next::Now } else { Next::Change })
    }

    async fn give(&self, key: &ObjectKey, cluster: &ObjectKey, gift: &Gift) -> Result<(), PassError> {
        // Gone again: the machine is woken when it is back.
        let Some(workload) = self.workloads.followed(cluster) else {
            return Ok(());
        };
        let given = workload.give_id(&gift.node, &gift.uid, &gift.id).await;
        if given.map_err(PassError::of(GIVE, KIND, key))? {
            tracing::info!(machine = %key, node = gift.node, id = gift.id, "a node has its provider ID");
        }
        Ok(())
    }

    async fn store(
        &self,
        key: &ObjectKey,
        seen: &Metal3Machine,
        mut status: Metal3MachineStatus,
    ) -> Result<(), PassError> {
        let before = seen.status.clone().unwrap_or_default();
        status.last_updated.clone_from(&before.last_updated);
        if status == before {
            return Ok(());
        }
        status.last_updated = Some(Time(whole_seconds(self.ctx.clock.now())));
        let written = status::replace(&self.ctx.client, seen, status).await;
        let failed = PassError::of(STORE_STATUS, KIND, key);
        self.ctx.world.metal3_machines.written(written.map_err(failed)?);
        Ok(())
    }

    /// The machines that want a host now.
    fn waiters(&self) -> Vec<Waiter> {
        let of = |key: &ObjectKey| {
            let seen = observe(&self.ctx.world, key, self.is_fast_track)?;
            let wish = decide::wanted(&seen)?;
            Some((waiting::since(&*seen.machine), wish, seen.host.unclaimed().cloned()))
        };
        self.all().iter().filter_map(of).collect()
    }

    async fn work(&self, key: &ObjectKey) -> Result<Next, PassError> {
        let released = apply::release_claim(&self.ctx.client, &self.ctx.world, key).await;
        released.map_err(PassError::of("let go of the Metal3DataClaim", KIND, key))?;
        let Some(mut seen) = observe(&self.ctx.world, key, self.is_fast_track) else {
            self.settle(key, false, false);
            self.untold.forget(key);
            self.claims.forget(key);
            return Ok(Next::Change);
        };
        seen.untold = self.untold.get(&seen.machine, self.ctx.clock.elapsed());
        seen.claimant = self.claims.of(&seen.machine);
        seen.node = node::look(&self.workloads, &self.ctx.world, &seen);
        let done = self.planned_and_done(key, &mut seen).await;
        match &done {
            Ok(Next::Now) => {}
            Ok(_) => self.ctx.succeeded(seen.machine.metadata.uid.as_deref()),
            Err(error) => self.tell_refusal(key, seen, error).await,
        }
        done
    }

    async fn planned_and_done(&self, key: &ObjectKey, seen: &mut Observed) -> Result<Next, PassError> {
        match self.planned(seen).await? {
            Some(plan) => self.carry_out(key, seen, *plan).await,
            None => Ok(Next::Change),
        }
    }

    /// What an API server will not do until somebody changes something has to be told: the pass has not come to its status.
    async fn tell_refusal(&self, key: &ObjectKey, mut seen: Observed, error: &PassError) {
        if error.what == STORE_STATUS {
            return;
        }
        let refusal = self.ctx.refusal(seen.machine.metadata.uid.as_deref(), error);
        if refusal.is_some() && error.what == CLAIM {
            self.waiting.avoid(key, self.ctx.clock.elapsed());
        }
        let message = refusal.filter(|refusal| refusal.is_new).map(|refusal| refusal.message);
        // The pass may have written it.
        let Some(machine) = self.ctx.world.metal3_machines.get(key) else {
            return;
        };
        seen.host = host_seen(&self.ctx.world, &machine, key);
        seen.untold = self.untold.get(&machine, self.ctx.clock.elapsed());
        seen.machine = machine;
        // A failure that may pass does not hold up what was done before it.
        let is_due = seen.untold.is_some_and(|step| step.patience(false).is_none());
        if message.is_none() && !is_due {
            return;
        }
        let what = if error.what == GIVE {
            Refused::Gift
        } else {
            Refused::Write
        };
        if let Decision::Do(plan) = decide::refused(&seen, what, message.as_deref(), self.ctx.clock.now())
            && let Err(error) = self.carry_out(key, &seen, *plan).await
        {
            tracing::debug!(machine = %key, error = %chain(&error), "cannot tell what was refused");
        }
    }
}

impl Reconcile for Metal3Machines {
    const NAME: &'static str = "metal3machine";
    type Error = PassError;

    fn listen(&self, queue: &Queue<ObjectKey>) {
        self.queue.set(queue.clone()).ok();
        self.listen_to_all(queue);
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.world.metal3_machines.all()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, PassError> {
        if *key == listen::all_waiting(&key.namespace) {
            for machine in self.waiting.of(&key.namespace) {
                self.wake(Some(machine));
            }
            return Ok(Next::Change);
        }
        let seed = |wish: &Wish| self.host_choice.seed(&wish.uid);
        self.waiting.muster(&self.ctx.world, || self.waiters(), seed);
        self.waiting.begin(key, self.ctx.clock.elapsed());
        let result = self.work(key).await;
        self.wake(self.waiting.done(key, &self.ctx.world));
        result
    }
}
