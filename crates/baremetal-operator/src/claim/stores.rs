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

use super::choose::{Request, is_free};
use super::observed::Version;
use super::rings::{Placed, Ring, Rings};

/// The kind in a host's `spec.consumerRef`.
pub const KIND: &str = "HostClaim";

/// Hosts of a namespace that are looked at in order to explain why none fits.
const SURVEYED: usize = 512;

/// What claims are found by: their namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimBy(pub String);

/// The index keys of a claim.
pub fn keys_of(claim: &HostClaim) -> Vec<ClaimBy> {
    vec![ClaimBy(claim.metadata.namespace.clone().unwrap_or_default())]
}

/// Namespaces with their labels.
pub type Namespaces = Store<PartialObjectMeta<Namespace>>;

/// The hosts, as claims look for them. Cheap to clone.
#[derive(Clone)]
pub struct HostIndex {
    hosts: Store<BareMetalHost, SecretKey>,
    own: Arc<RwLock<Own>>,
}

#[derive(Default)]
struct Own {
    /// By the claim that is their consumer.
    of_claim: Index<ObjectKey, ObjectKey>,
    all: Rings,
    free: Rings,
}

/// The hosts that come first for a claim, and what was looked at for that.
#[derive(Default)]
pub struct Found {
    /// The hosts.
    pub hosts: Vec<Placed>,
    /// How many hosts were looked at.
    pub looked_at: usize,
}

impl HostIndex {
    /// Follows the store. Create it before the store is filled. `is_chosen_from`: whether claims get hosts at all.
    pub fn new(hosts: Store<BareMetalHost, SecretKey>, is_chosen_from: bool) -> Self {
        let own = Arc::<RwLock<Own>>::default();
        let index = own.clone();
        hosts.listen(move |change| {
            let host = change.after.as_ref();
            let mut own = index.write();
            own.of_claim
                .set(change.key.clone(), host.and_then(|host| claim_of(host)));
            if is_chosen_from {
                own.all.set(&change.key, host);
                own.free.set(&change.key, host.filter(|host| is_free(host)));
            }
        });
        Self { hosts, own }
    }

    /// The hosts whose consumer is this claim.
    pub fn of_claim(&self, claim: &ObjectKey) -> Vec<Arc<BareMetalHost>> {
        let names: Vec<ObjectKey> = self.own.read().of_claim.ids(claim).cloned().collect();
        names.iter().filter_map(|name| self.hosts.get(name)).collect()
    }

    /// The number of changes of free hosts so far.
    pub fn changes(&self) -> u64 {
        self.own.read().free.changes()
    }

    /// The first `most` hosts of each permitted namespace that a claim may take, in its order, and as many of its failure domain.
    /// Those that others are about to take are left out, unless there are no others.
    pub fn candidates(&self, request: &Request, most: usize, is_wanted: impl Fn(&BareMetalHost) -> bool) -> Found {
        let found = self.first(request, most, |host| !is_wanted(host));
        if found.hosts.is_empty() {
            return self.first(request, most, |_| true);
        }
        found
    }

    fn first(&self, request: &Request, most: usize, is_meant: impl Fn(&BareMetalHost) -> bool) -> Found {
        let mut found = Found::default();
        let own = self.own.read();
        for ring in request.rings() {
            let looked_at = &mut found.looked_at;
            let hosts = own.free.walk(&ring, request.start()).inspect(|_| *looked_at += 1);
            let suiting = hosts.filter(|(_, host)| is_meant(host) && request.suits(host));
            found.hosts.extend(suiting.take(most).cloned());
        }
        found
    }

    /// Hosts of the permitted namespaces, those with the claim's label before others: enough to say why none fits.
    pub fn survey(&self, request: &Request) -> Vec<Arc<BareMetalHost>> {
        let own = self.own.read();
        let whole = request.namespaces.iter().map(|namespace| Ring {
            namespace: namespace.clone(),
            label: None,
        });
        let rings = request.rings().into_iter().chain(whole);
        rings
            .flat_map(|ring| {
                own.all
                    .walk(&ring, 0)
                    .take(SURVEYED)
                    .map(|(_, host)| host.clone())
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

/// The claim that is the consumer of a host.
pub fn claim_of(host: &BareMetalHost) -> Option<ObjectKey> {
    let reference = host.consumer().filter(|one| one.kind == KIND)?;
    let group = reference.api_version.split('/').next().unwrap_or_default();
    let (namespace, name) = reference.anywhere();
    (group == GROUP).then(|| ObjectKey::new(namespace, name))
}

/// The UID of the claim that is the consumer of a host; empty if there is none. Upstream writes no UID.
pub fn claim_uid(host: &BareMetalHost) -> &str {
    host.consumer().map_or("", |reference| &reference.uid)
}

/// Whether a host's consumer is this claim, and no earlier one of its name. Upstream writes no UID.
pub fn is_of(host: &BareMetalHost, claim: &HostClaim) -> bool {
    claim_of(host) == Some(ObjectKey::of(claim)) && (!has_uid(host) || has_uid_of(host, claim))
}

/// Whether a host's consumer is named with its UID: this operator has made it the consumer.
pub fn has_uid(host: &BareMetalHost) -> bool {
    !claim_uid(host).is_empty()
}

/// Whether a host's consumer is named with this claim's UID.
pub fn has_uid_of(host: &BareMetalHost, claim: &HostClaim) -> bool {
    has_uid(host) && Some(claim_uid(host)) == claim.metadata.uid.as_deref()
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
