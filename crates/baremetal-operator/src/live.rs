//! Whether an object that no store shows is gone.

use kube::Api;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::error::chain;
use metal3_runtime::store::ObjectKey;

/// What the API server says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    Exists,
    Gone,
    /// It does not say.
    Unknown,
}

/// Only an answer about this object says that it is gone. Where the kind is not served, the answer names no object.
pub fn judged(is_same: Result<bool, kube::Error>, key: &ObjectKey) -> Live {
    match is_same {
        Ok(true) => Live::Exists,
        Ok(false) => Live::Gone,
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            let is_named = status.details.as_ref().is_some_and(|details| details.name == key.name);
            if is_named { Live::Gone } else { Live::Unknown }
        }
        Err(error) => {
            tracing::debug!(object = %key, error = %chain(&error), "cannot read whether an object is gone");
            Live::Unknown
        }
    }
}

/// Whether a host that the store does not have is gone: the store has none that cannot be read either.
pub async fn host(kube: &kube::Client, key: &ObjectKey) -> Live {
    let hosts: Api<BareMetalHost> = Api::namespaced(kube.clone(), &key.namespace);
    let live = judged(hosts.get_metadata(&key.name).await.map(|_| true), key);
    if live != Live::Gone {
        tracing::info!(host = %key, ?live, "objects in deletion are kept until their host is known to be gone, or can be read");
    }
    live
}
