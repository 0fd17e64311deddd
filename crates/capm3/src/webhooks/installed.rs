//! What is installed so that the API server asks, and whose certificates are kept.

use metal3_runtime::webhook::{Installed, SelfManaged};

use crate::rbac::{LABEL, NAMESPACE};

/// What is installed so that the API server asks.
pub const INSTALLED: Installed<'static> = Installed {
    namespace: NAMESPACE,
    prefix: "capm3-",
    label: LABEL,
    validating: "validation.",
    has_defaults: true,
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
        unconverted: Vec::new(),
    }
}
