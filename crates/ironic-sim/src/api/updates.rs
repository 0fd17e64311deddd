//! Changing and deleting nodes.

use serde_json::{Map, Value};

use super::change::{Setter, check, set_maintenance, setter};
use super::lists::free;
use super::record::whole;
use super::request::{Request, exclusive};
use crate::drivers;
use crate::node::{FIELDS, Node, interface_kind};
use crate::refusal::{Answer, Refusal, Reply};
use crate::words::State;
use crate::world::World;

/// What a patch may change, and a creation may set.
pub(super) const PATCHABLE: &[&str] = &[
    "automated_clean",
    "bios_interface",
    "boot_interface",
    "chassis_uuid",
    "conductor_group",
    "console_interface",
    "deploy_interface",
    "description",
    "disable_power_off",
    "driver",
    "driver_info",
    "extra",
    "firmware_interface",
    "inspect_interface",
    "instance_info",
    "instance_name",
    "instance_uuid",
    "lessee",
    "maintenance",
    "management_interface",
    "name",
    "network_data",
    "network_interface",
    "owner",
    "parent_node",
    "power_interface",
    "properties",
    "protected",
    "protected_reason",
    "raid_interface",
    "rescue_interface",
    "resource_class",
    "retired",
    "retired_reason",
    "shard",
    "storage_interface",
    "vendor_interface",
];

pub(super) fn patch(world: &mut World, request: &Request, ident: &str) -> Answer {
    let ops = operations(&request.body)?;
    for op in &ops {
        let path = text(op, "path");
        let field = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        if !PATCHABLE.contains(&field) {
            let all = PATCHABLE.join(", ");
            return Err(Refusal::bad_request(format!(
                "Cannot patch {path}. Only the following can be updated: {all}"
            )));
        }
        if FIELDS
            .iter()
            .any(|(known, since)| *known == field && *since > request.version)
        {
            return Err(Refusal::not_acceptable());
        }
    }
    let number = world.find(ident)?;
    let node = world.nodes.get(&number).ok_or_else(|| Refusal::node_not_found(ident))?;
    let only_releases = ops.len() == 1 && text(&ops[0], "op") == "remove" && text(&ops[0], "path") == "/instance_uuid";
    if !(node.maintenance && only_releases) {
        if node.target.is_some() && !node.state.allows_patch() {
            return Err(Refusal::conflict(format!(
                "Node {ident} can not be updated while a state transition is in progress."
            )));
        }
        if node.state == State::Inspecting && request.version >= 39 {
            return Err(Refusal::conflict(format!(
                "Cannot update node \"{}\" while it is in state \"inspecting\".",
                node.uuid
            )));
        }
    }
    let before = document(world, node);
    let after = patched(before.clone(), &ops)?;
    let driver = match after.get("driver").and_then(Value::as_str) {
        Some(name) => drivers::known(name)?,
        None => {
            return Err(Refusal::bad_request(
                "Schema error for node: 'driver' is a required property",
            ));
        }
    };
    let mut setters: Vec<Setter> = Vec::new();
    if driver != node.driver {
        setters.push(Box::new(move |node| {
            node.driver = driver;
            node.interfaces = drivers::defaults(driver);
        }));
    }
    for (key, value) in &after {
        if key != "driver" && before.get(key) != Some(value) {
            if interface_kind(key).is_some() && !node.state.allows_interfaces() && !node.maintenance {
                return Err(Refusal::conflict(format!(
                    "Node {} can not have {key} updated unless it is in one of allowed (enroll, inspecting, inspect wait, \
                     manageable, available) states or in maintenance mode. Current state is '{}'.",
                    node.uuid, node.state
                )));
            }
            setters.push(setter(driver, key, value)?);
        }
    }
    exclusive(world, number)?;
    let (uuid, held) = (node.uuid.clone(), node.instance_uuid.clone());
    let instance = after.get("instance_uuid").filter(|instance| instance.is_string());
    if let Some(held) = held.filter(|_| instance.is_some() && instance != before.get("instance_uuid")) {
        return Err(Refusal::conflict(format!(
            "Node {uuid} is associated with instance {held}."
        )));
    }
    check(world, number, &after, &uuid)?;
    let now = world.now;
    world.reindex(number, |node| {
        for set in setters {
            set(node);
        }
        node.updated = Some(now);
    });
    let node = world.nodes.get(&number).ok_or_else(|| Refusal::node_not_found(ident))?;
    Ok(Reply::ok(whole(world, request, node)))
}

fn text<'a>(op: &'a Value, key: &str) -> &'a str {
    op.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn operations(body: &Value) -> Result<Vec<Value>, Refusal> {
    let ops = body
        .as_array()
        .ok_or_else(|| Refusal::bad_request("Schema error for patch: it is not of type 'array'"))?;
    for op in ops {
        let needs_value = matches!(text(op, "op"), "add" | "replace" | "test");
        let is_known = needs_value || text(op, "op") == "remove";
        if !is_known || !text(op, "path").starts_with('/') || (needs_value && op.get("value").is_none()) {
            return Err(Refusal::bad_request(format!(
                "Schema error for patch: {} is not valid",
                quoted(op)
            )));
        }
    }
    Ok(ops.clone())
}

/// What a patch applies to: everything patchable, with secrets.
fn document(world: &World, node: &Node) -> Map<String, Value> {
    let show = |field: &&str| {
        let value = match *field {
            "driver_info" => Value::Object(node.driver_info.clone()),
            "instance_info" => Value::Object(node.instance_info.clone()),
            _ => node.field(field, &world.clock, &world.config.conductor),
        };
        ((*field).to_owned(), value)
    };
    PATCHABLE.iter().map(show).collect()
}

/// The document after the operations, one by one, so that the one that fails is named.
fn patched(document: Map<String, Value>, ops: &[Value]) -> Result<Map<String, Value>, Refusal> {
    let mut document = Value::Object(document);
    for op in ops {
        let failed =
            |reason: String| Refusal::bad_request(format!("Couldn't apply patch '{}'. Reason: {reason}", quoted(op)));
        // Removing a field of the node gives it back its default; the field as such stays.
        let path = text(op, "path");
        if text(op, "op") == "remove" && path.matches('/').count() == 1 {
            document[&path[1..]] = Value::Null;
            continue;
        }
        let one: json_patch::PatchOperation =
            serde_json::from_value(op.clone()).map_err(|error| failed(error.to_string()))?;
        json_patch::patch(&mut document, &[one]).map_err(|error| failed(error.kind.to_string()))?;
    }
    match document {
        Value::Object(map) => Ok(map),
        _ => Err(Refusal::bad_request("The patch replaces the node.")),
    }
}

/// A patch operation as Ironic quotes it, secrets included.
fn quoted(op: &Value) -> String {
    op.to_string().replace('"', "'")
}

pub(super) fn maintenance(world: &mut World, request: &Request, ident: &str, is_on: bool) -> Answer {
    let number = free(world, ident)?;
    let reason = request
        .object()?
        .get("reason")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let now = world.now;
    let node = world.node(number)?;
    node.updated = Some(now);
    set_maintenance(node, is_on, reason.filter(|_| is_on));
    Ok(Reply::accepted())
}

pub(super) fn delete(world: &mut World, ident: &str) -> Answer {
    let number = free(world, ident)?;
    let node = world.node(number)?;
    if !node.maintenance {
        if let Some(instance) = &node.instance_uuid {
            return Err(Refusal::conflict(format!(
                "Node {} is associated with instance {instance}.",
                node.uuid
            )));
        }
        if !node.state.allows_delete() {
            return Err(Refusal::conflict(format!(
                "Can not delete node \"{}\" while it is in provision state \"{}\". Valid provision states to perform deletion \
                 are: \"('manageable', 'enroll', 'adopt failed', 'available')\", or set the node into maintenance mode",
                node.uuid, node.state
            )));
        }
    }
    world.remove(number);
    Ok(Reply::no_content())
}
