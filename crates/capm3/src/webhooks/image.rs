//! The image of a machine, or of a machine template.

use metal3_api::infra::v1beta2::{Image, Metal3MachineSpec};
use metal3_api::metal3::ImageFormat;
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
    let field = format!("{field}.url");
    if image.url.is_empty() {
        return Some(FieldError::new(field, "is required"));
    }
    let message = format!("{:?} is neither an absolute URL nor an absolute path", image.url);
    error_if(!is_request_uri(&image.url), &field, &message)
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
    let message = format!("{checksum:?} is no URL");
    error_if(is_url && !is_request_uri(checksum), &field, &message)
}

fn checksum_type(image: &Image, field: &str) -> Option<FieldError> {
    let field = format!("{field}.checksumType");
    let is_wrong = is_oci(image) && image.checksum_type.is_some();
    error_if(is_wrong, &field, "must not be set for an oci:// image")
}

/// What Go's `url.ParseRequestURI` accepts: an absolute path, or a scheme followed by something.
fn is_request_uri(text: &str) -> bool {
    let is_clean = !text.contains(|c: char| c.is_ascii_control() || c == ' ');
    let has_scheme = || {
        text.split_once(':').is_some_and(|(scheme, rest)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
                && !rest.is_empty()
        })
    };
    is_clean && (text.starts_with('/') || has_scheme())
}
