//! The rights that the provider needs, as objects to install. Each stands for a call in this crate or in the shared
//! runtime; a test runs the provider with nothing else.

use k8s_openapi::api::rbac::v1::PolicyRule;
use metal3_runtime::rbac::{Installation, Objects, Secrets, rule};

use crate::run::LEASE;
use crate::webhooks::installed::certificates;

/// The namespace that the provider runs in.
pub const NAMESPACE: &str = "capm3-system";
/// Its service account.
pub const SERVICE_ACCOUNT: &str = "capm3-manager";
/// What all of its objects carry.
pub const LABEL: (&str, &str) = ("cluster.x-k8s.io/provider", "infrastructure-metal3");

/// For what is made, looked after and deleted.
const OWNED: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// What the controllers do.
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
        // Where remediation has failed, the Machine's owner is asked to replace it.
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
        // Which template its machines are made from now. For other control planes, that of the machine counts.
        rule("controlplane.cluster.x-k8s.io", &["kubeadmcontrolplanes"], &["get"]),
        rule("", &["events"], &["create", "patch"]),
    ]
}

/// What the program does with Secrets.
///
/// Those with rendered data, and what a machine boots with, once; of others whether they exist, and the label of their
/// cluster on those of BMCs.
pub const SECRETS: Secrets<'_> = Secrets {
    role: "capm3-secrets-role",
    verbs: &OWNED,
};

/// Everything to install.
pub fn objects() -> Objects {
    let certificates = certificates(NAMESPACE);
    let installation = Installation {
        namespace: NAMESPACE,
        service_account: SERVICE_ACCOUNT,
        label: LABEL,
        manager: "capm3-manager-role",
        election: "capm3-leader-election-role",
        lease: LEASE,
        metrics: "capm3-metrics-auth-role",
        binding: "binding",
        rules: [manager_rules(), certificates.rules()].concat(),
        secrets: Some(SECRETS),
    };
    let mut objects = installation.objects();
    objects.base.extend(certificates.role(&installation));
    objects
}
