//! The API: interprets requests, independently of the transport.

mod bmc;
mod change;
mod create;
mod lists;
mod ports;
mod record;
mod request;
mod states;
mod steps;
mod updates;
mod vendor;
mod version;

use serde_json::{Value, json};

use crate::refusal::{Answer, Refusal, Reply};
use crate::world::World;

pub(crate) use self::request::Request;
pub(crate) use version::{negotiate, requested, root};

/// Does what a request asks.
pub(crate) fn answer(world: &mut World, request: &Request) -> Answer {
    let changed = match request.path.as_slice() {
        [kind, node, ..] if kind == "nodes" && request.method != "GET" => world.find(node).ok(),
        _ => None,
    };
    let rested = changed.and_then(|number| world.nodes.get(&number)?.rested);
    let answer = route(world, request);
    if let (Ok(_), Some(number), Some(_)) = (&answer, changed, rested) {
        world.reacted(number);
    }
    answer
}

fn route(world: &mut World, request: &Request) -> Answer {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", []) => Ok(Reply::ok(version::v1(world, &request.base))),
        ("GET", ["drivers"]) => Ok(Reply::ok(drivers(world))),
        ("GET", ["drivers", name]) => driver(world, name),
        ("GET", ["conductors"]) => Ok(Reply::ok(
            json!({"conductors": [{"hostname": world.config.conductor, "conductor_group": "", "alive": true, "links": []}]}),
        )),
        ("GET", ["nodes"]) => lists::nodes(world, request),
        ("GET", ["nodes", "detail"]) => lists::nodes_in_detail(world, request),
        ("POST", ["nodes"]) => create::create(world, request),
        ("GET", ["nodes", node]) => lists::node(world, request, node),
        ("PATCH", ["nodes", node]) => updates::patch(world, request, node),
        ("DELETE", ["nodes", node]) => updates::delete(world, node),
        ("GET", ["nodes", node, "states"]) => states::show(world, node),
        ("PUT", ["nodes", node, "states", "provision"]) => states::provision(world, request, node),
        ("PUT", ["nodes", node, "states", "power"]) => states::power(world, request, node),
        ("PUT", ["nodes", node, "states", "raid"]) => states::raid(world, request, node),
        ("PUT", ["nodes", node, "maintenance"]) => updates::maintenance(world, request, node, true),
        ("DELETE", ["nodes", node, "maintenance"]) => updates::maintenance(world, request, node, false),
        ("GET", ["nodes", node, "ports"]) => ports::of_node(world, request, node),
        (_, ["nodes", node, "vendor_passthru"]) => vendor::answer(world, request, node),
        (method, ["nodes", node, rest @ ..]) => bmc::answer(world, request, method, node, rest),
        ("GET", ["ports"]) => ports::list(world, request),
        ("POST", ["ports"]) => ports::create(world, request),
        ("GET", ["ports", port]) => ports::show(world, request, port),
        ("PATCH", ["ports", port]) => ports::patch(world, request, port),
        ("DELETE", ["ports", port]) => ports::delete(world, port),
        _ => Err(Refusal::no_such_path()),
    }
}

fn drivers(world: &World) -> Value {
    let of = |name| json!({"name": name, "hosts": [world.config.conductor], "type": "dynamic", "links": []});
    json!({"drivers": crate::drivers::names().map(of).collect::<Vec<_>>()})
}

fn driver(world: &World, name: &str) -> Answer {
    match crate::drivers::names().find(|known| *known == name) {
        Some(name) => Ok(Reply::ok(
            json!({"name": name, "hosts": [world.config.conductor], "type": "dynamic"}),
        )),
        None => Err(Refusal::new(
            404,
            format!("Driver, hardware type or interface {name} could not be found."),
        )),
    }
}
