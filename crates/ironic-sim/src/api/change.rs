//! What a creation or a patch makes of a node's record.

use serde_json::{Map, Value};

use super::create::is_name;
use crate::drivers;
use crate::node::{Node, interface_kind};
use crate::refusal::Refusal;
use crate::world::World;

/// The new value of a field, which may be none.
#[derive(Debug)]
struct To<T>(Option<T>);

/// What is to become of a node's record.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub driver: Option<&'static str>,
    name: Option<To<String>>,
    instance_uuid: Option<To<String>>,
    automated_clean: Option<To<bool>>,
    disable_power_off: Option<bool>,
    maintenance: Option<bool>,
    interfaces: Vec<(usize, &'static str)>,
    maps: Vec<(String, Map<String, Value>)>,
    other: Vec<(String, Value)>,
}

impl Change {
    /// Takes in a field with its value, if that is a possible one.
    pub fn set(&mut self, driver: &'static str, key: &str, value: &Value) -> Result<(), Refusal> {
        let wrong = || Refusal::bad_request(format!("Schema error for node: {value} is not valid for '{key}'"));
        let as_text = || match value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            _ => Err(wrong()),
        };
        let as_flag = || match value {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            Value::String(word) => match word.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(Some(true)),
                "false" | "0" | "no" | "off" => Ok(Some(false)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        };
        if let Some(kind) = interface_kind(key) {
            let chosen = drivers::choose(driver, kind, as_text()?.as_deref())?;
            self.interfaces.push((kind, chosen));
            return Ok(());
        }
        match key {
            "name" => {
                let name = as_text()?;
                if let Some(name) = name.as_deref().filter(|name| !is_name(name)) {
                    return Err(Refusal::bad_request(format!(
                        "Cannot change name to invalid name '{name}'"
                    )));
                }
                self.name = Some(To(name));
            }
            "instance_uuid" => {
                let uuid = as_text()?;
                if let Some(uuid) = uuid.as_deref().filter(|uuid| uuid::Uuid::parse_str(uuid).is_err()) {
                    return Err(Refusal::bad_request(format!("Expected UUID for instance_uuid: {uuid}")));
                }
                self.instance_uuid = Some(To(uuid));
            }
            "automated_clean" => self.automated_clean = Some(To(as_flag()?)),
            "disable_power_off" => self.disable_power_off = Some(as_flag()?.unwrap_or_default()),
            "maintenance" => self.maintenance = Some(as_flag()?.unwrap_or_default()),
            "driver_info" | "properties" | "instance_info" | "extra" | "network_data" => {
                let map = match value {
                    Value::Null => Map::new(),
                    Value::Object(map) => map.clone(),
                    _ => return Err(wrong()),
                };
                let needed = ["links", "networks", "services"];
                if key == "network_data"
                    && !map.is_empty()
                    && let Some(missing) = needed.iter().find(|part| !map.contains_key(**part))
                {
                    return Err(Refusal::bad_request(format!(
                        "Invalid network_data: '{missing}' is a required property "
                    )));
                }
                self.maps.push((key.to_owned(), map));
            }
            _ => self.other.push((key.to_owned(), value.clone())),
        }
        Ok(())
    }

    /// Whether it gives the node an instance.
    pub fn takes_instance(&self) -> bool {
        matches!(self.instance_uuid, Some(To(Some(_))))
    }

    /// Refuses what another node has.
    pub fn check(&self, world: &World, number: u32, uuid: &str) -> Result<(), Refusal> {
        if let Some(To(Some(name))) = &self.name
            && world.has_name(name, Some(number))
        {
            return Err(Refusal::conflict(format!("A node with name {name} already exists.")));
        }
        if let Some(To(Some(instance))) = &self.instance_uuid
            && world.has_instance(instance, number)
        {
            return Err(Refusal::conflict(format!(
                "Instance {instance} is already associated with a node, it cannot be associated with this other node {uuid}"
            )));
        }
        Ok(())
    }

    /// Makes the change.
    pub fn apply(self, node: &mut Node) {
        if let Some(driver) = self.driver {
            node.driver = driver;
            node.interfaces = drivers::defaults(driver);
        }
        for (kind, interface) in self.interfaces {
            node.interfaces[kind] = interface;
        }
        if let Some(To(name)) = self.name {
            node.name = name;
        }
        if let Some(To(uuid)) = self.instance_uuid {
            node.instance_uuid = uuid;
        }
        if let Some(To(clean)) = self.automated_clean {
            node.automated_clean = clean;
        }
        if let Some(never) = self.disable_power_off {
            node.disable_power_off = never;
        }
        if let Some(maintenance) = self.maintenance {
            set_maintenance(node, maintenance, None);
        }
        for (key, map) in self.maps {
            match key.as_str() {
                "driver_info" => node.driver_info = map,
                "properties" => node.properties = map,
                "instance_info" => node.instance_info = map,
                "network_data" => node.network_data = map,
                _ => node.extra = map,
            }
        }
        for (key, value) in self.other {
            if value.is_null() {
                node.other.remove(&key);
            } else {
                node.other.insert(key, value);
            }
        }
    }
}

/// Puts a node into maintenance, or takes it out, which also forgets its fault.
pub(super) fn set_maintenance(node: &mut Node, is_on: bool, reason: Option<String>) {
    node.maintenance = is_on;
    node.maintenance_reason = reason;
    if !is_on {
        node.fault = None;
    }
}
