//! The image of a machine, or of a machine template. No error quotes a URL: it may contain a password.

use metal3_api::infra::v1beta2::{Image, Metal3MachineSpec};
use metal3_api::metal3::ImageFormat;
use metal3_runtime::go_url::RequestUri;
use metal3_runtime::webhook::FieldError;

use super::errors::error_if;

/// A machine needs an image or a custom deploy step; with the latter, the image is not validated.
pub fn shape(spec: &Metal3MachineSpec, path: &str) -> Vec<FieldError> {
    if !spec.custom_deploy.method.is_empty() {
        return Vec::new();
    }
    let field = format!("{path}.image");
    let image = spec.image.clone().unwrap_or_default();
    if image.url.is_empty() && image.checksum.is_none() {
        return vec![FieldError::new(
            field,
            "either an image or customDeploy.method is required",
        )];
    }
    let errors = [
        url(&image, &field),
        checksum(&image, &field),
        checksum_type(&image, &field),
    ];
    errors.into_iter().flatten().collect()
}

fn is_oci(image: &Image) -> bool {
    let scheme = image.url.get(..6).unwrap_or_default();
    scheme.eq_ignore_ascii_case("oci://")
}

fn url(image: &Image, field: &str) -> Option<FieldError> {
    let problem = RequestUri::parse(&image.url).err()?;
    Some(FieldError::new(format!("{field}.url"), problem))
}

/// An image of a registry is identified by its digest, and a live ISO needs no checksum.
fn checksum(image: &Image, field: &str) -> Option<FieldError> {
    let field = format!("{field}.checksum");
    let checksum = image.checksum.as_deref().unwrap_or_default();
    if is_oci(image) {
        return error_if(!checksum.is_empty(), &field, "must not be set for an oci:// image");
    }
    if image.disk_format == Some(ImageFormat::LiveIso) {
        return None;
    }
    if checksum.is_empty() {
        return Some(FieldError::new(field, "is required"));
    }
    let is_url = ["http://", "https://"]
        .iter()
        .any(|scheme| checksum.starts_with(scheme));
    let problem = RequestUri::parse(checksum).err().filter(|_| is_url)?;
    Some(FieldError::new(field, problem))
}

fn checksum_type(image: &Image, field: &str) -> Option<FieldError> {
    let field = format!("{field}.checksumType");
    let is_wrong = is_oci(image) && image.checksum_type.is_some();
    error_if(is_wrong, &field, "must not be set for an oci:// image")
}
