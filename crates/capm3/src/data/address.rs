//! Claims on addresses, of Metal3's own address management and of Cluster API's contract, as one thing.

use crate::stores::owner_of;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use metal3_api::capi::{self, IPAddressClaim};
use metal3_api::condition::ConditionStatus;
use metal3_api::infra::names::{GROUP, finalizer};
use metal3_api::ipam::{self, IPClaim};
use metal3_render::{Pool, PoolAddress};
use metal3_runtime::conditions;

/// Who gives out the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPClaim and IPAddress of ipam.metal3.io.
    Metal3,
    /// IPAddressClaim and IPAddress of Cluster API's contract, whichever provider answers.
    ClusterApi,
}

impl Family {
    /// The one that serves a pool.
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

/// A claim on an address.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressClaim {
    /// Whose.
    pub family: Family,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// The object that has the address, once there is one.
    pub address: Option<String>,
    /// Why there is none, in the words of whoever gives out addresses.
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

    /// The Metal3Data that it was made for: name and UID.
    pub fn owner(&self) -> Option<(&str, &str)> {
        let owner = owner_of(&self.meta, GROUP, "Metal3Data")?;
        Some((&owner.name, &owner.uid))
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// Whether it cannot go before its Metal3Data lets it.
    pub fn is_held(&self) -> bool {
        let mut finalizers = self.meta.finalizers.iter().flatten();
        finalizers.any(|present| present == finalizer::DATA)
    }

    /// When it was made.
    pub fn created(&self) -> Option<Timestamp> {
        self.meta.creation_timestamp.as_ref().map(|time| time.0)
    }
}

/// The address that an IPAddress of Metal3 stands for.
pub fn of_metal3(address: &ipam::IPAddress) -> PoolAddress {
    let spec = &address.spec;
    PoolAddress {
        address: spec.address.clone(),
        // 0 means that none is known.
        prefix: i32::try_from(spec.prefix).ok().filter(|prefix| *prefix > 0),
        gateway: spec.gateway.clone(),
        dns_servers: spec.dns_servers.clone(),
    }
}

/// The address that an IPAddress of Cluster API stands for. The contract has no room for name servers.
pub fn of_cluster_api(address: &capi::IPAddress) -> PoolAddress {
    PoolAddress {
        address: address.spec.address.clone(),
        prefix: Some(address.spec.prefix),
        gateway: address.spec.gateway.clone(),
        dns_servers: Vec::new(),
    }
}
