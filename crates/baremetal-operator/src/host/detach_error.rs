//! The error type of a failed detachment, for which the API has no value.

use metal3_api::metal3::{BareMetalHostStatus, ErrorType};

/// The prefix of the message of a failed detachment.
const DETACHING_FAILED: &str = "detaching failed: ";

/// The error type of a failed detachment in decisions. The API has no value that could be stored: see
/// [`write_detach_error`].
pub fn detach_error() -> ErrorType {
    ErrorType::Other("detach error".to_owned())
}

/// Converts a failed detachment to its stored form.
pub fn write_detach_error(status: &mut BareMetalHostStatus) {
    if status.error_type == Some(detach_error()) {
        status.error_type = Some(ErrorType::Registration);
        if !status.error_message.starts_with(DETACHING_FAILED) {
            status.error_message.insert_str(0, DETACHING_FAILED);
        }
    }
}

/// The error type of a status, with that of a failed detachment recognised.
pub fn error_type(status: &BareMetalHostStatus) -> Option<ErrorType> {
    let is_detaching = status.error_message.starts_with(DETACHING_FAILED);
    match &status.error_type {
        Some(ErrorType::Registration) if is_detaching => Some(detach_error()),
        other => other.clone(),
    }
}

/// Recognises the stored form of a failed detachment.
pub fn read_detach_error(status: &mut BareMetalHostStatus) {
    status.error_type = error_type(status);
}
