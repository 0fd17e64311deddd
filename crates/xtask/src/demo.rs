//! `cargo xtask demo`: from nothing to provisioned servers and back, for a person to look at.
//!
//! ```text
//!   programs (built if missing) ─▶ site ─▶ examples/rack applied ─▶ provisioned ─▶ one deprovisioned, deleted ─▶ summary
//!                                   │ in this process; with --keep in the background (crate::lab)
//! ```

mod journey;
mod rack;
mod screen;
mod story;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::site::{Access, Programs, Site, SiteConfig};
use serde_json::json;

use crate::lab::{self, Interrupt};
use journey::Journey;
use rack::Entry;
pub use screen::Screen;

/// The namespace that the hosts are applied to.
pub const NAMESPACE: &str = "metal3";

/// Arguments of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// How many hosts: the example's three, fewer of them, or more of the same form
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=200))]
    hosts: u16,
    /// Leave the lab running in the background; `cargo xtask lab down` ends it
    #[arg(long)]
    keep: bool,
    /// The name of the lab: everything is in .lab/NAME
    #[arg(long, default_value = lab::DEFAULT_NAME, value_parser = lab::name)]
    name: String,
    /// How long the hosts may take to be provisioned, and the one to be deprovisioned and to be deleted, in seconds each
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    deadline: u64,
}

/// Runs the demo. Interrupted, it ends everything and exits with 130.
pub fn run(args: &Args) -> ExitCode {
    lab::or_tell(lab::block_on(async {
        let screen = Screen::new();
        let folder = lab::folder(&args.name)?;
        lab::ensure_down(&args.name)?;
        let start = Instant::now();
        screen.heading("1  The lab");
        let mut interrupt = Interrupt::new()?;
        let programs = lab::programs(&folder);
        let Some(programs) = interrupt.or(programs).await.transpose()? else {
            return Ok(interrupted(&screen));
        };
        screen.say(&format!(
            "the programs are there ({:.1} s)",
            start.elapsed().as_secs_f64()
        ));
        if args.keep {
            Box::pin(in_the_background(args, &screen, &mut interrupt, &programs)).await
        } else {
            Box::pin(in_this_process(args, &screen, &mut interrupt, &folder, programs)).await
        }
    }))
}

async fn in_this_process(
    args: &Args,
    screen: &Screen,
    interrupt: &mut Interrupt,
    folder: &Path,
    programs: Programs,
) -> Result<ExitCode> {
    let config = SiteConfig {
        folder: folder.to_owned(),
        servers: args.hosts,
        programs,
    };
    let say = |text: &str| screen.say(text);
    let starting = lab::with_beat(
        screen,
        "starting Kubernetes and Ironic",
        Box::pin(Site::start(config, &say)),
    );
    let site = match interrupt.or(starting).await.transpose() {
        Ok(Some(site)) => site,
        Ok(None) => {
            fs::remove_dir_all(folder).ok(); // what is left is removed at the next start
            return Ok(interrupted(screen));
        }
        Err(error) => return Err(error.context(format!("the lab did not start; its logs are in {}", folder.display()))),
    };
    let access = site.access()?;
    let outcome = interrupt.or(Box::pin(tell(args, screen, &access))).await.transpose();
    screen.clear();
    let stopping = lab::with_beat(
        screen,
        "ending the lab",
        Box::pin(async {
            site.stop().await;
            Ok(())
        }),
    );
    // A second interrupt does not wait for a good order: what was started dies with this process.
    if interrupt.or(stopping).await.is_none() {
        return Ok(interrupted(screen));
    }
    let outcome =
        outcome.with_context(|| format!("the demo failed; the lab's logs are kept in {}", folder.display()))?;
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    if outcome.is_none() {
        return Ok(interrupted(screen));
    }
    screen.say("the lab has ended; to keep one, use --keep");
    Ok(ExitCode::SUCCESS)
}

async fn in_the_background(
    args: &Args,
    screen: &Screen,
    interrupt: &mut Interrupt,
    programs: &Programs,
) -> Result<ExitCode> {
    let Some(access) = lab::start(&args.name, args.hosts, programs, screen, interrupt).await? else {
        return Ok(interrupted(screen));
    };
    let outcome = interrupt.or(Box::pin(tell(args, screen, &access))).await.transpose();
    screen.clear();
    let name = if args.name == lab::DEFAULT_NAME {
        String::new()
    } else {
        format!(" --name {}", args.name)
    };
    match outcome {
        Ok(Some(())) => {
            screen.heading("The lab runs on");
            screen.print(&lab::hints(&access, &args.name, lab::Next::Look("rack2-node1")));
            Ok(ExitCode::SUCCESS)
        }
        Ok(None) => {
            lab::stop(&args.name)?;
            Ok(interrupted(screen))
        }
        Err(error) => Err(error.context(format!("the demo failed; the lab runs on: cargo xtask lab down{name}"))),
    }
}

fn interrupted(screen: &Screen) -> ExitCode {
    screen.clear();
    screen.say("interrupted: everything has been ended");
    ExitCode::from(130)
}

/// The demo itself, on a lab that runs.
async fn tell(args: &Args, screen: &Screen, access: &Access) -> Result<()> {
    let limit = Duration::from_secs(args.deadline);
    let client = client(&access.kubeconfig).await?;
    let hosts: Api<BareMetalHost> = Api::namespaced(client.clone(), NAMESPACE);
    let entries = entries(usize::from(args.hosts), access)?;
    let logs = vec![access.operator_log.clone(), access.ironic_logs.join("ironic.out")];

    screen.heading(&format!("2  {} hosts from {}", entries.len(), rack::FILE));
    metal3_lab::apply::apply(&client, &[serde_json::from_value(namespace())?], None).await?;
    let mut journey = Journey::new(hosts.clone(), screen, logs);
    for entry in &entries {
        journey.expect(&entry.name);
        metal3_lab::apply::apply(&client, &entry.objects, Some(NAMESPACE)).await?;
        screen.say(&format!("applied {} ({} objects)", entry.name, entry.objects.len()));
    }
    let are_up = |stories: &[story::Story]| stories.iter().all(|s| s.state == ProvisioningState::Provisioned);
    journey.until("provisioning", limit, are_up).await?;
    screen.say(&format!("all {} hosts are provisioned", entries.len()));

    screen.heading("3  What the servers have got, as they tell it");
    screen.print(&results(&entries, &journey, access, screen.width()).await?);

    let last = entries.last().context("no host")?.name.clone();
    screen.heading(&format!("4  {last} is deprovisioned and deleted"));
    let change = Patch::Merge(json!({"spec": {"image": null}}));
    hosts
        .patch(&last, &PatchParams::default(), &change)
        .await
        .context("cannot take the image away")?;
    screen.say(&format!("took the image of {last} away"));
    let of_last = |stories: &[story::Story]| stories.iter().find(|s| s.name == last).cloned();
    let is_free = |s: &[story::Story]| of_last(s).is_some_and(|s| s.state == ProvisioningState::Available);
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
    let busy = summary::busy(&access.moments()?, &access.requests()?, summary::unix(screen::now()));
    let rows = summary::rows(&journey.stories, &busy);
    screen.print(&summary::table(&rows, screen.width()));
    screen.print(&format!("\n{}\n", summary::METHOD));
    Ok(())
}

/// The example's hosts with the lab's servers.
fn entries(count: usize, access: &Access) -> Result<Vec<Entry>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(rack::FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let entries = rack::take(rack::read(&text)?, count)?;
    ensure!(
        access.servers.len() >= count,
        "the lab has {} servers",
        access.servers.len()
    );
    let pairs = entries.iter().zip(&access.servers);
    pairs
        .map(|(entry, server)| rack::adapt(entry, server, &access.image_url, &access.image_sha256))
        .collect()
}

fn namespace() -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// What the demo applies, for `kubectl apply`.
pub fn manifest(count: usize, access: &Access) -> Result<String> {
    let mut text = serde_saphyr::to_string(&namespace())?;
    for object in entries(count, access)?.iter().flat_map(|entry| &entry.objects) {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(text)
}

/// What each server was given, told by the server and not by the operator. Fails if it is not what was asked for.
async fn results(entries: &[Entry], journey: &Journey<'_>, access: &Access, width: u16) -> Result<String> {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .force_no_tty();
    table.set_header([
        "HOST",
        "POWER",
        "IMAGE",
        "SHA-256",
        "HOSTNAME",
        "USER DATA",
        "NETWORK DATA",
    ]);
    for ((entry, server), story) in entries.iter().zip(&access.servers).zip(&journey.stories) {
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

/// A client by a kubeconfig file.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("cannot read the lab's kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Client::try_from(config).context("cannot make a client")
}
