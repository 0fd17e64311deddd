//! IP claims of Metal3 IPAM and of Cluster API's IPAM contract, behind one type.

use crate::stores::owner_of;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use metal3_api::capi::{self, IPAddressClaim};
use metal3_api::condition::ConditionStatus;
use metal3_api::infra::names::{GROUP, finalizer};
use metal3_api::ipam::{self, IPClaim};
use metal3_render::{Pool, PoolAddress};
use metal3_runtime::conditions;

/// The IPAM provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPClaim and IPAddress of ipam.metal3.io.
    Metal3,
    /// IPAddressClaim and IPAddress of Cluster API's IPAM contract, served by any provider.
    ClusterApi,
}

impl Family {
    /// The provider that serves a pool.
    pub fn of(pool: &Pool) -> Self {
        if pool.is_metal3() {
            Self::Metal3
        } else {
            Self::ClusterApi
        }
    }

    /// The kind of its claims.
    pub fn claim_kind(self) -> &'static str {
        match self {
            Self::Metal3 => "IPClaim",
            Self::ClusterApi => "IPAddressClaim",
        }
    }
}

/// An IP claim.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressClaim {
    /// The provider.
    pub family: Family,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// The object that holds the address, once allocated.
    pub address: Option<String>,
    /// The provider's error message, if allocation failed.
    pub problem: Option<String>,
}

impl From<&IPClaim> for AddressClaim {
    fn from(claim: &IPClaim) -> Self {
        let status = claim.status.clone().unwrap_or_default();
        let waits = why_not_ready(&status.conditions);
        let problem = status.error_message.filter(|message| !message.is_empty()).or(waits);
        Self {
            family: Family::Metal3,
            meta: claim.metadata.clone(),
            address: status.address.map(|address| address.name),
            problem,
        }
    }
}

impl From<&IPAddressClaim> for AddressClaim {
    fn from(claim: &IPAddressClaim) -> Self {
        let status = claim.status.clone().unwrap_or_default();
        Self {
            family: Family::ClusterApi,
            meta: claim.metadata.clone(),
            address: status.address_ref.map(|address| address.name),
            problem: why_not_ready(&status.conditions),
        }
    }
}

fn why_not_ready(conditions: &[metal3_api::condition::Condition]) -> Option<String> {
    let ready = conditions::get(conditions, conditions::READY)?;
    (ready.status == ConditionStatus::False).then(|| format!("{}: {}", ready.reason, ready.message))
}

impl AddressClaim {
    /// Its name.
    pub fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// Name and UID of the owning Metal3Data.
    pub fn owner(&self) -> Option<(&str, &str)> {
        let owner = owner_of(&self.meta, GROUP, "Metal3Data")?;
        Some((&owner.name, &owner.uid))
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// Whether our finalizer holds it.
    pub fn is_held(&self) -> bool {
        let mut finalizers = self.meta.finalizers.iter().flatten();
        finalizers.any(|present| present == finalizer::DATA)
    }

    /// The creation time.
    pub fn created(&self) -> Option<Timestamp> {
        self.meta.creation_timestamp.as_ref().map(|time| time.0)
    }
}

/// The address in a Metal3 IPAddress.
pub fn of_metal3(address: &ipam::IPAddress) -> PoolAddress {
    let spec = &address.spec;
    PoolAddress {
        address: spec.address.clone(),
        // As upstream renders it, 0 where the pool has none.
        prefix: i32::try_from(spec.prefix).ok(),
        gateway: spec.gateway.clone(),
        dns_servers: spec.dns_servers.clone(),
    }
}

/// The address in a Cluster API IPAddress. The contract has no field for name servers.
pub fn of_cluster_api(address: &capi::IPAddress) -> PoolAddress {
    PoolAddress {
        address: address.spec.address.clone(),
        prefix: Some(address.spec.prefix),
        gateway: address.spec.gateway.clone(),
        dns_servers: Vec::new(),
    }
}
