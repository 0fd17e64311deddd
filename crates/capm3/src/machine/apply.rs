//! Carries out the effects of a plan. Makes no decisions.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};
use metal3_api::capi::names::label::CLUSTER_NAME;
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::{Metal3DataClaim, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::error::{chain, is_not_found};
use metal3_runtime::patch;
use metal3_runtime::store::ObjectKey;
use serde_json::json;

use crate::context::Context;
use crate::machine::decide::plan::Effect;
use crate::machine::node::ProviderIdPatch;
use crate::machine::observed::{Observed, Subject, host_seen};
use crate::stores::Stores;
use crate::workload::Workloads;

/// Carries out one effect. The stores and the observed state reflect it at once.
pub async fn apply(
    ctx: &Context,
    workloads: &Workloads,
    subject: &mut Subject,
    effect: &Effect,
) -> Result<(), kube::Error> {
    let (client, stores, key) = (&ctx.client, &ctx.stores, subject.key());
    let (namespace, name, merge) = (&key.namespace, &key.name, PatchParams::default());
    let machines: Api<Metal3Machine> = Api::namespaced(client.clone(), namespace);
    match effect {
        Effect::Machine(change) => {
            let written = machines.patch(name, &merge, &Patch::Merge(change)).await?;
            wrote(ctx, subject, written);
        }
        Effect::Host {
            host, patch, is_claim, ..
        } => {
            let hosts: Api<BareMetalHost> = Api::namespaced(client.clone(), namespace);
            let written = hosts.patch(host, &merge, &Patch::Merge(patch)).await?;
            if let Subject::Machine(seen) = subject {
                if *is_claim && !seen.machine.spec.data_template.name.is_empty() {
                    stores.claimed_hosts.keep(&written, ctx.clock.elapsed());
                }
                stores.hosts.written(written);
                seen.host = host_seen(stores, &seen.machine, &key);
            } else {
                stores.hosts.written(written);
            }
        }
        Effect::CreateClaim(claim) => {
            let claims: Api<Metal3DataClaim> = Api::namespaced(client.clone(), namespace);
            let created = claims.create(&PostParams::default(), claim).await?;
            stores.claimed(&created);
        }
        Effect::DeleteClaim(claim) => delete_claim(client, stores, claim, namespace).await?,
        Effect::ReleaseClaim(claim) => {
            tracing::info!(claim = %key, "the machine of a Metal3DataClaim is gone: the claim may go");
            release_claim(client, stores, claim, namespace).await?;
        }
        Effect::LabelSecret { secret, cluster } => {
            let change = Patch::Merge(json!({"metadata": {"labels": {CLUSTER_NAME: cluster}}}));
            label_secret(client, namespace, secret, &change).await;
        }
        Effect::UnlabelSecret { secret, cluster } => {
            let path = format!("/metadata/labels/{}", CLUSTER_NAME.replace('/', "~1"));
            // Rejected where the label has another value.
            let change = json!([{"op": "test", "path": path, "value": cluster}, {"op": "remove", "path": path}]);
            let change = serde_json::from_value(change).map_err(kube::Error::SerdeError)?;
            label_secret(client, namespace, secret, &Patch::Json::<()>(change)).await;
        }
        Effect::ProviderId(patch) => {
            if let Subject::Machine(seen) = subject {
                set_provider_id(workloads, seen, patch).await?;
            }
        }
        Effect::RemoveFinalizer => {
            if let Subject::Machine(seen) = subject
                && let Some(written) = patch::remove_finalizer(&machines, &*seen.machine, finalizer::MACHINE).await?
            {
                wrote(ctx, subject, written);
            }
        }
    }
    Ok(())
}

/// Records a written machine in the store and in the observed state.
fn wrote(ctx: &Context, subject: &mut Subject, written: Metal3Machine) {
    ctx.stores.metal3_machines.written(written.clone());
    if let Subject::Machine(seen) = subject {
        seen.machine = Arc::new(written);
        seen.host = host_seen(&ctx.stores, &seen.machine, &seen.key());
    }
}

/// Sets the Node's provider ID. If the workload cluster is not connected, this does nothing; the machine is triggered once it is
/// back.
async fn set_provider_id(workloads: &Workloads, seen: &Observed, patch: &ProviderIdPatch) -> Result<(), kube::Error> {
    let cluster = seen.cluster.found().map(|cluster| ObjectKey::of(&**cluster));
    let Some(workload) = cluster.and_then(|cluster| workloads.followed(&cluster)) else {
        return Ok(());
    };
    if workload.give_id(&patch.node, &patch.uid, &patch.id).await? {
        tracing::info!(machine = %seen.key(), node = patch.node, id = patch.id, "a node has its provider ID");
    }
    Ok(())
}

async fn release_claim(
    client: &Client,
    stores: &Stores,
    claim: &Metal3DataClaim,
    namespace: &str,
) -> Result<(), kube::Error> {
    let claims: Api<Metal3DataClaim> = Api::namespaced(client.clone(), namespace);
    if let Some(written) = patch::remove_finalizer(&claims, claim, finalizer::MACHINE).await? {
        stores.data_claims.written(written);
    }
    Ok(())
}

async fn delete_claim(
    client: &Client,
    stores: &Stores,
    claim: &Metal3DataClaim,
    namespace: &str,
) -> Result<(), kube::Error> {
    release_claim(client, stores, claim, namespace).await?;
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let this_one = Preconditions {
        uid: claim.meta().uid.clone(),
        resource_version: None,
    };
    let claims: Api<Metal3DataClaim> = Api::namespaced(client.clone(), namespace);
    match claims
        .delete(&claim.name_any(), &DeleteParams::default().preconditions(this_one))
        .await
    {
        Err(error) if is_not_found(&error) => Ok(()),
        result => result.map(|_| ()),
    }
}

/// Changes the label of a Secret. It helps people and tools list a cluster's objects; nothing depends on it.
async fn label_secret<P: serde::Serialize + std::fmt::Debug>(
    client: &Client,
    namespace: &str,
    name: &str,
    change: &Patch<P>,
) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    // Requests only metadata, so that the response contains no secret data.
    match secrets.patch_metadata(name, &PatchParams::default(), change).await {
        Ok(_) => {}
        // The Secret or its label is gone.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_invalid() => {}
        Err(error) => {
            tracing::warn!(namespace, secret = name, error = %chain(&error), "cannot label the Secret of a BMC");
        }
    }
}
