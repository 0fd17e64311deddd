//! Metal3DataClaim and Metal3Data. Most of what cannot be changed is in the definitions as well (`crates/api`), where it holds
//! without a webhook. Upstream's definitions have no such rules.

use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim};
use metal3_api::reference::Elsewhere;
use metal3_runtime::webhook::{FieldError, Rules};

use super::errors::error_if;

pub const CLAIM_RULES: Rules<Metal3DataClaim> = Rules {
    change: |old, new| {
        let template = fixed("spec.template", &old.spec.template, &new.spec.template);
        template.into_iter().collect()
    },
    ..Rules::of(claim_shape)
};

pub const RULES: Rules<Metal3Data> = Rules {
    change,
    ..Rules::of(shape)
};

/// The names of the Secrets may change: the controller writes them. An absent index counts as 0, as in upstream.
fn change(old: &Metal3Data, new: &Metal3Data) -> Vec<FieldError> {
    let (old, new) = (&old.spec, &new.spec);
    [
        fixed("spec.index", &old.index.unwrap_or(0), &new.index.unwrap_or(0)),
        fixed("spec.claim", &old.claim, &new.claim),
        fixed("spec.template", &old.template, &new.template),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn fixed<T: PartialEq>(field: &str, old: &T, new: &T) -> Option<FieldError> {
    error_if(old != new, field, "cannot be changed")
}

fn claim_shape(claim: &Metal3DataClaim) -> Vec<FieldError> {
    let template = &claim.spec.template;
    let own = claim.metadata.namespace.as_deref().unwrap_or_default();
    let foreign = template.local(own).err().map(|Elsewhere(namespace)| {
        let message = format!("{namespace:?} is another namespace than the object's own ({own:?})");
        FieldError::new("spec.template.namespace", message)
    });
    [
        error_if(template.name.is_empty(), "spec.template.name", "is required"),
        foreign,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Its name identifies template and index, so that two with the same cannot exist.
fn shape(data: &Metal3Data) -> Vec<FieldError> {
    let template = &data.spec.template.name;
    let Some(index) = data.spec.index else {
        return Vec::new();
    };
    let name = data.metadata.name.as_deref().unwrap_or_default();
    let wanted = format!("{template}-{index}");
    let is_misnamed = !template.is_empty() && name != wanted;
    let message = format!("{name:?} must be {wanted:?}, which is the template's name and the index");
    [
        error_if(index < 0, "spec.index", "must not be negative"),
        error_if(is_misnamed, "metadata.name", &message),
    ]
    .into_iter()
    .flatten()
    .collect()
}
