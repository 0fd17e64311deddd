//! Writes that the controllers of companion objects have in common.

use std::fmt::Debug;
use std::hash::Hash;

use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use metal3_api::metal3::{BareMetalHost, HostUpdatePolicy};
use metal3_runtime::error::{is_conflict, is_not_found};
use metal3_runtime::store::{ObjectKey, Sink as _, Store};
use serde::de::DeserializeOwned;

use crate::host::ownership::{Ownership, adoption, owners, ownership};

/// Makes the host an owner of an object as it was seen.
pub async fn adopt<K>(api: &Api<K>, seen: &ObjectMeta, host: &BareMetalHost) -> Result<K, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let patch = Patch::Merge(adoption(seen, host));
    let name = seen.name.as_deref().unwrap_or_default();
    api.patch(name, &PatchParams::default(), &patch).await
}

/// Makes the host an owner of a user's HostUpdatePolicy, unless it has an owner by now. This is an update:
/// upstream's role allows no patch of this kind. The object is written as it was read, with fields of a newer version.
pub async fn adopt_policy(client: Client, host: &BareMetalHost) -> Result<(), kube::Error> {
    let resource = ApiResource::erase::<HostUpdatePolicy>(&());
    let namespace = host.namespace().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource);
    let name = host.name_any();
    let Some(mut policy) = api.get_opt(&name).await? else {
        return Ok(());
    };
    if ownership(&policy.metadata, host) == Ownership::Unowned {
        policy.metadata.owner_references = Some(owners(&policy.metadata, host));
        api.replace(&name, &PostParams::default(), &policy).await?;
    }
    Ok(())
}

/// Deletes an object as it was seen. An object that has changed or is gone is left to the next pass.
pub async fn delete_seen<K, By>(api: &Api<K>, store: &Store<K, By>, seen: &ObjectMeta) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + ResourceExt + Clone + DeserializeOwned + Debug,
    By: Eq + Hash + Clone,
{
    let preconditions = Preconditions {
        uid: seen.uid.clone(),
        resource_version: seen.resource_version.clone(),
    };
    let name = seen.name.as_deref().unwrap_or_default();
    match api
        .delete(name, &DeleteParams::default().preconditions(preconditions))
        .await
    {
        Ok(_) => {}
        Err(error) if is_not_found(&error) || is_conflict(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    let key = ObjectKey::new(seen.namespace.as_deref().unwrap_or_default(), name);
    store.remove(&key, seen.uid.as_deref().unwrap_or_default());
    Ok(())
}
