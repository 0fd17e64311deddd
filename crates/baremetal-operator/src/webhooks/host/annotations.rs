//! Annotations with values.

use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{BareMetalHost, InspectionMode};
use metal3_runtime::webhook::FieldError;

use super::super::field::{annotation as path, error_if, reboots};
use crate::host::annotations::{hardware_details, is_inspection_disabled, strict_status, value};
use crate::host::text::for_people;

pub fn errors(host: &BareMetalHost) -> Vec<FieldError> {
    let mut errors = reboots(host.metadata.annotations.as_ref());
    errors.extend(inspection(host));
    let given = |key: &'static str| value(host, key).filter(|text| !text.is_empty());
    let error = |key: &str, message: String| FieldError::new(path(key), for_people(&message));
    if let Some(Err(problem)) = given(annotation::STATUS).map(strict_status) {
        errors.push(error(annotation::STATUS, problem));
    }
    let key = annotation::HARDWARE_DETAILS;
    if let Some(text) = given(key) {
        let message = "cannot be used unless inspection is disabled, by spec.inspectionMode or inspect.metal3.io";
        errors.extend((!is_inspection_disabled(host)).then(|| error(key, message.to_owned())));
        errors.extend(hardware_details(text).err().map(|problem| error(key, problem)));
    }
    errors
}

fn inspection(host: &BareMetalHost) -> Vec<FieldError> {
    let value = value(host, annotation::INSPECT).unwrap_or_default();
    let disables = value == annotation::INSPECT_DISABLED;
    let field = path(annotation::INSPECT);
    let unknown = match &host.spec.inspection_mode {
        Some(InspectionMode::Other(mode)) => Some(FieldError::new(
            "spec.inspectionMode",
            format!("{mode:?} is unknown, must be one of disabled, agent and fast"),
        )),
        _ => None,
    };
    let contradicts = host
        .spec
        .inspection_mode
        .as_ref()
        .is_some_and(|mode| !value.is_empty() && disables != (*mode == InspectionMode::Disabled));
    [
        error_if(!disables && !value.is_empty(), &field, "must be empty or \"disabled\""),
        error_if(
            contradicts,
            &field,
            "contradicts spec.inspectionMode: remove one of them",
        ),
        unknown,
    ]
    .into_iter()
    .flatten()
    .collect()
}
