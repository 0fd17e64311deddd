//! The permissions that the operator needs, as objects to install. Each is used by a call in this crate or in the
//! shared runtime; a test runs the operator with nothing else.

use k8s_openapi::api::rbac::v1::PolicyRule;
use metal3_runtime::rbac::{Installation, Objects, Secrets, rule};

use crate::ironic_resource;
use crate::webhooks::certificates;

/// The lease of the leader.
pub(crate) const LEASE: &str = "baremetal-operator";

/// The namespace that the operator runs in.
pub const NAMESPACE: &str = "baremetal-operator-system";
/// Its service account.
pub const SERVICE_ACCOUNT: &str = "baremetal-operator-controller-manager";
/// Labels of all its objects.
pub const LABEL: (&str, &str) = ("app.kubernetes.io/name", "baremetal-operator");

/// The permissions for hosts and their companion objects.
pub fn manager_rules() -> Vec<PolicyRule> {
    vec![
        // Finalizer and status are patches.
        rule("metal3.io", &["baremetalhosts"], &["get", "list", "watch", "patch"]),
        rule("metal3.io", &["baremetalhosts/status"], &["patch"]),
        // Of these, too, watches ask for metadata only.
        rule(
            "metal3.io",
            &["hardwaredata"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule("metal3.io", &["dataimages"], &["get", "list", "watch", "patch"]),
        // What is in the drive.
        rule("metal3.io", &["dataimages/status"], &["update"]),
        rule(
            "metal3.io",
            &["preprovisioningimages"],
            &["get", "list", "watch", "create", "patch"],
        ),
        // The ramdisks of the settings, with --build-preprov-image.
        rule("metal3.io", &["preprovisioningimages/status"], &["patch"]),
        rule("metal3.io", &["bmceventsubscriptions"], &["list", "watch", "patch"]),
        rule("metal3.io", &["bmceventsubscriptions/status"], &["patch"]),
        // Created for each host; those of an earlier host of the name are deleted.
        rule(
            "metal3.io",
            &["hostfirmwaresettings", "hostfirmwarecomponents"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(
            "metal3.io",
            &["hostfirmwaresettings/status", "hostfirmwarecomponents/status"],
            &["update"],
        ),
        // Of these, watches ask for metadata only. Unused ones are deleted.
        rule(
            "metal3.io",
            &["firmwareschemas"],
            &["list", "watch", "create", "delete"],
        ),
        // Users' own, which get the host as their owner. An update, as in upstream's role.
        rule(
            "metal3.io",
            &["hostupdatepolicies"],
            &["get", "list", "watch", "update"],
        ),
        rule("metal3.io", &["baremetalswitches"], &["list", "watch"]),
        rule("metal3.io", &["baremetalswitches/status"], &["update"]),
        // Also without --hostclaims, in order to complete the deletion of what an operator with it has left.
        rule("metal3.io", &["hostclaims"], &["get", "list", "watch", "patch"]),
        rule("metal3.io", &["hostclaims/status"], &["update"]),
        rule("metal3.io", &["hostdeploypolicies"], &["list", "watch"]),
        // Their labels.
        rule("", &["namespaces"], &["list", "watch"]),
        // The location of Ironic, with IRONIC_NAME.
        rule(ironic_resource::GROUP, &[ironic_resource::PLURAL], &["list", "watch"]),
        rule("", &["events"], &["create", "patch"]),
    ]
}

/// The permissions for Secrets.
///
/// Lists and watches request metadata only. The operator also works under upstream's role, which
/// has no patch permission. It creates and deletes only the copies of Secrets of HostClaims.
pub const SECRETS: Secrets<'_> = Secrets {
    role: "baremetal-operator-secrets",
    verbs: &["get", "list", "watch", "create", "update", "patch", "delete"],
    // Whoever may create Secrets anywhere gets the token of any service account. Only copies for HostClaims, which it creates, are
    // patched and deleted.
    by_name: &["get", "update"],
};

/// Everything to install.
pub fn objects() -> Objects {
    let certificates = certificates(NAMESPACE);
    let installation = Installation {
        namespace: NAMESPACE,
        // Upstream's users run Ironic in this namespace, on the host's network.
        pod_security: "warn",
        service_account: SERVICE_ACCOUNT,
        label: LABEL,
        manager: "baremetal-operator-manager-role",
        election: "baremetal-operator-leader-election-role",
        lease: LEASE,
        metrics: "baremetal-operator-metrics-auth-role",
        binding: "binding",
        rules: [manager_rules(), certificates.rules()].concat(),
        secrets: Some(SECRETS),
    };
    let mut objects = installation.objects();
    objects.base.extend(certificates.role(&installation));
    objects
}
