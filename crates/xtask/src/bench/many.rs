//! Creates and deletes thousands of objects.

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

/// How many requests of ours are under way at once.
pub const AT_ONCE: usize = 16;

/// Creates an object of any kind whose plural is made the usual way.
pub async fn create(client: &Client, namespace: &str, object: Value) -> anyhow::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.as_ref().context("an object without a kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let created = api.create(&PostParams::default(), &object).await;
    created.with_context(|| format!("cannot create a {}", types.kind))
}

/// Creates many.
pub async fn create_all(
    client: &Client,
    namespace: &str,
    objects: impl IntoIterator<Item = Value>,
) -> anyhow::Result<()> {
    stream::iter(objects)
        .map(|object| async move { create(client, namespace, object).await.map(drop) })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// A host that is to be on, after the Secret with the user name and the password of its BMC.
pub fn host_of(name: &str, bmc: &str, mac: &str, [username, password]: [&str; 2]) -> [Value; 2] {
    let secret = format!("{name}-bmc");
    [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
            "stringData": {"username": username, "password": password}}),
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name},
            "spec": {"online": true, "bootMACAddress": mac, "bmc": {"address": bmc, "credentialsName": secret}}}),
    ]
}
