//! The location of Ironic, from an `Ironic` resource of the ironic-standalone-operator (`IRONIC_NAME`).
//!
//! ```text
//!   watch of the resource ───┐
//!                            ├─▶ announced (pure) ─▶ read its Secrets ─▶ Link: a client, or why there is none
//!   watch of Secrets' names ─┘
//! ```

mod follow;

use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use metal3_api::metal3::names::secret_key;
use metal3_ironic::{Auth, Url};
use serde_json::Value;

pub use self::follow::Follower;

/// The group of the kind.
pub const GROUP: &str = "ironic.metal3.io";
/// Its plural.
pub const PLURAL: &str = "ironics";
/// The key of the certificate in TLS Secrets.
const CERTIFICATE: &str = "tls.crt";

/// The kind. It is not ours: only the few fields that are read are known of its schema.
pub fn kind() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1alpha1", "Ironic"), PLURAL)
}

/// The resource to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// `IRONIC_NAMESPACE`.
    pub namespace: String,
    /// `IRONIC_NAME`.
    pub name: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ironic {}/{}", self.namespace, self.name)
    }
}

/// The content of a ready resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The API's address.
    pub endpoint: Url,
    /// The Secret with the API's credentials.
    pub credentials: String,
    /// The Secret with the API's certificate; without one the API speaks plain HTTP.
    pub certificate: Option<String>,
}

/// The complete access to Ironic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The API's address.
    pub endpoint: Url,
    /// Credentials.
    pub auth: Auth,
    /// The certificates to trust, in PEM; none without TLS.
    pub authorities: Option<String>,
}

/// Reads a resource, which must be ready; the error says what the operator waits for.
pub fn announced(reference: &Reference, object: Option<&DynamicObject>) -> Result<Announced, String> {
    let Some(object) = object else {
        return Err(format!(
            "{reference}, which IRONIC_NAME and IRONIC_NAMESPACE name, does not exist: create it"
        ));
    };
    ready(reference, object)?;
    let text = |path: &str| object.data.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let credentials = text("/spec/apiCredentialsName").to_owned();
    if credentials.is_empty() {
        return Err(format!(
            "spec.apiCredentialsName of {reference} is empty: the ironic-standalone-operator fills it in"
        ));
    }
    let certificate = Some(text("/spec/tls/certificateName").to_owned()).filter(|name| !name.is_empty());
    let scheme = if certificate.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{}.{}.svc/", reference.name, reference.namespace);
    let endpoint = Url::parse(&address).map_err(|error| format!("{address} is no address: {error}"))?;
    Ok(Announced {
        endpoint,
        credentials,
        certificate,
    })
}

/// Its condition `Ready` must be true for the current generation.
fn ready(reference: &Reference, object: &DynamicObject) -> Result<(), String> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let Some(ready) = conditions.into_iter().flatten().find(|c| c["type"] == "Ready") else {
        return Err(format!(
            "{reference} has no condition Ready yet: does the ironic-standalone-operator run?"
        ));
    };
    let text = |key: &str| ready[key].as_str().unwrap_or_default();
    let (observed, generation) = (
        ready["observedGeneration"].as_i64().unwrap_or_default(),
        object.metadata.generation,
    );
    if generation.is_some_and(|generation| generation != observed) {
        return Err(format!(
            "{reference} was changed, and its condition Ready does not speak of that yet (generation {observed} of {})",
            generation.unwrap_or_default()
        ));
    }
    if text("status") == "True" {
        return Ok(());
    }
    let why = [text("reason"), text("message")].map(str::trim);
    let why: Vec<_> = why.into_iter().filter(|word| !word.is_empty()).collect();
    Err(format!(
        "{reference} is not ready: {}",
        if why.is_empty() {
            "it does not say why".to_owned()
        } else {
            why.join(": ")
        }
    ))
}

/// The credentials in a Secret, byte for byte: the server was given the same.
pub fn credentials(reference: &Reference, name: &str, secret: Option<&Secret>) -> Result<Auth, String> {
    let field = Field::of(reference, "spec.apiCredentialsName", name);
    let secret = field.found(secret)?;
    Ok(Auth::Basic {
        username: field.key(secret, secret_key::USERNAME)?,
        password: field.key(secret, secret_key::PASSWORD)?,
    })
}

/// The certificate in a Secret, which is trusted.
pub fn authorities(reference: &Reference, name: &str, secret: Option<&Secret>) -> Result<String, String> {
    let field = Field::of(reference, "spec.tls.certificateName", name);
    field.key(field.found(secret)?, CERTIFICATE)
}

/// A Secret as the field of the resource names it, for messages.
struct Field(String);

impl Field {
    fn of(reference: &Reference, path: &str, name: &str) -> Self {
        Self(format!(
            "Secret {}/{name}, which {path} of {reference} names,",
            reference.namespace
        ))
    }

    fn found<'a>(&self, secret: Option<&'a Secret>) -> Result<&'a Secret, String> {
        secret.ok_or_else(|| format!("{} does not exist", self.0))
    }

    fn key(&self, secret: &Secret, key: &str) -> Result<String, String> {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        let bytes = bytes.filter(|bytes| !bytes.0.is_empty());
        let bytes = bytes.ok_or_else(|| format!("{} has nothing under its key {key}", self.0))?;
        String::from_utf8(bytes.0.clone()).map_err(|_| format!("{} has no text under its key {key}", self.0))
    }
}

#[cfg(test)]
mod tests;
