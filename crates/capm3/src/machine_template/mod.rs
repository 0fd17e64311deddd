//! The Metal3MachineTemplate controller: how a template has disks cleaned holds for the machines that were made from it
//! before, too.
//!
//! It looks at one machine at a time, so that what one of them refuses keeps no other from its change, and a rollout costs
//! nothing but a comparison for each. Node reuse is not handed on: whether a host is kept is read from the template when its
//! machine goes.

mod decide;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use metal3_api::capi::Cluster;
use metal3_api::capi::names::annotation;
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineTemplate};
use metal3_runtime::controller::{Next, Reconcile};
use metal3_runtime::error::is_not_found;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use self::decide::{Plan, decide};
use crate::context::Context;
use crate::data_template::hold_of;
use crate::error::PassError;
use crate::refusals::Told;
use crate::world::machine::cloned_from;
use crate::world::{Metal3MachineBy, World};

/// The controller. Its keys are those of Metal3Machines.
#[derive(Clone)]
pub struct Metal3MachineTemplates {
    ctx: Context,
    refusals: Told,
}

/// A machine that may be written, and the template that it was made from.
#[derive(Clone, Debug)]
struct Observed {
    machine: Arc<Metal3Machine>,
    template: Arc<Metal3MachineTemplate>,
}

/// Gathers it. Nothing if there is no such machine or template, or if one of them is to be left alone.
fn observe(world: &World, key: &ObjectKey) -> Option<Observed> {
    let machine = world
        .metal3_machines
        .get(key)
        .filter(|machine| world.is_ours(&**machine))?;
    let template = world.templates.get(&cloned_from(&machine)?)?;
    let is_left_alone = template.annotations().contains_key(annotation::PAUSED)
        || machine.annotations().contains_key(annotation::DELETE_FOR_MOVE)
        || hold_of(world, &*machine).is_some();
    (!is_left_alone).then_some(Observed { machine, template })
}

impl Reconcile for Metal3MachineTemplates {
    const NAME: &'static str = "metal3machinetemplate";
    type Error = PassError;

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let world = &self.ctx.world;
        let bell = queue.clone();
        world.metal3_machines.listen(move |change| {
            let asked = |machine: &Metal3Machine| {
                let meta = &machine.metadata;
                let mode = machine.spec.automated_cleaning_mode.clone();
                (mode, meta.annotations.clone(), meta.labels.clone())
            };
            if change.affects(asked) {
                bell.push(change.key.clone());
            }
        });
        let (seen, bell) = (world.clone(), queue.clone());
        world.templates.listen(move |change| {
            let asked = |template: &Metal3MachineTemplate| {
                let mode = template.spec.template.spec.automated_cleaning_mode.clone();
                (mode, template.annotations().contains_key(annotation::PAUSED))
            };
            if change.affects(asked) {
                push_all(&bell, &seen, &Metal3MachineBy::Template(change.key.clone()));
            }
        });
        let (seen, bell) = (world.clone(), queue.clone());
        world.clusters.listen(move |change| {
            if change.affects(Cluster::is_paused) {
                push_all(&bell, &seen, &Metal3MachineBy::Cluster(change.key.clone()));
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.world.metal3_machines.all()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, PassError> {
        let Some(seen) = observe(&self.ctx.world, key) else {
            return Ok(Next::Change);
        };
        let done = match decide(&seen) {
            Some(plan) => self.apply(key, &plan).await,
            None => Ok(()),
        };
        match &done {
            Ok(()) => self.refusals.forget(seen.machine.metadata.uid.as_deref()),
            Err(error) => {
                let machine = seen.machine.object_ref(&());
                self.refusals.hear(&self.ctx, &machine, error).await;
            }
        }
        done.map(|()| Next::Change)
    }
}

impl Metal3MachineTemplates {
    /// The controller.
    pub fn new(ctx: Context) -> Self {
        Self {
            ctx,
            refusals: Told::default(),
        }
    }

    async fn apply(&self, key: &ObjectKey, plan: &Plan) -> Result<(), PassError> {
        let ctx = &self.ctx;
        let machines: Api<Metal3Machine> = Api::namespaced(ctx.client.clone(), &key.namespace);
        let change = Patch::Merge(&plan.patch);
        let machine = match machines.patch(&key.name, &PatchParams::default(), &change).await {
            Ok(machine) => machine,
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(source) => {
                return Err(PassError::of("change spec.automatedCleaningMode", "Metal3Machine", key)(source));
            }
        };
        ctx.world.metal3_machines.written(machine.clone());
        ctx.recorder.publish(&machine.object_ref(&()), None, &plan.note).await;
        Ok(())
    }
}

fn push_all(bell: &Queue<ObjectKey>, world: &World, by: &Metal3MachineBy) {
    for machine in world.metal3_machines.names(by) {
        bell.push(machine);
    }
}
