//! Reads a machine's boot data.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use metal3_api::capi::names::SECRET_TYPE;
use metal3_api::metal3::names::secret_key::{META_DATA, USER_DATA, VALUE};
use metal3_render::{Metadata, is_template, missing_keys};
use metal3_runtime::find::find;
use metal3_runtime::secrets::SecretKey;
use metal3_runtime::store::ObjectKey;

use super::KIND;
use super::Metal3Machines;
use super::preview::{Payload, Preview};
use crate::error::PassError;
use crate::machine::observed::Observed;

impl Metal3Machines {
    /// Reads the Secrets once per machine. Nothing is checked after the host is given its image and data. Until then a change to
    /// one of the Secrets triggers the machine.
    pub(super) async fn read_payload(&self, seen: &mut Observed, payload: Payload) -> Result<(), PassError> {
        let key = seen.key();
        let wanted = seen.wanted_secrets();
        let names = wanted.iter().map(|(name, _)| name).chain(&payload.meta_data);
        let references: Vec<SecretKey> = names.map(|name| secret_key(&key, name)).collect();
        self.secrets.set_references(key.clone(), references);
        let known = self.secrets.get(&secret_key(&key, &payload.user_data));
        if self.waiting.is_plain(&key, &known) {
            seen.reads.preview = Some(Preview::Complete);
            return Ok(());
        }
        let Some(user_data) = self.read_user_data(&key, &payload.user_data).await? else {
            // Deleted since it was looked up: wait for it.
            let secrets = seen.reads.secrets.get_or_insert_default();
            secrets.insert(payload.user_data, false);
            return Ok(());
        };
        seen.reads.preview = Some(match text_of(&user_data, USER_DATA).filter(|text| is_template(text)) {
            None => Preview::Complete,
            Some(template) => match self.metadata(&key, payload.meta_data.as_deref()).await? {
                Ok(metadata) => preview(&template, &metadata),
                Err(why) => Preview::NoMetadata(why),
            },
        });
        Ok(())
    }

    /// The metadata, or why it cannot be read.
    async fn metadata(&self, key: &ObjectKey, name: Option<&str>) -> Result<Result<Metadata, String>, PassError> {
        let Some(name) = name else {
            return Ok(Ok(Metadata::default()));
        };
        let Some(secret) = self.read_secret(key, name).await? else {
            return Ok(Err(format!("Secret {name} does not exist")));
        };
        let text = text_of(&secret, META_DATA);
        let text = text.ok_or_else(|| format!("Secret {name} has no text under the key {META_DATA} or {VALUE}"));
        Ok(text.and_then(|text| {
            Metadata::from_yaml(&text).map_err(|why| format!("Secret {name} holds no metadata: {why}"))
        }))
    }

    /// The user-data Secret. Remembers if it is not a template.
    pub(super) async fn read_user_data(&self, key: &ObjectKey, name: &str) -> Result<Option<Secret>, PassError> {
        let secret = self.read_secret(key, name).await?;
        if let Some(secret) = &secret
            && !text_of(secret, USER_DATA).is_some_and(|text| is_template(&text))
        {
            self.waiting.learn_plain(key, &secret.metadata);
        }
        Ok(secret)
    }

    async fn read_secret(&self, key: &ObjectKey, name: &str) -> Result<Option<Secret>, PassError> {
        let secrets: Api<Secret> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let secret = find(&secrets, name).await;
        let secret = secret.map_err(PassError::of("read what the host is to boot with", KIND, key))?;
        let metadata = secret.as_ref().map(|secret| &secret.metadata);
        self.secrets.learn(&secret_key(key, name), metadata);
        Ok(secret)
    }
}

fn secret_key(machine: &ObjectKey, name: &str) -> SecretKey {
    SecretKey {
        namespace: machine.namespace.clone(),
        name: name.to_owned(),
    }
}

/// The text of a Secret, under the keys that baremetal-operator reads. The key `value` counts only in bootstrap data, because
/// under Cluster API's contract a kubeconfig has the same type.
fn text_of(secret: &Secret, key: &str) -> Option<String> {
    let data = secret.data.as_ref()?;
    let is_bootstrap = matches!(secret.type_.as_deref().unwrap_or_default(), "" | "Opaque" | SECRET_TYPE)
        && !secret.name_any().ends_with("-kubeconfig");
    let bytes = data.get(key).or_else(|| data.get(VALUE).filter(|_| is_bootstrap))?;
    String::from_utf8(bytes.0.clone()).ok()
}

fn preview(template: &str, metadata: &Metadata) -> Preview {
    let missing = missing_keys(template, metadata);
    if missing.is_empty() {
        Preview::Complete
    } else {
        Preview::Lacks(missing)
    }
}
