//! Creating nodes.

use serde_json::Value;

use super::change::setter;
use super::record::whole;
use super::request::Request;
use super::updates;
use crate::drivers;
use crate::node::{FIELDS, Node};
use crate::refusal::{Answer, Refusal, Reply};
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
    let fields = body
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "uuid" | "driver"));
    let setters: Vec<_> = fields
        .map(|(key, value)| setter(driver, key, value))
        .collect::<Result<_, _>>()?;
    let mut node = Node {
        uuid,
        driver,
        interfaces: drivers::defaults(driver),
        created: world.now,
        ..Node::default()
    };
    if world.has_uuid(&node.uuid) {
        return Err(Refusal::conflict(format!(
            "A node with UUID {} already exists.",
            node.uuid
        )));
    }
    if let Some(name) = name.filter(|name| world.has_name(name, None)) {
        return Err(Refusal::conflict(format!("A node with name {name} already exists.")));
    }
    for set in setters {
        set(&mut node);
    }
    let number = world.insert(node);
    let node = world.nodes.get(&number).ok_or_else(|| Refusal::node_not_found(""))?;
    Ok(Reply::created(whole(world, request, node)))
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
