//! Claims.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use metal3_api::capi;
use metal3_api::condition::Condition;
use metal3_api::ipam;
use metal3_api::reference::Elsewhere;

use super::{AddressId, ClaimKey, Family, Meta, is_our_pool, is_paused};

/// An observed claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Which one.
    pub key: ClaimKey,
    /// Which version of which object, and what becomes of it.
    pub meta: Meta,
    /// Its labels, which are copied to its address.
    pub labels: BTreeMap<String, String>,
    /// The requested address as written; empty for none.
    pub requested: String,
    /// The pool's name; empty if that is no pool of ours.
    pub pool: String,
    /// A pool namespace other than the claim's own; pools there are never used.
    pub other_namespace: Option<String>,
    /// The Cluster that it names; only Cluster API's claims are paused with it.
    pub cluster: String,
    /// Whether it carries the pause annotation.
    pub is_paused: bool,
    /// The address object that its status names.
    pub address: Option<String>,
    /// The failure that its status names (Metal3's only).
    pub error: Option<String>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// Finalizers of the garbage collector: foreground deletion, or orphaning.
const OF_THE_COLLECTOR: [&str; 2] = ["foregroundDeletion", "orphan"];

impl Claim {
    /// Whether our finalizer is on it.
    pub fn is_ours(&self) -> bool {
        self.meta.has(self.key.family.claim_finalizer())
    }

    /// Whether a finalizer of others holds it. Those of the garbage collector do not count: it waits for the claim's dependent,
    /// the address, which would wait for the claim.
    pub fn is_kept_by_others(&self) -> bool {
        let ours = self.key.family.claim_finalizer();
        let is_of_others = |finalizer: &String| finalizer != ours && !OF_THE_COLLECTOR.contains(&finalizer.as_str());
        self.meta.finalizers.iter().any(is_of_others)
    }

    /// Whether it is being deleted and nothing else holds it. That is final: no finalizer can be added any more.
    pub fn is_going(&self) -> bool {
        self.meta.is_deleting && !self.is_kept_by_others()
    }

    /// The address object that its status names.
    pub fn named(&self) -> Option<AddressId> {
        let name = self.address.clone()?;
        let family = self.key.family;
        Some(AddressId { family, name })
    }

    /// Oldest first; claims of the same second by name.
    pub fn order(&self) -> (i64, &ClaimKey) {
        (self.meta.created, &self.key)
    }
}

fn requested(meta: &ObjectMeta) -> String {
    let annotations = meta.annotations.as_ref();
    annotations
        .and_then(|all| all.get(ipam::names::annotation::REQUESTED_ADDRESS))
        .cloned()
        .unwrap_or_default()
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// What both families' claims have in their metadata.
fn claim(family: Family, meta: &ObjectMeta, pool: &str) -> Claim {
    Claim {
        key: ClaimKey {
            family,
            name: meta.name.clone().unwrap_or_default(),
        },
        meta: meta.into(),
        labels: meta.labels.clone().unwrap_or_default(),
        requested: requested(meta),
        pool: pool.to_owned(),
        other_namespace: None,
        cluster: String::new(),
        is_paused: is_paused(meta),
        address: None,
        error: None,
        conditions: Vec::new(),
    }
}

impl From<&ipam::IPClaim> for Claim {
    fn from(object: &ipam::IPClaim) -> Self {
        let reference = &object.spec.pool;
        let own = object.metadata.namespace.as_deref().unwrap_or_default();
        let status = object.status.clone().unwrap_or_default();
        Self {
            other_namespace: reference
                .local(own)
                .err()
                .map(|Elsewhere(namespace)| namespace.to_owned()),
            address: status.address.and_then(|reference| text(&reference.name)),
            error: status.error_message.and_then(|message| text(&message)),
            conditions: status.conditions,
            ..claim(Family::Metal3, &object.metadata, &reference.name)
        }
    }
}

impl From<&capi::IPAddressClaim> for Claim {
    fn from(object: &capi::IPAddressClaim) -> Self {
        let labels = object.metadata.labels.as_ref();
        let label = labels.and_then(|all| all.get(capi::names::label::CLUSTER_NAME));
        let status = object.status.clone().unwrap_or_default();
        // One on another provider's pool of the same name is not ours.
        let pool = if is_our_pool(&object.spec.pool_ref) {
            &object.spec.pool_ref.name
        } else {
            ""
        };
        Self {
            cluster: text(&object.spec.cluster_name).or(label.cloned()).unwrap_or_default(),
            address: status.address_ref.and_then(|reference| text(&reference.name)),
            conditions: status.conditions,
            ..claim(Family::ClusterApi, &object.metadata, pool)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The collector waits for the address, which waits until the claim is unused.
    #[test]
    fn a_deletion_in_the_foreground_is_nobody_who_uses_a_claim() {
        let of = |finalizer: &str| {
            let meta = ObjectMeta {
                deletion_timestamp: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                    jiff::Timestamp::UNIX_EPOCH,
                )),
                finalizers: Some(vec![
                    Family::ClusterApi.claim_finalizer().to_owned(),
                    finalizer.to_owned(),
                ]),
                ..ObjectMeta::default()
            };
            claim(Family::ClusterApi, &meta, "pool").is_going()
        };
        assert!(of("foregroundDeletion") && of("orphan"));
        assert!(!of("example.com/uses-it"));
    }
}
