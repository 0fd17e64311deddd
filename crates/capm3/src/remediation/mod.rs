//! The Metal3Remediation controller: switches the host of an unhealthy machine off and on again, and has the machine
//! replaced if that does not help.
//!
//! ```text
//!  observe ─▶ decide (pure) ─▶ apply: one write ─▶ report: one status, events
//!     ▲          │ Look
//!     └──────────┘ remediation and host anew, Pods and volumes of the Node, version of the workload cluster
//! ```
//!
//! Where a remediation stands is told by its phase, by the annotation of the host, and by the Node; nothing is remembered
//! here. A power cycle is asked for once in each attempt: by one write to the host, over the version that was judged after
//! the phase had been read anew.
//!
//! The kind has no conditions. What is waited for is told by an event, once for each reason.
//!
//! Metal3RemediationTemplates need nobody: Cluster API reads them, and their status is never written, here or upstream.

mod apply;
pub(crate) mod decide;
pub(crate) mod host;
mod listen;
mod look;
mod machine;
mod node;
mod observed;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::{Api, Resource, ResourceExt};
use metal3_api::infra::v1beta2::{Metal3Remediation, Metal3RemediationStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::controller::{Next, Reconcile};
use metal3_runtime::events::Note;
use metal3_runtime::status;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use self::decide::{Decision, Need, Plan, decide};
pub use self::observed::{NodeView, Observed, Over, observe};
use crate::context::Context;
use crate::error::PassError;
use crate::refusals::Told;
use crate::workload::{Unreachable, Workload, Workloads};

/// The controller.
#[derive(Clone)]
pub struct Metal3Remediations {
    ctx: Context,
    workloads: Workloads,
    /// The reason of the last wait that was told of each remediation.
    told: Arc<Mutex<HashMap<ObjectKey, &'static str>>>,
    refusals: Told,
}

/// Of what it looks after, for errors.
const KIND: &str = "Metal3Remediation";

/// More looks than there are questions would be a loop.
const MOST_LOOKS: usize = 6;

/// What follows a write is done when a watch, or the answer to the write, has shown what came of it, and at the latest then.
const AGAIN: Duration = Duration::from_millis(200);

impl Metal3Remediations {
    /// The controller.
    pub fn new(ctx: Context, workloads: Workloads) -> Self {
        Self {
            ctx,
            workloads,
            told: Arc::default(),
            refusals: Told::default(),
        }
    }

    /// The workload cluster of the machine. One whose Cluster is gone is not asked: that would follow it for ever.
    fn workload(&self, seen: &Observed) -> Option<Result<Workload, Unreachable>> {
        let cluster = seen.cluster.found()?;
        Some(self.workloads.of(&ObjectKey::of(&**cluster)))
    }

    fn node(&self, seen: &Observed) -> NodeView {
        let machine = seen.machine.found();
        let name = machine.map(|machine| machine.status.node_ref.name.as_str());
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return NodeView::Unnamed;
        };
        match self.workload(seen) {
            None => NodeView::Unnamed,
            Some(Err(why)) => NodeView::Unreachable(why),
            Some(Ok(workload)) => {
                let node = workload.nodes.get(&ObjectKey::new("", name));
                node.map_or_else(|| NodeView::Gone(name.to_owned()), NodeView::Here)
            }
        }
    }

    /// Looks at what a decision asks for. False: the watches have been late, and everything is seen anew.
    async fn look(&self, seen: &mut Observed, need: Need) -> Result<bool, PassError> {
        match need {
            Need::Fresh => {
                seen.looks.is_fresh = self.is_as_seen(seen).await?;
                return Ok(seen.looks.is_fresh);
            }
            Need::FreshNode => {
                seen.looks.is_node_fresh = self.is_node_as_seen(seen).await?;
                return Ok(seen.looks.is_node_fresh);
            }
            Need::Drain | Need::KnowsTaint => {}
        }
        let gone = "it cannot be asked any more".to_owned();
        let workload = match self.workload(seen) {
            Some(Ok(workload)) => Ok(workload),
            Some(Err(why)) => Err(why.to_string()),
            None => Err(gone),
        };
        match (need, &seen.node) {
            (Need::Drain, NodeView::Here(node)) => {
                let name = node.name_any();
                seen.looks.drain = Some(match &workload {
                    Ok(workload) => look::drain(workload, &name).await,
                    Err(why) => Err(why.clone()),
                });
            }
            _ => {
                seen.looks.knows_taint = Some(match &workload {
                    Ok(workload) => look::knows_taint(workload).await,
                    Err(why) => Err(why.clone()),
                });
            }
        }
        Ok(true)
    }

    /// Reads the remediation and its host, and tells whether they are as they were seen. The stores show them as they are.
    async fn is_as_seen(&self, seen: &Observed) -> Result<bool, PassError> {
        let key = seen.key();
        let remediations: Api<Metal3Remediation> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let remediation = remediations.get_opt(&key.name).await;
        let remediation = remediation.map_err(PassError::of("read anew", KIND, &key))?;
        let Some(remediation) = remediation else {
            return Ok(false);
        };
        let mut is_as_seen = remediation.resource_version() == seen.remediation.resource_version();
        self.ctx.world.remediations.written(remediation);
        if let Some(host) = seen.own_host() {
            let hosts: Api<BareMetalHost> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
            let now = hosts.get_opt(&host.name_any()).await;
            let Some(now) = now.map_err(PassError::of("read the host", KIND, &key))? else {
                return Ok(false);
            };
            is_as_seen &= now.resource_version() == host.resource_version();
            self.ctx.world.hosts.written(now);
        }
        Ok(is_as_seen)
    }

    /// The same for the Node.
    async fn is_node_as_seen(&self, seen: &Observed) -> Result<bool, PassError> {
        let (name, version) = match &seen.node {
            NodeView::Here(node) => (node.name_any(), node.resource_version()),
            NodeView::Gone(name) => (name.clone(), None),
            NodeView::Unnamed | NodeView::Unreachable(_) => return Ok(true),
        };
        let Some(Ok(workload)) = self.workload(seen) else {
            return Ok(false);
        };
        let node = look::node(&workload, &name).await;
        let node = node.map_err(PassError::of("read the Node", KIND, &seen.key()))?;
        let now = node.as_ref().and_then(ResourceExt::resource_version);
        if let Some(node) = node {
            workload.nodes.written(node);
        }
        Ok(now == version)
    }

    async fn planned_and_done(&self, key: &ObjectKey, seen: &mut Observed) -> Result<Next, PassError> {
        for _ in 0..MOST_LOOKS {
            match decide(seen, self.ctx.clock.now()) {
                Decision::Nothing => return Ok(Next::Change),
                Decision::Do(plan) => return self.carry_out(key, seen, *plan).await,
                Decision::Look(need) => {
                    if !self.look(seen, need).await? {
                        return Ok(Next::After(AGAIN));
                    }
                }
            }
        }
        tracing::error!(remediation = %key, "a decision asks again for what it was given");
        Ok(Next::Change)
    }

    async fn carry_out(&self, key: &ObjectKey, seen: &Observed, plan: Plan) -> Result<Next, PassError> {
        let mut object = (*seen.remediation).clone();
        if let Some(effect) = &plan.effect {
            let workload = self.workload(seen).and_then(Result::ok);
            let applied = apply::apply(&self.ctx, workload.as_ref(), &object, effect).await;
            object = applied.map_err(PassError::with(effect.label(), effect.object(), KIND, key))?;
        }
        let is_written = plan.effect.is_some() | self.store(key, &object, plan.status).await?;
        for note in &plan.notes {
            tracing::info!(remediation = %key, reason = note.reason, "{}", note.message);
            self.ctx.recorder.publish(&object.object_ref(&()), None, note).await;
        }
        if let Some(wait) = &plan.wait {
            self.tell(key, &object, wait).await;
        }
        let left = plan.until.map(|until| until.duration_since(self.ctx.clock.now()));
        let left = left.map(|left| Duration::try_from(left).unwrap_or_default().max(AGAIN));
        Ok(match left {
            _ if is_written => Next::After(AGAIN),
            Some(left) => Next::After(left),
            None => Next::Change,
        })
    }

    /// Whether it was written.
    async fn store(
        &self,
        key: &ObjectKey,
        seen: &Metal3Remediation,
        status: Option<Metal3RemediationStatus>,
    ) -> Result<bool, PassError> {
        let Some(status) = status.filter(|status| seen.status.as_ref() != Some(status)) else {
            return Ok(false);
        };
        let written = status::replace(&self.ctx.client, seen, status).await;
        let written = written.map_err(PassError::of("store the status", KIND, key))?;
        self.ctx.world.remediations.written(written);
        Ok(true)
    }

    /// Tells what is waited for, if that is another thing than before.
    async fn tell(&self, key: &ObjectKey, object: &Metal3Remediation, wait: &Note) {
        let before = {
            let mut told = self.told.lock();
            told.insert(key.clone(), wait.reason)
        };
        if before != Some(wait.reason) {
            tracing::info!(remediation = %key, reason = wait.reason, "{}", wait.message);
            self.ctx.recorder.publish(&object.object_ref(&()), None, wait).await;
        }
    }

    fn forget(&self, key: &ObjectKey) {
        let mut told = self.told.lock();
        told.remove(key);
    }
}

impl Reconcile for Metal3Remediations {
    const NAME: &'static str = "metal3remediation";
    type Error = PassError;

    fn listen(&self, queue: &Queue<ObjectKey>) {
        listen::listen(&self.ctx.world, &self.workloads, queue);
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.world.remediations.all()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, PassError> {
        let Some(mut seen) = observe(&self.ctx.world, key) else {
            self.forget(key);
            return Ok(Next::Change);
        };
        seen.node = self.node(&seen);
        let done = self.planned_and_done(key, &mut seen).await;
        match &done {
            Ok(_) => self.refusals.forget(seen.remediation.metadata.uid.as_deref()),
            Err(error) => {
                let remediation = seen.remediation.object_ref(&());
                self.refusals.hear(&self.ctx, &remediation, error).await;
            }
        }
        done
    }
}
