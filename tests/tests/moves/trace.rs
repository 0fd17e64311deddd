//! What happened to an environment's servers between two moments, as Ironic and the servers themselves tell it.

use std::collections::BTreeMap;

use metal3_lab::ironic::{Machine, Mark, Request, count};
use metal3_scenarios::TestEnv;
use serde_json::{Map, Value};

/// Of a node, what any work on it would change.
const OF_WORK: [&str; 14] = [
    "uuid",
    "name",
    "created_at",
    "provision_state",
    "target_provision_state",
    "provision_updated_at",
    "power_state",
    "target_power_state",
    "inspection_finished_at",
    "inspection_started_at",
    "instance_info",
    "instance_uuid",
    "maintenance",
    "last_error",
];

/// The servers as they were.
pub struct Trace {
    nodes: BTreeMap<String, Value>,
    machines: Vec<Machine>,
    requests: Mark,
    moments: Mark,
}

impl Trace {
    /// Remembers how things are.
    pub async fn begin(env: &TestEnv) -> Self {
        Self {
            nodes: nodes(env).await,
            machines: machines(env).await,
            requests: env.ironic.requests(Mark::default()).unwrap().1,
            moments: env.ironic.moments(Mark::default()).unwrap().1,
        }
    }

    /// Expects that nothing was done to any server since then: nothing was registered, inspected, cleaned, deployed or
    /// switched. All that Ironic may have been told is whom each node belongs to, with its credentials, which are in a new Secret.
    /// Before that it has asked each BMC once, through a node that was made for it, whether it accepts them.
    pub async fn expect_untouched(&self, env: &TestEnv) {
        let (requests, _) = env.ironic.requests(self.requests).unwrap();
        // While Ironic looks at a server's power, it refuses changes of the node. They are tried again.
        let is_refused = |request: &Request| request.status == 409;
        let is_change =
            |request: &&Request| !request.is_of_a_ramdisk() && request.method != "GET" && !is_refused(request);
        let changes = count(requests.iter().filter(is_change));
        let calls = ["POST /v1/nodes", "DELETE /v1/nodes/{id}", "PATCH /v1/nodes/{id}"];
        let told: BTreeMap<_, _> = calls.map(|call| (call.to_owned(), self.nodes.len() as u64)).into();
        println!("Ironic was told {changes:?}");
        assert_eq!(changes, told, "what Ironic was told");

        assert_eq!(nodes(env).await, self.nodes, "Ironic's nodes with their history");
        let (moments, _) = env.ironic.moments(self.moments).unwrap();
        let ours = moments.iter().filter(|moment| self.nodes.contains_key(&moment.node));
        for moment in ours {
            let before = &self.nodes[&moment.node];
            let seen = [&moment.provision_state, &moment.power_state].map(Option::as_deref);
            let same = ["provision_state", "power_state"].map(|field| before[field].as_str());
            assert_eq!(seen, same, "in between, node {} was {moment:?}", moment.node);
            assert_eq!(
                (&moment.target_provision_state, &moment.target_power_state),
                (&None, &None)
            );
        }
        assert_eq!(machines(env).await, self.machines, "the servers");
    }
}

/// The nodes by their UUID, with what Ironic has noted down of their past.
async fn nodes(env: &TestEnv) -> BTreeMap<String, Value> {
    let mut nodes = BTreeMap::new();
    for node in env.nodes().await {
        let uuid = node["uuid"].as_str().unwrap().to_owned();
        let kept = OF_WORK.map(|field| (field.to_owned(), node[field].clone()));
        let mut kept: Map<String, Value> = kept.into_iter().collect();
        let history = env.ask_ironic(&format!("/v1/nodes/{uuid}/history")).await;
        kept.insert("history".to_owned(), history["history"].clone());
        let ports = env.ask_ironic(&format!("/v1/nodes/{uuid}/ports")).await;
        kept.insert("ports".to_owned(), ports["ports"].clone());
        nodes.insert(uuid, Value::Object(kept));
    }
    nodes
}

/// The servers, without how often they were merely looked at.
async fn machines(env: &TestEnv) -> Vec<Machine> {
    let mut machines = env.ironic.machines().await.unwrap();
    for machine in &mut machines {
        // Ironic reads them all the time, and logs in for that.
        let is_work = |request: &String| !request.starts_with("GET ") && !request.ends_with("/Sessions");
        machine.counters.bmc_requests.retain(|request, _| is_work(request));
    }
    machines
}
