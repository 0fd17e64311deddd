//! Turns the types into CustomResourceDefinitions.
//!
//! kube's derive makes a definition, but not the one that users of Metal3 have today, so the schema is generated
//! and normalised here and the derive supplies the rest: names, columns, subresources. [`Crd`] is what all kinds
//! go through, each API group lists its own in its own file, and `cargo xtask generate` writes them to `config/crd`.
//!
//! Do not install `BareMetalHost::crd()`: its schema marks every optional field as nullable and invents defaults.

mod infra;
mod ipam;
mod metal3;
mod schema;

use crate::rules::KEYWORD;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Value, json};

/// Which generator's conventions the definitions follow. Tools of Metal3's users look at this annotation.
const GENERATOR: (&str, &str) = ("controller-gen.kubebuilder.io/version", "v0.16.5");

/// One CustomResourceDefinition, with one or more versions.
#[derive(Debug, Clone, PartialEq)]
pub struct Crd(Value);

/// Why two definitions cannot be merged, or one cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The type's definition is not JSON of the expected shape.
    #[error("definition cannot be expressed as JSON")]
    Json(#[from] serde_json::Error),

    /// Versions of different kinds.
    #[error("{0} and {1} are not versions of one kind")]
    DifferentKinds(String, String),

    /// A definition needs exactly one version that objects are stored in.
    #[error("{name} has {count} storage versions")]
    StorageVersions {
        /// The definition.
        name: String,
        /// How many of its versions say that they are stored.
        count: usize,
    },
}

/// Where the API server sends objects to be converted between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversionService<'a> {
    /// Namespace of the Service.
    pub namespace: &'a str,
    /// Name of the Service.
    pub name: &'a str,
    /// HTTP path of the conversion endpoint.
    pub path: &'a str,
}

impl Crd {
    /// The definition of one version of a kind.
    ///
    /// # Errors
    ///
    /// The type's definition is not JSON of the expected shape.
    pub fn of<K: CustomResourceExt + JsonSchema>() -> Result<Self, CrdError> {
        let mut crd = serde_json::to_value(K::crd())?;
        let spec = &mut crd["spec"];
        spec["names"]["listKind"] = json!(format!("{}List", spec["names"]["kind"].as_str().unwrap_or_default()));
        let version = &mut spec["versions"][0];
        version["schema"] = json!({ "openAPIV3Schema": schema::of::<K>() });
        if version["subresources"].is_null() {
            version["subresources"] = json!({});
        }
        crd["metadata"]["annotations"][GENERATOR.0] = json!(GENERATOR.1);
        Ok(Self(crd))
    }

    /// Adds the versions of another definition of the same kind, after those that are there.
    ///
    /// # Errors
    ///
    /// The other definition is of another kind.
    pub fn merge(mut self, other: Self) -> Result<Self, CrdError> {
        let Value::Object(mut theirs) = other.0 else {
            return Ok(self);
        };
        for part in ["/metadata/name", "/spec/group", "/spec/scope", "/spec/names"] {
            if self.0.pointer(part) != Value::Object(theirs.clone()).pointer(part) {
                let name = theirs["metadata"]["name"].as_str().unwrap_or_default();
                return Err(CrdError::DifferentKinds(self.name().to_owned(), name.to_owned()));
            }
        }
        if let (Some(versions), Some(more)) = (
            self.0["spec"]["versions"].as_array_mut(),
            theirs["spec"]["versions"].as_array_mut(),
        ) {
            versions.append(more);
        }
        Ok(self)
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    /// Gives every version a status that is written apart from the rest of the object, or takes that away. kube's derive
    /// goes by whether the type has a status, which is not what every kind does.
    #[must_use]
    pub fn status_subresource(mut self, wanted: bool) -> Self {
        for version in self.0["spec"]["versions"].as_array_mut().into_iter().flatten() {
            version["subresources"] = if wanted { json!({ "status": {} }) } else { json!({}) };
        }
        self
    }

    /// Gives the whole object these rules, in every version.
    #[must_use]
    pub fn validations(mut self, rules: &Value) -> Self {
        for version in self.0["spec"]["versions"].as_array_mut().into_iter().flatten() {
            version["schema"]["openAPIV3Schema"][KEYWORD] = rules.clone();
        }
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value);
        self
    }

    /// Lets a webhook convert between the versions. Its CA bundle is not part of the definition: whoever makes the
    /// certificate writes it.
    #[must_use]
    pub fn converted_by(mut self, service: ConversionService<'_>) -> Self {
        let ConversionService { namespace, name, path } = service;
        self.0["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": { "service": { "namespace": namespace, "name": name, "path": path } },
                "conversionReviewVersions": ["v1"],
            },
        });
        self
    }

    /// The definition's name, such as `baremetalhosts.metal3.io`.
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The definition's customary file name, such as `metal3.io_baremetalhosts.yaml`.
    pub fn file_name(&self) -> String {
        let (plural, group) = self.name().split_once('.').unwrap_or_default();
        format!("{group}_{plural}.yaml")
    }

    /// The whole manifest, as it is written to a file. Keys are in alphabetical order.
    pub fn manifest(&self) -> &Value {
        &self.0
    }

    /// The definition as kube's type, to be installed in a cluster.
    ///
    /// # Errors
    ///
    /// There is not exactly one storage version.
    pub fn definition(&self) -> Result<CustomResourceDefinition, CrdError> {
        let definition: CustomResourceDefinition = serde_json::from_value(self.0.clone())?;
        match definition
            .spec
            .versions
            .iter()
            .filter(|version| version.storage)
            .count()
        {
            1 => Ok(definition),
            count => Err(CrdError::StorageVersions {
                name: self.name().to_owned(),
                count,
            }),
        }
    }
}

/// All definitions, in the order of their names.
///
/// # Errors
///
/// See [`Crd::of`].
pub fn all() -> Result<Vec<Crd>, CrdError> {
    let mut crds = [metal3::all()?, infra::all()?, ipam::all()?].concat();
    crds.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(crds)
}

#[cfg(test)]
mod tests;
