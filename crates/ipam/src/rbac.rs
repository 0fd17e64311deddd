//! The rights that the manager needs, as objects to install. Each stands for a call in this crate or in the shared
//! runtime; a test runs the manager with nothing else.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::ObjectMeta;
use serde_json::Value;

/// The namespace that the manager runs in.
pub const NAMESPACE: &str = "metal3-ipam-system";
/// Its service account.
pub const SERVICE_ACCOUNT: &str = "ipam-manager";

const MANAGER: &str = "ipam-manager-role";
const ELECTION: &str = "ipam-leader-election-role";
const METRICS: &str = "ipam-metrics-auth-role";

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let all = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(all(resources)),
        verbs: all(verbs),
        ..PolicyRule::default()
    }
}

/// What the controller does with pools, claims and addresses.
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
            metadata: named(&format!("{name}binding"), None),
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
            metadata: named(&format!("{ELECTION}binding"), Some(NAMESPACE)),
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
            "cluster.x-k8s.io/provider".to_owned(),
            "ipam-metal3".to_owned(),
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
