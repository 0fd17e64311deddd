//! What wakes a Metal3Data: everything that it may wait for.

use kube::ResourceExt;
use metal3_api::capi::Cluster;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use crate::world::World;
use crate::world::data::{DataBy, data_of};
use crate::world::machine::{Metal3MachineBy, host_of};

/// Tells the queue.
pub fn listen(world: &World, queue: &Queue<ObjectKey>) {
    let (seen, bell) = (world.clone(), queue.clone());
    world.datas.listen(move |change| {
        let is_ours = change.states().any(|data| seen.is_ours(&**data));
        if is_ours {
            bell.push(change.key.clone());
        }
    });
    let wake = waker(world, queue);
    world
        .data_claims
        .listen(move |change| wake(DataBy::Claim(change.key.clone())));
    let wake = waker(world, queue);
    world.data_templates.listen(move |change| {
        // What cannot be rendered asks for another specification.
        if change.affects(|template| (template.uid(), template.spec.clone())) {
            wake(DataBy::Template(change.key.clone()));
        }
    });
    let wake = waker(world, queue);
    world.clusters.listen(move |change| {
        if change.affects(Cluster::is_paused) {
            wake(DataBy::Cluster(change.key.clone()));
        }
    });
    // A claim has the name of its machine.
    let wake = waker(world, queue);
    world.metal3_machines.listen(move |change| {
        let matters = |machine: &Metal3Machine| {
            let template = machine.spec.data_template.name.clone();
            (
                host_of(machine),
                template,
                machine.owner_references().to_vec(),
                machine.annotations().clone(),
            )
        };
        if change.affects(matters) {
            wake(DataBy::Claim(change.key.clone()));
        }
    });
    let wake = waker(world, queue);
    world.machines.listen(move |change| {
        if change.affects(|machine| machine.annotations().clone()) {
            for machine in change.states() {
                let name = &machine.spec.infrastructure_ref.name;
                wake(DataBy::Claim(ObjectKey::new(&change.key.namespace, name)));
            }
        }
    });
    let (wake, seen) = (waker(world, queue), world.clone());
    world.hosts.listen(move |change| {
        let is_other = change.affects(|host| {
            // Its interfaces are others after an inspection, or after an annotation that stands for one.
            let status = host.status.as_ref();
            let inspected = status.map(|status| (status.hardware.is_some(), status.operation_history.inspect.clone()));
            (
                inspected,
                host.spec.boot_mac_address.clone(),
                host.annotations().clone(),
            )
        });
        if is_other {
            for machine in seen.metal3_machines.names(&Metal3MachineBy::Host(change.key.clone())) {
                wake(DataBy::Claim(machine));
            }
        }
    });
    let bell = queue.clone();
    world.ip_claims.listen(move |change| {
        for key in change.states().filter_map(|claim| data_of(&**claim)) {
            bell.push(key);
        }
    });
    let bell = queue.clone();
    world.ip_address_claims.listen(move |change| {
        for key in change.states().filter_map(|claim| data_of(&**claim)) {
            bell.push(key);
        }
    });
    let bell = queue.clone();
    world.secrets.listen(move |change| {
        for key in change.states().filter_map(|secret| data_of(&**secret)) {
            bell.push(key);
        }
    });
}

/// Wakes the Metal3Datas that have a key.
fn waker(world: &World, queue: &Queue<ObjectKey>) -> impl Fn(DataBy) + Send + Sync + 'static {
    let (datas, bell) = (world.datas.clone(), queue.clone());
    move |by| {
        for key in datas.names(&by) {
            bell.push(key);
        }
    }
}
