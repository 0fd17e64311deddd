//! Certificates without cert-manager: the leader creates them in one Secret, and configures the API server to trust
//! them; every replica serves the content of the Secret.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Installed;
use super::authority::{Held, renewed};
use crate::Clock;
use crate::error::{chain, is_conflict};
use crate::rbac::{Installation, owned, rule};
use crate::tls::{Certificate, TlsError};

/// Interval of checks of the Secret.
const RECHECK: Duration = Duration::from_secs(10);
/// Interval of the leader's checks of the API server's configuration: it may have been reinstalled.
const RECHECK_TRUST: Duration = Duration::from_secs(60);
/// The same until there is a certificate.
const RETRY: Duration = Duration::from_secs(2);

/// The field manager of our writes.
const FIELD_MANAGER: &str = "metal3-webhook-certificates";

/// The program whose certificates are managed.
#[derive(Clone, Debug)]
pub struct SelfManaged {
    /// The names of the program's objects.
    pub installed: Installed<'static>,
    /// The namespace of its pod, and of the Secret.
    pub namespace: String,
    /// The definitions whose objects it converts.
    pub definitions: Vec<String>,
}

/// Maintains the certificate of one replica, and while leading the shared objects.
pub(super) struct Keeper {
    pub client: Client,
    pub clock: Clock,
    pub leads: watch::Receiver<bool>,
    pub of: SelfManaged,
}

/// What the leader has written.
#[derive(Default)]
struct Trusted {
    /// The authorities as written in objects.
    bundle: Value,
    /// When the objects are checked next.
    next: Duration,
    /// The resourceVersion of each object after our write, by kind and name.
    versions: HashMap<(String, String), String>,
}

#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("the API server refuses it")]
    Kube(#[from] kube::Error),
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("cannot serve what the Secret holds")]
    Serve(#[from] TlsError),
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("of", &self.of).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Runs until cancelled.
    pub async fn run(self, mut served: Certificate, stop: CancellationToken) {
        let mut trusted = Trusted::default();
        let mut has_failed = false;
        loop {
            let done = self.once(&mut served, &mut trusted).await;
            let pause = if matches!(done, Ok(false)) { RETRY } else { RECHECK };
            if let Err(error) = &done
                && !has_failed
            {
                tracing::warn!(error = %chain(error), "cannot keep the certificate of the webhooks");
            }
            has_failed = done.is_err();
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Returns whether there is a certificate.
    async fn once(&self, served: &mut Certificate, trusted: &mut Trusted) -> Result<bool, KeepError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.of.namespace);
        let name = self.of.installed.secret();
        let stored = secrets.get_opt(&name).await?;
        let mut held = stored.as_ref().and_then(|secret| Held::read(secret.data.as_ref()?));
        let leads = *self.leads.borrow();
        if leads && let Some(new) = renewed(held.as_ref(), &self.of.dns_names(), self.clock.now())? {
            match write(&secrets, &name, stored, &new).await {
                Ok(()) => held = Some(new),
                // Another leader was faster; its result shows next time.
                Err(error) if is_conflict(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(held) = held else {
            return Ok(false);
        };
        if served.replace((held.certificate.into_bytes(), held.key.into_bytes()))? {
            tracing::info!(secret = name, "serving a new certificate");
        }
        if leads {
            self.trust(&held.bundle, trusted).await?;
        }
        Ok(true)
    }

    /// Writes the authorities to the API server's configuration. An unchanged object is not read again.
    async fn trust(&self, bundle: &str, trusted: &mut Trusted) -> Result<(), KeepError> {
        let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
        let now = self.clock.elapsed();
        if trusted.bundle == bundle && now < trusted.next {
            return Ok(());
        }
        if trusted.bundle != bundle {
            trusted.versions.clear();
        }
        // One object that cannot be written must not keep the others without their authority: conversion depends on it.
        let mut failed = None;
        for (resource, name) in self.of.targets() {
            let trusts = self.trust_in(&resource, name, &bundle, trusted).await;
            failed = failed.or(trusts.err());
        }
        trusted.bundle = bundle;
        trusted.next = now + RECHECK_TRUST;
        failed.map_or(Ok(()), Err)
    }

    /// The same for one object.
    async fn trust_in(
        &self,
        resource: &ApiResource,
        name: String,
        bundle: &Value,
        trusted: &mut Trusted,
    ) -> Result<(), KeepError> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let Some(metadata) = api.get_metadata_opt(&name).await? else {
            return Ok(());
        };
        let version = metadata.metadata.resource_version.unwrap_or_default();
        let key = (resource.kind.clone(), name);
        if trusted.versions.get(&key) == Some(&version) {
            return Ok(());
        }
        let name = &key.1;
        let mut left = version;
        if let Some(object) = api.get_opt(name).await?
            && let Some(spec) = trusting(&object.data, bundle, &self.of.dns_names())
        {
            let mut apply = json!({
                "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name},
            });
            json_patch::merge(&mut apply, &spec);
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let written = api.patch(name, &params, &Patch::Apply(&apply)).await?;
            left = written.metadata.resource_version.unwrap_or_default();
            tracing::info!(kind = resource.kind, name, "the API server trusts the webhooks now");
        }
        trusted.versions.insert(key, left);
        Ok(())
    }
}

/// The patch that gives an object this bundle wherever it names a webhook of ours; `None` if it already has it. Other
/// webhooks may be served by upstream's program or by others, with certificates of their own.
fn trusting(object: &Value, bundle: &Value, names: &[String]) -> Option<Value> {
    let is_ours = |webhook: &&Value| host(webhook).is_some_and(|host| names.contains(&host));
    let lacks = |webhook: &&Value| &webhook["clientConfig"]["caBundle"] != bundle;
    let config = json!({ "caBundle": bundle });
    if let Some(webhooks) = object["webhooks"].as_array() {
        let ours: Vec<&Value> = webhooks.iter().filter(is_ours).collect();
        let trusting = ours
            .iter()
            .map(|webhook| json!({"name": webhook["name"], "clientConfig": config}));
        return ours
            .iter()
            .any(lacks)
            .then(|| json!({"webhooks": trusting.collect::<Vec<_>>()}));
    }
    let webhook = object.pointer("/spec/conversion/webhook").filter(is_ours)?;
    lacks(&webhook).then(|| json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}}))
}

/// The name that the API server expects in the certificate.
fn host(webhook: &Value) -> Option<String> {
    let config = &webhook["clientConfig"];
    if let Some(url) = config["url"].as_str() {
        let rest = url.strip_prefix("https://")?;
        return rest.split([':', '/']).next().map(str::to_owned);
    }
    let part = |field: &str| config["service"][field].as_str();
    Some(format!("{}.{}.svc", part("name")?, part("namespace")?))
}

/// Conditional on the version that was read.
async fn write(secrets: &Api<Secret>, name: &str, stored: Option<Secret>, held: &Held) -> Result<(), kube::Error> {
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    if let Some(mut secret) = stored {
        secret.data = Some(held.write());
        secrets.replace(name, &params, &secret).await?;
    } else {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(held.write()),
            ..Secret::default()
        };
        secrets.create(&params, &secret).await?;
    }
    Ok(())
}

impl SelfManaged {
    /// The names that the API server may call: those of the Service, and localhost for tests and development.
    fn dns_names(&self) -> Vec<String> {
        let service = format!("{}.{}.svc", self.installed.service_name(), self.namespace);
        vec![format!("{service}.cluster.local"), service, "localhost".to_owned()]
    }

    /// The permissions to configure trust, in these objects and no others.
    pub fn rules(&self) -> Vec<PolicyRule> {
        let of = |group: &str, resource: &str, names: Vec<String>| PolicyRule {
            resource_names: Some(names),
            ..rule(group, &[resource], &["get", "patch"])
        };
        let [mutating, validating] = self.installed.configurations();
        let group = "admissionregistration.k8s.io";
        let mut rules = vec![of(group, "validatingwebhookconfigurations", vec![validating])];
        if self.installed.has_defaults {
            rules.insert(0, of(group, "mutatingwebhookconfigurations", vec![mutating]));
        }
        if !self.definitions.is_empty() {
            let group = "apiextensions.k8s.io";
            rules.push(of(group, "customresourcedefinitions", self.definitions.clone()));
        }
        rules
    }

    /// The permissions for the Secret, as a role in the program's namespace.
    pub fn role(&self, installation: &Installation<'_>) -> [Value; 2] {
        let name = format!("{}webhook-certificate-role", self.installed.prefix);
        installation.at_home(&name, owned("", "secrets", &self.installed.secret()).into())
    }

    /// Every object that may name one of the webhooks.
    fn targets(&self) -> impl Iterator<Item = (ApiResource, String)> {
        let [mutating, validating] = self.installed.configurations();
        let mutating = (ApiResource::erase::<MutatingWebhookConfiguration>(&()), mutating);
        let validating = (ApiResource::erase::<ValidatingWebhookConfiguration>(&()), validating);
        let configurations = self
            .installed
            .has_defaults
            .then_some(mutating)
            .into_iter()
            .chain([validating]);
        let definition = ApiResource::erase::<CustomResourceDefinition>(&());
        let definitions = self
            .definitions
            .iter()
            .map(move |name| (definition.clone(), name.clone()));
        configurations.chain(definitions)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn names() -> Vec<String> {
        vec!["s.n.svc".to_owned(), "localhost".to_owned()]
    }

    fn conversion(config: &Value) -> Value {
        json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}})
    }

    #[rstest]
    #[case::ours(json!({"service": {"name": "s", "namespace": "n"}}), true)]
    #[case::here(json!({"url": "https://localhost:9443/convert"}), true)]
    #[case::old(json!({"service": {"name": "s", "namespace": "n"}, "caBundle": "old"}), true)]
    #[case::done(json!({"service": {"name": "s", "namespace": "n"}, "caBundle": "new"}), false)]
    #[case::another_namespace(json!({"service": {"name": "s", "namespace": "m"}}), false)]
    #[case::another_server(json!({"url": "https://127.0.0.1:1/convert", "caBundle": "theirs"}), false)]
    #[case::no_webhook(json!({}), false)]
    fn only_what_names_this_program_gets_its_authority(#[case] config: Value, #[case] is_written: bool) {
        let wanted = is_written.then(|| conversion(&json!({"caBundle": "new"})));
        assert_eq!(trusting(&conversion(&config), &json!("new"), &names()), wanted);
    }

    #[test]
    fn webhooks_of_others_in_a_configuration_are_left_alone() {
        let service = |namespace: &str| json!({"service": {"name": "s", "namespace": namespace}});
        let object = json!({"webhooks": [
            {"name": "a", "clientConfig": service("n")},
            {"name": "b", "clientConfig": service("m")},
        ]});
        let wanted = json!({"webhooks": [{"name": "a", "clientConfig": {"caBundle": "new"}}]});
        assert_eq!(trusting(&object, &json!("new"), &names()), Some(wanted));
    }
}
