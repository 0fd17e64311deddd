//! What triggers a Metal3Data: everything it may wait for.

use kube::ResourceExt;
use metal3_api::capi::Cluster;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::store::{Change, ObjectKey};
use metal3_runtime::work::Queue;

use crate::stores::Stores;
use crate::stores::data::{DataBy, data_of};
use crate::stores::machine::{Metal3MachineBy, host_of};

/// Enqueues the affected Metal3Datas.
pub fn listen(stores: &Stores, queue: &Queue<ObjectKey>) {
    let seen = stores.clone();
    queue.follow(&stores.datas, move |change| {
        let is_ours = change.states().any(|data| seen.is_ours(&**data));
        is_ours.then(|| change.key.clone())
    });
    let datas = stores.datas.clone();
    queue.follow(&stores.data_claims, move |change| {
        datas.names(&DataBy::Claim(change.key.clone()))
    });
    let datas = stores.datas.clone();
    queue.follow(&stores.data_templates, move |change| {
        // If rendering failed, a change to the spec is needed.
        let is_other = change.affects(|template| (template.uid(), template.spec.clone()));
        keys_if(is_other, || datas.names(&DataBy::Template(change.key.clone())))
    });
    let datas = stores.datas.clone();
    queue.follow(&stores.clusters, move |change| {
        let is_other = change.affects(Cluster::is_paused);
        keys_if(is_other, || datas.names(&DataBy::Cluster(change.key.clone())))
    });
    listen_to_machines(stores, queue);
    queue.follow(&stores.ip_claims, owners);
    queue.follow(&stores.ip_address_claims, owners);
    queue.follow(&stores.secrets, owners);
}

/// A data claim has the name of its machine.
fn listen_to_machines(stores: &Stores, queue: &Queue<ObjectKey>) {
    let datas = stores.datas.clone();
    queue.follow(&stores.metal3_machines, move |change| {
        let is_other = change.affects(asked_of_machine);
        keys_if(is_other, || datas.names(&DataBy::Claim(change.key.clone())))
    });
    let datas = stores.datas.clone();
    queue.follow(&stores.machines, move |change| {
        let is_other = change.affects(|machine| machine.annotations().clone());
        let names = change.states().map(|machine| &machine.spec.infrastructure_ref.name);
        let claims = names.map(|name| DataBy::Claim(ObjectKey::new(&change.key.namespace, name)));
        keys_if(is_other, || claims.flat_map(|claim| datas.names(&claim)).collect())
    });
    let (datas, machines) = (stores.datas.clone(), stores.metal3_machines.clone());
    queue.follow(&stores.hosts, move |change| {
        let is_other = change.affects(|host| {
            // An inspection, or an annotation that replaces one, changes its interfaces.
            let status = host.status.as_ref();
            let inspected = status.map(|status| (status.hardware.is_some(), status.operation_history.inspect.clone()));
            (
                inspected,
                host.spec.boot_mac_address.clone(),
                host.annotations().clone(),
            )
        });
        keys_if(is_other, || {
            let machines = machines.names(&Metal3MachineBy::Host(change.key.clone()));
            machines
                .into_iter()
                .flat_map(|machine| datas.names(&DataBy::Claim(machine)))
                .collect()
        })
    });
}

fn asked_of_machine(machine: &Metal3Machine) -> impl PartialEq + use<> {
    (
        host_of(machine),
        machine.spec.data_template.name.clone(),
        machine.owner_references().to_vec(),
        machine.annotations().clone(),
    )
}

fn keys_if(is_so: bool, keys: impl FnOnce() -> Vec<ObjectKey>) -> Vec<ObjectKey> {
    if is_so { keys() } else { Vec::new() }
}

/// The Metal3Datas that own the object.
fn owners<K: ResourceExt>(change: &Change<K>) -> Vec<ObjectKey> {
    change.states().filter_map(|object| data_of(&**object)).collect()
}
