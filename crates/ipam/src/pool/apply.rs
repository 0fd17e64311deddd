//! Doing what was decided: one request for each effect, and its answer as data.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource};
use metal3_api::capi;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::ipam::{self, IPPool};
use metal3_api::reference::ObjectReference;
use metal3_runtime::error::{chain, is_conflict, is_not_found};
use metal3_runtime::{conditions, patch};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::effect::{ClaimReport, Effect, NewAddress, Outcome, PoolMeta, Record};
use super::fresh::Lists;
use super::seen::{Address, AddressId, Claim, ClaimKey, Family};

/// The API server, for one namespace.
#[derive(Clone)]
pub struct Server {
    client: Client,
    namespace: String,
    pool: String,
    lists: Lists,
}

/// What becomes of an object of either family.
trait Seen: Sized {
    fn outcome(&self) -> Outcome;
}

impl Seen for IPPool {
    fn outcome(&self) -> Outcome {
        Outcome::Pool(Arc::new(self.clone()))
    }
}

impl Seen for ipam::IPClaim {
    fn outcome(&self) -> Outcome {
        Outcome::Claim(Arc::new(Claim::from(self)))
    }
}

impl Seen for capi::IPAddressClaim {
    fn outcome(&self) -> Outcome {
        Outcome::Claim(Arc::new(Claim::from(self)))
    }
}

impl Seen for ipam::IPAddress {
    fn outcome(&self) -> Outcome {
        Outcome::Address(Arc::new(Address::from(self)))
    }
}

impl Seen for capi::IPAddress {
    fn outcome(&self) -> Outcome {
        Outcome::Address(Arc::new(Address::from(self)))
    }
}

impl Server {
    /// For the pool `namespace/pool`, with the lists that all pools share.
    pub fn new(client: Client, lists: Lists, namespace: &str, pool: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            pool: pool.to_owned(),
            lists,
        }
    }

    /// Does one thing. It never fails: a failure is an outcome, too.
    pub async fn apply(&self, effect: &Effect) -> Outcome {
        match effect {
            Effect::Adopt => self.adopt().await,
            Effect::Pool(meta) => self.merge::<IPPool>(&self.pool, &pool_meta(meta), None).await,
            Effect::Record(record) => self.merge::<IPPool>(&self.pool, &status(record), Some("status")).await,
            Effect::AddFinalizer(claim) => {
                let seen = metadata(claim);
                let body = patch::finalizer_added(&seen, claim.key.family.claim_finalizer());
                self.patch_claim(claim, &body.unwrap_or(Value::Null), None).await
            }
            Effect::Release(claim) => {
                let seen = metadata(claim);
                let body = patch::finalizer_removed(&seen, claim.key.family.claim_finalizer());
                self.patch_claim(claim, &body.unwrap_or(Value::Null), None).await
            }
            Effect::Report(claim, report) => {
                self.patch_claim(claim, &claim_status(claim, report, &self.namespace), Some("status"))
                    .await
            }
            Effect::Create(new) => self.create(new).await,
            Effect::Look(_, id) => self.look(id).await,
            Effect::LookAtClaim(key) => self.look_at_claim(key).await,
            Effect::Unlock(address) => {
                let seen = ObjectMeta {
                    resource_version: Some(address.version.to_string()),
                    finalizers: Some(address.finalizers.clone()),
                    ..ObjectMeta::default()
                };
                let body = patch::finalizer_removed(&seen, address.id.family.address_finalizer());
                let body = body.unwrap_or(Value::Null);
                match address.id.family {
                    Family::Metal3 => self.merge::<ipam::IPAddress>(&address.id.name, &body, None).await,
                    Family::ClusterApi => self.merge::<capi::IPAddress>(&address.id.name, &body, None).await,
                }
            }
            Effect::Delete(address) => match address.id.family {
                Family::Metal3 => self.delete::<ipam::IPAddress>(address).await,
                Family::ClusterApi => self.delete::<capi::IPAddress>(address).await,
            },
        }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn adopt(&self) -> Outcome {
        let pool = match self.api::<IPPool>().get_opt(&self.pool).await {
            Ok(pool) => pool.map(Arc::new),
            Err(error) => return failed(&error),
        };
        match self.lists.all(&self.client, &self.namespace).await {
            Ok(lists) => Outcome::Adopted(super::effect::Adopted {
                pool,
                addresses: lists.addresses.clone(),
                as_of: lists.as_of,
            }),
            Err(error) => failed(&error),
        }
    }

    async fn patch_claim(&self, claim: &Claim, body: &Value, part: Option<&'static str>) -> Outcome {
        match claim.key.family {
            Family::Metal3 => self.merge::<ipam::IPClaim>(&claim.key.name, body, part).await,
            Family::ClusterApi => self.merge::<capi::IPAddressClaim>(&claim.key.name, body, part).await,
        }
    }

    /// A merge patch, which says itself what it insists on.
    async fn merge<K>(&self, name: &str, body: &Value, part: Option<&'static str>) -> Outcome
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Seen,
    {
        let (api, params, body) = (self.api::<K>(), PatchParams::default(), Patch::Merge(body));
        let answer = match part {
            Some(_) => api.patch_status(name, &params, &body).await,
            None => api.patch(name, &params, &body).await,
        };
        match answer {
            Ok(object) => object.outcome(),
            Err(error) if is_not_found(&error) => Outcome::Absent,
            // Of another object of this name the UID is refused as invalid.
            Err(error) if is_conflict(&error) || is_invalid(&error) => {
                self.instead::<K>(name, (!is_conflict(&error)).then_some(&error)).await
            }
            Err(error) => failed(&error),
        }
    }

    /// What is there, after a write that was refused.
    async fn instead<K>(&self, name: &str, refused: Option<&kube::Error>) -> Outcome
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Seen,
    {
        match self.api::<K>().get_opt(name).await {
            Ok(Some(object)) => match (refused, object.outcome()) {
                // What was written is wrong in itself.
                (Some(error), _) if !is_about_uid(error) => failed(error),
                (_, there) => Outcome::Stale(Box::new(there)),
            },
            Ok(None) => Outcome::Stale(Box::new(Outcome::Absent)),
            Err(error) => failed(&error),
        }
    }

    async fn create(&self, new: &NewAddress) -> Outcome {
        match new.claim.key.family {
            Family::Metal3 => self.create_as(&metal3_address(new, &self.namespace)).await,
            Family::ClusterApi => self.create_as(&capi_address(new)).await,
        }
    }

    async fn create_as<K>(&self, object: &K) -> Outcome
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Serialize
            + std::fmt::Debug
            + Seen,
    {
        let name = object.meta().name.clone().unwrap_or_default();
        match self.api::<K>().create(&PostParams::default(), object).await {
            Ok(made) => made.outcome(),
            Err(error) if is_conflict(&error) => self.instead::<K>(&name, None).await,
            Err(error) => failed(&error),
        }
    }

    async fn look(&self, id: &AddressId) -> Outcome {
        match id.family {
            Family::Metal3 => self.get::<ipam::IPAddress>(&id.name).await,
            Family::ClusterApi => self.get::<capi::IPAddress>(&id.name).await,
        }
    }

    async fn look_at_claim(&self, key: &ClaimKey) -> Outcome {
        match key.family {
            Family::Metal3 => self.get::<ipam::IPClaim>(&key.name).await,
            Family::ClusterApi => self.get::<capi::IPAddressClaim>(&key.name).await,
        }
    }

    async fn get<K>(&self, name: &str) -> Outcome
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Seen,
    {
        // No object has an empty name, and asking for one would be asking for a list.
        if name.is_empty() {
            return Outcome::Absent;
        }
        match self.api::<K>().get_opt(name).await {
            Ok(found) => found.map_or(Outcome::Absent, |object| object.outcome()),
            Err(error) => failed(&error),
        }
    }

    async fn delete<K>(&self, address: &Address) -> Outcome
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Seen,
    {
        let name = &address.id.name;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(address.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.api::<K>().delete(name, &params).await {
            Ok(answer) => answer.left().map_or(Outcome::Absent, |object| object.outcome()),
            Err(error) if is_not_found(&error) => Outcome::Absent,
            Err(error) if is_conflict(&error) => self.instead::<K>(name, None).await,
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &kube::Error) -> Outcome {
    Outcome::Failed(chain(error).to_string())
}

fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_invalid())
}

fn is_about_uid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.message.contains("uid"))
}

fn metadata(claim: &Claim) -> ObjectMeta {
    ObjectMeta {
        resource_version: Some(claim.version.to_string()),
        finalizers: Some(claim.finalizers.clone()),
        ..ObjectMeta::default()
    }
}

fn pool_meta(meta: &PoolMeta) -> Value {
    let mut body = json!({ "resourceVersion": meta.version.to_string() });
    if let Some(finalizers) = &meta.finalizers {
        body["finalizers"] = json!(finalizers);
    }
    if !meta.labels.is_empty() {
        body["labels"] = json!(meta.labels);
    }
    if let Some(owners) = &meta.owners {
        body["ownerReferences"] = json!(owners);
    }
    json!({ "metadata": body })
}

fn status(record: &Record) -> Value {
    let allocating = record.allocating.iter().map(|(key, address)| ipam::Allocating {
        kind: key.family.claim_kind().to_owned(),
        name: key.name.clone(),
        address: address.to_string(),
    });
    let allocating: Vec<ipam::Allocating> = allocating.collect();
    let mut body = json!({
        "lastUpdated": record.last_updated,
        "usage": record.usage,
        "conditions": record.conditions,
        "allocating": if allocating.is_empty() { Value::Null } else { json!(allocating) },
    });
    if !record.indexes.is_empty() {
        body["indexes"] = json!(record.indexes);
    }
    json!({ "metadata": { "resourceVersion": record.version.to_string() }, "status": body })
}

fn claim_status(claim: &Claim, report: &ClaimReport, namespace: &str) -> Value {
    let mut list: Vec<Condition> = claim.conditions.clone();
    let is_served = report.address.is_some();
    let ready = conditions::Claim {
        type_: conditions::READY,
        status: if is_served {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        },
        reason: report.reason,
        message: &report.message,
    };
    conditions::set(&mut list, &ready, None, report.now);
    let body = match claim.key.family {
        Family::Metal3 => json!({
            "address": report.address.as_ref().map(|name| json!({ "name": name, "namespace": namespace })),
            "errorMessage": report.error,
            "conditions": list,
        }),
        Family::ClusterApi => json!({
            "addressRef": report.address.as_ref().map(|name| json!({ "name": name })),
            "conditions": list,
        }),
    };
    // Lists are replaced whole, so nobody may have written in between; and a later claim of this name is not meant.
    let metadata = json!({ "uid": claim.uid, "resourceVersion": claim.version.to_string() });
    json!({ "metadata": metadata, "status": body })
}

fn owner(api_version: &str, kind: &str, meta: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: None,
        block_owner_deletion: None,
    }
}

fn address_metadata(new: &NewAddress) -> ObjectMeta {
    let claim = &new.claim;
    let family = claim.key.family;
    let pool = owner(Family::Metal3.api_version(), "IPPool", &new.pool.metadata);
    let holder = ObjectMeta {
        name: Some(claim.key.name.clone()),
        uid: Some(claim.uid.clone()),
        ..ObjectMeta::default()
    };
    let mut owners = vec![pool, owner(family.api_version(), family.claim_kind(), &holder)];
    if family == Family::ClusterApi {
        // Cluster API's contract: the claim is the controller, and both outlive the address.
        for (owner, controls) in owners.iter_mut().zip([false, true]) {
            owner.controller = Some(controls);
            owner.block_owner_deletion = Some(true);
        }
    }
    ObjectMeta {
        name: Some(new.name.clone()),
        labels: (!claim.labels.is_empty()).then(|| claim.labels.clone()),
        finalizers: Some(vec![family.address_finalizer().to_owned()]),
        owner_references: Some(owners),
        ..ObjectMeta::default()
    }
}

fn metal3_address(new: &NewAddress, namespace: &str) -> ipam::IPAddress {
    let reference = |name: &str| ObjectReference {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        ..ObjectReference::default()
    };
    let spec = ipam::IPAddressSpec {
        claim: reference(&new.claim.key.name),
        pool: reference(&new.claim.pool),
        prefix: new.settings.prefix,
        gateway: new.settings.gateway.clone(),
        address: new.address.to_string(),
        dns_servers: new.settings.dns_servers.clone(),
    };
    ipam::IPAddress {
        metadata: address_metadata(new),
        spec,
    }
}

fn capi_address(new: &NewAddress) -> capi::IPAddress {
    let spec = capi::IPAddressSpec {
        claim_ref: capi::IPAddressClaimReference {
            name: new.claim.key.name.clone(),
        },
        pool_ref: capi::PoolReference {
            api_group: ipam::names::GROUP.to_owned(),
            kind: "IPPool".to_owned(),
            name: new.claim.pool.clone(),
        },
        address: new.address.to_string(),
        prefix: i32::try_from(new.settings.prefix).unwrap_or_default(),
        gateway: new.settings.gateway.clone(),
        ..capi::IPAddressSpec::default()
    };
    capi::IPAddress {
        metadata: address_metadata(new),
        spec,
    }
}

/// All addresses of a namespace, with the version of each list.
pub(super) async fn list_all(client: &Client, namespace: &str) -> Result<(Vec<Arc<Address>>, [u64; 2]), kube::Error> {
    let metal3: Api<ipam::IPAddress> = Api::namespaced(client.clone(), namespace);
    let cluster_api: Api<capi::IPAddress> = Api::namespaced(client.clone(), namespace);
    // Without a version, the server asks etcd: nothing that was answered before this request is missing.
    let params = ListParams::default();
    let (metal3, cluster_api) = futures::try_join!(metal3.list(&params), cluster_api.list(&params))?;
    let number = |version: &Option<String>| version.as_deref().and_then(|v| v.parse().ok()).unwrap_or_default();
    let as_of = [
        number(&metal3.metadata.resource_version),
        number(&cluster_api.metadata.resource_version),
    ];
    let ours = |address: &&capi::IPAddress| super::seen::is_our_pool(&address.spec.pool_ref);
    let mut addresses: Vec<Arc<Address>> = metal3.items.iter().map(|a| Arc::new(Address::from(a))).collect();
    addresses.extend(
        cluster_api
            .items
            .iter()
            .filter(ours)
            .map(|a| Arc::new(Address::from(a))),
    );
    Ok((addresses, as_of))
}
