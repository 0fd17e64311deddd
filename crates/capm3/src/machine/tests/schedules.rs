//! Two managers with views that are late, in any order of steps: one machine has one host, and one host one machine. Machines
//! go and others of their names come, hosts are kept for these or not, others write to hosts, and the cluster is paused.

use std::collections::HashMap;

use kube::ResourceExt;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::store::ObjectKey;
use proptest::prelude::*;

use super::*;
use crate::machine::decide::Need;
use crate::machine::observe;
use crate::machine::waiting::{self, Waiting};
use crate::select::{consumer, stable_seed};
use crate::world::{World, host_of};

const MACHINES: usize = 4;
const HOSTS: usize = 5;

/// What is stored, each object with its version.
#[derive(Default)]
struct Server {
    version: u64,
    machines: HashMap<String, Value>,
    hosts: HashMap<String, Value>,
    /// The one Cluster.
    cluster: Value,
    /// How many machines there have been.
    made: usize,
}

impl Server {
    /// A merge patch over a version: false if it is not the present one.
    fn patch(&mut self, is_host: bool, name: &str, patch: &Value) -> bool {
        let stored = if is_host { &mut self.hosts } else { &mut self.machines };
        let Some(object) = stored.get_mut(name) else {
            return false;
        };
        let over = &patch["metadata"]["resourceVersion"];
        if !over.is_null() && object["metadata"]["resourceVersion"] != *over {
            return false;
        }
        merge(object, patch);
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        true
    }
}

/// One process.
struct Manager {
    world: World,
    waiting: Waiting,
    /// Whether hosts are kept for the next machine.
    keeps: bool,
}

impl Manager {
    fn new(server: &Server, keeps: bool) -> Self {
        let world = World::new("");
        let metadata = json!({"namespace": "ns", "name": "c", "resourceVersion": "1", "uid": "c"});
        world
            .clusters
            .created(serde_json::from_value(server.cluster.clone()).unwrap());
        let ours = json!({"apiVersion": HERE, "kind": "Metal3Cluster", "metadata": metadata, "spec": {}});
        world.metal3_clusters.created(serde_json::from_value(ours).unwrap());
        for number in 0..MACHINES {
            let machine = json!({"metadata": {"namespace": "ns", "name": format!("m{number}"), "resourceVersion": "1",
                    "labels": {"cluster.x-k8s.io/control-plane": ""},
                    "ownerReferences": [{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
                        "kind": "KubeadmControlPlane", "name": "plane", "uid": "p"}]},
                "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": format!("b{number}")}}});
            world.machines.created(serde_json::from_value(machine).unwrap());
        }
        Self {
            world,
            waiting: Waiting::default(),
            keeps,
        }
    }

    /// The watch shows an object as it is now.
    fn sees(&self, server: &Server, is_host: bool, name: &str) {
        let stored = if is_host { &server.hosts } else { &server.machines };
        let Some(object) = stored.get(name).cloned() else {
            return;
        };
        if is_host {
            let host: BareMetalHost = serde_json::from_value(object).unwrap();
            self.world.hosts.created(host.clone());
            self.waiting.offer(&host);
        } else {
            self.world
                .metal3_machines
                .created(serde_json::from_value(object).unwrap());
        }
    }

    fn sees_cluster(&self, server: &Server) {
        let cluster = serde_json::from_value(server.cluster.clone()).unwrap();
        self.world.clusters.created(cluster);
    }

    /// One pass, which is killed after so many writes.
    fn pass(&self, server: &mut Server, name: &str, writes: usize) {
        let key = ObjectKey::new("ns", name);
        if let Some(plan) = self.plan(server, &key) {
            self.carry_out(server, name, plan, writes);
        }
        self.waiting.done(&key, &self.world);
    }

    fn plan(&self, server: &Server, key: &ObjectKey) -> Option<Plan> {
        let mut seen = observe(&self.world, key, false)?;
        let mut wants_host = false;
        loop {
            let decision = decide(&seen, now());
            match decision {
                Decision::Look(Need::Host(wish)) => {
                    wants_host = true;
                    let since = waiting::since(&*seen.machine);
                    let (selection, _) = {
                        let named = seen.host.unclaimed();
                        self.waiting
                            .choose(&self.world, &wish, named, since, stable_seed(&wish.uid))
                    };
                    seen.looks.selection = Some(selection);
                }
                Decision::Look(Need::Secrets(names)) => {
                    seen.looks.secrets = Some(names.into_iter().map(|name| (name, true)).collect());
                }
                Decision::Look(Need::Preview(_)) => seen.looks.preview = Some(Preview::Complete),
                Decision::Look(Need::Kept) => seen.looks.is_kept = Some(self.keeps),
                Decision::Look(Need::FreshHost) => {
                    let name = host_of(&seen.machine).unwrap().name;
                    let host = server.hosts.get(&name).cloned();
                    let host = host.map(|host| Arc::new(serde_json::from_value(host).unwrap()));
                    seen.read_host(&name, host);
                }
                Decision::Nothing | Decision::Do(_) => {
                    if !wants_host {
                        self.waiting.forget(key);
                    }
                    return match decision {
                        Decision::Do(plan) => Some(*plan),
                        _ => None,
                    };
                }
            }
        }
    }

    fn carry_out(&self, server: &mut Server, name: &str, plan: Plan, writes: usize) {
        for effect in plan.effects.iter().take(writes) {
            let is_done = match effect {
                Effect::Machine(patch) => {
                    let is_done = server.patch(false, name, patch);
                    is_done.then(|| self.sees(server, false, name))
                }
                Effect::Host { host, patch, .. } => {
                    assert!(
                        !patch["metadata"]["resourceVersion"].is_null(),
                        "no write to a host without a version"
                    );
                    let is_done = server.patch(true, host, patch);
                    is_done.then(|| self.sees(server, true, host))
                }
                Effect::RemoveFinalizer => {
                    let seen = self.world.metal3_machines.get(&ObjectKey::new("ns", name));
                    let over = json!(seen.and_then(|machine| machine.resource_version()));
                    let is_current = server
                        .machines
                        .get(name)
                        .is_some_and(|m| m["metadata"]["resourceVersion"] == over);
                    is_current.then(|| drop(server.machines.remove(name)))
                }
                _ => Some(()),
            };
            if is_done.is_none() {
                return;
            }
        }
        if let Some(status) = plan.status.filter(|_| plan.effects.len() <= writes) {
            let status = json!({"status": serde_json::to_value(status).unwrap()});
            if server.patch(false, name, &status) {
                self.sees(server, false, name);
            }
        }
    }
}

/// What may happen.
#[derive(Clone, Debug)]
enum Step {
    /// A manager sees a machine or a host.
    Sees(bool, bool, usize),
    /// A manager makes a pass, and is killed after so many writes.
    Pass(bool, usize, usize),
    /// The operator does what a host wants.
    Operate(usize),
    /// A machine is deleted.
    Delete(usize),
    /// Another machine gets the name of one that is gone.
    Create(usize),
    /// Somebody writes to a host.
    Touch(usize),
    /// The cluster is paused, or not any more.
    Pause(bool),
    /// A manager sees that.
    SeesCluster(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>(), 0..HOSTS).prop_map(|(who, is_host, which)| Step::Sees(who, is_host, which)),
        4 => (any::<bool>(), 0..MACHINES, 0..6_usize).prop_map(|(who, which, writes)| Step::Pass(who, which, writes)),
        2 => (0..HOSTS).prop_map(Step::Operate),
        1 => (0..MACHINES).prop_map(Step::Delete),
        1 => (0..MACHINES).prop_map(Step::Create),
        1 => (0..HOSTS).prop_map(Step::Touch),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => any::<bool>().prop_map(Step::SeesCluster),
    ]
}

/// What the operator makes of a host.
fn operate(server: &mut Server, name: &str) {
    let host = &server.hosts[name];
    if host["metadata"]["annotations"]["baremetalhost.metal3.io/paused"].is_string() {
        return;
    }
    let state = if host["spec"]["image"].is_object() {
        "provisioned"
    } else {
        "available"
    };
    let patch = json!({"status": {"provisioning": {"state": state}}});
    server.patch(true, name, &patch);
}

fn check(server: &Server) {
    let mut host_of_machine: HashMap<String, String> = HashMap::new();
    for (name, host) in &server.hosts {
        let host: BareMetalHost = serde_json::from_value(host.clone()).unwrap();
        let Some(consumer) = consumer(&host) else {
            assert!(host.spec.image.is_none(), "{name} runs what nobody has");
            continue;
        };
        if consumer.kind == "Cluster" {
            assert!(host.spec.image.is_none(), "{name} is kept, and runs something");
            continue;
        }
        let other = host_of_machine.insert(consumer.name.clone(), name.clone());
        assert_eq!(other, None, "{} has two hosts", consumer.name);
        if let Some(user_data) = &host.spec.user_data {
            assert_eq!(
                user_data.name.replacen('b', "m", 1),
                consumer.name,
                "{name} runs what another wants"
            );
        }
    }
}

fn create(server: &mut Server, name: &str) {
    server.version += 1;
    server.made += 1;
    let object = json!({"apiVersion": HERE, "kind": "Metal3Machine",
        "metadata": {"namespace": "ns", "name": name, "uid": format!("u{}", server.made),
            "resourceVersion": server.version.to_string(), "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": "o"}]},
        "spec": {"image": {"url": "http://i", "checksum": "a"}}});
    server.machines.insert(name.to_owned(), object);
}

fn pause(server: &mut Server, is_paused: bool) {
    server.version += 1;
    let version = server.version.to_string();
    merge(
        &mut server.cluster,
        &json!({"metadata": {"resourceVersion": version}, "spec": {"paused": is_paused}}),
    );
}

fn server() -> Server {
    let mut server = Server {
        cluster: json!({"metadata": {"namespace": "ns", "name": "c", "resourceVersion": "1", "uid": "c"},
            "status": {"initialization": {"infrastructureProvisioned": true}},
            "spec": {"paused": false, "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                "kind": "Metal3Cluster", "name": "c"}}}),
        ..Server::default()
    };
    for number in 0..MACHINES {
        create(&mut server, &format!("m{number}"));
    }
    for number in 0..HOSTS {
        server.version += 1;
        let name = format!("h{number}");
        let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "spec": {"online": false},
            "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": server.version.to_string()},
            "status": {"provisioning": {"state": "available", "ID": ""}, "errorMessage": ""}});
        server.hosts.insert(name, object);
    }
    server
}

proptest! {
    #[test]
    fn one_machine_has_one_host_whatever_the_order(
        keeps in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut server = server();
        let managers = [Manager::new(&server, keeps), Manager::new(&server, keeps)];
        for step in steps {
            match step {
                Step::Sees(who, is_host, which) => {
                    let name = if is_host { format!("h{which}") } else { format!("m{which}") };
                    managers[usize::from(who)].sees(&server, is_host, &name);
                }
                Step::Pass(who, which, writes) => {
                    managers[usize::from(who)].pass(&mut server, &format!("m{which}"), writes);
                }
                Step::Operate(which) => operate(&mut server, &format!("h{which}")),
                Step::Delete(which) => {
                    let name = format!("m{which}");
                    let has_finalizer = |machine: &Value| machine["metadata"]["finalizers"].is_array();
                    if server.machines.get(&name).is_some_and(has_finalizer) {
                        let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
                        server.patch(false, &name, &gone);
                    } else {
                        server.machines.remove(&name);
                    }
                }
                Step::Create(which) => {
                    let name = format!("m{which}");
                    if !server.machines.contains_key(&name) {
                        create(&mut server, &name);
                    }
                }
                Step::Touch(which) => {
                    let touched = json!({"metadata": {"annotations": {"note": server.version.to_string()}}});
                    server.patch(true, &format!("h{which}"), &touched);
                }
                Step::Pause(is_paused) => pause(&mut server, is_paused),
                Step::SeesCluster(who) => managers[usize::from(who)].sees_cluster(&server),
            }
            check(&server);
        }
        pause(&mut server, false);
        managers[0].sees_cluster(&server);
        // Left alone with all in view, it comes to rest: what is to go is gone, and the rest has its host.
        for _ in 0..12 {
            let hosts: Vec<String> = server.hosts.keys().cloned().collect();
            let machines: Vec<String> = server.machines.keys().cloned().collect();
            for name in &hosts {
                operate(&mut server, name);
            }
            for name in &hosts {
                managers[0].sees(&server, true, name);
            }
            for name in &machines {
                managers[0].sees(&server, false, name);
                managers[0].pass(&mut server, name, usize::MAX);
                check(&server);
            }
        }
        for machine in server.machines.values() {
            let machine: Metal3Machine = serde_json::from_value(machine.clone()).unwrap();
            prop_assert!(machine.metadata.deletion_timestamp.is_none(), "{} does not go", machine.name_any());
            let status = machine.status.clone().unwrap_or_default();
            prop_assert_eq!(status.initialization.provisioned, Some(true), "{}: {:?}", machine.name_any(), status);
            prop_assert!(host_of(&machine).is_some());
        }
        let is_used = |host: &&Value| host["spec"]["consumerRef"]["kind"] == "Metal3Machine";
        let used = server.hosts.values().filter(is_used).count();
        prop_assert_eq!(used, server.machines.len(), "hosts of machines that are gone are free");
    }
}
