//! DataImage and HostFirmwareComponents: URLs that a BMC fetches.

use metal3_api::metal3::{DataImage, FirmwareUpdate, HostFirmwareComponents};
use metal3_runtime::webhook::{FieldError, Refusal, Rules};

use super::field::error_if;
use super::{image, uri};
use crate::host::named_url::UrlField;

pub const DATA_IMAGE_RULES: Rules<DataImage> = Rules {
    warnings: data_image_warnings,
    refusal: Refusal::Forbidden,
    ..Rules::of(data_image)
};

pub const COMPONENTS_RULES: Rules<HostFirmwareComponents> = Rules {
    warnings: components_warnings,
    refusal: Refusal::Forbidden,
    ..Rules::of(components)
};

fn data_image(image: &DataImage) -> Vec<FieldError> {
    let problem = uri::problem(&image.spec.url);
    problem
        .map(|problem| FieldError::new("spec.url", problem))
        .into_iter()
        .collect()
}

fn data_image_warnings(image: &DataImage) -> Vec<FieldError> {
    image::unusable(UrlField::DataImage, "spec.url", &image.spec.url)
        .into_iter()
        .collect()
}

fn url(index: usize) -> String {
    format!("spec.updates[{index}].url")
}

fn components(components: &HostFirmwareComponents) -> Vec<FieldError> {
    let updates = components.spec.updates.iter().enumerate();
    updates
        .filter_map(|(index, update)| Some(FieldError::new(url(index), uri::problem(&update.url)?)))
        .collect()
}

/// The controller reports unknown components, and applies nothing then.
fn components_warnings(components: &HostFirmwareComponents) -> Vec<FieldError> {
    let warnings = |(index, update): (usize, &FirmwareUpdate)| {
        let field = format!("spec.updates[{index}].component");
        let component = update.component.as_str();
        let is_component = matches!(component, "bios" | "bmc") || component.starts_with("nic:");
        let message = format!("{component:?} is unknown, must be bios, bmc or nic: with an id");
        [
            error_if(!is_component, &field, message),
            image::unusable(UrlField::Firmware, &url(index), &update.url),
        ]
    };
    let updates = components.spec.updates.iter().enumerate();
    updates.flat_map(warnings).flatten().collect()
}
