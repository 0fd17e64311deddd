//! Metal3Remediation and Metal3RemediationTemplate.

use metal3_api::infra::v1beta2::{
    Metal3Remediation, Metal3RemediationSpec, Metal3RemediationTemplate, RemediationType,
};
use metal3_runtime::webhook::{FieldError, Rules};

use super::errors::error_if;

pub const RULES: Rules<Metal3Remediation> = Rules::of(|remediation| shape(&remediation.spec, "spec"));

pub const TEMPLATE_RULES: Rules<Metal3RemediationTemplate> = Rules {
    defaults: Some(defaults),
    ..Rules::of(|template| shape(&template.spec.template.spec, "spec.template.spec"))
};

/// Default seconds of an attempt.
const TIMEOUT: i32 = 600;
const SHORTEST_TIMEOUT: i32 = 100;

/// Upstream panics if there is no strategy.
fn defaults(template: &mut Metal3RemediationTemplate) {
    let Some(strategy) = &mut template.spec.template.spec.strategy else {
        return;
    };
    strategy.type_.get_or_insert(RemediationType::Reboot);
    strategy.retry_limit = strategy.retry_limit.max(1);
    if strategy.timeout_seconds == 0 {
        strategy.timeout_seconds = TIMEOUT;
    }
}

fn shape(spec: &Metal3RemediationSpec, path: &str) -> Vec<FieldError> {
    let Some(strategy) = &spec.strategy else {
        return Vec::new();
    };
    let (timeout, retries) = (strategy.timeout_seconds, strategy.retry_limit);
    let timeout_words = format!("{timeout} is too short: at least {SHORTEST_TIMEOUT} seconds");
    let retries_words = format!("{retries} is too few: at least 1");
    let field = |name: &str| format!("{path}.strategy.{name}");
    [
        error_if(
            strategy.type_ != Some(RemediationType::Reboot),
            &field("type"),
            "only Reboot is known",
        ),
        error_if(
            timeout != 0 && timeout < SHORTEST_TIMEOUT,
            &field("timeoutSeconds"),
            &timeout_words,
        ),
        error_if(retries < 1, &field("retryLimit"), &retries_words),
    ]
    .into_iter()
    .flatten()
    .collect()
}
