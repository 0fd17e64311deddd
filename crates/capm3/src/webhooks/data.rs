//! Metal3DataClaim and Metal3Data.

use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim};
use metal3_runtime::webhook::{FieldError, Rules};

use super::errors::error_if;

pub const CLAIM_RULES: Rules<Metal3DataClaim> = Rules::of(claim_shape);

pub const RULES: Rules<Metal3Data> = Rules::of(shape);

fn claim_shape(claim: &Metal3DataClaim) -> Vec<FieldError> {
    let template = &claim.spec.template;
    let own = claim.metadata.namespace.as_deref().unwrap_or_default();
    let is_foreign = !template.namespace.is_empty() && template.namespace != own;
    let message = format!(
        "{:?} is another namespace than the object's own ({own:?})",
        template.namespace
    );
    [
        error_if(template.name.is_empty(), "spec.template.name", "is required"),
        error_if(is_foreign, "spec.template.namespace", &message),
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
