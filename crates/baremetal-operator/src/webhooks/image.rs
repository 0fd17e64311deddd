//! The image of a host, or of a HostClaim.

use metal3_api::metal3::{ChecksumError, Image};
use metal3_runtime::denied::DeniedRanges;
use metal3_runtime::webhook::FieldError;

use super::field::error_if;
use super::uri;
use crate::host::named_url::{NamedUrl, UrlField};

const FIELD: &str = "spec.image";

/// What upstream rejects.
pub fn errors(image: Option<&Image>) -> Vec<FieldError> {
    let Some(image) = image else { return Vec::new() };
    let url = uri::problem(&image.url).map(|problem| FieldError::new(format!("{FIELD}.url"), problem));
    let checksum = image.resolve_checksum().err().map(|error| {
        let (name, message) = match error {
            ChecksumError::NotForOci => ("checksum", "must not be set for an oci:// image".to_owned()),
            ChecksumError::Missing => ("checksum", "is required".to_owned()),
            ChecksumError::UnknownType(text) => {
                let known = "md5, sha256, sha512 and auto";
                ("checksumType", format!("{text:?} is unknown, must be one of {known}"))
            }
        };
        FieldError::new(format!("{FIELD}.{name}"), message)
    });
    url.into_iter().chain(checksum).collect()
}

/// What is ignored, can be misused, or will not be passed to Ironic.
pub fn warnings(image: Option<&Image>) -> Vec<FieldError> {
    let Some(image) = image else { return Vec::new() };
    let field = |name: &str| format!("{FIELD}.{name}");
    let is_ignored = image.is_live_iso() && !image.is_oci() && !image.checksum.is_empty();
    let is_for_oci = !image.is_oci() && !image.oci_auth_secret_name.is_empty();
    let doubted = if image.is_oci() { "url" } else { "checksum" };
    let checksum = image.resolve_checksum().ok().flatten();
    let file = checksum.filter(|checksum| checksum.value.contains("://"));
    [
        unusable(UrlField::Image, &field("url"), &image.url),
        file.and_then(|file| refused_later(UrlField::Checksum, &field("checksum"), file.value)),
        error_if(is_ignored, &field("checksum"), "is ignored for a live ISO"),
        error_if(
            is_for_oci,
            &field("ociAuthSecretName"),
            "is used for oci:// images only",
        ),
        image.doubt().map(|doubt| FieldError::new(field(doubted), doubt)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A URL that upstream admits, and that the operator will not pass on.
pub fn unusable(kind: UrlField, field: &str, url: &str) -> Option<FieldError> {
    let is_admitted = uri::problem(url).is_none();
    is_admitted.then(|| refused_later(kind, field, url)).flatten()
}

/// The denied addresses are not checked here: only the operator's settings have them.
fn refused_later(kind: UrlField, field: &str, url: &str) -> Option<FieldError> {
    let problem = NamedUrl::problem(kind, url, &DeniedRanges::NONE)?;
    Some(FieldError::new(field, format!("cannot be used: {problem}")))
}
