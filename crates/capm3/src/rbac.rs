//! The provider's RBAC objects. Each rule corresponds to a call in this crate or in the shared runtime; a test runs the provider
//! with exactly these rights.

use k8s_openapi::api::rbac::v1::PolicyRule;
use metal3_runtime::migration;
use metal3_runtime::rbac::{Installation, Objects, Secrets, rule};

use crate::run::LEASE;
use crate::webhooks::installed::certificates;

/// The namespace that the provider runs in.
pub const NAMESPACE: &str = "capm3-system";
/// Its service account.
pub const SERVICE_ACCOUNT: &str = "capm3-manager";
/// Labels of all its objects.
pub const LABEL: (&str, &str) = ("cluster.x-k8s.io/provider", "infrastructure-metal3");

/// Verbs for objects that it creates, updates and deletes.
const OWNED: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// The controllers' rights.
pub fn manager_rules() -> Vec<PolicyRule> {
    let ours = "infrastructure.cluster.x-k8s.io";
    vec![
        rule(ours, &["metal3clusters"], &["list", "watch", "patch"]),
        rule(ours, &["metal3clusters/status"], &["update"]),
        rule(ours, &["metal3machines"], &["get", "list", "watch", "patch"]),
        rule(ours, &["metal3machines/status"], &["update"]),
        rule(ours, &["metal3machinetemplates"], &["list", "watch"]),
        rule(ours, &["metal3datatemplates"], &["list", "watch", "patch"]),
        rule(ours, &["metal3dataclaims", "metal3datas"], &OWNED),
        rule(
            ours,
            &[
                "metal3datatemplates/status",
                "metal3dataclaims/status",
                "metal3datas/status",
            ],
            &["update"],
        ),
        rule(ours, &["metal3remediations"], &["get", "list", "watch", "patch"]),
        rule(ours, &["metal3remediations/status"], &["update"]),
        // After a failed remediation, the Machine's owner is asked to replace it.
        rule("cluster.x-k8s.io", &["machines/status"], &["patch"]),
        // Owner references with blockOwnerDeletion.
        rule(ours, &["metal3datas/finalizers"], &["update"]),
        rule("ipam.metal3.io", &["ipclaims"], &OWNED),
        rule("ipam.metal3.io", &["ipaddresses", "ippools"], &["get"]),
        rule("ipam.cluster.x-k8s.io", &["ipaddressclaims"], &OWNED),
        rule("ipam.cluster.x-k8s.io", &["ipaddresses"], &["get"]),
        rule("metal3.io", &["baremetalhosts"], &["get", "list", "watch", "patch"]),
        rule(
            "cluster.x-k8s.io",
            &["clusters", "machines", "machinesets"],
            &["list", "watch"],
        ),
        // The current machine template of a control plane. For other kinds of control plane, the machine's own template is used.
        rule("controlplane.cluster.x-k8s.io", &["kubeadmcontrolplanes"], &["get"]),
        rule("", &["events"], &["create", "patch"]),
    ]
}

/// How the program uses Secrets.
///
/// It reads Secrets with rendered data, and a machine's boot data once. Of others it checks the existence, and it labels BMC
/// Secrets with their cluster.
pub const SECRETS: Secrets<'_> = Secrets {
    role: "capm3-secrets-role",
    verbs: &OWNED,
    by_name: &["get", "create", "patch", "delete"],
};

/// All objects to install.
pub fn objects() -> Objects {
    let certificates = certificates(NAMESPACE);
    let installation = Installation {
        namespace: NAMESPACE,
        pod_security: "enforce",
        service_account: SERVICE_ACCOUNT,
        label: LABEL,
        manager: "capm3-manager-role",
        election: "capm3-leader-election-role",
        lease: LEASE,
        metrics: "capm3-metrics-auth-role",
        binding: "binding",
        rules: [
            manager_rules(),
            certificates.rules(),
            migration::rules(&certificates.definitions),
        ]
        .concat(),
        secrets: Some(SECRETS),
    };
    let mut objects = installation.objects();
    objects.base.extend(certificates.role(&installation));
    objects
}
