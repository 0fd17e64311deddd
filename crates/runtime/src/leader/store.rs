//! Where the lease lives.

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams, core::ObjectMeta};

use crate::{BoxError, error::is_conflict, error::is_not_found};

/// Why a lease was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The lease changed since it was seen, or somebody else created or deleted it.
    #[error("the lease was changed by somebody else")]
    Conflict,
    /// No answer in time; a write may have happened all the same.
    #[error("no answer in time")]
    Timeout,
    /// Anything else.
    #[error("the API server did not take the request")]
    Failed(#[source] BoxError),
}

/// One lease, read and written with compare-and-swap.
pub trait LeaseStore: Send + Sync {
    /// The lease, or nothing if there is none.
    fn read(&self) -> impl Future<Output = Result<Option<Lease>, StoreError>> + Send;
    /// Replaces the lease if it still has the given resourceVersion, or creates it if none is given.
    fn write(&self, lease: &Lease) -> impl Future<Output = Result<Lease, StoreError>> + Send;
}

/// A lease in a cluster.
#[derive(Clone, Debug)]
pub struct KubeLease {
    api: Api<Lease>,
    name: String,
}

impl KubeLease {
    /// The lease `namespace/name`. The client should not share its rate limit with the controllers.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
        }
    }
}

impl LeaseStore for KubeLease {
    async fn read(&self) -> Result<Option<Lease>, StoreError> {
        self.api
            .get_opt(&self.name)
            .await
            .map_err(|error| StoreError::Failed(error.into()))
    }

    async fn write(&self, lease: &Lease) -> Result<Lease, StoreError> {
        let params = PostParams::default();
        let result = if lease.metadata.resource_version.is_some() {
            self.api.replace(&self.name, &params, lease).await
        } else {
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                ..lease.metadata.clone()
            };
            self.api
                .create(
                    &params,
                    &Lease {
                        metadata,
                        spec: lease.spec.clone(),
                    },
                )
                .await
        };
        result.map_err(|error| match error {
            error if is_conflict(&error) || (is_not_found(&error) && lease.metadata.resource_version.is_some()) => {
                StoreError::Conflict
            }
            error => StoreError::Failed(error.into()),
        })
    }
}

/// A name for this process: the host's (in a pod: the pod's), and something that no other process has.
pub fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!(
        "{}_{}",
        if host.is_empty() { "unknown" } else { host },
        uuid::Uuid::new_v4()
    )
}
