//! The Metal3Remediation controller: power cycles the host of an unhealthy machine, and has the machine replaced if that does not
//! help.
//!
//! ```text
//!  observe ─▶ decide (pure) ─▶ apply: one write ─▶ report: one status, events
//!     ▲          │ Fetch
//!     └──────────┘ remediation and host anew, Pods and volumes of the Node, version of the workload cluster
//! ```
//!
//! The phase of a remediation, the annotation of the host, and the Node hold all its progress; the controller keeps none. Each
//! attempt requests one power cycle: by one write to the host, guarded by the version observed after the phase was read again.
//!
//! The kind has no conditions. Waits are reported by events, once for each reason.
//!
//! Metal3RemediationTemplates need no controller: Cluster API reads them, and their status is never written, here or upstream.

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

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::{Api, ResourceExt};
use metal3_api::infra::v1beta2::{Metal3Remediation, Metal3RemediationStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Next, Report};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use parking_lot::Mutex;

use self::decide::{Decision, Effect, Read, decide};
use self::node::Drain;
pub use self::observed::{NodeView, Observed, Over, observe};
use crate::context::Context;
use crate::error::PassError;
use crate::report::report;
use crate::workload::{Unreachable, Workload, Workloads};

/// The controller.
#[derive(Clone)]
pub struct Metal3Remediations {
    ctx: Context,
    workloads: Workloads,
    /// The last reported wait reason of each remediation.
    reported: Arc<Mutex<HashMap<ObjectKey, &'static str>>>,
}

/// The kind, for errors.
const KIND: &str = "Metal3Remediation";

impl Metal3Remediations {
    /// The controller.
    pub fn new(ctx: Context, workloads: Workloads) -> Self {
        Self {
            ctx,
            workloads,
            reported: Arc::default(),
        }
    }

    /// The machine's workload cluster. Not looked up if its Cluster is gone: that would keep it connected for ever.
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

    async fn drain(&self, seen: &Observed) -> Result<Drain, String> {
        let NodeView::Here(node) = &seen.node else {
            return Err("the Node is not there".to_owned());
        };
        look::drain(&self.reachable(seen)?, &node.name_any()).await
    }

    fn reachable(&self, seen: &Observed) -> Result<Workload, String> {
        match self.workload(seen) {
            Some(Ok(workload)) => Ok(workload),
            Some(Err(why)) => Err(why.to_string()),
            None => Err("it cannot be asked any more".to_owned()),
        }
    }

    async fn knows_taint(&self, seen: &Observed) -> Result<bool, String> {
        look::knows_taint(&self.reachable(seen)?).await
    }

    /// Reads the remediation and its host again, compares them with what was observed, and updates the stores.
    async fn is_as_seen(&self, seen: &Observed) -> Result<bool, PassError> {
        let key = seen.key();
        let remediations: Api<Metal3Remediation> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let remediation = remediations.get_opt(&key.name).await;
        let remediation = remediation.map_err(PassError::of("read anew", KIND, &key))?;
        let Some(remediation) = remediation else {
            return Ok(false);
        };
        let mut is_as_seen = remediation.resource_version() == seen.remediation.resource_version();
        self.ctx.stores.remediations.written(remediation);
        if let Some(host) = seen.own_host() {
            let hosts: Api<BareMetalHost> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
            let now = hosts.get_opt(&host.name_any()).await;
            let Some(now) = now.map_err(PassError::of("read the host", KIND, &key))? else {
                return Ok(false);
            };
            is_as_seen &= now.resource_version() == host.resource_version();
            self.ctx.stores.hosts.written(now);
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
        let node = workload.read_node(&name).await;
        let node = node.map_err(PassError::of("read the Node", KIND, &seen.key()))?;
        Ok(node.and_then(|node| node.resource_version()) == version)
    }
}

impl Controller for Metal3Remediations {
    const NAME: &'static str = "metal3remediation";
    type Observed = Observed;
    type Read = Read;
    type Effect = Effect;
    type Status = Metal3RemediationStatus;
    type Error = PassError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        listen::listen(&self.ctx.stores, &self.workloads, queue);
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.stores.remediations.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, PassError> {
        let Some(mut seen) = observe(&self.ctx.stores, key) else {
            return Ok(None);
        };
        seen.node = self.node(&seen);
        seen.reported = self.reported.lock().get(key).copied();
        Ok(Some(seen))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision {
        decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), PassError> {
        match read {
            Read::Fresh => {
                seen.looks.is_fresh = self.is_as_seen(seen).await?;
                seen.looks.is_late = !seen.looks.is_fresh;
            }
            Read::FreshNode => {
                seen.looks.is_node_fresh = self.is_node_as_seen(seen).await?;
                seen.looks.is_late = !seen.looks.is_node_fresh;
            }
            Read::Drain => seen.looks.drain = Some(self.drain(seen).await),
            Read::KnowsTaint => seen.looks.knows_taint = Some(self.knows_taint(seen).await),
        }
        Ok(())
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), PassError> {
        let key = seen.key();
        let workload = self.workload(seen).and_then(Result::ok);
        let applied = apply::apply(&self.ctx, workload.as_ref(), seen, effect).await;
        applied.map_err(PassError::with(effect.label(), effect.object(), KIND, &key))
    }

    async fn report(&self, seen: &mut Observed, new: Report<Metal3RemediationStatus>) -> Result<(), PassError> {
        for event in &new.events {
            tracing::info!(remediation = %seen.key(), reason = event.reason, "{}", event.message);
        }
        report(&self.ctx, &self.ctx.stores.remediations, &mut seen.remediation, new).await
    }

    fn refused(&self, seen: &Observed, error: &PassError) -> Report<Metal3RemediationStatus> {
        let (uid, now) = (seen.remediation.metadata.uid.as_deref(), self.ctx.clock.elapsed());
        Report {
            status: None,
            events: self.ctx.refusals.event(uid, error, now).into_iter().collect(),
        }
    }

    fn ended(&self, key: &ObjectKey, seen: Option<&Observed>, done: &Result<Next, PassError>) {
        let mut reported = self.reported.lock();
        match seen.map(|seen| seen.reported) {
            Some(Some(reason)) => reported.insert(key.clone(), reason),
            Some(None) => None,
            None => reported.remove(key),
        };
        if let (Some(seen), Ok(_)) = (seen, done) {
            self.ctx.succeeded(seen.remediation.metadata.uid.as_deref());
        }
    }
}
