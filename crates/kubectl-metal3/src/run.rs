//! Looks, decides.

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::args::{Args, CheckMigration};
use crate::migration::decide::decide;
use crate::migration::observe::observe;
use crate::migration::report::Report;

/// Looks at the cluster and decides.
///
/// # Errors
/// the cluster cannot be reached, or an object that must be seen cannot be read
pub async fn check(args: &Args, check: &CheckMigration) -> anyhow::Result<Report> {
    let client = client(args).await?;
    let observed = observe(&client).await?;
    Ok(decide(&observed, check.direction(), check.with))
}

async fn client(args: &Args) -> anyhow::Result<Client> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match &args.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("cannot read kubeconfig {path}"))?;
            Config::from_custom_kubeconfig(file, &options).await
        }
        None => Config::from_kubeconfig(&options).await,
    };
    let config = config.context("found no way to reach an API server")?;
    Client::try_from(config).context("cannot build an API client")
}
