//! Applies the writes. Makes no decisions.

use k8s_openapi::api::core::v1::Node;
use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use metal3_api::capi::Machine;
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::Metal3Remediation;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::error::is_not_found;
use metal3_runtime::patch;

use crate::context::Context;
use crate::remediation::decide::plan::Effect;
use crate::remediation::observed::Observed;
use crate::workload::Workload;

/// Applies one write. Skips writes to an unreachable workload cluster: the remediation is triggered once it is back.
pub async fn apply(
    ctx: &Context,
    workload: Option<&Workload>,
    seen: &mut Observed,
    effect: &Effect,
) -> Result<(), kube::Error> {
    let remediation = &*seen.remediation;
    let namespace = remediation.metadata.namespace.as_deref().unwrap_or_default();
    let (client, merge) = (&ctx.client, PatchParams::default());
    let remediations: Api<Metal3Remediation> = Api::namespaced(client.clone(), namespace);
    let written = match effect {
        Effect::AddFinalizer => patch::add_finalizer(&remediations, remediation, finalizer::REMEDIATION).await?,
        Effect::RemoveFinalizer => patch::remove_finalizer(&remediations, remediation, finalizer::REMEDIATION).await?,
        Effect::Keep { patch, .. } => {
            let name = remediation.metadata.name.as_deref().unwrap_or_default();
            Some(remediations.patch(name, &merge, &Patch::Merge(patch)).await?)
        }
        Effect::Host { host, patch, .. } => {
            let hosts: Api<BareMetalHost> = Api::namespaced(client.clone(), namespace);
            let written = hosts.patch(host, &merge, &Patch::Merge(patch)).await?;
            ctx.stores.hosts.written(written);
            None
        }
        Effect::Machine { machine, patch } => {
            let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
            let written = machines.patch_status(machine, &merge, &Patch::Merge(patch)).await?;
            ctx.stores.machines.written(written);
            None
        }
        Effect::Node { node, patch, .. } => {
            if let Some(workload) = workload {
                workload.change_node(node, patch).await?;
            }
            None
        }
        Effect::DeleteNode { node, uid, version } => {
            if let Some(workload) = workload {
                let preconditions = Preconditions {
                    uid: uid.clone(),
                    resource_version: version.clone(),
                };
                delete_node(workload, node, preconditions).await?;
            }
            None
        }
        Effect::ReportWait(event) => {
            tracing::info!(remediation = %seen.key(), reason = event.reason, "{}", event.message);
            ctx.recorder.publish(&remediation.object_ref(&()), None, event).await;
            seen.reported = Some(event.reason);
            None
        }
    };
    if let Some(written) = written {
        ctx.stores.remediations.written(written.clone());
        seen.remediation = written.into();
    }
    Ok(())
}

async fn delete_node(workload: &Workload, node: &str, preconditions: Preconditions) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(workload.client.clone());
    let this_one = DeleteParams::default().preconditions(preconditions);
    match workload.ask(nodes.delete(node, &this_one)).await {
        Err(error) if is_not_found(&error) => Ok(()),
        result => result.map(|_| ()),
    }
}
