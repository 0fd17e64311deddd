//! How records are rendered: which fields, in which version.

use serde_json::{Map, Value, json};

use super::request::{Request, links};
use crate::node::{FIELDS, Node};
use crate::refusal::Refusal;
use crate::world::World;

/// What a list shows of a node when nothing is asked for.
pub(super) const BRIEF: &[&str] = &[
    "instance_uuid",
    "maintenance",
    "power_state",
    "provision_state",
    "uuid",
    "name",
];

/// The fields that a request names; none if it names none. A field that does not exist is a bad request, one of a newer
/// version is not acceptable.
pub(super) fn named(request: &Request) -> Result<Option<Vec<&'static str>>, Refusal> {
    let Some(list) = request.asks("fields") else {
        return Ok(None);
    };
    let mut fields = Vec::new();
    let mut is_too_new = false;
    for name in list.split(',').map(str::trim) {
        let Some((known, since)) = FIELDS.iter().find(|(known, _)| *known == name) else {
            return Err(Refusal::bad_request(format!("Field {name} is not a valid field.")));
        };
        is_too_new |= *since > request.version;
        fields.push(*known);
    }
    if is_too_new {
        return Err(Refusal::not_acceptable());
    }
    Ok(Some(fields))
}

/// A node with these fields, and with links to it.
pub(super) fn narrow(world: &World, request: &Request, node: &Node, fields: &[&str]) -> Value {
    let mut record = Map::new();
    for field in fields {
        let value = node.field(field, &world.clock, &world.config.conductor);
        record.insert((*field).to_owned(), value);
    }
    record.insert("links".to_owned(), links(&request.base, "nodes", &node.uuid));
    record.into()
}

/// All of a node that exists in the request's version.
pub(super) fn whole(world: &World, request: &Request, node: &Node) -> Value {
    let fields: Vec<&str> = FIELDS
        .iter()
        .filter(|(_, since)| *since <= request.version)
        .map(|(name, _)| *name)
        .collect();
    let mut record = narrow(world, request, node, &fields);
    let stamp = |at| world.clock.stamp(at);
    record["created_at"] = json!(stamp(node.created));
    record["updated_at"] = json!(node.updated.map(stamp));
    for part in ["ports", "portgroups", "states", "volume"] {
        record[part] = links(&request.base, "nodes", &format!("{}/{part}", node.uuid));
    }
    record
}
