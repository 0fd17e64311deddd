//! Fields that are deprecated or ignored, and values that upstream admits but that cannot work.

use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{BareMetalHost, DetachedArguments, HardwareProfile};
use metal3_runtime::webhook::FieldError;

use super::super::field::{annotation as path, error_if};
use super::super::image;
use crate::host::annotations::value;
use crate::host::raid;

pub fn of(host: &BareMetalHost) -> Vec<FieldError> {
    let spec = &host.spec;
    let has_user_info = spec.bmc.address.contains('@');
    let has_credentials = spec.bmc.address.is_empty() == spec.bmc.credentials_name.is_empty();
    let detached = value(host, annotation::DETACHED).and_then(|text| DetachedArguments::parse(text).err());
    let is_inspection_disabled = value(host, annotation::INSPECT) == Some(annotation::INSPECT_DISABLED);
    let mut warnings: Vec<FieldError> = [
        error_if(!spec.taints.is_empty(), "spec.taints", "is deprecated and has no effect"),
        hardware_profile(&spec.hardware_profile),
        error_if(
            !spec.network_interfaces.is_empty(),
            "spec.networkInterfaces",
            "has no effect yet: attachments are not passed to Ironic, as in upstream",
        ),
        error_if(
            has_user_info,
            "spec.bmc.address",
            "user and password in an address are ignored, and anyone who may read the host sees them: use the Secret of \
             credentialsName",
        ),
        error_if(!has_credentials, "spec.bmc", "a host needs both an address and a credentialsName to be managed"),
        error_if(
            is_inspection_disabled,
            &path(annotation::INSPECT),
            "this value is deprecated: use inspectionMode: disabled",
        ),
        detached.map(|error| {
            let message = format!("counts as present without arguments: {error}");
            FieldError::new(path(annotation::DETACHED), message)
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(config) = &spec.raid {
        warnings.extend(raid::doubts(config));
    }
    warnings.extend(image::warnings(spec.image.as_ref()));
    warnings
}

fn hardware_profile(name: &str) -> Option<FieldError> {
    let is_known = HardwareProfile::ALL.iter().any(|profile| profile.name() == name);
    let message = if is_known {
        "is deprecated: use rootDeviceHints".to_owned()
    } else {
        format!("{name:?} does not exist, and the host cannot be registered with it: use rootDeviceHints")
    };
    error_if(!name.is_empty(), "spec.hardwareProfile", message)
}
