//! Which node in Ironic is a host's.
//!
//! A name is no proof: another cluster may use the same one, and so may whoever enrols nodes by hand. Nor is the UUID in a status,
//! which may come from an annotation that a user has written. A host's node is the one that was enrolled under the host's own UID,
//! or the one with both the UUID in its status and its name. Any other is taken over only if it bears no other host's name, and if
//! its BMC, and where known its boot MAC address, are the host's; Ironic is then given the credentials of the host's own Secret.
//! Nothing is ever taken from it otherwise.

use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus};
use metal3_ironic::Node;
use serde_json::{Map, Value};

use crate::host::annotations;

/// The UUID that a host's node is enrolled under: the host's own UID. The API server has chosen it before anything is asked of
/// Ironic, so that a node is known whose enrolment was never noted, and no two hosts share one.
pub fn own_uuid(host: &BareMetalHost) -> Option<&str> {
    host.metadata.uid.as_deref().filter(|uid| is_uuid(uid))
}

/// The UUID in the status, if it is one: what stands there may come from an annotation that a user has written, and a name would
/// lead to somebody else's node.
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

/// Whether a node bears the name of another host. Only such names have a tilde, which is in the name of no object.
pub fn is_anothers(node: &Node, host: &BareMetalHost) -> bool {
    let is_other = |name: &String| name.contains('~') && *name != node_name(host);
    !is_enrolled_for(node, host) && node.name.as_ref().is_some_and(is_other)
}

/// Whether the host may take over a node that has its name: not when it is about to let go of its own.
pub fn may_adopt(host: &BareMetalHost) -> bool {
    host.metadata.deletion_timestamp.is_none() && annotations::detached(host).is_none()
}

/// `<namespace>~<name>`: `~` can stand in neither.
pub fn node_name(host: &metal3_api::metal3::BareMetalHost) -> String {
    format!(
        "{}~{}",
        host.metadata.namespace.as_deref().unwrap_or_default(),
        host.metadata.name.as_deref().unwrap_or_default()
    )
}

/// Stands in `extra` of the ports that this operator has created: the name of the node that they were created for.
pub const PORT_MARK: &str = "metal3_host";

/// What tells our ports from those that Ironic's inspection or somebody by hand has created.
pub fn port_mark(host: &BareMetalHost) -> Map<String, Value> {
    Map::from_iter([(PORT_MARK.to_owned(), node_name(host).into())])
}
