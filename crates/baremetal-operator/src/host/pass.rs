//! A pass over one host: the steps of the shared [`Controller`], and their results.
//!
//! ```text
//!  observe.rs ─▶ decide/ (pure) ─▶ apply/ ─▶ report.rs
//!       ▲          │ Fetch   ▲       │ what failed
//!       └──────────┘         └───────┴─ decide/outcome.rs (pure)
//! ```

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metal3_ironic::on_behalf_of;
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Next, Report};
use metal3_runtime::error::{Class, Classified, chain};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::operator::DEBOUNCE;
use metal3_runtime::work::Queue;

use super::context::Context;
use super::error::{ObserveError, ReconcileError};
use super::observed::{NodeView, Observed};
use super::plan::{Decision, Effect, HostReport, Outcome, Plan, Read, Then, Wake};
use super::slot_guard::SlotGuard;
use super::{apply, decide, identity, memory, observe, queue, report};

/// The controller of hosts. Cheap to clone.
#[derive(Clone)]
pub struct Hosts(pub Arc<Context>);

/// The observed state of a pass, and its progress.
pub struct Pass {
    pub(super) seen: Observed,
    key: ObjectKey,
    /// The node as it was cached when the pass began.
    listed: NodeView,
    /// If nothing has changed since the last pass: how long the host may stay idle.
    idle: Option<Duration>,
    /// The result of the last step.
    then: Option<Then>,
    _slot: Option<SlotGuard>,
}

impl Controller for Hosts {
    const NAME: &'static str = "baremetalhost";
    type Observed = Pass;
    type Read = Read;
    type Effect = Effect;
    type Status = HostReport;
    type Error = ReconcileError;

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// New hosts wait behind the others: otherwise a thousand new hosts would delay the next step of hosts whose Ironic
    /// operation has completed. After a start, Ironic's first list wakes all hosts that have a node.
    fn listen(&self, queue: &Queue<ObjectKey>) {
        let (ctx, queue) = (self.0.clone(), queue.clone());
        let of_companion = queue.clone();
        self.0
            .companions
            .listen(move |host| of_companion.push_in(host, DEBOUNCE));
        self.0.hosts.listen(move |change| {
            let key = change.key.clone();
            if !ctx.is_listed(&key) {
                // All hosts are enqueued when the list is complete.
                if let Some(turn) = change.after.as_deref().and_then(queue::turn_in_queue) {
                    ctx.fleet.remember_in_queue(&key, turn);
                }
            } else if change.before.is_none() {
                queue.push_behind(key, DEBOUNCE);
            } else {
                queue.push_in(key, DEBOUNCE);
            }
        });
    }

    /// Each host schedules its own resync.
    fn all(&self) -> Vec<ObjectKey> {
        Vec::new()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Pass>, ReconcileError> {
        let ctx = &self.0;
        if !ctx.is_listed(key) {
            // The hosts that use the same Secrets are not known yet.
            return Ok(None);
        }
        let Some(host) = ctx.hosts.get(key) else {
            // Also a host that was deleted without us, its finalizer removed by hand.
            ctx.forget(key);
            return Ok(None);
        };
        ctx.memory.keep_only(key, host.metadata.uid.as_deref());
        let begin = ctx.memory.begin(key);
        let seen = observe::at_hand(ctx, &host, &begin);
        ctx.metrics.see(key, seen.stored.as_deref());
        let idle = ctx.memory.idle(key, &begin, &seen, ctx.clock.elapsed());
        let slot = idle.is_none().then(|| SlotGuard::of(ctx.clone(), key.clone()));
        Ok(Some(Pass {
            listed: seen.node.clone(),
            seen,
            key: key.clone(),
            idle,
            then: None,
            _slot: slot,
        }))
    }

    fn decide(pass: &Pass, now: Timestamp) -> Decision {
        match pass.idle {
            Some(left) => Decision::from(Plan {
                next: Next::After(left),
                ..Plan::default()
            }),
            None => decide::decide(&pass.seen, now),
        }
    }

    async fn fetch(&self, pass: &mut Pass, read: Read) -> Result<(), ReconcileError> {
        let fetched = Box::pin(observe::fetch(&self.0, &mut pass.seen, read));
        Ok(on_behalf_of(&pass.key.namespace, fetched).await?)
    }

    async fn apply(&self, pass: &mut Pass, effect: &Effect) -> Result<(), ReconcileError> {
        let ctx = &self.0;
        let applied = Box::pin(apply::apply(ctx, &mut pass.seen, effect));
        let Err(error) = on_behalf_of(&pass.key.namespace, applied).await else {
            if effect.is_ironic_mutation() {
                pass.seen.memory.conflict = None;
            }
            tracing::info!(host = %pass.key, effect = effect.label(), "applied");
            return Ok(());
        };
        if error.class() != Class::Stale {
            tracing::warn!(host = %pass.key, error = %chain(&error), "an effect failed");
        }
        if error.puts_in_doubt() {
            ctx.fleet.doubt();
        }
        pass.seen.learn_failure(effect, &error, ctx.clock.now());
        Err(error.into())
    }

    fn outcome(pass: &Pass, plan: &Plan, effect: &Effect, error: &ReconcileError, now: Timestamp) -> Option<Outcome> {
        let ReconcileError::Apply(error) = error else {
            return None;
        };
        decide::outcome(&pass.seen, plan, effect, error, now)
    }

    async fn report(&self, pass: &mut Pass, report: Report<HostReport>) -> Result<(), ReconcileError> {
        pass.then = report.status.as_ref().map(|told| told.then.clone());
        report::report(&self.0, &pass.key, &mut pass.seen, report).await
    }

    fn refused(&self, pass: &Pass, error: &ReconcileError) -> Report<HostReport> {
        decide::refused(&pass.seen, error, self.0.clock.now())
    }

    fn ended(&self, key: &ObjectKey, pass: Option<&Pass>, done: &Result<Next, ReconcileError>) {
        let Some(pass) = pass.filter(|pass| pass.idle.is_none()) else {
            return;
        };
        let ctx = &self.0;
        let is_ok = done
            .as_ref()
            .map_or_else(|error| matches!(error.class(), Class::Throttled(_)), |_| true);
        ctx.metrics.upstream.reconciled(key, is_ok);
        if let Err(ReconcileError::Observe(ObserveError::Kube(_))) = done {
            ctx.metrics.upstream.unreadable();
        }
        let idle = match (done, &pass.then) {
            // While Ironic fails, retry even if nothing changes.
            (Ok(Next::After(again)), Some(then)) if then.wait().is_none_or(|wait| wait.wake != Wake::Ironic) => {
                let id = pass.seen.stored.as_ref().map_or("", |status| &status.provisioning.id);
                let listed = ctx.fleet.of(id, identity::own_uuid(&pass.seen.host), key);
                Some((ctx.clock.elapsed() + *again, listed))
            }
            _ => None,
        };
        if idle.as_ref().is_some_and(|(_, listed)| is_overtaken(pass, listed)) {
            ctx.fleet.decide_again(key);
        }
        if ctx.memory.end(key, &pass.seen, failures(pass, done), idle) {
            // They may have waited for it, and the node's record in lists does not show it.
            ctx.fleet.tell(key);
        }
    }
}

/// Whether the view changed the host's node during the pass to one that was not decided on. That may not have woken the host: a node
/// with the host's name but no namespace wakes none.
fn is_overtaken(pass: &Pass, listed: &NodeView) -> bool {
    *listed != pass.listed && memory::as_listed(&pass.seen.node).is_some_and(|decided| decided != *listed)
}

/// The number of passes in a row that met trouble. A pass that ended in a conflict does not change it.
fn failures(pass: &Pass, done: &Result<Next, ReconcileError>) -> u32 {
    let before = pass.seen.failures;
    match (done.as_ref().map_err(Classified::class), &pass.then) {
        (Err(Class::Stale | Class::Throttled(_)), _) | (Ok(_), None) => before,
        (Err(_), _) => before.saturating_add(1),
        (Ok(_), Some(then)) if then.is_trouble() => before.saturating_add(1),
        (Ok(_), Some(_)) => 0,
    }
}

#[cfg(test)]
mod tests {
    use metal3_ironic::Node;
    use metal3_runtime::store::Sink as _;
    use serde_json::json;

    use super::super::context::out_of_reach;
    use super::super::plan::{Wait, WaitReason};
    use super::*;
    use crate::fleet::Fleet;

    fn bare() -> Node {
        serde_json::from_value(json!({"uuid": "u", "name": "h", "provision_state": "active"})).unwrap()
    }

    // OWN 29m: the list came while the host was decided on, and the host waited for half an hour.
    #[tokio::test]
    async fn a_host_whose_node_is_listed_while_it_is_decided_on_is_decided_on_again() {
        for comes_late in [true, false] {
            let (mut ctx, _registry) = out_of_reach(1);
            let (fleet, mut woken) = Fleet::new(1);
            ctx.fleet = fleet;
            ctx.hosts_listed(None);
            let key = ObjectKey::new("ns", "h");
            let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                "metadata": {"name": "h", "namespace": "ns", "uid": "1", "resourceVersion": "1"}, "spec": {"online": true}});
            ctx.hosts.put(serde_json::from_value(host).unwrap());
            let hosts = Hosts(Arc::new(ctx));
            let list = |is_listed: bool| hosts.0.fleet.was_listed(is_listed.then(bare).into_iter().collect());
            list(!comes_late);
            let mut pass = hosts.observe(&key).await.unwrap().unwrap();
            let wait = Wait::for_change(WaitReason::NodeNotOurs, "another's");
            pass.then = Some(Then::Wait(wait));
            list(true);
            hosts.ended(&key, Some(&pass), &Ok(Next::After(Duration::from_secs(1800))));
            assert_eq!(woken.try_recv().ok(), comes_late.then_some(key));
        }
    }
}
