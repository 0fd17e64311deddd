//! What the controller of claims keeps of hosts and claims, and by what it finds them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::core::{ObjectMeta, PartialObjectMeta};
use metal3_api::metal3::names::GROUP;
use metal3_api::metal3::{BareMetalHost, HostClaim};
use metal3_runtime::index::Index;
use metal3_runtime::secrets::SecretKey;
use metal3_runtime::store::{ObjectKey, Store};
use parking_lot::RwLock;

use super::choose::{consumer, is_free};
use super::observed::Version;

/// The kind in a host's `spec.consumerRef`.
pub const KIND: &str = "HostClaim";

/// What claims are found by: their namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimBy(pub String);

/// The index keys of a claim.
pub fn keys_of(claim: &HostClaim) -> Vec<ClaimBy> {
    vec![ClaimBy(claim.metadata.namespace.clone().unwrap_or_default())]
}

/// Namespaces with their labels.
pub type Namespaces = Store<PartialObjectMeta<Namespace>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum HostBy {
    /// The claim that is its consumer.
    Claim(ObjectKey),
    /// Its namespace.
    Namespace(String),
    /// Its namespace, if it is free.
    Free(String),
}

/// The hosts, as claims look for them. Cheap to clone.
#[derive(Clone)]
pub struct HostIndex {
    hosts: Store<BareMetalHost, SecretKey>,
    index: Arc<RwLock<Index<ObjectKey, HostBy>>>,
}

impl HostIndex {
    /// Follows the store. Create it before the store is filled.
    pub fn new(hosts: Store<BareMetalHost, SecretKey>) -> Self {
        let index = Arc::<RwLock<Index<ObjectKey, HostBy>>>::default();
        let own = index.clone();
        hosts.listen(move |change| {
            let keys = change.after.as_deref().map(keys_of_host).unwrap_or_default();
            own.write().set(change.key.clone(), keys);
        });
        Self { hosts, index }
    }

    /// The hosts whose consumer is this claim.
    pub fn of_claim(&self, claim: &ObjectKey) -> Vec<Arc<BareMetalHost>> {
        self.find(&HostBy::Claim(claim.clone()))
    }

    /// The free hosts of these namespaces.
    pub fn free<'a>(&self, namespaces: impl IntoIterator<Item = &'a String>) -> Vec<Arc<BareMetalHost>> {
        let hosts = namespaces
            .into_iter()
            .map(|namespace| self.find(&HostBy::Free(namespace.clone())));
        hosts.flatten().collect()
    }

    /// All hosts of these namespaces.
    pub fn all<'a>(&self, namespaces: impl IntoIterator<Item = &'a String>) -> Vec<Arc<BareMetalHost>> {
        let hosts = namespaces
            .into_iter()
            .map(|namespace| self.find(&HostBy::Namespace(namespace.clone())));
        hosts.flatten().collect()
    }

    fn find(&self, by: &HostBy) -> Vec<Arc<BareMetalHost>> {
        let names: Vec<ObjectKey> = self.index.read().ids(by).cloned().collect();
        names.iter().filter_map(|name| self.hosts.get(name)).collect()
    }
}

fn keys_of_host(host: &BareMetalHost) -> Vec<HostBy> {
    let namespace = host.metadata.namespace.clone().unwrap_or_default();
    let mut keys = vec![HostBy::Namespace(namespace.clone())];
    keys.extend(claim_of(host).map(HostBy::Claim));
    keys.extend(is_free(host).then_some(HostBy::Free(namespace)));
    keys
}

/// The claim that is the consumer of a host.
pub fn claim_of(host: &BareMetalHost) -> Option<ObjectKey> {
    let reference = consumer(host).filter(|one| one.kind == KIND)?;
    let group = reference.api_version.split('/').next().unwrap_or_default();
    (group == GROUP).then(|| ObjectKey::new(&reference.namespace, &reference.name))
}

/// Whether a host's consumer is this claim, and no earlier one of its name. Upstream writes no UID.
pub fn is_of(host: &BareMetalHost, claim: &HostClaim) -> bool {
    let uid = consumer(host).map(|reference| reference.uid.as_str());
    claim_of(host) == Some(ObjectKey::of(claim)) && (!has_uid(host) || uid == claim.metadata.uid.as_deref())
}

/// Whether a host's consumer is named with its UID: this operator has made it the consumer.
pub fn has_uid(host: &BareMetalHost) -> bool {
    consumer(host).is_some_and(|reference| !reference.uid.is_empty())
}

/// The version of an object.
pub fn version_of(metadata: &ObjectMeta) -> Version {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    [
        text(&metadata.name),
        text(&metadata.uid),
        text(&metadata.resource_version),
    ]
}
