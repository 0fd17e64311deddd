//! HostNetworkAttachment.

use kube::core::ObjectMeta;
use metal3_api::metal3::{HostNetworkAttachment, NetworkInterface, SwitchPortMode};
use metal3_api::reference::LocalRef;
use metal3_runtime::webhook::{FieldError, Refusal, Rules};

use super::field::error_if;

pub const RULES: Rules<HostNetworkAttachment> = Rules {
    refusal: Refusal::Forbidden,
    ..Rules::of(shape)
};

/// VLAN ids that can be used.
const VLANS: std::ops::RangeInclusive<u32> = 1..=4094;

fn shape(attachment: &HostNetworkAttachment) -> Vec<FieldError> {
    let (spec, field) = (&attachment.spec, "spec.allowedVLANs");
    let is_tagged = spec.mode == SwitchPortMode::Access && !spec.allowed_vlans.is_empty();
    let vlans = spec.allowed_vlans.iter().enumerate();
    let wrong = vlans.filter(|(_, text)| !is_vlans(text)).map(|(index, text)| {
        let message = format!("{text:?} must be a VLAN id from 1 to 4094, or a range such as 200-203");
        FieldError::new(format!("{field}[{index}]"), message)
    });
    error_if(is_tagged, field, "must be empty in mode access")
        .into_iter()
        .chain(wrong)
        .collect()
}

/// One id, or two in ascending order.
fn is_vlans(text: &str) -> bool {
    let id = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|id| is_number && VLANS.contains(id))
    };
    match text.split_once('-') {
        None => id(text).is_some(),
        Some((first, last)) => id(first).zip(id(last)).is_some_and(|(first, last)| first < last),
    }
}

/// Whether a change affects the hosts that use the attachment.
pub fn affects(old: &HostNetworkAttachment, new: &HostNetworkAttachment) -> bool {
    old.spec != new.spec
}

/// An interface of a host that uses an attachment. Shown as `namespace/host[interface]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub namespace: String,
    pub host: String,
    /// Its name, or else its MAC address.
    pub interface: String,
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            namespace,
            host,
            interface,
        } = self;
        write!(f, "{namespace}/{host}[{interface}]")
    }
}

impl User {
    /// An interface of the host with this metadata.
    pub fn of(host: &ObjectMeta, interface: &str) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            namespace: text(&host.namespace),
            host: text(&host.name),
            interface: interface.to_owned(),
        }
    }
}

/// The interfaces of a host that use an attachment. A reference to another namespace counts for nothing: otherwise a tenant could
/// keep another one from changing an attachment.
pub fn users(host: &ObjectMeta, interfaces: &[NetworkInterface], attachment: &HostNetworkAttachment) -> Vec<User> {
    let own = host.namespace.as_deref().unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let of = (text(&attachment.metadata.namespace), text(&attachment.metadata.name));
    let interfaces = interfaces.iter().filter(|interface| {
        let reference = &interface.host_network_attachment;
        let local = reference.local(own);
        let is_it = |local: LocalRef<'_>| (local.namespace(), local.name()) == (of.0.as_str(), of.1.as_str());
        !reference.name.is_empty() && local.is_ok_and(is_it)
    });
    let selector = |interface: &NetworkInterface| {
        let is_named = !interface.name.is_empty();
        let selector = if is_named {
            &interface.name
        } else {
            &interface.mac_address
        };
        User::of(host, selector)
    };
    interfaces.map(selector).collect()
}
