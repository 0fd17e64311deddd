//! What all examples are made of.

use super::super::annotate::annotate;
use anyhow::Context;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use metal3_api::metal3::names::secret_key;
use metal3_api::metal3::{BareMetalHost, BareMetalHostSpec, BmcDetails, ChecksumType, Image, ImageFormat};
use metal3_api::reference::SecretReference;
use serde::Serialize;
use serde_json::Value;

/// Comment on `spec.bmc`.
pub const BMC: &str = "How to reach the management controller. A host without this is not managed.";

/// Comment on `spec.automatedCleaningMode`.
pub const CLEANING: &str = "Partition tables are wiped before the host is available, and again after use.";

/// Comments on a Secret with credentials.
pub const CREDENTIALS: &[(&str, &str)] = &[(
    "stringData",
    "User and password of the management controller. The operator labels this Secret and protects it with a finalizer.",
)];

/// A file of several objects.
pub struct File {
    /// The YAML so far.
    pub text: String,
}

impl File {
    /// An empty one that says what it is about.
    pub fn new(about: &str) -> Self {
        let about = about.lines().collect::<Vec<_>>().join("\n# ");
        Self {
            text: format!("# {about}\n#\n# Made by `cargo xtask generate`; the addresses are for documentation.\n"),
        }
    }

    /// Adds an object, with comments above the keys at these paths.
    pub fn add(&mut self, object: &impl Serialize, comments: &[(&str, &str)]) -> anyhow::Result<()> {
        let text = annotate(&serde_saphyr::to_string(object)?, comments)?;
        self.text.extend(["---\n", &text]);
        Ok(())
    }
}

pub fn yaml(value: &Value) -> anyhow::Result<String> {
    serde_saphyr::to_string(value).context("cannot write YAML")
}

pub fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..Default::default()
    }
}

pub fn host(name: &str, spec: BareMetalHostSpec) -> BareMetalHost {
    BareMetalHost {
        metadata: metadata(name),
        spec,
        status: None,
    }
}

pub fn bmc(address: &str, secret: &str) -> BmcDetails {
    BmcDetails {
        address: address.to_owned(),
        credentials_name: secret.to_owned(),
        ..Default::default()
    }
}

pub fn reference(name: &str) -> SecretReference {
    SecretReference {
        name: name.to_owned(),
        ..Default::default()
    }
}

pub fn credentials(name: &str) -> Secret {
    let data = [(secret_key::USERNAME, "admin"), (secret_key::PASSWORD, "change-me")];
    let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Secret {
        metadata: metadata(name),
        string_data: Some(data.into()),
        ..Default::default()
    }
}

pub fn secret(name: &str, key: &str, value: &str) -> Secret {
    let data = [(key.to_owned(), value.to_owned())];
    Secret {
        metadata: metadata(name),
        string_data: Some(data.into()),
        ..Default::default()
    }
}

/// The image that most examples install.
pub fn image() -> Image {
    Image {
        url: "https://images.example.org/server-24.04.qcow2".to_owned(),
        checksum: "https://images.example.org/server-24.04.qcow2.sha256sum".to_owned(),
        checksum_type: Some(ChecksumType::Sha256),
        format: Some(ImageFormat::Qcow2),
        ..Default::default()
    }
}
