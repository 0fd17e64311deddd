//! Ports: the network cards known to Ironic.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::clock::Clock;

/// A port.
#[derive(Debug)]
pub(crate) struct Port {
    pub uuid: String,
    /// The node's number.
    pub node: u32,
    pub address: String,
    pub pxe_enabled: bool,
    pub extra: Map<String, Value>,
    pub created: Duration,
}

/// What a port has.
pub(crate) const FIELDS: &[&str] = &[
    "uuid",
    "address",
    "node_uuid",
    "pxe_enabled",
    "extra",
    "local_link_connection",
    "physical_network",
    "portgroup_uuid",
    "internal_info",
    "is_smartnic",
    "name",
    "created_at",
    "updated_at",
];

impl Port {
    /// One of [`FIELDS`].
    pub fn field(&self, name: &str, node_uuid: &str, clock: &Clock) -> Value {
        match name {
            "uuid" => json!(self.uuid),
            "address" => json!(self.address),
            "node_uuid" => json!(node_uuid),
            "pxe_enabled" => json!(self.pxe_enabled),
            "extra" => json!(self.extra),
            "local_link_connection" | "internal_info" => json!({}),
            "is_smartnic" => json!(false),
            "created_at" => json!(clock.stamp(self.created)),
            _ => Value::Null,
        }
    }
}

/// Whether a text is a MAC address.
pub(crate) fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    parts.len() == 6
        && parts
            .iter()
            .all(|part| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit()))
}
