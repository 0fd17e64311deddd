//! The permissions of a component as objects to install: a namespace, a service account, and its roles.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::core::ObjectMeta;
use serde_json::Value;

/// The right to do `verbs` with `resources` of a group; the core group is empty.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let all = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(all(resources)),
        verbs: all(verbs),
        ..PolicyRule::default()
    }
}

/// The permissions for one object that a program creates, reads and changes.
pub fn owned(group: &str, resource: &str, name: &str) -> [PolicyRule; 2] {
    [
        PolicyRule {
            resource_names: Some(vec![name.to_owned()]),
            ..rule(group, &[resource], &["get", "update"])
        },
        // A create request has no resource name yet when it is authorized.
        rule(group, &[resource], &["create"]),
    ]
}

/// The subject of the permissions, and the names of the objects.
#[derive(Clone, Debug)]
pub struct Installation<'a> {
    /// The namespace that the component runs in.
    pub namespace: &'a str,
    /// What Pod Security does in it about pods with privileges: `enforce` rejects them, `warn` admits them. Where users run other
    /// programs beside ours, such as Ironic on the host's network, they must be admitted.
    pub pod_security: &'a str,
    /// Its service account.
    pub service_account: &'a str,
    /// A label that all objects carry.
    pub label: (&'a str, &'a str),
    /// Name of the role with [`Installation::rules`].
    pub manager: &'a str,
    /// Name of the role with what leader election needs.
    pub election: &'a str,
    /// The lease of the leader.
    pub lease: &'a str,
    /// Name of the role for checking who may read metrics.
    pub metrics: &'a str,
    /// The suffix of a binding's name after the role's name.
    pub binding: &'a str,
    /// The permissions of the controllers, besides those in [`Installation::secrets`].
    pub rules: Vec<PolicyRule>,
    /// Their permissions for Secrets. They are bound separately, in single namespaces or in all of them: the holder can
    /// read every Secret there.
    pub secrets: Option<Secrets<'a>>,
}

/// A program's permissions for Secrets.
#[derive(Clone, Debug)]
pub struct Secrets<'a> {
    /// Name of the role with them, and of its bindings.
    pub role: &'a str,
    /// The verbs.
    pub verbs: &'a [&'a str],
    /// The verbs with which it works less promptly, without list and watch: it reads those whose names it knows at intervals
    /// ([`by_name`](crate::by_name)).
    pub by_name: &'a [&'a str],
}

impl Secrets<'_> {
    /// The rule of the role.
    pub fn rule(&self) -> PolicyRule {
        rule("", &["secrets"], self.verbs)
    }
}

/// The objects to install for a program.
#[derive(Clone, Debug)]
pub struct Objects {
    /// Everything besides the kinds, in an order in which it can be applied. It binds no permissions for Secrets.
    pub base: Vec<Value>,
    /// The binding of the permissions for Secrets in one namespace, which is left open. Empty if the program needs
    /// none.
    pub secrets_in_one_namespace: Vec<Value>,
    /// Their binding in all namespaces.
    pub secrets_in_all_namespaces: Vec<Value>,
    /// Permissions without list and watch, bound in all namespaces: whoever holds them must know a Secret's name.
    pub secrets_by_name: Vec<Value>,
}

impl Installation<'_> {
    /// Everything to install.
    pub fn objects(&self) -> Objects {
        let subject = self.subject();
        let cluster_role = |name: &str, rules| {
            object(&ClusterRole {
                metadata: self.named(name, None),
                rules: Some(rules),
                ..ClusterRole::default()
            })
        };
        let cluster_binding = |name: &str| {
            object(&ClusterRoleBinding {
                metadata: self.named(&format!("{name}{}", self.binding), None),
                role_ref: role_ref("ClusterRole", name),
                subjects: Some(vec![subject.clone()]),
            })
        };
        let secrets = |binding: &dyn Fn(&Secrets<'_>) -> Value| self.secrets.iter().map(binding).collect::<Vec<_>>();
        let one_namespace = secrets(&|secrets| {
            object(&RoleBinding {
                metadata: self.named(secrets.role, None),
                role_ref: role_ref("ClusterRole", secrets.role),
                subjects: Some(vec![subject.clone()]),
            })
        });
        let all_namespaces = secrets(&|secrets| {
            object(&ClusterRoleBinding {
                metadata: self.named(secrets.role, None),
                role_ref: role_ref("ClusterRole", secrets.role),
                subjects: Some(vec![subject.clone()]),
            })
        });
        let by_name = self.secrets.iter().flat_map(|secrets| {
            let role = format!("{}-by-name", secrets.role);
            let binding = object(&ClusterRoleBinding {
                metadata: self.named(&role, None),
                role_ref: role_ref("ClusterRole", &role),
                subjects: Some(vec![subject.clone()]),
            });
            [
                cluster_role(&role, vec![rule("", &["secrets"], secrets.by_name)]),
                binding,
            ]
        });
        let by_name = by_name.collect();
        let secrets = secrets(&|secrets| cluster_role(secrets.role, vec![secrets.rule()]));
        let review = |group: &str, resource: &str| rule(group, &[resource], &["create"]);
        let mut base = vec![
            object(&Namespace {
                metadata: self.restricted(),
                ..Namespace::default()
            }),
            object(&ServiceAccount {
                metadata: self.named(self.service_account, Some(self.namespace)),
                ..ServiceAccount::default()
            }),
            cluster_role(self.manager, self.rules.clone()),
            cluster_binding(self.manager),
            cluster_role(
                self.metrics,
                vec![
                    review("authentication.k8s.io", "tokenreviews"),
                    review("authorization.k8s.io", "subjectaccessreviews"),
                ],
            ),
            cluster_binding(self.metrics),
        ];
        let lease = owned("coordination.k8s.io", "leases", self.lease);
        base.extend(self.at_home(self.election, lease.into()));
        base.extend(secrets);
        Objects {
            base,
            secrets_in_one_namespace: one_namespace,
            secrets_in_all_namespaces: all_namespaces,
            secrets_by_name: by_name,
        }
    }

    /// Permissions in the program's own namespace only.
    pub fn at_home(&self, name: &str, rules: Vec<PolicyRule>) -> [Value; 2] {
        [
            object(&Role {
                metadata: self.named(name, Some(self.namespace)),
                rules: Some(rules),
            }),
            object(&RoleBinding {
                metadata: self.named(&format!("{name}{}", self.binding), Some(self.namespace)),
                role_ref: role_ref("Role", name),
                subjects: Some(vec![self.subject()]),
            }),
        ]
    }

    /// The namespace's metadata: pods need no privileges there.
    fn restricted(&self) -> ObjectMeta {
        let mut metadata = self.named(self.namespace, None);
        let label = format!("pod-security.kubernetes.io/{}", self.pod_security);
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(label, "restricted".to_owned());
        metadata
    }

    fn subject(&self) -> Subject {
        Subject {
            kind: "ServiceAccount".to_owned(),
            name: self.service_account.to_owned(),
            namespace: Some(self.namespace.to_owned()),
            ..Subject::default()
        }
    }

    fn named(&self, name: &str, namespace: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
            labels: Some(BTreeMap::from([(self.label.0.to_owned(), self.label.1.to_owned())])),
            ..ObjectMeta::default()
        }
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

/// Without the empty fields that the types serialize.
fn object<T: serde::Serialize + k8s_openapi::Resource>(typed: &T) -> Value {
    let mut value = serde_json::to_value(typed).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, part| !part.is_null());
    }
    value
}
