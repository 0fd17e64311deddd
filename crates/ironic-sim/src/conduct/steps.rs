//! The effects of steps on a server.

use serde_json::{Value, json};

use crate::node::Step;
use crate::world::World;

impl World {
    /// The effect of a step that was done.
    pub(super) fn apply_step(&mut self, number: u32, step: &Step) {
        match (step.interface.as_str(), step.name.as_str()) {
            ("bios", "apply_configuration")
                if self.faults_of(number).is_some_and(|faults| faults.settings_reverted) => {}
            ("bios", "apply_configuration") => {
                let settings = step
                    .args
                    .get("settings")
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default();
                for setting in settings {
                    let value = match &setting["value"] {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    };
                    if let (Some(name), Some(machine)) = (setting["name"].as_str(), self.machine_of(number)) {
                        machine.more().bios.insert(name.to_owned(), value);
                    }
                }
            }
            ("bios", "factory_reset") => {
                if let Some(machine) = self.machine_of(number) {
                    machine.more().bios.clear();
                }
            }
            ("firmware", "update") => {
                let settings = step
                    .args
                    .get("settings")
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default();
                for setting in settings {
                    if let (Some(name), Some(machine)) = (setting["component"].as_str(), self.machine_of(number)) {
                        let count = machine.more().firmware.get(name).map_or(0, |version| minor(version));
                        let version = format!("1.{}.0", count + 1);
                        machine.more().firmware.insert(name.to_owned(), version);
                    }
                }
            }
            ("raid", "create_configuration" | "apply_configuration") => {
                if let Some(node) = self.nodes.get_mut(&number) {
                    let disks = node
                        .target_raid_config
                        .get("logical_disks")
                        .cloned()
                        .unwrap_or(json!([]));
                    node.raid_config.insert("logical_disks".to_owned(), disks);
                }
            }
            ("raid", "delete_configuration") => {
                if let Some(node) = self.nodes.get_mut(&number) {
                    node.raid_config.clear();
                }
            }
            _ => {}
        }
    }
}

/// The second number of a version.
fn minor(version: &str) -> u32 {
    version
        .split('.')
        .nth(1)
        .and_then(|part| part.parse().ok())
        .unwrap_or_default()
}
