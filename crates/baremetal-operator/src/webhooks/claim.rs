//! HostClaim.

use metal3_api::labels::{check_key, check_value};
use metal3_api::metal3::{HostClaim, HostSelectorRequirement};
use metal3_runtime::webhook::{FieldError, Refusal, Rules};

use super::field::error_if;
use super::{field, image};

pub const RULES: Rules<HostClaim> = Rules {
    warnings,
    refusal: Refusal::Forbidden,
    ..Rules::of(shape)
};

const SELECTOR: &str = "spec.hostSelector";

fn shape(claim: &HostClaim) -> Vec<FieldError> {
    let selector = &claim.spec.host_selector;
    let mut errors = Vec::new();
    for (key, value) in &selector.match_labels {
        let field = format!("{SELECTOR}.matchLabels[{key}]");
        let problems = [check_key(key), check_value(value)].into_iter().filter_map(Result::err);
        errors.extend(problems.map(|problem| FieldError::new(&field, problem)));
    }
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        expression(index, requirement, &mut errors);
    }
    errors.extend(field::reboots(claim.metadata.annotations.as_ref()));
    errors.extend(image::errors(claim.spec.image.as_ref()));
    errors
}

/// Operators are case-sensitive, as in upstream's webhook.
fn expression(index: usize, requirement: &HostSelectorRequirement, errors: &mut Vec<FieldError>) {
    let mut error = |name: &str, message: String| {
        let field = format!("{SELECTOR}.matchExpressions[{index}].{name}");
        errors.push(FieldError::new(field, message));
    };
    if let Err(problem) = check_key(&requirement.key) {
        error("key", problem);
    }
    let (operator, values) = (requirement.operator.as_str(), &requirement.values);
    let (is_right, wanted) = match operator {
        "=" | "==" | "!=" => (values.len() == 1, "exactly one value is needed"),
        "in" | "notin" => (!values.is_empty(), "at least one value is needed"),
        "exists" | "!" => (values.is_empty(), "must be empty for this operator"),
        _ => {
            let known = "=, ==, !=, in, notin, exists, !";
            error("operator", format!("{operator:?} is unknown, must be one of {known}"));
            return;
        }
    };
    if !is_right {
        error("values", format!("{wanted} with {operator}"));
    }
    for problem in values.iter().filter_map(|value| check_value(value).err()) {
        error("values", problem);
    }
}

fn warnings(claim: &HostClaim) -> Vec<FieldError> {
    let image = claim.spec.image.as_ref();
    let names_secret = image.is_some_and(|image| !image.oci_auth_secret_name.is_empty());
    let message = "a HostClaim with it does not get its image: it would name a Secret of the host's namespace";
    let mut warnings: Vec<FieldError> = error_if(names_secret, "spec.image.ociAuthSecretName", message)
        .into_iter()
        .collect();
    warnings.extend(image::warnings(image));
    warnings
}
