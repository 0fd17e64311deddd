//! How a rule says what is wrong.

use metal3_runtime::webhook::FieldError;

/// One error, if the field is wrong.
pub(super) fn error_if(is_wrong: bool, field: &str, message: &str) -> Option<FieldError> {
    is_wrong.then(|| FieldError::new(field, message))
}
