//! The admission rules: defaults and validation for the three kinds, as pure functions of the old and the new object.
//!
//! All errors are returned at once, each with its field. Texts that programs may match are upstream's.

mod address;
mod claim;
mod pool;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use metal3_api::ipam::names::annotation;
use metal3_api::reference::ObjectReference;
pub use metal3_runtime::webhook::FieldError;

use crate::alloc::parse;

pub use self::address::{create as create_address, update as update_address};
pub use self::claim::{create as create_claim, update as update_claim};
pub use self::pool::{
    create as create_pool, defaults as default_pool, update as update_pool, warnings as warn_of_pool,
};

/// The requested address in the annotation must be valid, if set.
fn requested(annotations: Option<&BTreeMap<String, String>>) -> Option<FieldError> {
    let text = annotations?.get(annotation::REQUESTED_ADDRESS)?;
    let field = format!("metadata.annotations.{}", annotation::REQUESTED_ADDRESS);
    if text.is_empty() {
        return None;
    }
    parse(text).err().map(|error| FieldError::new(field, error.to_string()))
}

/// The first difference between two references, reported on the whole field.
fn same_reference(field: &str, old: &ObjectReference, new: &ObjectReference) -> Option<FieldError> {
    let parts = [
        ("name", old.name != new.name),
        ("namespace", old.namespace != new.namespace),
        ("kind", old.kind != new.kind),
    ];
    let (part, _) = parts.into_iter().find(|(_, is_changed)| *is_changed)?;
    Some(FieldError::new(field, format!("{part} cannot be modified")))
}

fn filled(field: &str, text: &str) -> Option<FieldError> {
    text.is_empty().then(|| FieldError::new(field, "cannot be empty"))
}
