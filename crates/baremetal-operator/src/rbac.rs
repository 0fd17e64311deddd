//! The rights that the operator needs, as objects to install. Each stands for a call in this crate or in the shared
//! runtime; a test runs the operator with nothing else.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::ObjectMeta;
use serde_json::Value;

/// The namespace that the operator runs in.
pub const NAMESPACE: &str = "baremetal-operator-system";
/// Its service account.
pub const SERVICE_ACCOUNT: &str = "baremetal-operator";

const MANAGER: &str = "baremetal-operator-manager";
const ELECTION: &str = "baremetal-operator-leader-election";
const METRICS: &str = "baremetal-operator-metrics-auth";

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let all = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(all(resources)),
        verbs: all(verbs),
        ..PolicyRule::default()
    }
}

/// What the controller does with hosts and what belongs to them.
pub fn manager_rules() -> Vec<PolicyRule> {
    vec![
        // The finalizer is a patch; the status a whole replacement.
        rule("metal3.io", &["baremetalhosts"], &["get", "list", "watch", "patch"]),
        rule("metal3.io", &["baremetalhosts/status"], &["update"]),
        // Owner references with blockOwnerDeletion.
        rule("metal3.io", &["baremetalhosts/finalizers"], &["update"]),
        rule("metal3.io", &["hardwaredata"], &["get", "list", "create", "patch"]),
        rule(
            "metal3.io",
            &["preprovisioningimages"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule(
            "metal3.io",
            &["hostfirmwaresettings", "hostfirmwarecomponents", "hostupdatepolicies"],
            &["get", "list", "watch"],
        ),
        // The updates that were applied.
        rule("metal3.io", &["hostfirmwarecomponents/status"], &["update"]),
        // Lists and watches ask for metadata only. No patch: upstream's role has none, and ours works under that one too.
        rule("", &["secrets"], &["get", "list", "watch", "update"]),
        rule("", &["events"], &["create", "patch"]),
    ]
}

/// Everything to install besides the kinds, in an order in which it can be applied.
pub fn objects() -> Vec<Value> {
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: SERVICE_ACCOUNT.to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        ..Subject::default()
    };
    let cluster_role = |name: &str, rules| {
        object(&ClusterRole {
            metadata: named(name, None),
            rules: Some(rules),
            ..ClusterRole::default()
        })
    };
    let cluster_binding = |name: &str| {
        object(&ClusterRoleBinding {
            metadata: named(name, None),
            role_ref: role_ref("ClusterRole", name),
            subjects: Some(vec![subject.clone()]),
        })
    };
    vec![
        object(&Namespace {
            metadata: named(NAMESPACE, None),
            ..Namespace::default()
        }),
        object(&ServiceAccount {
            metadata: named(SERVICE_ACCOUNT, Some(NAMESPACE)),
            ..ServiceAccount::default()
        }),
        cluster_role(MANAGER, manager_rules()),
        cluster_binding(MANAGER),
        cluster_role(
            METRICS,
            vec![
                rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
                rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
            ],
        ),
        cluster_binding(METRICS),
        object(&Role {
            metadata: named(ELECTION, Some(NAMESPACE)),
            rules: Some(vec![rule(
                "coordination.k8s.io",
                &["leases"],
                &["get", "create", "update"],
            )]),
        }),
        object(&RoleBinding {
            metadata: named(ELECTION, Some(NAMESPACE)),
            role_ref: role_ref("Role", ELECTION),
            subjects: Some(vec![subject.clone()]),
        }),
    ]
}

fn named(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some(BTreeMap::from([(
            "app.kubernetes.io/name".to_owned(),
            "baremetal-operator".to_owned(),
        )])),
        ..ObjectMeta::default()
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

/// Without the empty parts that the types write.
fn object<T: serde::Serialize + k8s_openapi::Resource>(typed: &T) -> Value {
    let mut value = serde_json::to_value(typed).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, part| !part.is_null());
    }
    value
}
