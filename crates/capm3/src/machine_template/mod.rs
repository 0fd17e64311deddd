//! The Metal3MachineTemplate controller: copies a template's disk cleaning mode to the machines already created from it.
//!
//! A pass handles one machine, so that a rejected machine does not block the others, and a rollout costs only one comparison per
//! machine. Node reuse is not copied: it is read from the template when a machine is deleted.

mod decide;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use metal3_api::capi::Cluster;
use metal3_api::capi::names::annotation;
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineTemplate};
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Decision, Next, Report};
use metal3_runtime::store::{ObjectKey, Store};
use metal3_runtime::work::Queue;

use self::decide::{Change, decide};
use crate::context::Context;
use crate::data_template::hold_of;
use crate::error::PassError;
use crate::refusals::Refusals;
use crate::stores::machine::cloned_from;
use crate::stores::{Metal3MachineBy, Stores};

/// The controller. Its keys are those of Metal3Machines.
#[derive(Clone)]
pub struct Metal3MachineTemplates {
    ctx: Context,
    refusals: Refusals,
}

/// A machine, and the template it was created from.
#[derive(Clone, Debug)]
pub struct Observed {
    machine: Arc<Metal3Machine>,
    template: Arc<Metal3MachineTemplate>,
}

/// Gathers the observed state. `None` if the machine or template does not exist or is paused.
fn observe(stores: &Stores, key: &ObjectKey) -> Option<Observed> {
    let machine = stores
        .metal3_machines
        .get(key)
        .filter(|machine| stores.is_ours(&**machine))?;
    let template = stores.templates.get(&cloned_from(&machine)?)?;
    let is_left_alone = template.annotations().contains_key(annotation::PAUSED)
        || machine.annotations().contains_key(annotation::DELETE_FOR_MOVE)
        || hold_of(stores, &*machine).is_some();
    (!is_left_alone).then_some(Observed { machine, template })
}

impl Controller for Metal3MachineTemplates {
    const NAME: &'static str = "metal3machinetemplate";
    type Observed = Observed;
    type Read = Infallible;
    type Effect = Change;
    type Status = ();
    type Error = PassError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let stores = &self.ctx.stores;
        let of_machine = queue.clone();
        stores.metal3_machines.listen(move |change| {
            let read = |machine: &Metal3Machine| {
                let meta = &machine.metadata;
                let mode = machine.spec.automated_cleaning_mode.clone();
                (mode, meta.annotations.clone(), meta.labels.clone())
            };
            if change.affects(read) {
                of_machine.push(change.key.clone());
            }
        });
        let (machines, of_template) = (stores.metal3_machines.clone(), queue.clone());
        stores.templates.listen(move |change| {
            let read = |template: &Metal3MachineTemplate| {
                let mode = template.spec.template.spec.automated_cleaning_mode.clone();
                (mode, template.annotations().contains_key(annotation::PAUSED))
            };
            if change.affects(read) {
                push_all(&of_template, &machines, &Metal3MachineBy::Template(change.key.clone()));
            }
        });
        let (machines, of_cluster) = (stores.metal3_machines.clone(), queue.clone());
        stores.clusters.listen(move |change| {
            if change.affects(Cluster::is_paused) {
                push_all(&of_cluster, &machines, &Metal3MachineBy::Cluster(change.key.clone()));
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.stores.metal3_machines.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, PassError> {
        Ok(observe(&self.ctx.stores, key))
    }

    fn decide(seen: &Observed, _: Timestamp) -> Decision<Infallible, Change, ()> {
        decide(seen)
    }

    async fn fetch(&self, _: &mut Observed, read: Infallible) -> Result<(), PassError> {
        match read {}
    }

    async fn apply(&self, seen: &mut Observed, Change(patch): &Change) -> Result<(), PassError> {
        let key = ObjectKey::of(&*seen.machine);
        let machines: Api<Metal3Machine> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let written = machines
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        let written = written.map_err(PassError::of(
            "change spec.automatedCleaningMode",
            "Metal3Machine",
            &key,
        ))?;
        self.ctx.stores.metal3_machines.written(written);
        Ok(())
    }

    async fn report(&self, seen: &mut Observed, report: Report<()>) -> Result<(), PassError> {
        let regarding = seen.machine.object_ref(&());
        for event in &report.events {
            self.ctx.recorder.publish(&regarding, None, event).await;
        }
        Ok(())
    }

    fn refused(&self, seen: &Observed, error: &PassError) -> Report<()> {
        let uid = seen.machine.metadata.uid.as_deref();
        let event = self.refusals.event(uid, error, self.ctx.clock.elapsed());
        Report {
            status: None,
            events: event.into_iter().collect(),
        }
    }

    fn ended(&self, _: &ObjectKey, seen: Option<&Observed>, done: &Result<Next, PassError>) {
        if let (Some(seen), Ok(_)) = (seen, done) {
            self.refusals.succeeded(seen.machine.metadata.uid.as_deref());
        }
    }
}

impl Metal3MachineTemplates {
    /// The controller.
    pub fn new(ctx: Context) -> Self {
        Self {
            ctx,
            refusals: Refusals::default(),
        }
    }
}

fn push_all(queue: &Queue<ObjectKey>, machines: &Store<Metal3Machine, Metal3MachineBy>, by: &Metal3MachineBy) {
    for machine in machines.names(by) {
        queue.push(machine);
    }
}
