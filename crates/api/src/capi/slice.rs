//! How a part of somebody else's kind becomes a type.

use serde::{Deserialize, Serialize};

/// Names an object by group, kind and name. It lies in the referrer's namespace; its version is the newest that follows
/// the contract.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContractReference {
    /// API group, without a version.
    pub api_group: String,

    /// Kind.
    pub kind: String,

    /// Name.
    pub name: String,
}

impl ContractReference {
    /// Whether it names an object of this group and kind.
    pub fn is_of(&self, group: &str, kind: &str) -> bool {
        self.api_group == group && self.kind == kind
    }
}

/// Declares a namespaced kind that can be read and watched, but not written whole: it has no `Serialize`.
macro_rules! slice {
    (
        $(#[$outer:meta])*
        $name:ident, $group:literal, $version:literal, $plural:literal, { $( $(#[$inner:meta])* $field:ident: $type:ty, )* }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            /// Name, labels, annotations, owners and all else that every object has.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $( $(#[$inner])* pub $field: $type, )*
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(super) use slice;
