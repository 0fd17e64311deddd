//! Ports.

use std::ops::Bound;

use serde_json::{Map, Value, json};

use super::lists::{limit, next_page};
use super::request::{Request, exclusive, links};
use crate::port::{self, Port};
use crate::refusal::{Answer, Refusal, Reply};
use crate::world::World;

const BRIEF: &[&str] = &["uuid", "address"];

fn not_found(ident: &str) -> Refusal {
    Refusal::new(404, format!("Port {ident} could not be found."))
}

fn find<'a>(world: &'a World, ident: &str) -> Result<(u32, &'a Port), Refusal> {
    let found = world
        .find_port(ident)
        .and_then(|number| Some((number, world.ports.get(&number)?)));
    found.ok_or_else(|| not_found(ident))
}

fn fields(request: &Request) -> Result<Option<Vec<&str>>, Refusal> {
    let Some(list) = request.asks("fields") else {
        return Ok(None);
    };
    let fields: Vec<&str> = list.split(',').map(str::trim).collect();
    match fields.iter().find(|field| !port::FIELDS.contains(field)) {
        Some(unknown) => Err(Refusal::bad_request(format!("Field(s) \"{unknown}\" are not valid."))),
        None => Ok(Some(fields)),
    }
}

fn record(world: &World, request: &Request, port: &Port, fields: &[&str]) -> Value {
    let node = world
        .nodes
        .get(&port.node)
        .map(|node| node.uuid.as_str())
        .unwrap_or_default();
    let value = |field: &&str| ((*field).to_owned(), port.field(field, node, &world.clock));
    let mut record: Map<String, Value> = fields.iter().map(value).collect();
    record.insert("links".to_owned(), links(&request.base, "ports", &port.uuid));
    record.into()
}

/// Ports, all or those of a node or with an address.
pub(super) fn list(world: &World, request: &Request) -> Answer {
    let known = [
        "fields",
        "limit",
        "marker",
        "node",
        "node_uuid",
        "address",
        "detail",
        "sort_key",
        "sort_dir",
    ];
    if let Some((name, _)) = request.query.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Err(Refusal::bad_request(format!("Unknown argument: \"{name}\"")));
    }
    let node = request
        .asks("node")
        .or_else(|| request.asks("node_uuid"))
        .filter(|ident| !ident.is_empty());
    let numbers: Vec<u32> = match (request.asks("address"), node) {
        (Some(mac), _) if !port::is_mac(mac) => {
            return Err(Refusal::bad_request(format!(
                "Expected a MAC address but received {mac}."
            )));
        }
        (Some(mac), _) => world.port_with(mac).into_iter().collect(),
        (None, Some(ident)) => world.ports_of(world.find(ident)?).collect(),
        (None, None) => Vec::new(),
    };
    let limit = limit(request, world.config.max_limit)?;
    let after = request
        .asks("marker")
        .map(|marker| find(world, marker))
        .transpose()?
        .map(|(number, _)| number);
    let is_all = request.asks("address").is_none() && node.is_none();
    let page: Vec<&Port> = if is_all {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        world
            .ports
            .range((from, Bound::Unbounded))
            .take(limit)
            .map(|(_, port)| port)
            .collect()
    } else {
        let numbers = numbers
            .into_iter()
            .filter(|number| after.is_none_or(|after| *number > after));
        numbers
            .take(limit)
            .filter_map(|number| world.ports.get(&number))
            .collect()
    };
    let wanted = match (fields(request)?, request.flag("detail").unwrap_or_default()) {
        (Some(fields), _) => fields,
        (None, true) => port::FIELDS.to_vec(),
        (None, false) => BRIEF.to_vec(),
    };
    let mut answer =
        json!({"ports": page.iter().map(|port| record(world, request, port, &wanted)).collect::<Vec<_>>()});
    if let Some(last) = page.last().filter(|_| page.len() == limit) {
        answer["next"] = next_page(request, "ports", limit, &last.uuid);
    }
    Ok(Reply::ok(answer))
}

/// `GET /v1/nodes/{node}/ports`.
pub(super) fn of_node(world: &World, request: &Request, ident: &str) -> Answer {
    let mut request = request.clone();
    request.query.push(("node".to_owned(), ident.to_owned()));
    list(world, &request)
}

pub(super) fn show(world: &World, request: &Request, ident: &str) -> Answer {
    let (_, port) = find(world, ident)?;
    let fields = fields(request)?.unwrap_or_else(|| port::FIELDS.to_vec());
    Ok(Reply::ok(record(world, request, port, &fields)))
}

pub(super) fn create(world: &mut World, request: &Request) -> Answer {
    let body = request.object()?;
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let missing = |key: &str| Refusal::bad_request(format!("Schema error for port: '{key}' is a required property"));
    let address = text("address")
        .ok_or_else(|| missing("address"))?
        .to_ascii_lowercase()
        .replace('-', ":");
    if !port::is_mac(&address) {
        return Err(Refusal::bad_request(format!(
            "Expected a MAC address but received {address}."
        )));
    }
    let node = text("node_uuid").ok_or_else(|| missing("node_uuid"))?;
    let node = world.find(node).map_err(|refusal| Refusal::bad_request(refusal.text))?;
    if world.port_with(&address).is_some() {
        return Err(Refusal::conflict(format!(
            "A port with MAC address {address} already exists."
        )));
    }
    let port = Port {
        uuid: world.new_uuid(),
        node,
        address,
        pxe_enabled: body.get("pxe_enabled").and_then(Value::as_bool).unwrap_or(true),
        extra: body
            .get("extra")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default(),
        created: world.now,
    };
    let number = world.insert_port(port);
    let port = world.ports.get(&number).ok_or_else(|| not_found(""))?;
    Ok(Reply::created(record(world, request, port, port::FIELDS)))
}

pub(super) fn patch(world: &mut World, request: &Request, ident: &str) -> Answer {
    let (number, _) = find(world, ident)?;
    let ops = request.body.as_array().cloned().unwrap_or_default();
    for op in ops {
        let (path, value) = (op["path"].as_str().unwrap_or_default().to_owned(), &op["value"]);
        match (path.as_str(), value) {
            ("/pxe_enabled", Value::Bool(flag)) => {
                if world.ports.get(&number).is_some_and(|port| port.pxe_enabled != *flag) {
                    connectivity(world, number)?;
                }
                if let Some(port) = world.ports.get_mut(&number) {
                    port.pxe_enabled = *flag;
                }
            }
            ("/address", Value::String(mac)) if port::is_mac(mac) => {
                let mac = mac.to_ascii_lowercase();
                if world.port_with(&mac).is_some_and(|other| other != number) {
                    return Err(Refusal::conflict(format!(
                        "A port with MAC address {mac} already exists."
                    )));
                }
                if let Some(mut port) = world.take_port(number) {
                    port.address = mac;
                    world.put_port(number, port);
                }
            }
            _ => return Err(Refusal::bad_request(format!("Cannot patch {path}."))),
        }
    }
    let port = world.ports.get(&number).ok_or_else(|| not_found(ident))?;
    Ok(Reply::ok(record(world, request, port, port::FIELDS)))
}

/// The fields that describe how a card is connected may change only while nothing depends on them.
fn connectivity(world: &World, number: u32) -> Result<(), Refusal> {
    let port = world.ports.get(&number).ok_or_else(|| not_found(""))?;
    let node = world.nodes.get(&port.node).ok_or_else(|| not_found(""))?;
    let state = node.state.as_str();
    let allowed = ["enroll", "inspecting", "inspect wait", "manageable"];
    if allowed.contains(&state) || node.maintenance {
        return Ok(());
    }
    Err(Refusal::conflict(format!(
        "Port {} can not have any connectivity attributes (pxe_enabled) updated unless node {} is in a {} state or in maintenance \
         mode. The current state is {state}.",
        port.uuid,
        node.uuid,
        allowed.join(", ")
    )))
}

pub(super) fn delete(world: &mut World, ident: &str) -> Answer {
    let (number, port) = find(world, ident)?;
    exclusive(world, port.node)?;
    world.take_port(number);
    Ok(Reply::no_content())
}
