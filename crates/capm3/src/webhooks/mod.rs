//! What the API server asks this program. Every replica answers, whether it leads or not.
//!
//! The rules are pure. What a schema can say stands in the definitions (`crates/api`), where it holds without a webhook:
//! what cannot be changed, lengths, enums. Here is the rest, as upstream has it.

mod cluster;
mod data;
mod data_template;
mod image;
mod machine;
mod remediation;

use metal3_api::infra::convert;
use metal3_runtime::webhook::{FieldError, Installed, SelfManaged, Webhooks};

use crate::rbac::{LABEL, NAMESPACE};

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

/// What is installed so that the API server asks.
pub const INSTALLED: Installed<'static> = Installed {
    namespace: NAMESPACE,
    prefix: "capm3-",
    label: LABEL,
};

/// Whose certificates are kept where there is no cert-manager.
pub fn certificates(namespace: &str) -> SelfManaged {
    let kinds = [
        "clusters",
        "clustertemplates",
        "dataclaims",
        "datas",
        "datatemplates",
        "machines",
    ];
    let more = ["machinetemplates", "remediations", "remediationtemplates"];
    let definition = |kind: &str| format!("metal3{kind}.infrastructure.cluster.x-k8s.io");
    SelfManaged {
        installed: INSTALLED,
        namespace: namespace.to_owned(),
        definitions: kinds.into_iter().chain(more).map(definition).collect(),
    }
}

fn error_if(is_wrong: bool, field: &str, message: &str) -> Option<FieldError> {
    is_wrong.then(|| FieldError::new(field, message))
}
