//! Storing a status.

use std::fmt::Debug;

use kube::api::PostParams;
use kube::core::object::HasStatus;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Replaces the whole status of an object, conditional on the version that was seen: a stale view gets a conflict.
/// Returns the stored object.
///
/// A forced apply would leave fields behind that an earlier program wrote and that no longer hold.
pub async fn replace<K>(client: &Client, seen: &K, status: K::Status) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: HasStatus + Default + Clone + Debug + Serialize + DeserializeOwned,
{
    let namespace = seen.namespace().unwrap_or_default();
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    // The server uses only the status from this, and checks the version.
    let mut body = K::default();
    let meta = body.meta_mut();
    meta.name = Some(seen.name_any());
    meta.namespace = Some(namespace);
    meta.resource_version = seen.resource_version();
    meta.uid = seen.uid();
    *body.status_mut() = Some(status);
    api.replace_status(&seen.name_any(), &PostParams::default(), &body)
        .await
}
