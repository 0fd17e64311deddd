//! Where a rendered value comes from.

use crate::infra::names::pool;
use crate::wire::{never, wire_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

wire_enum! {
    /// Which of the three objects behind a server a value is taken from.
    closed enum SourceObject {
        /// The Cluster API Machine.
        Machine = "machine",
        /// The Metal3Machine.
        Metal3Machine = "metal3machine",
        /// The BareMetalHost.
        BareMetalHost = "baremetalhost",
    }
}

impl Default for SourceObject {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// An annotation of one of the objects behind a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnnotationRef {
    /// The object that carries the annotation: machine, metal3machine or baremetalhost.
    pub object: SourceObject,

    /// Key of the annotation.
    #[schemars(length(min = 1, max = 512))]
    pub annotation: String,
}

/// A reference to a pool. Upstream's v1beta1 writes one without kind and name where there is none.
pub(super) fn unless_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PoolReference>, D::Error> {
    let reference = Option::<PoolReference>::deserialize(deserializer)?;
    Ok(reference.filter(|reference| !reference.name.is_empty()))
}

/// Reads the kind of a pool. Go leaves an empty text out, so it means the default.
pub(super) fn kind_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    or_default(deserializer, pool::KIND)
}

/// The same for the API group of a pool.
pub(super) fn group_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    or_default(deserializer, pool::GROUP)
}

fn or_default<'de, D: Deserializer<'de>>(deserializer: D, default: &str) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(if text.is_empty() { default.to_owned() } else { text })
}

/// An address pool in the namespace of the object that refers to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-metal3-v1beta1" = { "required": ["kind", "name"], "x-kubernetes-map-type": "atomic" }))]
pub struct PoolReference {
    /// Name of the pool.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
        extend("x-metal3-v1beta1" = { "maxLength": null, "pattern": null })
    )]
    pub name: String,

    /// Kind of the pool. The default is IPPool.
    #[serde(skip_serializing_if = "never", deserialize_with = "kind_or_default")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"),
        extend("x-metal3-default" = "IPPool", "x-metal3-v1beta1" = {
            "maxLength": null, "pattern": null, "x-metal3-default": null,
            "description": "Kind of the pool. In v1beta2 the default is IPPool.",
        })
    )]
    pub kind: String,

    /// API group of the pool. The default is ipam.metal3.io.
    #[serde(skip_serializing_if = "never", deserialize_with = "group_or_default")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
        extend("x-metal3-default" = "ipam.metal3.io", "x-metal3-v1beta1" = {
            "maxLength": null, "pattern": null, "x-metal3-default": null,
            "description": "API group of the pool. Absent means ipam.metal3.io.",
        })
    )]
    pub api_group: String,
}

impl Default for PoolReference {
    fn default() -> Self {
        Self {
            name: String::new(),
            kind: pool::KIND.to_owned(),
            api_group: pool::GROUP.to_owned(),
        }
    }
}
