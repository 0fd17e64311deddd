//! The admission webhooks. Every replica serves them, whether or not it is the leader.

use metal3_api::ipam::{IPAddress, IPClaim, IPPool};
use metal3_runtime::webhook::{Installed, Rules, SelfManaged, Webhooks};

use crate::admission;
use crate::rbac::{LABEL, NAMESPACE};

/// All webhooks. Upstream serves `/mutate-…` for all three kinds.
pub fn all() -> Webhooks {
    Webhooks::new()
        .admit(Rules::<IPPool> {
            change: admission::update_pool,
            warnings: admission::warn_of_pool,
            defaults: Some(|pool| {
                admission::default_pool(pool);
            }),
            ..Rules::of(admission::create_pool)
        })
        .admit(Rules::<IPClaim> {
            change: admission::update_claim,
            defaults: Some(|_| ()),
            ..Rules::of(admission::create_claim)
        })
        .admit(Rules::<IPAddress> {
            change: admission::update_address,
            defaults: Some(|_| ()),
            ..Rules::of(admission::create_address)
        })
}

/// The webhook configurations to install.
pub const INSTALLED: Installed<'static> = Installed {
    namespace: NAMESPACE,
    prefix: "ipam-",
    label: LABEL,
    validating: "validation.",
    has_defaults: true,
};

/// Whose certificates are kept where there is no cert-manager. Nothing is converted: there is one version of each kind.
pub fn certificates(namespace: &str) -> SelfManaged {
    let kinds = ["ipaddresses", "ipclaims", "ippools"];
    SelfManaged {
        installed: INSTALLED,
        namespace: namespace.to_owned(),
        definitions: Vec::new(),
        unconverted: kinds.map(|kind| format!("{kind}.ipam.metal3.io")).to_vec(),
    }
}
