//! Errors that several kinds share.

use std::collections::BTreeMap;

use metal3_api::metal3::{RebootMode, RebootRequest, reboot_requests};
use metal3_api::reference::{Elsewhere, SecretReference};
use metal3_runtime::webhook::FieldError;

/// One error, if the field is wrong.
pub fn error_if(is_wrong: bool, field: &str, message: impl Into<String>) -> Option<FieldError> {
    is_wrong.then(|| FieldError::new(field, message))
}

/// The path of an annotation.
pub fn annotation(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

/// A Secret in another namespace than `own`.
pub fn elsewhere(field: &str, secret: Option<&SecretReference>, own: &str) -> Option<FieldError> {
    let secret = secret?;
    let Elsewhere(namespace) = secret.local(own).err()?;
    // With the name, so that the error of a stored object does not excuse another Secret.
    let name = &secret.name;
    let message = format!("{namespace:?} is another namespace than the object's own ({own:?}) for Secret {name:?}");
    Some(FieldError::new(format!("{field}.namespace"), message))
}

/// Reboot annotations with an unusable value.
pub fn reboots(annotations: Option<&BTreeMap<String, String>>) -> Vec<FieldError> {
    let problem = |request: RebootRequest<'_>| {
        let message = match request.arguments {
            Err(error) => format!("must be empty, or JSON such as {{\"mode\": \"hard\"}}: {error}"),
            Ok(arguments) => match arguments.mode {
                RebootMode::Other(mode) if !mode.is_empty() => {
                    format!("mode {mode:?} is unknown, must be hard or soft")
                }
                RebootMode::Hard | RebootMode::Soft | RebootMode::Other(_) => return None,
            },
        };
        Some(FieldError::new(annotation(request.key), message))
    };
    annotations
        .into_iter()
        .flat_map(reboot_requests)
        .filter_map(problem)
        .collect()
}
