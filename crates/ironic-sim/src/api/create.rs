//! Creating nodes.

use serde_json::{Map, Value};

use super::change::Change;
use super::record::whole;
use super::request::Request;
use super::updates;
use crate::drivers::{self, KINDS};
use crate::node::{FIELDS, Node};
use crate::refusal::{Answer, Refusal, Reply};
use crate::words::State;
use crate::world::World;

pub(super) fn create(world: &mut World, request: &Request) -> Answer {
    let body = request.object()?;
    for key in body.keys() {
        match FIELDS.iter().find(|(known, _)| known == key) {
            Some((_, since)) if *since > request.version => return Err(Refusal::not_acceptable()),
            Some(_) if updates::PATCHABLE.contains(&key.as_str()) || key == "uuid" => {}
            _ => {
                return Err(Refusal::bad_request(format!(
                    "Schema error for node: Additional properties are not allowed ('{key}' was unexpected)"
                )));
            }
        }
    }
    let Some(driver) = body.get("driver").and_then(Value::as_str) else {
        return Err(Refusal::bad_request(
            "Schema error for node: 'driver' is a required property",
        ));
    };
    let name = body.get("name").and_then(Value::as_str);
    if let Some(name) = name.filter(|name| !is_name(name)) {
        return Err(Refusal::bad_request(format!(
            "Cannot create node with invalid name '{name}'"
        )));
    }
    let driver = drivers::known(driver)?;
    let uuid = match body.get("uuid").and_then(Value::as_str) {
        Some(uuid) if uuid::Uuid::parse_str(uuid).is_err() => {
            return Err(Refusal::bad_request(format!("Expected UUID for uuid: {uuid}")));
        }
        Some(uuid) => uuid.to_owned(),
        None => world.new_uuid(),
    };
    let mut node = blank(world, uuid, driver);
    let mut change = Change::default();
    for (key, value) in body
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "uuid" | "driver"))
    {
        change.set(driver, key, value)?;
    }
    if world.has_uuid(&node.uuid) {
        return Err(Refusal::conflict(format!(
            "A node with UUID {} already exists.",
            node.uuid
        )));
    }
    if let Some(name) = name.filter(|name| world.has_name(name, None)) {
        return Err(Refusal::conflict(format!("A node with name {name} already exists.")));
    }
    change.apply(&mut node);
    let number = world.insert(node);
    let node = world.nodes.get(&number).ok_or_else(|| Refusal::node_not_found(""))?;
    Ok(Reply::created(whole(world, request, node)))
}

fn blank(world: &World, uuid: String, driver: &'static str) -> Node {
    debug_assert_eq!(drivers::defaults(driver).len(), KINDS.len());
    Node {
        uuid,
        name: None,
        driver,
        interfaces: drivers::defaults(driver),
        driver_info: Map::new(),
        properties: Map::new(),
        instance_info: Map::new(),
        extra: Map::new(),
        network_data: Map::new(),
        raid_config: Map::new(),
        target_raid_config: Map::new(),
        other: Map::new(),
        state: State::Enroll,
        target: None,
        power: None,
        target_power: None,
        last_error: None,
        maintenance: false,
        maintenance_reason: None,
        fault: None,
        is_locked: false,
        instance_uuid: None,
        automated_clean: None,
        disable_power_off: false,
        health: None,
        clean_step: None,
        deploy_step: None,
        service_step: None,
        created: world.now,
        updated: None,
        provision_updated: None,
        inspection_started: None,
        inspection_finished: None,
        inventory: None,
        machine: None,
        rested: None,
        epoch: 0,
        task: None,
    }
}

/// Whether a node may be called so.
pub(super) fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~');
    !name.is_empty()
        && name.len() <= 255
        && name.chars().all(is_allowed)
        && uuid::Uuid::parse_str(name).is_err()
        && !matches!(
            name,
            "detail" | "validate" | "states" | "maintenance" | "management" | "ports"
        )
}
