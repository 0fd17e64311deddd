//! A node's record, and how it is rendered.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::conduct::Task;
use crate::drivers::{Interfaces, KINDS};
use crate::words::{Power, State};

/// What stands in place of a secret.
const MASK: &str = "******";

/// A node. The default is a new one.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub uuid: String,
    pub name: Option<String>,
    pub driver: &'static str,
    pub interfaces: Interfaces,
    pub driver_info: Map<String, Value>,
    pub properties: Map<String, Value>,
    pub instance_info: Map<String, Value>,
    pub extra: Map<String, Value>,
    pub network_data: Map<String, Value>,
    pub raid_config: Map<String, Value>,
    pub target_raid_config: Map<String, Value>,
    /// Plain fields that have no effect here.
    pub other: Map<String, Value>,
    pub state: State,
    pub target: Option<State>,
    pub power: Option<Power>,
    pub target_power: Option<Power>,
    pub last_error: Option<String>,
    pub maintenance: bool,
    pub maintenance_reason: Option<String>,
    pub fault: Option<&'static str>,
    pub is_locked: bool,
    pub instance_uuid: Option<String>,
    pub automated_clean: Option<bool>,
    pub disable_power_off: bool,
    pub health: Option<&'static str>,
    pub clean_step: Option<Step>,
    pub deploy_step: Option<Step>,
    pub service_step: Option<Step>,
    pub created: Duration,
    pub updated: Option<Duration>,
    pub provision_updated: Option<Duration>,
    pub inspection_started: Option<Duration>,
    pub inspection_finished: Option<Duration>,
    /// What inspection found.
    pub inventory: Option<Box<Value>>,
    /// The server behind its BMC address, if there is one.
    pub machine: Option<u32>,
    /// When it became idle, or its power change was noticed, until the next API call changes it.
    pub rested: Option<Duration>,
    /// Grows whenever what is planned for the node becomes void.
    pub epoch: u32,
    pub task: Option<Box<Task>>,
}

/// One step of cleaning, deployment or service.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub interface: String,
    pub name: String,
    pub args: Map<String, Value>,
    pub can_abort: bool,
    /// An abort was accepted, and takes effect when the step is done.
    pub abort_after: bool,
}

impl Step {
    /// A step of the agent's.
    pub fn of_agent(interface: &str, step: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            name: step.to_owned(),
            args: Map::new(),
            can_abort: true,
            abort_after: false,
        }
    }

    /// How messages name it.
    pub fn id(&self) -> String {
        format!("{}.{}", self.interface, self.name)
    }

    fn show(&self) -> Value {
        let mut step = json!({
            "interface": self.interface, "step": self.name, "args": self.args, "priority": 0, "abortable": self.can_abort,
            "reboot_requested": false, "requires_ramdisk": true,
        });
        if self.abort_after {
            step["abort_after"] = json!(true);
        }
        step
    }
}

/// Fields of a node by the API version that brought them.
pub(crate) const FIELDS: &[(&str, u16)] = &[
    ("uuid", 1),
    ("name", 5),
    ("power_state", 1),
    ("target_power_state", 1),
    ("provision_state", 1),
    ("target_provision_state", 1),
    ("provision_updated_at", 1),
    ("last_error", 1),
    ("maintenance", 1),
    ("maintenance_reason", 1),
    ("fault", 42),
    ("reservation", 1),
    ("instance_uuid", 1),
    ("driver", 1),
    ("driver_info", 1),
    ("driver_internal_info", 3),
    ("properties", 1),
    ("instance_info", 1),
    ("extra", 1),
    ("network_data", 66),
    ("raid_config", 12),
    ("target_raid_config", 12),
    ("automated_clean", 47),
    ("disable_power_off", 95),
    ("health", 109),
    ("clean_step", 7),
    ("deploy_step", 44),
    ("service_step", 87),
    ("inspection_started_at", 6),
    ("inspection_finished_at", 6),
    ("console_enabled", 1),
    ("conductor", 49),
    ("conductor_group", 46),
    ("traits", 37),
    ("chassis_uuid", 1),
    ("allocation_uuid", 52),
    ("boot_mode", 75),
    ("secure_boot", 75),
    ("bios_interface", 40),
    ("boot_interface", 31),
    ("console_interface", 31),
    ("deploy_interface", 31),
    ("firmware_interface", 86),
    ("inspect_interface", 31),
    ("management_interface", 31),
    ("network_interface", 20),
    ("power_interface", 31),
    ("raid_interface", 31),
    ("rescue_interface", 38),
    ("storage_interface", 33),
    ("vendor_interface", 31),
    ("description", 51),
    ("instance_name", 104),
    ("lessee", 65),
    ("owner", 50),
    ("parent_node", 83),
    ("protected", 48),
    ("protected_reason", 48),
    ("resource_class", 21),
    ("retired", 61),
    ("retired_reason", 61),
    ("shard", 82),
];

impl Node {
    /// One of [`FIELDS`].
    pub fn field(&self, name: &str, clock: &Clock, conductor: &str) -> Value {
        let stamp = |at: Option<Duration>| at.map(|at| clock.stamp(at));
        let step = |step: &Option<Step>| step.as_ref().map_or_else(|| json!({}), Step::show);
        match name {
            "uuid" => json!(self.uuid),
            "name" => json!(self.name),
            "power_state" => json!(self.power.map(Power::as_str)),
            "target_power_state" => json!(self.target_power.map(Power::as_str)),
            "provision_state" => json!(self.state.as_str()),
            "target_provision_state" => json!(self.target.map(State::as_str)),
            "provision_updated_at" => json!(stamp(self.provision_updated)),
            "last_error" => json!(self.last_error),
            "maintenance" => json!(self.maintenance),
            "maintenance_reason" => json!(self.maintenance_reason),
            "fault" => json!(self.fault),
            "reservation" => json!(self.is_locked.then_some(conductor)),
            "instance_uuid" => json!(self.instance_uuid),
            "driver" => json!(self.driver),
            "driver_info" => masked(&self.driver_info, &[]),
            "properties" => json!(self.properties),
            "instance_info" => masked(&self.instance_info, &["configdrive", "image_url"]),
            "extra" => json!(self.extra),
            "network_data" => json!(self.network_data),
            "raid_config" => json!(self.raid_config),
            "target_raid_config" => json!(self.target_raid_config),
            "automated_clean" => json!(self.automated_clean),
            "disable_power_off" => json!(self.disable_power_off),
            "health" => json!(self.health),
            "clean_step" => step(&self.clean_step),
            "deploy_step" => step(&self.deploy_step),
            "service_step" => step(&self.service_step),
            "inspection_started_at" => json!(stamp(self.inspection_started)),
            "inspection_finished_at" => json!(stamp(self.inspection_finished)),
            "driver_internal_info" => json!({}),
            "traits" => json!([]),
            "console_enabled" => json!(false),
            "protected" | "retired" => json!(self.other.get(name).is_some_and(|flag| *flag == true)),
            "conductor" => json!(conductor),
            "conductor_group" => json!(""),
            _ => match interface_kind(name) {
                Some(kind) => json!(self.interfaces[kind]),
                None => self.other.get(name).cloned().unwrap_or_default(),
            },
        }
    }
}

/// The kind of interface that a field `…_interface` holds.
pub(crate) fn interface_kind(field: &str) -> Option<usize> {
    let kind = field.strip_suffix("_interface")?;
    KINDS.iter().position(|known| *known == kind)
}

/// A text without what follows a word such as `token=`.
fn without_secrets(text: &str) -> String {
    let words = ["password=", "secret=", "token="];
    let end = words
        .iter()
        .filter_map(|word| text.find(word).map(|at| at + word.len()))
        .min();
    end.map_or_else(|| text.to_owned(), |end| format!("{}{MASK}", &text[..end]))
}

/// A map without its secrets.
fn masked(map: &Map<String, Value>, whole: &[&str]) -> Value {
    let is_secret = |key: &str| {
        let key = key.to_ascii_lowercase();
        whole.contains(&key.as_str())
            || ["password", "secret", "token", "auth_key", "priv_key"]
                .iter()
                .any(|word| key.contains(word))
    };
    map.iter()
        .map(|(key, value)| {
            let value = match value {
                value if is_secret(key) && !value.is_null() => Value::from(MASK),
                Value::String(text) => Value::from(without_secrets(text)),
                value => value.clone(),
            };
            (key.clone(), value)
        })
        .collect::<Map<_, _>>()
        .into()
}
