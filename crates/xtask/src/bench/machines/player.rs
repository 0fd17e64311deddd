//! Plays the baremetal-operator: provisions whatever a host requests.

use futures::TryStreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use serde_json::json;

use crate::bench::env::BENCH;
use crate::bench::many::AT_ONCE;

/// Provisions hosts until it is dropped.
pub async fn provision(client: Client) -> anyhow::Result<()> {
    let hosts: Api<BareMetalHost> = Api::namespaced(client, BENCH);
    let status = json!({"status": {"poweredOn": true, "provisioning": {"state": "provisioned"}}});
    watcher(hosts.clone(), watcher::Config::default())
        .default_backoff()
        .map_err(anyhow::Error::from)
        .try_for_each_concurrent(AT_ONCE, |event| {
            let (hosts, status) = (hosts.clone(), status.clone());
            async move {
                if let watcher::Event::Apply(host) | watcher::Event::InitApply(host) = event
                    && is_told(&host)
                {
                    hosts
                        .patch_status(&host.name_any(), &PatchParams::default(), &Patch::Merge(status))
                        .await?;
                }
                anyhow::Ok(())
            }
        })
        .await?;
    anyhow::bail!("the watch of the hosts ended")
}

fn is_told(host: &BareMetalHost) -> bool {
    let state = host.status.as_ref().map(|status| &status.provisioning.state);
    host.spec.image.is_some() && state == Some(&ProvisioningState::Available)
}
