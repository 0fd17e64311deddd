//! Applies a creation or a patch to a node's record.

use serde_json::{Map, Value};

use super::create::is_name;
use crate::drivers;
use crate::node::{Node, interface_kind};
use crate::refusal::Refusal;
use crate::world::World;

/// Sets a field of a node.
pub(super) type Setter = Box<dyn FnOnce(&mut Node)>;

/// What sets a field to this value, if that is a possible one.
pub(super) fn setter(driver: &'static str, key: &str, value: &Value) -> Result<Setter, Refusal> {
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
        return Ok(Box::new(move |node| node.interfaces[kind] = chosen));
    }
    Ok(match key {
        "name" => {
            let name = as_text()?;
            if let Some(name) = name.as_deref().filter(|name| !is_name(name)) {
                return Err(Refusal::bad_request(format!(
                    "Cannot change name to invalid name '{name}'"
                )));
            }
            Box::new(move |node| node.name = name)
        }
        "instance_uuid" => {
            let uuid = as_text()?;
            if let Some(uuid) = uuid.as_deref().filter(|uuid| uuid::Uuid::parse_str(uuid).is_err()) {
                return Err(Refusal::bad_request(format!("Expected UUID for instance_uuid: {uuid}")));
            }
            Box::new(move |node| node.instance_uuid = uuid)
        }
        "automated_clean" => {
            let flag = as_flag()?;
            Box::new(move |node| node.automated_clean = flag)
        }
        "disable_power_off" => {
            let flag = as_flag()?.unwrap_or_default();
            Box::new(move |node| node.disable_power_off = flag)
        }
        "maintenance" => {
            let flag = as_flag()?.unwrap_or_default();
            Box::new(move |node| set_maintenance(node, flag, None))
        }
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
            let key = key.to_owned();
            Box::new(move |node| *map_of(node, &key) = map)
        }
        _ => {
            let (key, value) = (key.to_owned(), value.clone());
            Box::new(move |node| {
                node.other.insert(key, value);
            })
        }
    })
}

fn map_of<'a>(node: &'a mut Node, key: &str) -> &'a mut Map<String, Value> {
    match key {
        "driver_info" => &mut node.driver_info,
        "properties" => &mut node.properties,
        "instance_info" => &mut node.instance_info,
        "network_data" => &mut node.network_data,
        _ => &mut node.extra,
    }
}

/// Refuses a name or an instance that another node has.
pub(super) fn check(world: &World, number: u32, record: &Map<String, Value>, uuid: &str) -> Result<(), Refusal> {
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    if let Some(name) = text("name").filter(|name| world.has_name(name, Some(number))) {
        return Err(Refusal::conflict(format!("A node with name {name} already exists.")));
    }
    if let Some(instance) = text("instance_uuid").filter(|instance| world.has_instance(instance, number)) {
        return Err(Refusal::conflict(format!(
            "Instance {instance} is already associated with a node, it cannot be associated with this other node {uuid}"
        )));
    }
    Ok(())
}

/// Puts a node into maintenance, or takes it out, which also forgets its fault.
pub(super) fn set_maintenance(node: &mut Node, is_on: bool, reason: Option<String>) {
    node.maintenance = is_on;
    node.maintenance_reason = reason;
    if !is_on {
        node.fault = None;
    }
}
