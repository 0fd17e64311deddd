//! Applies decisions.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMetaExt;
use kube::{Api, Resource, ResourceExt};
use metal3_api::capi::{self, ContractReference, IPAddressClaim, IPAddressClaimSpec};
use metal3_api::infra::names::{annotation, finalizer, label};
use metal3_api::infra::v1beta2::Metal3Data;
use metal3_api::ipam::{self, IPClaim, IPClaimSpec, IPPool};
use metal3_api::metal3::BareMetalHost;
use metal3_api::reference::{ObjectReference, SecretReference};
use metal3_render::{Pool, PoolAddress};
use metal3_runtime::error::is_not_found;
use metal3_runtime::find::{find, find_metadata};
use metal3_runtime::patch;
use metal3_runtime::store::{ObjectKey, Sink as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::address::{AddressClaim, Family, of_cluster_api, of_metal3};
use super::decide::is_nobodys;
use super::effect::{AddressRead, Effect, Read, Secret};
use super::observed::{Host, Observed};
use crate::context::Context;
use crate::labels;
use crate::stores::data::{SECRET_TYPE, SecretMeta};

/// A client for the namespace of a Metal3Data.
pub struct Server<'a> {
    pub ctx: &'a Context,
    pub namespace: &'a str,
    /// Whether IP claims are named after hosts.
    pub by_host: bool,
}

impl Server<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.ctx.client.clone(), self.namespace)
    }

    /// Reads what a decision requests.
    pub async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), kube::Error> {
        let answers = &mut seen.answers;
        match read {
            Read::Uid => {
                let now = self.api::<Metal3Data>().get_metadata_opt(&seen.key.name).await?;
                answers.uid = Some(now.and_then(|now| now.uid()).unwrap_or_default());
            }
            Read::Host(name) => {
                let stores = &self.ctx.stores;
                let cached = stores.hosts.get(&ObjectKey::new(self.namespace, &name));
                let now = self.ctx.clock.elapsed();
                let host = match cached.and_then(|cached| stores.claimed_hosts.take(&cached, now)) {
                    Some(host) => Some(host),
                    None => find(&self.api::<BareMetalHost>(), &name).await?,
                };
                answers.host = host.map_or(Host::Gone, |host| Host::Here(Box::new(host)));
            }
            Read::Addresses(all) => {
                for read in all {
                    let address = self.address(&read).await?;
                    answers.addresses.insert((read.family, read.claim), address);
                }
            }
            Read::Secret(name) => {
                let api = self.api::<k8s_openapi::api::core::v1::Secret>();
                match find_metadata(&api, &name).await? {
                    Some(there) => drop(answers.secrets.insert(name, there.metadata)),
                    None => drop(answers.absent.insert(name)),
                }
            }
            Read::Pool(name) => {
                let is_there = find(&self.api::<IPPool>(), &name).await?.is_some();
                answers.pools.insert(name, is_there);
            }
        }
        Ok(())
    }

    async fn address(&self, read: &AddressRead) -> Result<Option<PoolAddress>, kube::Error> {
        Ok(match read.family {
            Family::Metal3 => {
                let address = find(&self.api::<ipam::IPAddress>(), &read.name).await?;
                let address = address.filter(|address| address.spec.claim.name == read.claim);
                address.as_ref().map(of_metal3)
            }
            Family::ClusterApi => {
                let address = find(&self.api::<capi::IPAddress>(), &read.name).await?;
                let address = address.filter(|address| address.spec.claim_ref.name == read.claim);
                address.as_ref().map(of_cluster_api)
            }
        })
    }

    /// Applies one effect, and records the response in the stores and the observed state.
    pub async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        match effect {
            Effect::Release(claim) | Effect::Sweep(claim) => {
                seen.answers.gone.insert(claim.meta.uid.clone().unwrap_or_default());
                return self.release(claim).await;
            }
            Effect::DeleteSecret(name, uid) => {
                seen.answers.gone.insert(uid.clone());
                let api = self.api::<k8s_openapi::api::core::v1::Secret>();
                if delete(&api, name, Some(uid.clone())).await?.is_none() {
                    let key = ObjectKey::new(seen.key.namespace.clone(), name.clone());
                    self.ctx.stores.secrets.remove(&key, uid);
                }
                return Ok(());
            }
            Effect::Adopt { .. }
            | Effect::Claim { .. }
            | Effect::Secret(_)
            | Effect::TakeOver(_)
            | Effect::RemoveFinalizer => {}
        }
        let Some(view) = &mut seen.view else { return Ok(()) };
        let written = match effect {
            Effect::Adopt {
                meta_data,
                network_data,
                rendered_from,
            } => {
                let mut body = adoption(&view.data, meta_data.as_ref(), network_data.as_ref());
                if let Some(digest) = rendered_from {
                    body["metadata"]["annotations"] = json!({annotation::RENDERED_FROM: digest});
                }
                let (api, params) = (self.api::<Metal3Data>(), PatchParams::default());
                Some(api.patch(&view.data.name_any(), &params, &Patch::Merge(body)).await?)
            }
            Effect::RemoveFinalizer => {
                patch::remove_finalizer(&self.api::<Metal3Data>(), &view.data, finalizer::DATA).await?
            }
            Effect::Claim { pool, name } => {
                if let Some(claim) = self.claim(&view.data, pool, name).await? {
                    seen.answers.named.insert((claim.family, name.clone()), claim);
                }
                None
            }
            Effect::Secret(secret) => {
                if let Some(there) = self.secret(&view.data, secret).await? {
                    seen.answers.secrets.insert(secret.name.clone(), there.metadata);
                }
                None
            }
            Effect::TakeOver(secret) => {
                let name = secret.name.clone();
                match self.take_over(&view.data, secret).await? {
                    Taken::Ours(there) => drop(seen.answers.secrets.insert(name, there.metadata)),
                    Taken::Different => drop(seen.answers.different.insert(name)),
                    Taken::Gone => {
                        seen.answers.secrets.remove(&name);
                        seen.answers.absent.insert(name);
                    }
                }
                None
            }
            Effect::Release(_) | Effect::Sweep(_) | Effect::DeleteSecret(..) => None,
        };
        if let Some(written) = written {
            self.ctx.stores.datas.written(written.clone());
            view.data = written.into();
        }
        Ok(())
    }

    /// Creates an IP claim, or returns the existing one.
    async fn claim(&self, data: &Metal3Data, pool: &Pool, name: &str) -> Result<Option<AddressClaim>, kube::Error> {
        let stores = &self.ctx.stores;
        Ok(match Family::of(pool) {
            Family::Metal3 => {
                let claim = metal3_claim(data, pool, name, self.by_host);
                let there = create(&self.api::<IPClaim>(), &claim).await?;
                there.map(|there| {
                    let claim = AddressClaim::from(&there);
                    stores.ip_claims.created(there);
                    claim
                })
            }
            Family::ClusterApi => {
                let claim = cluster_api_claim(data, pool, name);
                let there = create(&self.api::<IPAddressClaim>(), &claim).await?;
                there.map(|there| {
                    let claim = AddressClaim::from(&there);
                    stores.ip_address_claims.created(there);
                    claim
                })
            }
        })
    }

    async fn release(&self, claim: &AddressClaim) -> Result<(), kube::Error> {
        let stores = &self.ctx.stores;
        match claim.family {
            Family::Metal3 => {
                if let Some(left) = self.give_up::<IPClaim>(claim).await? {
                    stores.ip_claims.written(left);
                }
            }
            Family::ClusterApi => {
                if let Some(left) = self.give_up::<IPAddressClaim>(claim).await? {
                    stores.ip_address_claims.written(left);
                }
            }
        }
        Ok(())
    }

    /// Creates a Secret, or returns the existing one without its content.
    async fn secret(&self, data: &Metal3Data, secret: &Secret) -> Result<Option<SecretMeta>, kube::Error> {
        let api = self.api::<k8s_openapi::api::core::v1::Secret>();
        match api.create(&PostParams::default(), &secret_object(data, secret)).await {
            Ok(made) => {
                let made: SecretMeta = made.metadata.into_response_partial();
                self.ctx.stores.secrets.created(made.clone());
                Ok(Some(made))
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => api.get_metadata_opt(&secret.name).await,
            Err(error) => Err(error),
        }
    }

    /// Becomes the owner of a Secret that is nobody's and just what would be created, on the version that was compared.
    async fn take_over(&self, data: &Metal3Data, secret: &Secret) -> Result<Taken, kube::Error> {
        let api = self.api::<k8s_openapi::api::core::v1::Secret>();
        let Some(there) = find(&api, &secret.name).await? else {
            return Ok(Taken::Gone);
        };
        let Some(change) = taken_over(&there, &secret_object(data, secret)) else {
            return Ok(Taken::Different);
        };
        let params = PatchParams::default();
        match api.patch(&secret.name, &params, &Patch::Merge(change)).await {
            Ok(ours) => {
                let ours: SecretMeta = ours.metadata.into_response_partial();
                self.ctx.stores.secrets.written(ours.clone());
                Ok(Taken::Ours(Box::new(ours)))
            }
            Err(error) if is_not_found(&error) => Ok(Taken::Gone),
            Err(error) => Err(error),
        }
    }

    /// Deletes a claim and removes our finalizer.
    async fn give_up<K>(&self, claim: &AddressClaim) -> Result<Option<K>, kube::Error>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api = self.api::<K>();
        let mut meta = claim.meta.clone();
        let mut left = None;
        if !claim.is_deleting() {
            let Some(now) = delete(&api, claim.name(), claim.meta.uid.clone()).await? else {
                return Ok(None);
            };
            meta = now.meta().clone();
            left = Some(now);
        }
        let Some(body) = patch::finalizer_removed(&meta, finalizer::DATA) else {
            return Ok(left);
        };
        match api
            .patch(claim.name(), &PatchParams::default(), &Patch::Merge(body))
            .await
        {
            Ok(now) => Ok(Some(now)),
            Err(error) if is_not_found(&error) => Ok(left),
            Err(error) => Err(error),
        }
    }
}

/// What became of a Secret that is nobody's.
enum Taken {
    /// It belongs to the Metal3Data.
    Ours(Box<SecretMeta>),
    /// It is something else, or somebody's by now.
    Different,
    /// It does not exist any more.
    Gone,
}

/// The change with which a Secret becomes the wanted one; `None` if that would take more than owner and labels.
pub fn taken_over(
    there: &k8s_openapi::api::core::v1::Secret,
    wanted: &k8s_openapi::api::core::v1::Secret,
) -> Option<Value> {
    let is_same = is_nobodys(&there.metadata) && there.type_ == wanted.type_ && there.data == wanted.data;
    let mut owners = there.metadata.owner_references.clone().unwrap_or_default();
    owners.extend(wanted.metadata.owner_references.clone().unwrap_or_default());
    let change = json!({"metadata": {"resourceVersion": there.metadata.resource_version,
        "labels": wanted.metadata.labels, "ownerReferences": owners}});
    is_same.then_some(change)
}

/// Creates an object, or returns the existing one.
async fn create<K>(api: &Api<K>, object: &K) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    match api.create(&PostParams::default(), object).await {
        Ok(made) => Ok(Some(made)),
        Err(kube::Error::Api(status)) if status.is_already_exists() => api.get_opt(&object.name_any()).await,
        Err(error) => Err(error),
    }
}

/// Deletes exactly this object (by UID). If a finalizer holds it, returns the object as it is then.
async fn delete<K>(api: &Api<K>, name: &str, uid: Option<String>) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let preconditions = Preconditions {
        uid,
        resource_version: None,
    };
    match api
        .delete(name, &DeleteParams::default().preconditions(preconditions))
        .await
    {
        Ok(answer) => Ok(answer.left().filter(|left| left.meta().deletion_timestamp.is_some())),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The merge patch that adds the finalizer and names the Secrets, guarded by the observed resource version.
fn adoption(data: &Metal3Data, meta_data: Option<&SecretReference>, network_data: Option<&SecretReference>) -> Value {
    let mut body = patch::finalizer_added(&data.metadata, finalizer::DATA)
        .unwrap_or_else(|| json!({"metadata": {"resourceVersion": data.resource_version()}}));
    let mut spec = json!({});
    for (field, reference) in [("metaData", meta_data), ("networkData", network_data)] {
        if let Some(reference) = reference {
            spec[field] = json!(reference);
        }
    }
    body["spec"] = spec;
    body
}

fn owner(data: &Metal3Data) -> OwnerReference {
    OwnerReference {
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..data.owner_ref(&()).unwrap_or_default()
    }
}

fn claim_meta(data: &Metal3Data, name: &str, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: data.namespace(),
        labels: Some(labels),
        finalizers: Some(vec![finalizer::DATA.to_owned()]),
        owner_references: Some(vec![owner(data)]),
        ..ObjectMeta::default()
    }
}

/// The IPClaim for a pool.
pub fn metal3_claim(data: &Metal3Data, pool: &Pool, name: &str, by_host: bool) -> IPClaim {
    let mut all = data.metadata.labels.clone().unwrap_or_default();
    if by_host {
        for (key, name) in [(label::DATA_NAME, &data.name_any()), (label::POOL_NAME, &pool.name)] {
            all.insert(key.to_owned(), labels::value(name, name));
        }
    }
    let spec = IPClaimSpec {
        pool: ObjectReference {
            name: pool.name.clone(),
            namespace: data.namespace().unwrap_or_default().into(),
            ..ObjectReference::default()
        },
    };
    IPClaim {
        metadata: claim_meta(data, name, all),
        ..IPClaim::new(name, spec)
    }
}

/// The IPAddressClaim for a pool.
pub fn cluster_api_claim(data: &Metal3Data, pool: &Pool, name: &str) -> IPAddressClaim {
    let labels = data.metadata.labels.clone().unwrap_or_default();
    let spec = IPAddressClaimSpec {
        cluster_name: labels
            .get(capi::names::label::CLUSTER_NAME)
            .cloned()
            .unwrap_or_default(),
        pool_ref: ContractReference {
            api_group: pool.api_group.clone(),
            kind: pool.kind.clone(),
            name: pool.name.clone(),
        },
        ..IPAddressClaimSpec::default()
    };
    IPAddressClaim {
        metadata: claim_meta(data, name, labels),
        ..IPAddressClaim::new(name, spec)
    }
}

/// The Secret with the rendered data.
pub fn secret_object(data: &Metal3Data, secret: &Secret) -> k8s_openapi::api::core::v1::Secret {
    let labels = [(capi::names::label::CLUSTER_NAME.to_owned(), secret.cluster.clone())];
    let text = k8s_openapi::ByteString(secret.text.clone().into_bytes());
    k8s_openapi::api::core::v1::Secret {
        metadata: ObjectMeta {
            name: Some(secret.name.clone()),
            namespace: data.namespace(),
            labels: Some(labels.into()),
            owner_references: Some(vec![owner(data)]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some([(secret.key.to_owned(), text)].into()),
        ..k8s_openapi::api::core::v1::Secret::default()
    }
}
