//! The history of a cluster's Machines, from watch events. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::Value;

/// Conditions of a Machine in the order in which they come true.
const WAY: [&str; 3] = ["BootstrapConfigReady", "InfrastructureReady", "NodeReady"];

/// Machines by name.
pub type Machines = BTreeMap<String, Machine>;

/// Cluster API's kind.
pub fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Machine"))
}

/// A Machine as a person wants to see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    pub phase: String,
    pub provider_id: Option<String>,
    pub node: Option<String>,
    /// The first condition of its way that is not true, and what it says.
    pub waiting: Option<(String, String)>,
}

impl Machine {
    /// As Cluster API has it.
    pub fn of(object: &DynamicObject) -> Self {
        let text = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let conditions = object.data["status"]["conditions"].as_array();
        let find = |type_: &str| conditions.and_then(|all| all.iter().find(|condition| condition["type"] == type_));
        let missing = WAY
            .iter()
            .filter_map(|type_| find(type_))
            .find(|one| one["status"] != "True");
        let said = |condition: &Value| {
            let message = condition["message"].as_str().unwrap_or_default();
            let type_ = condition["type"].as_str().unwrap_or_default();
            (
                type_.to_owned(),
                message
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .trim_start_matches("* ")
                    .to_owned(),
            )
        };
        Self {
            phase: text("/status/phase").unwrap_or_default(),
            provider_id: text("/spec/providerID"),
            node: text("/status/nodeRef/name"),
            waiting: missing.map(said),
        }
    }

    /// Whether it is a Node.
    pub fn runs(&self) -> bool {
        self.phase == "Running" && self.node.is_some()
    }

    /// The host, by the provider ID `metal3://NAMESPACE/HOST/MACHINE`.
    pub fn host(&self) -> Option<&str> {
        self.provider_id.as_deref()?.rsplit('/').nth(1)
    }

    fn line(&self) -> String {
        let node = self.node.as_ref().map(|node| format!("node {node}"));
        let waiting = self.waiting.as_ref();
        let waiting = waiting.map(|(condition, message)| format!("waits: {condition}: {message}"));
        let parts = [Some(format!("{:<12}", self.phase)), node, waiting];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join("  ").trim_end().to_owned()
    }
}

/// Notes how a Machine is now. A line about it, if a person wants to know.
pub fn see(machines: &mut Machines, object: &DynamicObject) -> Option<String> {
    let now = Machine::of(object);
    let name = object.name_any();
    let key = |machine: &Machine| {
        let waits = machine.waiting.as_ref().map(|(condition, _)| condition.clone());
        (machine.phase.clone(), machine.node.clone(), waits)
    };
    let line = now.line();
    let is_news = machines.get(&name).is_none_or(|before| key(before) != key(&now)) && !now.phase.is_empty();
    machines.insert(name, now);
    is_news.then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn machine(status: &Value) -> DynamicObject {
        let data = json!({"spec": {"providerID": "metal3://metal3/worker-0/m"}, "status": status});
        DynamicObject::new("m", &kind()).data(data)
    }

    #[test]
    fn a_machine_tells_what_it_waits_for_first() {
        let conditions = json!([
            {"type": "NodeReady", "status": "Unknown", "message": "no node"},
            {"type": "InfrastructureReady", "status": "False", "message": "* the host is being provisioned\n* more"},
            {"type": "BootstrapConfigReady", "status": "True", "message": ""},
        ]);
        let mut machines = Machines::new();
        let object = machine(&json!({"phase": "Provisioning", "conditions": conditions}));
        let line = see(&mut machines, &object).unwrap();
        assert_eq!(
            line,
            "Provisioning  waits: InfrastructureReady: the host is being provisioned"
        );
        assert_eq!(see(&mut machines, &object), None, "it is said once");
        assert_eq!(machines["m"].host(), Some("worker-0"));
        assert!(!machines["m"].runs());
    }

    #[test]
    fn a_machine_runs_when_it_is_a_node() {
        let mut machines = Machines::new();
        let line = see(
            &mut machines,
            &machine(&json!({"phase": "Running", "nodeRef": {"name": "worker-0"}})),
        );
        assert_eq!(line.unwrap(), "Running       node worker-0");
        assert!(machines["m"].runs());
    }
}
