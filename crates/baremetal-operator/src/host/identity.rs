//! Which node in Ironic is a host's.
//!
//! A name is no proof: another cluster may use the same one, and so may whoever enrols nodes by hand. A host's node is the one with
//! the UUID in its status, or the one that was enrolled under the host's own UID. Any other is taken over only if its BMC, and
//! where known its boot MAC address, are the host's, and nothing is ever taken from it otherwise.

use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus};
use metal3_ironic::Node;

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
    (!status.provisioning.id.is_empty() && node.uuid == status.provisioning.id)
        || own_uuid(host).is_some_and(|own| own == node.uuid)
}

/// Whether the host may take over a node that has its name: not when it is about to let go of its own.
pub fn may_adopt(host: &BareMetalHost) -> bool {
    host.metadata.deletion_timestamp.is_none() && annotations::detached(host).is_none()
}
