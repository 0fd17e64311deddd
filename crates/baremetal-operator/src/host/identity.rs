//! Which node in Ironic belongs to a host.
//!
//! A name is no proof: another cluster, or a person who enrols nodes by hand, may use the same one. Nor is the UUID in
//! a status: it may come from a user's annotation, and it is public, because a server's metadata and its Node have it. A host's node is the one enrolled under the host's own UID, or
//! the one with both the UUID in its status and its name. Any other node is adopted only if it does not have another
//! host's name, if its BMC, and where known its boot MAC address, are the host's, and if that BMC accepts the credentials
//! of the host's own Secret. Otherwise nothing is ever taken from it.

use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus};
use metal3_ironic::Node;
use serde_json::{Map, Value};

use crate::host::annotations;

/// The UUID that a host's node is enrolled under: the host's own UID. The API server assigns it before any call to
/// Ironic, so a node is recognised even if its enrolment was never recorded, and no two hosts share one.
pub fn own_uuid(host: &BareMetalHost) -> Option<&str> {
    host.metadata.uid.as_deref().filter(|uid| is_uuid(uid))
}

/// The UUID in the status, if it is one: the value may come from a user's annotation, and a name would refer to another
/// owner's node.
pub fn stored_uuid(status: Option<&BareMetalHostStatus>) -> Option<&str> {
    let id = status.map(|status| status.provisioning.id.as_str())?;
    is_uuid(id).then_some(id)
}

/// Whether a text is a UUID in the form that Ironic and Kubernetes write.
pub fn is_uuid(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}

/// Whether this is the host's node.
pub fn is_own(node: &Node, host: &BareMetalHost, status: &BareMetalHostStatus) -> bool {
    let is_stored = !status.provisioning.id.is_empty() && node.uuid == status.provisioning.id;
    is_enrolled_for(node, host) || (is_stored && node.name == Some(node_name(host)))
}

/// Whether the node was enrolled under the host's own UID: it can be no other host's.
pub fn is_enrolled_for(node: &Node, host: &BareMetalHost) -> bool {
    own_uuid(host).is_some_and(|own| own == node.uuid)
}

/// The key in `extra` of a node that was not enrolled under its host's UID: the UID of the host whose credentials the
/// node's BMC has accepted. Only who may write to Ironic can set it.
pub const PROVEN_FOR: &str = "metal3_host_uid";

/// Whether the node was enrolled under the host's own UID, or is marked as the host's. Only a record with its detail
/// has the mark.
pub fn is_proven_for(node: &Node, host: &BareMetalHost) -> bool {
    let mark = node
        .detail
        .as_ref()
        .and_then(|detail| detail.extra.get(PROVEN_FOR)?.as_str());
    is_enrolled_for(node, host) || (mark.is_some() && mark == host.metadata.uid.as_deref())
}

/// Whether a node has the name of another host. Only such names contain a tilde, which no object name may.
pub fn is_anothers(node: &Node, host: &BareMetalHost) -> bool {
    let is_other = |name: &String| name.contains('~') && *name != node_name(host);
    !is_enrolled_for(node, host) && node.name.as_ref().is_some_and(is_other)
}

/// Whether the node has the host's own name, with or without its namespace.
pub fn is_named_after(node: &Node, host: &BareMetalHost) -> bool {
    let is_its = |name: &String| *name == node_name(host) || host.metadata.name.as_ref() == Some(name);
    node.name.as_ref().is_some_and(is_its)
}

/// Whether the host may adopt a node that has its name: not when it is about to release its own.
pub fn may_adopt(host: &BareMetalHost) -> bool {
    host.metadata.deletion_timestamp.is_none() && annotations::detached(host).is_none()
}

/// `<namespace>~<name>`: neither part may contain `~`.
pub fn node_name(host: &metal3_api::metal3::BareMetalHost) -> String {
    format!(
        "{}~{}",
        host.metadata.namespace.as_deref().unwrap_or_default(),
        host.metadata.name.as_deref().unwrap_or_default()
    )
}

/// The key in `extra` of ports created by this operator: the name of the node that they were created for.
pub const PORT_MARK: &str = "metal3_host";

/// Distinguishes our ports from those that Ironic's inspection or a person created.
pub fn port_mark(host: &BareMetalHost) -> Map<String, Value> {
    Map::from_iter([(PORT_MARK.to_owned(), node_name(host).into())])
}
