//! The task that follows the resource.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use metal3_ironic::{Link, Observer};
use metal3_runtime::backoff::{Backoff, random_seed};
use metal3_runtime::error::chain;
use metal3_runtime::secrets::{SecretKey, SecretVersions};
use tokio_util::sync::CancellationToken;

use super::{Access, Reference, announced, authorities, credentials, kind};
use crate::ironic_config::IronicArgs;

/// Updates a [`Link`] from an Ironic resource.
pub struct Follower {
    /// The Kubernetes API.
    pub kube: Client,
    /// The resource to follow.
    pub reference: Reference,
    /// The client settings that the resource does not contain.
    pub args: IronicArgs,
    /// Notified of every call.
    pub observer: Option<Arc<dyn Observer>>,
    /// The link to update.
    pub link: Link,
}

/// What is known at the moment.
#[derive(Default)]
struct Known {
    /// The resource, if there is one.
    object: Option<DynamicObject>,
    /// Whether the watch has shown if the resource exists.
    is_seen: bool,
    /// The access that the client was created for.
    access: Option<Access>,
    /// Why there is no client.
    why: Option<String>,
}

impl Follower {
    /// Follows until stopped.
    pub async fn run(self, stop: CancellationToken) {
        let api: Api<DynamicObject> = Api::namespaced_with(self.kube.clone(), &self.reference.namespace, &kind());
        let mut objects = pin!(watch_object(api, &self.reference.name).default_backoff());
        let secrets = SecretVersions::<()>::default();
        let mut changes = pin!(secrets.watch(&self.kube, &self.reference.namespace));
        let mut known = Known::default();
        let mut failures = 0;
        loop {
            let again = Backoff::TRANSIENT.delay(failures, random_seed());
            tokio::select! {
                () = stop.cancelled() => return,
                seen = objects.next() => match seen {
                    Some(Ok(object)) => (known.object, known.is_seen) = (object, true),
                    Some(Err(error)) => {
                        // The known state stays valid while the API server is unavailable.
                        if !known.is_seen {
                            self.tell(&mut known, format!("{} cannot be read: {}", self.reference, chain(&error)));
                        }
                        continue;
                    }
                    None => return,
                },
                Some(()) = changes.next() => {}
                () = tokio::time::sleep(again), if failures > 0 => {}
            }
            if !known.is_seen {
                continue;
            }
            let answer = tokio::select! {
                () = stop.cancelled() => return,
                answer = self.access(known.object.as_ref(), &secrets) => answer,
            };
            match answer {
                Ok(Ok(access)) => {
                    failures = 0;
                    self.exchange(&mut known, access);
                }
                Ok(Err(why)) => {
                    failures = 0;
                    self.tell(&mut known, why);
                }
                Err(error) => {
                    failures += 1;
                    if known.access.is_none() {
                        let secrets = format!("the Secrets of {} cannot be read", self.reference);
                        self.tell(&mut known, format!("{secrets}: {}", chain(&error)));
                    }
                }
            }
        }
    }

    /// The access from the resource and its Secrets; the inner error is what the operator waits for.
    async fn access(
        &self,
        object: Option<&DynamicObject>,
        secrets: &SecretVersions<()>,
    ) -> Result<Result<Access, String>, kube::Error> {
        let told = match announced(&self.reference, object) {
            Ok(told) => told,
            Err(why) => return Ok(Err(why)),
        };
        let key = |name: &String| SecretKey {
            namespace: self.reference.namespace.clone(),
            name: name.clone(),
        };
        // Before they are read, so that no change is missed.
        secrets.set_references(
            (),
            [Some(&told.credentials), told.certificate.as_ref()]
                .into_iter()
                .flatten()
                .map(key),
        );
        let api: Api<Secret> = Api::namespaced(self.kube.clone(), &self.reference.namespace);
        let user = api.get_opt(&told.credentials).await?;
        let auth = match credentials(&self.reference, &told.credentials, user.as_ref()) {
            Ok(auth) => auth,
            Err(why) => return Ok(Err(why)),
        };
        let trusted = match &told.certificate {
            None => None,
            Some(name) => match authorities(&self.reference, name, api.get_opt(name).await?.as_ref()) {
                Ok(text) => Some(text),
                Err(why) => return Ok(Err(why)),
            },
        };
        Ok(Ok(Access {
            endpoint: told.endpoint,
            auth,
            authorities: trusted,
        }))
    }

    /// Creates a client for this access, unless the current one has it.
    fn exchange(&self, known: &mut Known, access: Access) {
        if known.access.as_ref() == Some(&access) {
            return;
        }
        let made = self
            .args
            .client_for(access.clone())
            .map_err(|error| chain(&error).to_string());
        let made = made.and_then(|mut config| {
            config.observer.clone_from(&self.observer);
            metal3_ironic::Client::new(config).map_err(|error| chain(&error).to_string())
        });
        match made {
            Ok(client) => {
                tracing::info!(resource = %self.reference, endpoint = %access.endpoint, "Ironic is reached as its resource says");
                self.link.set(client);
                (known.access, known.why) = (Some(access), None);
            }
            Err(error) => self.tell(known, format!("what {} tells cannot be used: {error}", self.reference)),
        }
    }

    /// Records that there is no client, for this reason.
    fn tell(&self, known: &mut Known, why: String) {
        if known.why.as_ref() == Some(&why) {
            return;
        }
        tracing::warn!(resource = %self.reference, %why, "Ironic is not ready");
        self.link.unset(&why);
        (known.access, known.why) = (None, Some(why));
    }
}
