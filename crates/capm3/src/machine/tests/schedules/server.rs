//! What is stored, each object with its version.

use super::*;

/// The API server.
#[derive(Default)]
pub struct Server {
    pub version: u64,
    pub machines: BTreeMap<String, Value>,
    pub hosts: BTreeMap<String, Value>,
    /// The one Cluster.
    pub cluster: Value,
    /// Whether it refuses all writes to hosts.
    pub is_strict: bool,
    /// It refuses all writes to this host.
    pub protected: Option<String>,
    /// Writes that were sent and not answered yet: whether to a host, its name and the patch.
    under_way: Vec<(bool, String, Value)>,
    /// How many machines there have been.
    made: usize,
}

impl Server {
    /// Machines that want hosts, and hosts that are free.
    pub fn new() -> Self {
        let mut server = Self {
            cluster: json!({"metadata": {"namespace": "ns", "name": "c", "resourceVersion": "1", "uid": "c"},
                "status": {"initialization": {"infrastructureProvisioned": true}},
                "spec": {"paused": false, "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                    "kind": "Metal3Cluster", "name": "c"}}}),
            ..Self::default()
        };
        for number in 0..MACHINES {
            server.create(&format!("m{number}"));
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

    pub fn create(&mut self, name: &str) {
        self.version += 1;
        self.made += 1;
        let object = json!({"apiVersion": HERE, "kind": "Metal3Machine",
            "metadata": {"namespace": "ns", "name": name, "uid": format!("u{}", self.made),
                "resourceVersion": self.version.to_string(), "labels": {"cluster.x-k8s.io/cluster-name": "c"},
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": "o"}]},
            "spec": {"image": {"url": "http://i", "checksum": "a"}}});
        self.machines.insert(name.to_owned(), object);
    }

    pub fn delete(&mut self, name: &str) {
        let has_finalizer = |machine: &Value| machine["metadata"]["finalizers"].is_array();
        if self.machines.get(name).is_some_and(has_finalizer) {
            let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
            self.patch(false, name, &gone);
        } else {
            self.machines.remove(name);
        }
    }

    pub fn pause(&mut self, is_paused: bool) {
        self.version += 1;
        let version = self.version.to_string();
        merge(
            &mut self.cluster,
            &json!({"metadata": {"resourceVersion": version}, "spec": {"paused": is_paused}}),
        );
    }

    pub fn touch(&mut self, host: &str) {
        let touched = json!({"metadata": {"annotations": {"note": self.version.to_string()}}});
        self.patch(true, host, &touched);
    }

    /// Whether it refuses to write to this host.
    pub fn refuses(&self, host: &str) -> bool {
        self.is_strict || self.protected.as_deref() == Some(host)
    }

    /// A write is sent. Who has sent it does not hear what comes of it.
    pub fn send(&mut self, is_host: bool, name: &str, patch: Value) {
        self.under_way.push((is_host, name.to_owned(), patch));
    }

    /// One of the writes that are under way arrives. Whether there was any.
    pub fn arrive(&mut self, which: usize) -> bool {
        let Some(which) = which.checked_rem(self.under_way.len()) else {
            return false;
        };
        let (is_host, name, patch) = self.under_way.remove(which);
        if !is_host || !self.refuses(&name) {
            self.patch(is_host, &name, &patch);
        }
        true
    }

    /// A merge patch over a version: false if it is not the present one. What changes nothing makes no version.
    pub fn patch(&mut self, is_host: bool, name: &str, patch: &Value) -> bool {
        let stored = if is_host { &mut self.hosts } else { &mut self.machines };
        let Some(object) = stored.get_mut(name) else {
            return false;
        };
        let over = &patch["metadata"]["resourceVersion"];
        // "any" is what a process writes over that looks at no version.
        if !over.is_null() && over != "any" && object["metadata"]["resourceVersion"] != *over {
            return false;
        }
        let before = object.clone();
        merge(object, patch);
        if *object != before {
            self.version += 1;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
        let (before, after) = (user(&before).cloned(), user(object).cloned());
        if is_host && before != after && after.is_some() {
            let is_robbed = |machine: &&Value| Some(&machine["metadata"]["uid"]) == before.as_ref();
            assert_eq!(self.machines.values().find(is_robbed), None, "{name} is taken away");
        }
        true
    }

    /// What the operator makes of a host.
    pub fn operate(&mut self, name: &str) {
        let is_told = self.hosts[name]["spec"]["image"].is_object();
        self.become_state(name, if is_told { "provisioned" } else { "available" });
    }

    /// The operator has something to do with a host that runs nothing, before it is available again.
    pub fn prepare(&mut self, name: &str) {
        let host = &self.hosts[name];
        if !host["spec"]["image"].is_object() && host["status"]["provisioning"]["state"] == "available" {
            self.become_state(name, "preparing");
        }
    }

    fn become_state(&mut self, name: &str, state: &str) {
        if !self.hosts[name]["metadata"]["annotations"]["baremetalhost.metal3.io/paused"].is_string() {
            let patch = json!({"status": {"provisioning": {"state": state}}});
            self.patch(true, name, &patch);
        }
    }

    /// No host is deployed that its machine does not name, and what runs is what that machine wants.
    pub fn check(&self) {
        for (name, host) in &self.hosts {
            let host: BareMetalHost = serde_json::from_value(host.clone()).unwrap();
            if host.spec.image.is_none() {
                continue;
            }
            let user = host.consumer().unwrap_or_else(|| panic!("{name} runs what nobody has"));
            let machine = self.machines.get(&user.name).cloned().unwrap_or_default();
            let named = &machine["metadata"]["annotations"]["metal3.io/BareMetalHost"];
            assert_eq!(*named, format!("ns/{name}"), "{name} is not named by {}", user.name);
            assert_eq!(
                machine["metadata"]["uid"], user.uid,
                "{name} is not named by this {}",
                user.name
            );
            let user_data = host
                .spec
                .user_data
                .as_ref()
                .map(|secret| secret.name.replacen('b', "m", 1));
            assert_eq!(user_data.as_ref(), Some(&user.name), "{name} runs what another wants");
        }
    }
}

/// The UID of the machine that uses a host.
fn user(host: &Value) -> Option<&Value> {
    let consumer = &host["spec"]["consumerRef"];
    (consumer["kind"] == "Metal3Machine").then(|| &consumer["uid"])
}
