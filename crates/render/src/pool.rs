//! A pool that a template takes addresses from.

use std::fmt;

use metal3_api::infra::names::pool;
use metal3_api::infra::v1beta2::{MetaDataFromPool, PoolReference};

/// An address pool in the namespace of the template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its API group.
    pub api_group: String,
}

impl Pool {
    /// One of Metal3's own pools.
    pub fn metal3(name: &str) -> Self {
        Self::new(name, "", "")
    }

    /// Whether addresses are claimed with an IPClaim. From other pools they are claimed with Cluster API's IPAddressClaim.
    pub fn is_metal3(&self) -> bool {
        self.kind == pool::KIND && self.api_group == pool::GROUP
    }

    /// An empty kind or group means that of Metal3's pools.
    fn new(name: &str, kind: &str, api_group: &str) -> Self {
        let or = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        Self {
            name: name.to_owned(),
            kind: or(kind, pool::KIND),
            api_group: or(api_group, pool::GROUP),
        }
    }
}

impl From<&PoolReference> for Pool {
    fn from(reference: &PoolReference) -> Self {
        Self::new(&reference.name, &reference.kind, &reference.api_group)
    }
}

impl From<&MetaDataFromPool> for Pool {
    fn from(entry: &MetaDataFromPool) -> Self {
        Self::new(&entry.name, &entry.kind, &entry.api_group)
    }
}

/// Such as `IPPool workers`, or `InClusterIPPool.ipam.cluster.x-k8s.io workers` where the group is not Metal3's.
impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if self.api_group != pool::GROUP {
            write!(f, ".{}", self.api_group)?;
        }
        write!(f, " {}", self.name)
    }
}
