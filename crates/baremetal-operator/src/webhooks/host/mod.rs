//! BareMetalHost.

mod access;
mod annotations;
mod change;
mod interfaces;
mod warnings;

use metal3_api::metal3::{BareMetalHost, BareMetalHostSpec};
use metal3_runtime::webhook::{FieldError, Refusal, Rules};
use uuid::Uuid;

use super::field::{elsewhere, error_if};
use super::image;
use crate::host::raid;

/// Upstream's rules, also for a host in deletion.
pub const RULES: Rules<BareMetalHost> = Rules {
    change: change::errors,
    warnings: warnings::of,
    refusal: Refusal::Forbidden,
    ..Rules::of(shape)
};

fn shape(host: &BareMetalHost) -> Vec<FieldError> {
    let spec = &host.spec;
    let own = host.metadata.namespace.as_deref().unwrap_or_default();
    let firmware = "is no longer supported: use HostFirmwareSettings";
    let power = "cannot be used with online: false: the host would have to be powered off";
    let mut errors = name(host.metadata.name.as_deref().unwrap_or_default());
    errors.extend(access::errors(host));
    errors.extend(
        [
            error_if(spec.firmware.is_some(), "spec.firmware", firmware),
            elsewhere("spec.userData", spec.user_data.as_ref(), own),
            elsewhere("spec.metaData", spec.meta_data.as_ref(), own),
            elsewhere("spec.networkData", spec.network_data.as_ref(), own),
            device_name(spec),
            error_if(spec.disable_power_off && !spec.online, "spec.disablePowerOff", power),
        ]
        .into_iter()
        .flatten(),
    );
    if let Some(config) = &spec.raid {
        errors.extend(raid::errors(config, spec.root_device_hints.as_ref()));
    }
    errors.extend(image::errors(spec.image.as_ref()));
    errors.extend(interfaces::errors(&spec.network_interfaces));
    errors.extend(annotations::errors(host));
    errors
}

/// Ironic takes names of nodes for UUIDs if they look like one.
fn name(name: &str) -> Vec<FieldError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let field = "metadata.name";
    [
        error_if(
            !name.chars().all(is_allowed),
            field,
            "may contain letters, digits, - . and _ only",
        ),
        error_if(
            Uuid::try_parse(name).is_ok(),
            field,
            "must not be a UUID, which identifies nodes in Ironic",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn device_name(spec: &BareMetalHostSpec) -> Option<FieldError> {
    let name = &spec.root_device_hints.as_ref()?.device_name;
    let device = name.strip_prefix("/dev/");
    let is_one = device.is_some_and(|device| !device.strip_prefix("disk/by-path/").unwrap_or(device).contains('/'));
    let message = format!("{name:?} must be a device such as /dev/sda, or a link in /dev/disk/by-path/");
    error_if(!name.is_empty() && !is_one, "spec.rootDeviceHints.deviceName", message)
}

#[cfg(test)]
mod tests;
