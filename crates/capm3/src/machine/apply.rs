//! The writes. Nothing is chosen here.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};
use metal3_api::capi::names::label::CLUSTER_NAME;
use metal3_api::infra::names::{GROUP, finalizer};
use metal3_api::infra::v1beta2::{Metal3DataClaim, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::error::{chain, is_not_found};
use metal3_runtime::patch;
use metal3_runtime::store::ObjectKey;
use serde_json::json;

use crate::context::Context;
use crate::machine::decide::plan::Effect;
use crate::world::World;
use crate::world::owner::group_of;

/// Does one thing. What is written is seen in the world at once.
pub async fn apply(ctx: &Context, machine: &mut Metal3Machine, effect: &Effect) -> Result<(), kube::Error> {
    let (client, world) = (&ctx.client, &ctx.world);
    let namespace = machine.namespace().unwrap_or_default();
    let (name, merge) = (machine.name_any(), PatchParams::default());
    let machines: Api<Metal3Machine> = Api::namespaced(client.clone(), &namespace);
    match effect {
        Effect::Machine(change) => {
            let written = machines.patch(&name, &merge, &Patch::Merge(change)).await?;
            world.metal3_machines.written(written.clone());
            *machine = written;
        }
        Effect::Host {
            host, patch, is_claim, ..
        } => {
            let hosts: Api<BareMetalHost> = Api::namespaced(client.clone(), &namespace);
            let written = hosts.patch(host, &merge, &Patch::Merge(patch)).await?;
            if *is_claim && !machine.spec.data_template.name.is_empty() {
                world.claimed_hosts.keep(&written, ctx.clock.elapsed());
            }
            world.hosts.written(written);
        }
        Effect::CreateClaim(claim) => {
            let claims: Api<Metal3DataClaim> = Api::namespaced(client.clone(), &namespace);
            let created = claims.create(&PostParams::default(), claim).await?;
            world.claimed(&created);
        }
        Effect::DeleteClaim(claim) => delete_claim(client, world, claim, &namespace).await?,
        Effect::LabelSecret { secret, cluster } => {
            let change = Patch::Merge(json!({"metadata": {"labels": {CLUSTER_NAME: cluster}}}));
            label_secret(client, &namespace, secret, &change).await;
        }
        Effect::UnlabelSecret { secret, cluster } => {
            let path = format!("/metadata/labels/{}", CLUSTER_NAME.replace('/', "~1"));
            // Refused where the label has another value.
            let change = json!([{"op": "test", "path": path, "value": cluster}, {"op": "remove", "path": path}]);
            let change = serde_json::from_value(change).map_err(kube::Error::SerdeError)?;
            label_secret(client, &namespace, secret, &Patch::Json::<()>(change)).await;
        }
        Effect::RemoveFinalizer => {
            if let Some(written) = patch::remove_finalizer(&machines, machine, finalizer::MACHINE).await? {
                world.metal3_machines.written(written.clone());
                *machine = written;
            }
        }
    }
    Ok(())
}

async fn delete_claim(
    client: &Client,
    world: &World,
    claim: &Metal3DataClaim,
    namespace: &str,
) -> Result<(), kube::Error> {
    let claims: Api<Metal3DataClaim> = Api::namespaced(client.clone(), namespace);
    if let Some(written) = patch::remove_finalizer(&claims, claim, finalizer::MACHINE).await? {
        world.data_claims.written(written);
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let this_one = Preconditions {
        uid: claim.meta().uid.clone(),
        resource_version: None,
    };
    match claims
        .delete(&claim.name_any(), &DeleteParams::default().preconditions(this_one))
        .await
    {
        Err(error) if is_not_found(&error) => Ok(()),
        result => result.map(|_| ()),
    }
}

/// Lets a wish for data go that is being deleted, if the machine that it was made for is gone for good: taken away by force,
/// or gone before another process made the wish. Nobody else would, and its index and addresses would never come back. One
/// request to be sure, and only then.
pub async fn release_claim(client: &Client, world: &World, key: &ObjectKey) -> Result<(), kube::Error> {
    let is_held = |claim: &Arc<Metal3DataClaim>| {
        claim.metadata.deletion_timestamp.is_some() && claim.finalizers().iter().any(|one| one == finalizer::MACHINE)
    };
    let Some(claim) = world.data_claims.get(key).filter(is_held) else {
        return Ok(());
    };
    let of_machine = |one: &&OwnerReference| one.kind == "Metal3Machine" && group_of(&one.api_version) == GROUP;
    let Some(owner) = claim.owner_references().iter().find(of_machine) else {
        return Ok(());
    };
    let is_it = |machine: &Metal3Machine| machine.metadata.uid.as_ref() == Some(&owner.uid);
    if !world.is_ours(&*claim) || world.metal3_machines.get(key).is_some_and(|machine| is_it(&machine)) {
        return Ok(());
    }
    let machines: Api<Metal3Machine> = Api::namespaced(client.clone(), &key.namespace);
    if machines.get_opt(&owner.name).await?.as_ref().is_some_and(is_it) {
        return Ok(());
    }
    tracing::info!(claim = %key, uid = owner.uid, "the machine of a Metal3DataClaim is gone: the claim may go");
    let claims: Api<Metal3DataClaim> = Api::namespaced(client.clone(), &key.namespace);
    if let Some(written) = patch::remove_finalizer(&claims, &*claim, finalizer::MACHINE).await? {
        world.data_claims.written(written);
    }
    Ok(())
}

/// The label is for people and for tools that look for what belongs to a cluster: without it everything works.
async fn label_secret<P: serde::Serialize + std::fmt::Debug>(
    client: &Client,
    namespace: &str,
    name: &str,
    change: &Patch<P>,
) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    // Only metadata is asked for, so that nothing secret comes back.
    match secrets.patch_metadata(name, &PatchParams::default(), change).await {
        Ok(_) => {}
        // It is not there, or has no such label any more.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_invalid() => {}
        Err(error) => {
            tracing::warn!(namespace, secret = name, error = %chain(&error), "cannot label the Secret of a BMC");
        }
    }
}
