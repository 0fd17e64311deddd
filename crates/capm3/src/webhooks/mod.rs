//! The admission webhooks. Every replica serves them, whether or not it is the leader.
//!
//! The rules are pure. What a schema can express is in the CRDs (`crates/api`), where it applies without a webhook: immutability,
//! lengths, enums. The rest is here, as in upstream.

mod cluster;
mod data;
mod data_template;
mod image;
mod machine;
mod remediation;

use metal3_api::infra::convert;
use metal3_runtime::webhook::{FieldError, Installed, SelfManaged, Webhooks};

use crate::rbac::{LABEL, NAMESPACE};

/// All webhooks.
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

/// The webhook configurations to install.
pub const INSTALLED: Installed<'static> = Installed {
    namespace: NAMESPACE,
    prefix: "capm3-",
    label: LABEL,
};

/// The webhook configurations whose CA bundle is maintained without cert-manager.
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
