//! What the API server asks this program. Every replica answers, whether it leads or not.
//!
//! The rules are pure. What a schema can say stands in the definitions (`crates/api`), where it holds without a webhook:
//! lengths, enums, most of what cannot be changed and of what must be there. Here is what upstream's webhooks refuse,
//! whichever definitions are installed.

mod cluster;
mod data;
mod data_template;
mod errors;
mod image;
pub mod installed;
mod machine;
mod remediation;

use metal3_api::infra::convert;
use metal3_runtime::webhook::Webhooks;

/// Everything that is answered.
pub fn all() -> Webhooks {
    Webhooks::new()
        .convert(convert)
        .admit(cluster::RULES)
        .admit(cluster::TEMPLATE_RULES)
        .admit(machine::RULES)
        .admit(machine::TEMPLATE_RULES)
        .admit(data_template::RULES)
        .admit(data::CLAIM_RULES)
        .admit(data::RULES)
        .admit(remediation::RULES)
        .admit(remediation::TEMPLATE_RULES)
}

#[cfg(test)]
mod tests;
