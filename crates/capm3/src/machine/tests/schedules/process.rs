//! A process: what it sees, who waits in it, and whom it is to look at.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use metal3_runtime::controller::Next;
use metal3_runtime::store::{Change, Sink};

use super::*;

/// What may be wrong with a process, so that machines get what is not theirs. The schedules have to find each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It claims hosts whatever has become of them since it judged them.
    ClaimsOverAnyVersion,
    /// It claims hosts that no machine names yet.
    NamesNoHost,
    /// It tells hosts what to run before the status says whose they are.
    DeploysUnreported,
}

pub struct Manager {
    fault: Option<Fault>,
    stores: Stores,
    waiting: Waiting,
    /// Whether hosts are kept for the next machine.
    keeps: bool,
    /// The machines that it was told to look at.
    queue: RefCell<VecDeque<ObjectKey>>,
    /// Those whose last pass has failed: they are looked at again when their back-off is over.
    failed: RefCell<Vec<ObjectKey>>,
}

impl Manager {
    pub fn new(server: &Server, keeps: bool, fault: Option<Fault>) -> Self {
        let stores = Stores::new("");
        let metadata = json!({"namespace": "ns", "name": "c", "resourceVersion": "1", "uid": "c"});
        stores
            .clusters
            .created(serde_json::from_value(server.cluster.clone()).unwrap());
        let ours = json!({"apiVersion": HERE, "kind": "Metal3Cluster", "metadata": metadata, "spec": {}});
        stores.metal3_clusters.created(serde_json::from_value(ours).unwrap());
        for number in 0..MACHINES {
            let machine = json!({"metadata": {"namespace": "ns", "name": format!("m{number}"), "resourceVersion": "1",
                    "labels": {"cluster.x-k8s.io/control-plane": ""},
                    "ownerReferences": [{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
                        "kind": "KubeadmControlPlane", "name": "plane", "uid": "p"}]},
                "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": format!("b{number}")}}});
            stores.machines.created(serde_json::from_value(machine).unwrap());
        }
        Self {
            fault,
            stores,
            waiting: Waiting::default(),
            keeps,
            queue: RefCell::default(),
            failed: RefCell::default(),
        }
    }

    /// The watch shows an object as it is now, and that wakes whom it concerns.
    pub fn sees(&self, server: &Server, is_host: bool, name: &str) {
        let key = ObjectKey::new("ns", name);
        if is_host {
            let before = self.stores.hosts.get(&key);
            let host: BareMetalHost = serde_json::from_value(server.hosts[name].clone()).unwrap();
            self.stores.hosts.created(host);
            let after = self.stores.hosts.get(&key);
            let change = Change { key, before, after };
            if change.affects(|host| host.metadata.resource_version.clone()) {
                self.wake(concerned(&self.stores, &self.waiting, &change));
            }
            return;
        }
        let machines = &self.stores.metal3_machines;
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
        self.stores.clusters.created(cluster);
        self.wake(self.stores.metal3_machines.all());
    }

    pub fn sees_all(&self, server: &Server) {
        for name in server.hosts.keys() {
            self.sees(server, true, name);
        }
        let known = self.stores.metal3_machines.all().into_iter().map(|key| key.name);
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

    /// One pass, which fails after so many writes. The answer to the next one may be lost: it may arrive, late.
    pub fn pass(&self, server: &mut Server, name: &str, writes: usize, is_lost: bool) {
        let key = ObjectKey::new("ns", name);
        self.queue.borrow_mut().retain(|other| *other != key);
        self.waiting.begin(&key, Duration::ZERO);
        let done = match self.plan(server, &key) {
            Some(plan) => self.carry_out(server, &key, plan, writes, is_lost),
            None => Ok(Next::Change),
        };
        match done {
            Err(()) => self.failed.borrow_mut().push(key.clone()),
            // What is reserved is for the next pass.
            Ok(Next::Now | Next::Decide) => return self.wake([key]),
            Ok(Next::Change | Next::After(_)) => {}
        }
        let other = self.waiting.end(&key, &self.stores, done.is_err());
        self.wake_another(&key, other);
        if done.is_err() {
            self.failed.borrow_mut().extend(self.waiting.of("ns"));
        }
    }

    fn wake_another(&self, machine: &ObjectKey, other: Option<ObjectKey>) {
        assert_ne!(other.as_ref(), Some(machine), "nobody is told to wake itself");
        self.wake(other);
    }

    fn plan(&self, server: &Server, key: &ObjectKey) -> Option<Plan> {
        let mut subject = observe(&self.stores, key, false);
        if let Some(Subject::Machine(seen)) = &mut subject
            && self.fault == Some(Fault::DeploysUnreported)
            && matches!(seen.host, Host::Ours(_))
        {
            let status = serde_json::from_value(associated()["status"].clone()).unwrap();
            Arc::make_mut(&mut seen.machine).status = Some(status);
        }
        let plan = subject.as_mut().map(|subject| self.decided(server, key, subject));
        let wants_host = matches!(&subject, Some(Subject::Machine(seen)) if seen.reads.choice.is_some());
        if !wants_host {
            self.waiting.forget(key);
        }
        plan
    }

    fn decided(&self, server: &Server, key: &ObjectKey, subject: &mut Subject) -> Plan {
        loop {
            let read = match decide::decide(subject, now()) {
                Decision::Fetch(read) => read,
                Decision::Act(plan) => return *plan,
            };
            match subject {
                Subject::Machine(seen) => self.fetch(server, key, seen, read),
                Subject::Gone(leftovers) => {
                    let uid = server.machines.get(&key.name);
                    let uid = uid.and_then(|machine| machine["metadata"]["uid"].as_str());
                    leftovers.is_gone = Some(uid.is_none_or(|uid| !leftovers.are_of(Some(uid))));
                }
            }
        }
    }

    fn fetch(&self, server: &Server, key: &ObjectKey, seen: &mut Observed, read: Read) {
        match read {
            Read::Host(request) => {
                let since = waiting::since(&*seen.machine);
                let order = stable_seed(&request.uid);
                let named = seen.host.unclaimed();
                let (choice, other) = self.waiting.choose(&self.stores, &request, named, since, order);
                self.wake_another(key, other);
                seen.reads.choice = Some(choice);
            }
            Read::Secrets(names) => {
                seen.reads.secrets = Some(names.into_iter().map(|name| (name, true)).collect());
            }
            Read::Preview(_) => seen.reads.preview = Some(Preview::Complete),
            Read::Kept => seen.reads.is_kept = Some(self.keeps),
            Read::NamedHost => {
                let name = host_of(&seen.machine).unwrap().name;
                let host = server.hosts.get(&name).cloned();
                let host = host.map(|host| Arc::new(serde_json::from_value(host).unwrap()));
                seen.read_host(&name, host);
            }
            Read::Owner => {}
        }
    }

    /// How it ended.
    fn carry_out(
        &self,
        server: &mut Server,
        key: &ObjectKey,
        plan: Plan,
        writes: usize,
        is_lost: bool,
    ) -> Result<Next, ()> {
        let name = &key.name;
        for (number, effect) in plan.effects.iter().enumerate() {
            let effect = &self.spoiled(effect);
            if number == writes && is_lost {
                Self::lose(server, key, effect);
            }
            if number >= writes || !self.apply(server, key, effect) {
                return Err(());
            }
        }
        if let Some(status) = plan.report.status {
            let version = self
                .stores
                .metal3_machines
                .get(key)
                .and_then(|seen| seen.resource_version());
            let status =
                json!({"status": serde_json::to_value(status).unwrap(), "metadata": {"resourceVersion": version}});
            if plan.effects.len() >= writes || !server.patch(false, name, &status) {
                return Err(());
            }
            self.sees(server, false, name);
        }
        Ok(plan.next)
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

    fn lose(server: &mut Server, key: &ObjectKey, effect: &Effect) {
        match effect {
            Effect::Machine(patch) => server.send(false, &key.name, patch.clone()),
            Effect::Host { host, patch, .. } => server.send(true, host, patch.clone()),
            _ => {}
        }
    }

    fn apply(&self, server: &mut Server, key: &ObjectKey, effect: &Effect) -> bool {
        let name = &key.name;
        match effect {
            Effect::Machine(patch) => {
                let is_done = server.patch(false, name, patch);
                self.sees_if(is_done, server, false, name)
            }
            Effect::Host {
                host, patch, is_claim, ..
            } => {
                let over = &patch["metadata"]["resourceVersion"];
                assert!(!over.is_null(), "no write to a host without a version");
                let is_done = !server.refuses(host) && server.patch(true, host, patch);
                if is_done && *is_claim {
                    self.waiting.forget(key);
                } else if *is_claim && server.refuses(host) {
                    self.waiting.avoid(key, Duration::ZERO);
                }
                self.sees_if(is_done, server, true, host)
            }
            Effect::RemoveFinalizer => {
                let seen = self.stores.metal3_machines.get(key);
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
