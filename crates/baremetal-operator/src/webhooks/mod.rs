//! The admission webhooks: what upstream's operator rejects, on upstream's paths. Every replica serves them, whether or not it
//! is the leader.
//!
//! The rules are pure. Most of them reuse what reconciliation reads the same fields with, so that the two cannot disagree. What
//! upstream admits and this operator cannot use is a warning. Rules that a schema can express are in the definitions
//! (`crates/api`) as well, where they apply even if no webhook answers.
//!
//! Upstream sets no defaults: its `/mutate-…` paths change nothing, and nothing calls them.

mod attachment;
mod claim;
mod field;
mod firmware;
mod host;
mod image;
mod subscription;
mod uri;
mod users;

use metal3_api::metal3::HostNetworkAttachment;
use metal3_runtime::webhook::{InUse, Installed, SelfManaged, Webhooks};

pub use self::users::of_attachment as users_of_attachment;
use crate::rbac::NAMESPACE;

/// All webhooks. `users` finds the host interfaces that use an attachment, and may block.
pub fn all<F>(users: F) -> Webhooks
where
    F: Fn(&HostNetworkAttachment) -> Result<Vec<String>, String> + Send + Sync + 'static,
{
    let in_use = InUse {
        field: "spec",
        affects: attachment::affects,
        users: Box::new(users),
    };
    Webhooks::new()
        .admit(host::RULES)
        .admit(subscription::RULES)
        .admit(firmware::DATA_IMAGE_RULES)
        .admit(firmware::COMPONENTS_RULES)
        .admit(claim::RULES)
        .admit_unless_used(attachment::RULES, in_use)
}

/// The webhook configuration to install, and the Service. Upstream's Deployment gives its pods this label.
pub const INSTALLED: Installed<'static> = Installed {
    namespace: NAMESPACE,
    prefix: "baremetal-operator-",
    label: ("webhook", "metal3-io-v1alpha1-baremetalhost"),
    validating: "",
    has_defaults: false,
};

/// The kinds of the definitions, in the plural.
const KINDS: [&str; 13] = [
    "baremetalhosts",
    "baremetalswitches",
    "bmceventsubscriptions",
    "dataimages",
    "firmwareschemas",
    "hardwaredata",
    "hostclaims",
    "hostdeploypolicies",
    "hostfirmwarecomponents",
    "hostfirmwaresettings",
    "hostnetworkattachments",
    "hostupdatepolicies",
    "preprovisioningimages",
];

/// Whose certificates are kept where there is no cert-manager. Nothing is converted: there is one version of each kind.
pub fn certificates(namespace: &str) -> SelfManaged {
    SelfManaged {
        installed: INSTALLED,
        namespace: namespace.to_owned(),
        definitions: Vec::new(),
        unconverted: KINDS.map(|kind| format!("{kind}.metal3.io")).to_vec(),
    }
}

#[cfg(test)]
mod tests;
