//! Request bodies: objects and patches.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use metal3_api::capi;
use metal3_api::condition::Condition;
use metal3_api::ipam;
use metal3_api::reference::ObjectReference;
use metal3_runtime::conditions;
use serde_json::{Value, json};

use crate::pool::effect::{ClaimReport, NewAddress, Record};
use crate::pool::objects::{Claim, Family, Meta};
use crate::pool::reservation::Reservation;

/// The metadata that a finalizer patch needs.
pub(super) fn seen(meta: &Meta) -> ObjectMeta {
    ObjectMeta {
        resource_version: Some(meta.version.to_string()),
        finalizers: Some(meta.finalizers.clone()),
        ..ObjectMeta::default()
    }
}

pub(super) fn pool_status(record: &Record) -> Value {
    let allocating: Vec<ipam::Allocating> = record.reservations.iter().map(Reservation::to_wire).collect();
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

pub(super) fn claim_status(claim: &Claim, report: &ClaimReport, namespace: &str) -> Value {
    let mut list: Vec<Condition> = claim.conditions.clone();
    conditions::set(&mut list, &report.ready(), None, report.now);
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
    // Lists are replaced whole, so the patch is guarded by the version; the UID excludes a later claim of this name.
    let metadata = json!({ "uid": claim.meta.uid, "resourceVersion": claim.meta.version.to_string() });
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

/// The pool and the claim.
fn owners(new: &NewAddress) -> Vec<OwnerReference> {
    let claim = &new.claim;
    let family = claim.key.family;
    let pool = owner(Family::Metal3.api_version(), "IPPool", &new.pool.metadata);
    let holder = ObjectMeta {
        name: Some(claim.key.name.clone()),
        uid: Some(claim.meta.uid.clone()),
        ..ObjectMeta::default()
    };
    let mut owners = vec![pool, owner(family.api_version(), family.claim_kind(), &holder)];
    if family == Family::ClusterApi {
        // Cluster API's IPAM contract: the claim is the controller, and both owners block the deletion.
        for (owner, controls) in owners.iter_mut().zip([false, true]) {
            owner.controller = Some(controls);
            owner.block_owner_deletion = Some(true);
        }
    }
    owners
}

fn address_metadata(new: &NewAddress) -> ObjectMeta {
    let claim = &new.claim;
    ObjectMeta {
        name: Some(new.name.clone()),
        labels: (!claim.labels.is_empty()).then(|| claim.labels.clone()),
        finalizers: Some(vec![claim.key.family.address_finalizer().to_owned()]),
        owner_references: Some(owners(new)),
        ..ObjectMeta::default()
    }
}

/// The patch that makes the claim the owner, replacing an earlier claim and keeping owners set by others.
pub(super) fn owned(there: &ObjectMeta, new: &NewAddress) -> Value {
    let ours = owners(new);
    let is_replaced = |other: &&OwnerReference| ours.iter().any(|o| o.kind == other.kind && o.name == other.name);
    let mut all: Vec<OwnerReference> = there.owner_references.iter().flatten().cloned().collect();
    all.retain(|other| !is_replaced(&other));
    all.extend(ours);
    let finalizer = new.claim.key.family.address_finalizer();
    let mut finalizers = there.finalizers.clone().unwrap_or_default();
    // No finalizer can be added to an object being deleted.
    if there.deletion_timestamp.is_none() && !finalizers.iter().any(|present| present == finalizer) {
        finalizers.push(finalizer.to_owned());
    }
    let version = &there.resource_version;
    json!({ "metadata": { "resourceVersion": version, "ownerReferences": all, "finalizers": finalizers } })
}

pub(super) fn metal3_address(new: &NewAddress, namespace: &str) -> ipam::IPAddress {
    let reference = |name: &str| ObjectReference {
        name: name.to_owned(),
        namespace: namespace.into(),
        ..ObjectReference::default()
    };
    let spec = ipam::IPAddressSpec {
        claim: reference(&new.claim.key.name),
        pool: reference(&new.claim.pool),
        prefix: new.settings.prefix,
        gateway: new.settings.gateway.to_string(),
        address: new.address.to_string(),
        dns_servers: new.settings.dns_servers.to_vec(),
    };
    ipam::IPAddress {
        metadata: address_metadata(new),
        spec,
    }
}

pub(super) fn capi_address(new: &NewAddress) -> capi::IPAddress {
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
        gateway: new.settings.gateway.to_string(),
        ..capi::IPAddressSpec::default()
    };
    capi::IPAddress {
        metadata: address_metadata(new),
        spec,
    }
}
