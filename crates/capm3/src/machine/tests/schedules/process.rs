//! A process: what it sees, who waits in it, and whom it is to look at.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use metal3_runtime::store::{Change, Sink};

use super::*;

/// What may be wrong with a process, so that machines get what is not theirs. The schedules have to find each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It claims hosts whatever has become of them since it judged them.
    ClaimsOverAnyVersion,
    /// It claims hosts that no machine names yet.
    NamesNoHost,
    /// It names another host although the claim of another process may be under way.
    TrustsItsMemory,
}

pub struct Manager {
    fault: Option<Fault>,
    world: World,
    waiting: Waiting,
    claims: RefCell<Claims>,
    /// Whether hosts are kept for the next machine.
    keeps: bool,
    /// The machines that it was told to look at.
    queue: RefCell<VecDeque<ObjectKey>>,
    /// Those whose last pass has failed: they are looked at again when their back-off is over.
    failed: RefCell<Vec<ObjectKey>>,
}

impl Manager {
    pub fn new(server: &Server, keeps: bool, fault: Option<Fault>) -> Self {
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
            fault,
            world,
            waiting: Waiting::default(),
            claims: RefCell::default(),
            keeps,
            queue: RefCell::default(),
            failed: RefCell::default(),
        }
    }

    /// The watch shows an object as it is now, and that wakes whom it concerns.
    pub fn sees(&self, server: &Server, is_host: bool, name: &str) {
        let key = ObjectKey::new("ns", name);
        if is_host {
            let before = self.world.hosts.get(&key);
            let host: BareMetalHost = serde_json::from_value(server.hosts[name].clone()).unwrap();
            self.world.hosts.created(host);
            let after = self.world.hosts.get(&key);
            let change = Change { key, before, after };
            if change.affects(|host| host.metadata.resource_version.clone()) {
                self.wake(concerned(&self.world, &self.waiting, &change));
            }
            return;
        }
        let machines = &self.world.metal3_machines;
        let version = || machines.get(&key).and_then(|machine| machine.resource_version());
        let before = version();
        match (server.machines.get(name), machines.get(&key)) {
            (Some(machine), _) => machines.created(serde_json::from_value(machine.clone()).unwrap()),
            (None, Some(gone)) => machines.remove(&key, &gone.uid().unwrap_or_default()),
            (None, None) => {}
        }
        if version() != before {
            self.wake([key]);
        }
    }

    pub fn sees_cluster(&self, server: &Server) {
        let cluster = serde_json::from_value(server.cluster.clone()).unwrap();
        self.world.clusters.created(cluster);
        self.wake(self.world.metal3_machines.all());
    }

    pub fn sees_all(&self, server: &Server) {
        for name in server.hosts.keys() {
            self.sees(server, true, name);
        }
        let known = self.world.metal3_machines.all().into_iter().map(|key| key.name);
        let names: BTreeSet<String> = server.machines.keys().cloned().chain(known).collect();
        for name in names {
            self.sees(server, false, &name);
        }
    }

    fn wake(&self, machines: impl IntoIterator<Item = ObjectKey>) {
        let mut queue = self.queue.borrow_mut();
        for machine in machines {
            if !queue.contains(&machine) {
                queue.push_back(machine);
            }
        }
    }

    /// The next one that is to be looked at.
    pub fn next(&self) -> Option<ObjectKey> {
        self.queue.borrow_mut().pop_front()
    }

    /// The back-off of those whose passes have failed is over. Whether there are any.
    pub fn tries_again(&self) -> bool {
        let failed = self.failed.take();
        let is_any = !failed.is_empty();
        self.wake(failed);
        is_any
    }

    /// Who may have claimed what the machine names, as far as it knows.
    pub fn claimant(&self, machine: &Metal3Machine) -> Claimant {
        self.claims.borrow().of(machine)
    }

    /// It knows no more what it has named and claimed.
    pub fn forget(&self) {
        self.claims.take();
    }

    /// One pass, which fails after so many writes. The answer to the next one may be lost: it may arrive, late.
    pub fn pass(&self, server: &mut Server, name: &str, writes: usize, is_lost: bool) {
        let key = ObjectKey::new("ns", name);
        self.queue.borrow_mut().retain(|other| *other != key);
        self.waiting.begin(&key, Duration::ZERO);
        let is_done = match self.plan(server, &key) {
            Some(plan) => self.carry_out(server, &key, plan, writes, is_lost),
            None => true,
        };
        if !is_done {
            self.failed.borrow_mut().push(key.clone());
        }
        let other = self.waiting.done(&key, &self.world);
        self.wake_another(&key, other);
    }

    fn wake_another(&self, machine: &ObjectKey, other: Option<ObjectKey>) {
        assert_ne!(other.as_ref(), Some(machine), "nobody is told to wake itself");
        self.wake(other);
    }

    fn plan(&self, server: &Server, key: &ObjectKey) -> Option<Plan> {
        let Some(mut seen) = observe(&self.world, key, false) else {
            self.waiting.forget(key);
            self.claims.borrow().forget(key);
            return None;
        };
        seen.claimant = self.claims.borrow().of(&seen.machine);
        if self.fault == Some(Fault::TrustsItsMemory) {
            seen.claimant = Claimant::Us(None);
        }
        let mut wants_host = false;
        loop {
            let decision = decide(&seen, now());
            match decision {
                Decision::Look(Need::Host(wish)) => {
                    wants_host = true;
                    let since = waiting::since(&*seen.machine);
                    let order = stable_seed(&wish.uid);
                    let named = seen.host.unclaimed();
                    let (selection, other) = self.waiting.choose(&self.world, &wish, named, since, order);
                    self.wake_another(key, other);
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

    /// Whether all of it was done.
    fn carry_out(&self, server: &mut Server, key: &ObjectKey, plan: Plan, writes: usize, is_lost: bool) -> bool {
        let name = &key.name;
        for (number, effect) in plan.effects.iter().enumerate() {
            if number == writes && is_lost {
                self.lose(server, key, effect);
            }
            let effect = &self.spoiled(effect);
            if number >= writes || !self.apply(server, key, effect) {
                return false;
            }
        }
        match (plan.status, plan.patience) {
            // It is told later.
            (Some(_), Some(_)) => self.wake([key.clone()]),
            (Some(status), None) => {
                let status = json!({"status": serde_json::to_value(status).unwrap()});
                if plan.effects.len() >= writes || !server.patch(false, name, &status) {
                    return false;
                }
                self.sees(server, false, name);
            }
            (None, _) => {}
        }
        if plan.is_again {
            self.wake([key.clone()]);
        }
        true
    }

    /// The effect as the fault of the process has it.
    fn spoiled(&self, effect: &Effect) -> Effect {
        let mut effect = effect.clone();
        match (self.fault, &mut effect) {
            (
                Some(Fault::ClaimsOverAnyVersion),
                Effect::Host {
                    patch, is_claim: true, ..
                },
            ) => {
                patch["metadata"]["resourceVersion"] = json!("any");
            }
            (Some(Fault::NamesNoHost), Effect::Machine(patch)) => {
                patch["metadata"]["annotations"] = json!({});
            }
            _ => {}
        }
        effect
    }

    fn lose(&self, server: &mut Server, key: &ObjectKey, effect: &Effect) {
        match effect {
            Effect::Machine(patch) => server.send(false, &key.name, patch.clone()),
            Effect::Host { host, patch, .. } => {
                if let Some(version) = effect.claimed_over() {
                    self.claims.borrow().send(key, version);
                }
                server.send(true, host, patch.clone());
            }
            _ => {}
        }
    }

    fn apply(&self, server: &mut Server, key: &ObjectKey, effect: &Effect) -> bool {
        let name = &key.name;
        match effect {
            Effect::Machine(patch) => {
                let before = self.world.metal3_machines.get(key).unwrap();
                let is_done = server.patch(false, name, patch);
                self.sees_if(is_done, server, false, name);
                if is_done {
                    let after = self.world.metal3_machines.get(key).unwrap();
                    self.claims.borrow().wrote(&before, &after);
                }
                is_done
            }
            Effect::Host {
                host, patch, is_claim, ..
            } => {
                let over = &patch["metadata"]["resourceVersion"];
                assert!(!over.is_null(), "no write to a host without a version");
                let is_only = effect
                    .claimed_over()
                    .map(|version| self.claims.borrow().send(key, version));
                let is_done = !server.refuses(host) && server.patch(true, host, patch);
                if is_only == Some(true) && !is_done {
                    self.claims.borrow().was_not_written(key);
                }
                if is_done && *is_claim {
                    self.waiting.forget(key);
                    self.claims.borrow().forget(key);
                } else if *is_claim && server.refuses(host) {
                    self.waiting.refused(key);
                    self.waiting.avoid(key, Duration::ZERO);
                }
                self.sees_if(is_done, server, true, host)
            }
            Effect::RemoveFinalizer => {
                let seen = self.world.metal3_machines.get(key);
                let over = json!(seen.and_then(|machine| machine.resource_version()));
                let stored = server.machines.get(name);
                let is_done = stored.is_some_and(|machine| machine["metadata"]["resourceVersion"] == over);
                if is_done {
                    server.machines.remove(name);
                }
                self.sees_if(is_done, server, false, name)
            }
            _ => true,
        }
    }

    /// The answer to a write shows what was written.
    fn sees_if(&self, is_done: bool, server: &Server, is_host: bool, name: &str) -> bool {
        if is_done {
            self.sees(server, is_host, name);
        }
        is_done
    }
}
