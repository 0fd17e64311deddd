//! Reading nodes.

use std::ops::Bound;

use serde_json::{Value, json};

use super::record::{BRIEF, named, narrow, whole};
use super::request::{Request, exclusive};
use crate::node::Node;
use crate::refusal::{Answer, Refusal, Reply};
use crate::world::World;

/// Parameters of a list.
const PARAMETERS: &[&str] = &[
    "fields",
    "limit",
    "marker",
    "sort_key",
    "sort_dir",
    "detail",
    "instance_uuid",
    "maintenance",
    "associated",
    "provision_state",
    "driver",
    "fault",
    "resource_class",
    "conductor_group",
];

/// One node.
pub(super) fn node(world: &World, request: &Request, ident: &str) -> Answer {
    let fields = named(request)?;
    let number = world.find(ident)?;
    let node = world.nodes.get(&number).ok_or_else(|| Refusal::node_not_found(ident))?;
    Ok(Reply::ok(match fields {
        Some(fields) => narrow(world, request, node, &fields),
        None => whole(world, request, node),
    }))
}

pub(super) fn nodes(world: &World, request: &Request) -> Answer {
    let detail = request.flag("detail").unwrap_or_default();
    list(world, request, detail)
}

pub(super) fn nodes_in_detail(world: &World, request: &Request) -> Answer {
    list(world, request, true)
}

fn list(world: &World, request: &Request, detail: bool) -> Answer {
    if let Some((name, _)) = request
        .query
        .iter()
        .find(|(name, _)| !PARAMETERS.contains(&name.as_str()))
    {
        return Err(Refusal::bad_request(format!("Unknown argument: \"{name}\"")));
    }
    if detail && request.asks("fields").is_some() {
        return Err(Refusal::bad_request("Can't fetch a subset of fields with 'detail' set"));
    }
    let limit = limit(request, world.config.max_limit)?;
    let marker = request.asks("marker").map(|marker| world.find(marker)).transpose()?;
    let wanted = Filter::of(request)?;
    let mut listed = in_order(world, request, marker)?
        .filter(|node| wanted.takes(node))
        .take(limit)
        .peekable();
    let fields = match named(request) {
        // Fields are looked at with the first record that is to have them.
        Err(refusal) if refusal.status == 400 && listed.peek().is_none() => None,
        fields => fields?,
    };
    let mut page = Vec::new();
    let mut last = None;
    for node in listed {
        last = Some(node.uuid.clone());
        page.push(match (&fields, detail) {
            (Some(fields), _) => narrow(world, request, node, fields),
            (None, true) => whole(world, request, node),
            (None, false) => narrow(world, request, node, BRIEF),
        });
    }
    let next = last.filter(|_| page.len() == limit && request.asks("instance_uuid").is_none());
    let mut answer = json!({"nodes": page});
    if let Some(marker) = next {
        answer["next"] = next_page(request, "nodes", limit, &marker);
    }
    Ok(Reply::ok(answer))
}

/// The nodes after a marker: in the order of their creation, or of their last change. Ironic sorts by other fields too.
fn in_order<'a>(
    world: &'a World,
    request: &Request,
    marker: Option<u32>,
) -> Result<Box<dyn Iterator<Item = &'a Node> + 'a>, Refusal> {
    let is_descending = request.asks("sort_dir") == Some("desc");
    match request.asks("sort_key") {
        None | Some("created_at" | "id") if !is_descending => {
            let after = marker.map_or(Bound::Unbounded, Bound::Excluded);
            Ok(Box::new(
                world.nodes.range((after, Bound::Unbounded)).map(|(_, node)| node),
            ))
        }
        key @ (None | Some("created_at" | "id" | "updated_at")) => {
            let mut nodes: Vec<_> = world.nodes.iter().collect();
            if key == Some("updated_at") {
                nodes.sort_by_key(|(number, node)| (node.updated, **number));
            }
            if is_descending {
                nodes.reverse();
            }
            let begin = marker.and_then(|marker| nodes.iter().position(|(number, _)| **number == marker));
            let rest = nodes.into_iter().skip(begin.map_or(0, |marker| marker + 1));
            Ok(Box::new(rest.map(|(_, node)| node)))
        }
        Some(key) => Err(Refusal::bad_request(format!(
            "The sort_key value \"{key}\" is an invalid field for sorting"
        ))),
    }
}

/// How many a page may have.
pub(super) fn limit(request: &Request, most: usize) -> Result<usize, Refusal> {
    let Some(text) = request.asks("limit") else {
        return Ok(most);
    };
    let number: i64 = text
        .parse()
        .map_err(|_| Refusal::bad_request(format!("Expected an integer for limit: {text}")))?;
    match usize::try_from(number) {
        Ok(limit) if limit > 0 => Ok(limit.min(most)),
        _ => Err(Refusal::bad_request("Limit must be positive")),
    }
}

/// The address of the next page.
pub(super) fn next_page(request: &Request, kind: &str, limit: usize, marker: &str) -> Value {
    let kept = request
        .query
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "limit" | "marker"));
    let kept: Vec<String> = kept.map(|(name, value)| format!("{name}={value}&")).collect();
    let kept = kept.concat();
    Value::from(format!(
        "{}/v1/{kind}?{kept}limit={limit}&marker={marker}",
        request.base
    ))
}

/// Which nodes are asked for.
struct Filter<'a> {
    instance: Option<&'a str>,
    maintenance: Option<bool>,
    associated: Option<bool>,
    state: Option<&'a str>,
    driver: Option<&'a str>,
    fault: Option<&'a str>,
}

impl<'a> Filter<'a> {
    fn of(request: &'a Request) -> Result<Self, Refusal> {
        if let Some(word) = request.asks("sort_dir").filter(|word| !matches!(*word, "asc" | "desc")) {
            return Err(Refusal::bad_request(format!(
                "Invalid sort direction: {word}. Acceptable values are 'asc' or 'desc'"
            )));
        }
        Ok(Self {
            instance: request.asks("instance_uuid"),
            maintenance: request.flag("maintenance"),
            associated: request.flag("associated"),
            state: request.asks("provision_state"),
            driver: request.asks("driver"),
            fault: request.asks("fault"),
        })
    }

    fn takes(&self, node: &Node) -> bool {
        self.instance
            .is_none_or(|wanted| node.instance_uuid.as_deref() == Some(wanted))
            && self.maintenance.is_none_or(|wanted| node.maintenance == wanted)
            && self
                .associated
                .is_none_or(|wanted| node.instance_uuid.is_some() == wanted)
            && self.state.is_none_or(|wanted| node.state.as_str() == wanted)
            && self.driver.is_none_or(|wanted| node.driver == wanted)
            && self.fault.is_none_or(|wanted| node.fault == Some(wanted))
    }
}

/// The number of a node that nothing else holds.
pub(super) fn free(world: &World, ident: &str) -> Result<u32, Refusal> {
    let number = world.find(ident)?;
    exclusive(world, number)?;
    Ok(number)
}
