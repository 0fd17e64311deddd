//! By what Metal3DataTemplates, Metal3DataClaims, Metal3Datas and what is made for these are found.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::core::{ObjectMeta, PartialObjectMeta};
use metal3_api::infra::names::GROUP;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate, ObjectRef};
use metal3_runtime::store::ObjectKey;

use super::Stores;
use super::cluster::cluster_of;
use super::owner::owner_of;
use super::space::{slot_of, space_of};

/// What a Metal3DataTemplate is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataTemplateBy {
    /// The index space that it shares with others.
    Space(ObjectKey),
}

/// What a Metal3DataClaim and a Metal3Data are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataBy {
    /// The Metal3DataTemplate that it names.
    Template(ObjectKey),
    /// The Cluster that its label names.
    Cluster(ObjectKey),
    /// A Metal3Data: the claim that it names.
    Claim(ObjectKey),
    /// A Metal3Data: the index space that its name lies in.
    Space(ObjectKey),
}

/// What is made for a Metal3Data, such as a claim on an address, is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OfDataBy {
    /// The name of the Metal3Data.
    Owner(ObjectKey),
}

/// UIDs of the Metal3DataClaims of which this process knows everything that was made for them: nothing can have been made
/// before it put the finalizer for that on the claim. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct KnownClaims(Arc<Mutex<HashSet<String>>>);

impl KnownClaims {
    /// From now on these are known. Of claims that may have gone meanwhile [`Stores::learn`] is told.
    pub fn learn(&self, uids: impl IntoIterator<Item = String>) {
        self.lock().extend(uids);
    }

    /// The claim is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Whether a claim is known.
    pub fn has(&self, claim: &ObjectMeta) -> bool {
        claim.uid.as_ref().is_some_and(|uid| self.lock().contains(uid))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock()
    }
}

impl Stores {
    /// From now on it is known of these claims what was made for them.
    pub fn learn<'a>(&self, claims: impl IntoIterator<Item = &'a Metal3DataClaim>) {
        for claim in claims {
            self.known_claims.learn(claim.uid());
            self.forget_if_gone(claim);
        }
    }

    /// We have made this claim, with the finalizer of whoever answers it, and nothing was made for it yet.
    pub fn claimed(&self, claim: &Metal3DataClaim) {
        // Whoever answers it is told that it is there, and is to know it then.
        self.known_claims.learn(claim.uid());
        self.data_claims.created(claim.clone());
        self.forget_if_gone(claim);
    }

    /// If it has gone meanwhile, nobody will say so any more.
    fn forget_if_gone(&self, claim: &Metal3DataClaim) {
        let there = self.data_claims.get(&ObjectKey::of(claim));
        if there.is_none_or(|there| there.metadata.uid != claim.metadata.uid) {
            self.known_claims.forget(&claim.uid().unwrap_or_default());
        }
    }
}

/// The template that a claim or a Metal3Data names. One of another namespace is never used.
pub fn template_of(object: &impl ResourceExt, template: &ObjectRef) -> Option<ObjectKey> {
    let namespace = object.namespace().unwrap_or_default();
    let local = template.local(&namespace).ok()?;
    (!local.name().is_empty()).then(|| local.into())
}

/// The template from which a claim is to be answered. Claims that name none of their namespace are told so, all those of a
/// namespace together: under no name.
pub fn template_asked(claim: &Metal3DataClaim) -> ObjectKey {
    let nobody = || ObjectKey::new(claim.namespace().unwrap_or_default(), "");
    template_of(claim, &claim.spec.template).unwrap_or_else(nobody)
}

pub(super) fn keys_of_template(template: &Metal3DataTemplate) -> Vec<DataTemplateBy> {
    vec![DataTemplateBy::Space(space_of(template))]
}

pub(super) fn keys_of_claim(claim: &Metal3DataClaim) -> Vec<DataBy> {
    let cluster = cluster_of(claim).map(DataBy::Cluster);
    [DataBy::Template(template_asked(claim))]
        .into_iter()
        .chain(cluster)
        .collect()
}

pub(super) fn keys_of_data(data: &Metal3Data) -> Vec<DataBy> {
    let namespace = data.namespace().unwrap_or_default();
    let claim = &data.spec.claim.name;
    let keys = [
        template_of(data, &data.spec.template).map(DataBy::Template),
        cluster_of(data).map(DataBy::Cluster),
        (!claim.is_empty()).then(|| DataBy::Claim(ObjectKey::new(namespace, claim))),
        slot_of(data).map(|(space, _)| DataBy::Space(space)),
    ];
    keys.into_iter().flatten().collect()
}

/// Whether a Metal3Data was made for this very claim, and not for another of its name.
pub fn answers(data: &Metal3Data, claim: &Metal3DataClaim) -> bool {
    let owner = owner_of(&data.metadata, GROUP, "Metal3DataClaim");
    let is_named = data.spec.claim.name == claim.name_any();
    is_named && owner.is_none_or(|owner| Some(&owner.uid) == claim.metadata.uid.as_ref())
}

/// The Metal3Machine that a claim belongs to.
pub fn machine_of(claim: &Metal3DataClaim) -> Option<&OwnerReference> {
    owner_of(&claim.metadata, GROUP, "Metal3Machine")
}

/// The Metal3Data that owns an object.
pub fn data_of(object: &impl ResourceExt) -> Option<ObjectKey> {
    let owner = owner_of(object.meta(), GROUP, "Metal3Data")?;
    Some(ObjectKey::new(object.namespace().unwrap_or_default(), &owner.name))
}

pub(super) fn keys_of_owned<K: ResourceExt>(object: &K) -> Vec<OfDataBy> {
    data_of(object).map(OfDataBy::Owner).into_iter().collect()
}

/// Type of the Secrets with rendered data.
pub const SECRET_TYPE: &str = "infrastructure.cluster.x-k8s.io/secret";

/// Of a Secret nothing but its metadata is watched.
pub type SecretMeta = PartialObjectMeta<k8s_openapi::api::core::v1::Secret>;
