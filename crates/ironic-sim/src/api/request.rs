//! Request handling shared by all resources of the API.

use serde_json::{Map, Value, json};

use crate::refusal::Refusal;
use crate::world::World;

/// A request whose version and credentials are in order.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub method: String,
    /// The path below the root, without `v1`.
    pub path: Vec<String>,
    pub query: Vec<(String, String)>,
    pub body: Value,
    /// The minor version.
    pub version: u16,
    /// What the client calls us, for links: `http://host:port`.
    pub base: String,
}

impl Request {
    /// A parameter of the query.
    pub fn asks(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.asks(name)
            .map(|word| matches!(word.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on"))
    }

    /// The body as an object; nothing is an empty one.
    pub fn object(&self) -> Result<Map<String, Value>, Refusal> {
        match &self.body {
            Value::Null => Ok(Map::new()),
            Value::Object(map) => Ok(map.clone()),
            _ => Err(Refusal::bad_request("The body is not an object.")),
        }
    }
}

/// Refuses while another action holds the node.
pub(super) fn exclusive(world: &World, number: u32) -> Result<(), Refusal> {
    match world.nodes.get(&number) {
        Some(node) if node.is_locked => Err(Refusal::locked(&node.uuid, &world.config.conductor)),
        _ => Ok(()),
    }
}

/// Links to a resource.
pub(super) fn links(base: &str, kind: &str, uuid: &str) -> Value {
    json!([
        {"href": format!("{base}/v1/{kind}/{uuid}"), "rel": "self"},
        {"href": format!("{base}/{kind}/{uuid}"), "rel": "bookmark"},
    ])
}
