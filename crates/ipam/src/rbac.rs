//! The manager's RBAC objects. Each rule corresponds to a call in this crate or in the shared runtime; a test runs the manager
//! with exactly these rights.

use k8s_openapi::api::rbac::v1::PolicyRule;
use metal3_runtime::rbac::{Installation, Objects, rule};

use crate::run::LEASE;
use crate::webhooks::certificates;

/// The namespace that the manager runs in.
pub const NAMESPACE: &str = "metal3-ipam-system";
/// Its service account.
pub const SERVICE_ACCOUNT: &str = "ipam-manager";
/// Labels of all its objects.
pub const LABEL: (&str, &str) = ("cluster.x-k8s.io/provider", "ipam-metal3");

/// The controller's verbs for pools, claims and addresses.
pub fn manager_rules() -> Vec<PolicyRule> {
    let (metal3, cluster_api) = ("ipam.metal3.io", "ipam.cluster.x-k8s.io");
    let watched = ["get", "list", "watch", "patch"];
    let owned = ["get", "list", "watch", "create", "patch", "delete"];
    vec![
        rule(metal3, &["ippools", "ipclaims"], &watched),
        rule(metal3, &["ippools/status", "ipclaims/status"], &["patch"]),
        // Owner references with blockOwnerDeletion.
        rule(metal3, &["ippools/finalizers"], &["update"]),
        rule(metal3, &["ipaddresses"], &owned),
        rule(cluster_api, &["ipaddressclaims"], &watched),
        rule(cluster_api, &["ipaddressclaims/status"], &["patch"]),
        rule(cluster_api, &["ipaddressclaims/finalizers"], &["update"]),
        rule(cluster_api, &["ipaddresses"], &owned),
        rule("cluster.x-k8s.io", &["clusters"], &["list", "watch"]),
        rule("", &["events"], &["create", "patch"]),
    ]
}

/// All objects to install.
pub fn objects() -> Objects {
    let certificates = certificates(NAMESPACE);
    let installation = Installation {
        namespace: NAMESPACE,
        pod_security: "enforce",
        service_account: SERVICE_ACCOUNT,
        label: LABEL,
        manager: "ipam-manager-role",
        election: "ipam-leader-election-role",
        lease: LEASE,
        metrics: "ipam-metrics-auth-role",
        binding: "binding",
        rules: [manager_rules(), certificates.rules()].concat(),
        secrets: None,
    };
    let mut objects = installation.objects();
    objects.base.extend(certificates.role(&installation));
    objects
}
