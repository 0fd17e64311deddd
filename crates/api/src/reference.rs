//! References to other objects. All are atomic: server-side apply replaces them whole, so that two writers can never
//! produce a reference that is half of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretReference {
    /// Name of the Secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// Namespace of the Secret. Empty means the namespace of the object that refers to it; other namespaces are refused
    /// where the operator reads the Secret.
    #[serde(skip_serializing_if = "ForeignNamespace::is_empty")]
    #[schemars(with = "String")]
    pub namespace: ForeignNamespace,
}

/// Names any object, as Kubernetes' core ObjectReference does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ObjectReference {
    /// API group and version of the object, such as v1 or metal3.io/v1alpha1.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,

    /// Path to a part of the object, such as spec.containers{name}. Empty means the whole object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,

    /// Kind of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,

    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// Namespace of the object; empty for a cluster-scoped one.
    #[serde(skip_serializing_if = "ForeignNamespace::is_empty")]
    #[schemars(with = "String")]
    pub namespace: ForeignNamespace,

    /// The resource version that the reference was made against, if that matters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,

    /// UID of the object, to tell it from a later one of the same name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// A namespace in a reference, which a user may have written. It is no text outside of this module, only resolved by [`LocalRef`], so
/// that a check that somebody forgot does not compile. Two references can be compared, and be written out, as all parts of objects.
///
/// ```compile_fail
/// let reference = metal3_api::reference::SecretReference::default();
/// let namespace: &str = &reference.namespace;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ForeignNamespace(String);

impl ForeignNamespace {
    /// Whether the reference has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<String>> From<T> for ForeignNamespace {
    fn from(namespace: T) -> Self {
        Self(namespace.into())
    }
}

/// What a reference names in the namespace of the object that refers to it. From a namespace that a user has written no other way
/// leads to an object: whoever may write objects of one namespace reaches nothing of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalRef<'a> {
    namespace: &'a str,
    name: &'a str,
}

/// A reference names something in this other namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere<'a>(pub &'a str);

impl<'a> LocalRef<'a> {
    pub(crate) fn of(own: &'a str, namespace: &'a ForeignNamespace, name: &'a str) -> Result<Self, Elsewhere<'a>> {
        Self::read(own, &namespace.0, name)
    }

    /// Reads the namespace and the name that an object of the namespace `own` refers to. An empty namespace means `own`.
    pub fn read(own: &'a str, namespace: &'a str, name: &'a str) -> Result<Self, Elsewhere<'a>> {
        if namespace.is_empty() || namespace == own {
            Ok(Self { namespace: own, name })
        } else {
            Err(Elsewhere(namespace))
        }
    }

    /// The namespace of both objects.
    pub fn namespace(&self) -> &'a str {
        self.namespace
    }

    /// The name, which may be empty.
    pub fn name(&self) -> &'a str {
        self.name
    }
}

impl SecretReference {
    /// The Secret, for an object of the namespace `own`.
    pub fn local<'a>(&'a self, own: &'a str) -> Result<LocalRef<'a>, Elsewhere<'a>> {
        LocalRef::of(own, &self.namespace, &self.name)
    }

    /// The same where an empty namespace does not mean `own`, as for the headers of a BMCEventSubscription.
    pub fn own<'a>(&'a self, own: &'a str) -> Result<LocalRef<'a>, Elsewhere<'a>> {
        if self.namespace.is_empty() {
            return Err(Elsewhere(""));
        }
        self.local(own)
    }
}

impl ObjectReference {
    /// The namespace and the name that were written, for a consumer, which may lie in any namespace: a HostClaim gets a host where a
    /// HostDeployPolicy permits it. The object proves that it is the consumer, and nothing else of it may be used.
    pub fn anywhere(&self) -> (&str, &str) {
        (&self.namespace.0, &self.name)
    }

    /// The object, for one of the namespace `own`.
    pub fn local<'a>(&'a self, own: &'a str) -> Result<LocalRef<'a>, Elsewhere<'a>> {
        LocalRef::of(own, &self.namespace, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 31wc: each place that read it had its own check, or none.
    #[test]
    fn a_namespace_in_a_reference_is_not_a_text() {
        let reference: SecretReference = serde_json::from_str(r#"{"name": "s", "namespace": "other"}"#).unwrap();
        assert_eq!(serde_json::to_value(&reference).unwrap()["namespace"], "other");
        assert_eq!(reference.local("own"), Err(Elsewhere("other")));
        assert_eq!(reference.own("other").map(|local| local.name()), Ok("s"));
        assert_eq!(SecretReference::default().own("own"), Err(Elsewhere("")));
    }

    #[test]
    fn a_reference_leads_nowhere_but_to_its_own_namespace() {
        let secret = |namespace: &str| SecretReference {
            name: "s".to_owned(),
            namespace: namespace.into(),
        };
        for namespace in ["", "own"] {
            let secret = secret(namespace);
            let local = secret.local("own").map(|local| (local.namespace(), local.name()));
            assert_eq!(local, Ok(("own", "s")));
        }
        assert_eq!(secret("other").local("own"), Err(Elsewhere("other")));
        assert_eq!(secret("own ").local("own"), Err(Elsewhere("own ")));
    }
}
