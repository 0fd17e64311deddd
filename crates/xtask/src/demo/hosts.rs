//! Hosts only: provisioned as in `examples/rack`, then one of them is deprovisioned and deleted.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::lab::Access;
use serde_json::json;

use super::journey::{Journey, Seen};
use super::objects::{NAMESPACE, client, entries, logs, namespace};
use super::rack::{self, Entry};
use super::screen::Screen;
use super::{Args, columns, timing};

/// The demo itself, on a lab that runs.
pub async fn tell(args: &Args, screen: &Screen, access: &Access) -> Result<()> {
    let limit = Duration::from_secs(args.deadline);
    let client = client(&access.kubeconfig).await?;
    let hosts: Api<BareMetalHost> = Api::namespaced(client.clone(), NAMESPACE);
    let entries = entries(rack::FILE, usize::from(args.hosts), access)?;

    screen.heading(&format!("2  {} hosts from {}", entries.len(), rack::FILE));
    metal3_lab::apply::apply(&client, &[serde_json::from_value(namespace())?], None).await?;
    let mut journey = Journey::new(hosts.clone(), screen, logs(access));
    for entry in &entries {
        journey.expect(&entry.name);
        metal3_lab::apply::apply(&client, &entry.objects, Some(NAMESPACE)).await?;
        screen.say(&format!("applied {} ({} objects)", entry.name, entry.objects.len()));
    }
    let are_up = |seen: &Seen| seen.hosts.iter().all(|s| s.state == ProvisioningState::Provisioned);
    journey.until("provisioning", limit, are_up).await?;
    screen.say(&format!("all {} hosts are provisioned", entries.len()));

    screen.heading("3  What the servers have got, as they tell it");
    screen.print(&results(&entries, &journey, access).await?);

    let last = entries.last().context("no host")?.name.clone();
    screen.heading(&format!("4  {last} is deprovisioned and deleted"));
    let change = Patch::Merge(json!({"spec": {"image": null}}));
    hosts
        .patch(&last, &PatchParams::default(), &change)
        .await
        .context("cannot take the image away")?;
    screen.say(&format!("took the image of {last} away"));
    let of_last = |seen: &Seen| seen.hosts.iter().find(|s| s.name == last).cloned();
    let is_free = |s: &Seen| of_last(s).is_some_and(|s| s.state == ProvisioningState::Available);
    journey.until("deprovisioning", limit, is_free).await?;
    screen.say(&format!("{last} is available"));
    hosts
        .delete(&last, &DeleteParams::default())
        .await
        .context("cannot delete a host")?;
    screen.say(&format!("asked for the deletion of {last}"));
    journey
        .until("deleting", limit, |s| of_last(s).is_some_and(|s| s.is_gone))
        .await?;
    screen.say(&format!("{last} is deleted"));

    screen.heading("5  How long it took: Ironic's time and ours (medians over hosts)");
    timing(screen, access, &journey)
}

/// What each server was given, according to the server rather than the operator. Fails if it is not what was requested.
async fn results(entries: &[Entry], journey: &Journey<'_>, access: &Access) -> Result<String> {
    let titles = [
        "HOST",
        "POWER",
        "IMAGE",
        "SHA-256",
        "HOSTNAME",
        "USER DATA",
        "NETWORK DATA",
    ];
    let mut table = columns::table(titles);
    for ((entry, server), story) in entries.iter().zip(&access.servers).zip(&journey.seen.hosts) {
        let name = &entry.name;
        let machine = access.machine(server).await?;
        let deployment = machine
            .deployments
            .last()
            .with_context(|| format!("nothing was written to {name}"))?;
        if deployment.image_digest != access.image_sha256 || story.image.as_deref() != Some(&access.image_url) {
            bail!("{name} has another image than it should have: {}", deployment.image_url);
        }
        let drive = deployment
            .config_drive
            .as_ref()
            .with_context(|| format!("{name} has no config drive"))?;
        let meta_data = drive.meta_data.clone().unwrap_or_default();
        let user_data = drive.user_data.as_ref().map(|text| {
            format!(
                "{}, {} lines",
                text.lines().next().unwrap_or_default(),
                text.lines().count()
            )
        });
        let address = drive
            .network_data
            .as_ref()
            .map(|data| data["networks"][0]["ip_address"].clone());
        table.add_row(vec![
            name.clone(),
            if machine.is_on { "on" } else { "off" }.to_owned(),
            deployment.image_url.rsplit('/').next().unwrap_or_default().to_owned(),
            format!("{}… matches", deployment.image_digest.get(..8).unwrap_or_default()),
            meta_data["local-hostname"].as_str().unwrap_or("none").to_owned(),
            user_data.unwrap_or_else(|| "none".to_owned()),
            address.as_ref().and_then(|a| a.as_str()).unwrap_or("none").to_owned(),
        ]);
    }
    Ok(table.trim_fmt())
}
