//! Reads and writes for claims.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::core::ObjectMeta;
use kube::{Client, Resource, ResourceExt};
use metal3_api::metal3::names::{GROUP, finalizer};
use metal3_api::metal3::{BareMetalHost, HostClaim, HostClaimStatus};
use metal3_api::reference::ObjectReference;
use metal3_runtime::controller::Report;
use metal3_runtime::error::{is_forbidden, is_not_found};
use metal3_runtime::events::{Event, Recorder};
use metal3_runtime::find::find;
use metal3_runtime::patch::{annotation_removed, remove_finalizer};
use metal3_runtime::status;
use metal3_runtime::store::{ObjectKey, Store};
use serde_json::{Value, json};

use super::decide::Effect;
use super::decide::release::freed;
use super::moving::marks;
use super::observed::{Data, Observed, Source};
use super::stores::{ClaimBy, KIND, version_of};
use crate::host::for_a_server;
use crate::settings::HostSettings;

/// The field manager of copied Secrets.
const MANAGER: &str = "baremetal-operator-hostclaim";

/// What writes need.
#[derive(Clone)]
pub struct Writer {
    pub client: Client,
    pub claims: Store<HostClaim, ClaimBy>,
    pub hosts: Store<BareMetalHost, metal3_runtime::secrets::SecretKey>,
    pub recorder: Recorder,
    pub settings: Arc<HostSettings>,
}

impl Writer {
    pub async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        match effect {
            Effect::Mark(change) => {
                let mut change = change.clone();
                change["metadata"]["resourceVersion"] = json!(seen.claim.metadata.resource_version);
                let name = seen.claim.name_any();
                let claims = self.claims_of(seen);
                let written = claims
                    .patch(&name, &PatchParams::default(), &Patch::Merge(change))
                    .await?;
                self.took_claim(seen, Some(written));
            }
            Effect::Take(host) => {
                let change =
                    json!({"metadata": {"annotations": marks(host)}, "spec": {"consumerRef": reference(&seen.claim)}});
                let host = self.patch_host(host, change).await?;
                tracing::info!(claim = %ObjectKey::of(&*seen.claim), host = %ObjectKey::of(&*host), "a claim has taken a host");
                seen.own = vec![host];
            }
            Effect::Free(host) => {
                let claim = ObjectKey::of(&*seen.claim);
                let free = self.patch_host(host, freed(host)).await;
                seen.named.retain(|other| !Arc::ptr_eq(other, host));
                let free = match free {
                    Ok(free) => free,
                    // It never was the claim's: who refuses this does not hold up the claim.
                    Err(error) if super::is_refusal(&error) => {
                        tracing::warn!(%claim, host = %ObjectKey::of(&**host), %error, "a host that only names a claim cannot be released");
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                };
                tracing::info!(%claim, host = %ObjectKey::of(&*free), "a host that only named a claim is free");
                let words = format!("the host is released: it named HostClaim {claim}, which did not take it");
                let event = Event::normal("HostReleased", words);
                self.recorder.publish(&free.object_ref(&()), None, &event).await;
            }
            Effect::Copy(data) => {
                self.copy(seen, *data).await?;
            }
            Effect::SetHost(number, change) => {
                if let Some(host) = seen.own.get_mut(*number) {
                    *host = self.patch_host(host, change.clone()).await?;
                }
            }
            Effect::DeleteCopy(number, data) => {
                if let Some(host) = seen.own.get(*number) {
                    self.delete_secret(host, &data.copy(&seen.claim)).await?;
                }
                seen.copied.remove(data);
            }
            Effect::DeleteOld(name) => {
                if let Some(host) = seen.own.first() {
                    self.delete_secret(host, name).await?;
                }
            }
            Effect::Forget(annotation) => self.forget(seen, annotation).await?,
            Effect::RemoveFinalizer => {
                let claims = self.claims_of(seen);
                let written = remove_finalizer(&claims, &*seen.claim, finalizer::HOST_CLAIM).await?;
                // Removing the last finalizer deletes the object, and the server returns it as it was stored.
                let written = written.map(|mut claim| {
                    claim
                        .finalizers_mut()
                        .retain(|present| present != finalizer::HOST_CLAIM);
                    claim
                });
                self.took_claim(seen, written);
            }
        }
        Ok(())
    }

    /// Stores the status on the version that was seen, and publishes the events.
    pub async fn report(&self, seen: &mut Observed, report: Report<HostClaimStatus>) -> Result<(), kube::Error> {
        if let Some(status) = report.status {
            let written = status::replace(&self.client, &*seen.claim, status).await?;
            self.took_claim(seen, Some(written));
        }
        let regarding = seen.claim.object_ref(&());
        for event in &report.events {
            self.recorder.publish(&regarding, None, event).await;
        }
        Ok(())
    }

    fn claims_of(&self, seen: &Observed) -> Api<HostClaim> {
        Api::namespaced(self.client.clone(), &seen.claim.namespace().unwrap_or_default())
    }

    fn took_claim(&self, seen: &mut Observed, written: Option<HostClaim>) {
        if let Some(claim) = written {
            self.claims.written(claim.clone());
            seen.claim = Arc::new(claim);
        }
    }

    /// Changes a host on the version that was seen: two claims cannot both become its consumer.
    pub async fn patch_host(&self, host: &BareMetalHost, mut change: Value) -> Result<Arc<BareMetalHost>, kube::Error> {
        change["metadata"]["resourceVersion"] = json!(host.metadata.resource_version);
        change["metadata"]["uid"] = json!(host.metadata.uid);
        let hosts: Api<BareMetalHost> = Api::namespaced(self.client.clone(), &host.namespace().unwrap_or_default());
        let written = hosts
            .patch(&host.name_any(), &PatchParams::default(), &Patch::Merge(change))
            .await?;
        self.hosts.written(written.clone());
        Ok(Arc::new(written))
    }

    /// Copies the value of one key, and nothing else, to the namespace of the host. The host owns the copy, so that it does not
    /// outlive the host.
    pub async fn copy(&self, seen: &Observed, data: Data) -> Result<Option<ObjectMeta>, kube::Error> {
        let (Some(host), Some(Source::Found { value, .. })) = (seen.own.first(), seen.read.get(&data)) else {
            return Ok(None);
        };
        let name = data.copy(&seen.claim);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "ownerReferences": [{
                "apiVersion": BareMetalHost::api_version(&()), "kind": BareMetalHost::kind(&()),
                "name": host.name_any(), "uid": host.metadata.uid,
            }]},
            "data": {data.key(): value},
        });
        let secrets = self.secrets_of(host);
        let patch = Patch::Apply(secret);
        let written = secrets
            .patch(&name, &PatchParams::apply(MANAGER).force(), &patch)
            .await?;
        Ok(Some(written.metadata))
    }

    /// Deletes a Secret beside a host.
    pub async fn delete_secret(&self, host: &BareMetalHost, name: &str) -> Result<(), kube::Error> {
        let deleted = self.secrets_of(host).delete(name, &DeleteParams::default()).await;
        match deleted {
            Err(error) if !is_not_found(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn secrets_of(&self, host: &BareMetalHost) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &host.namespace().unwrap_or_default())
    }

    /// Removes an annotation with the value that the host has got. A new value is a new request.
    async fn forget(&self, seen: &mut Observed, annotation: &str) -> Result<(), kube::Error> {
        let Some(value) = seen.claim.annotations().get(annotation) else {
            return Ok(());
        };
        let patch: Patch<()> = Patch::Json(annotation_removed(annotation, value));
        let name = seen.claim.name_any();
        match self.claims_of(seen).patch(&name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.is_invalid() => Ok(()),
            written => {
                self.took_claim(seen, Some(written?));
                Ok(())
            }
        }
    }

    /// Reads the Secret with this data.
    pub async fn read(&self, seen: &mut Observed, data: Data) -> Result<Option<Secret>, kube::Error> {
        let Some(reference) = data.of_claim(&seen.claim) else {
            return Ok(None);
        };
        let namespace = seen.claim.namespace().unwrap_or_default();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        let secret = match find(&secrets, &reference.name).await {
            Err(error) if is_forbidden(&error) => {
                seen.read.insert(data, Source::Forbidden);
                return Ok(None);
            }
            secret => secret?,
        };
        seen.read.insert(data, source(data, secret.as_ref(), &self.settings));
        Ok(secret)
    }
}

fn source(data: Data, secret: Option<&Secret>, settings: &HostSettings) -> Source {
    let Some(secret) = secret else {
        return Source::Absent;
    };
    match for_a_server(secret, data.key(), settings) {
        Err(why) => Source::Unusable(why),
        Ok(None) => Source::Unusable(format!("has no key {}", data.key())),
        Ok(Some(value)) => Source::Found {
            version: version_of(&secret.metadata),
            value: value.clone(),
        },
    }
}

/// The reference with which a claim is the consumer of a host.
fn reference(claim: &HostClaim) -> ObjectReference {
    ObjectReference {
        api_version: format!("{GROUP}/v1alpha1"),
        kind: KIND.to_owned(),
        name: claim.name_any(),
        namespace: claim.namespace().unwrap_or_default().into(),
        uid: claim.uid().unwrap_or_default(),
        ..ObjectReference::default()
    }
}
