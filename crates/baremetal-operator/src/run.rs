//! The process: its tasks, what they share, and their order of start and end.

use std::sync::Arc;

use anyhow::Context as _;
use kube::Client;
use metal3_api::metal3::{BareMetalHost, HardwareData};
use metal3_ironic::{ClientConfig, Link};
use metal3_runtime::args::Namespaces;
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::metrics::Build;
use metal3_runtime::probes::Check;
use metal3_runtime::process::{Process, Settings};
use metal3_runtime::shutdown::Tasks;
use metal3_runtime::{BoxError, served, telemetry};

use crate::args::Args;
use crate::exposure::Exposures;
use crate::fleet::Fleet;
use crate::host::context::Context;
use crate::hosts;
use crate::ironic_config::Source;
use crate::ironic_resource::Follower;
use crate::metrics::{Catalogue, EventMetrics, HostMetrics, IronicDown, IronicMetrics};
use crate::rbac::LEASE;
use crate::settings::HostSettings;
use crate::webhooks;

/// The name of the program, as upstream: managedFields have it for what either writes.
pub(crate) const PROGRAM: &str = "baremetal-operator";

const REPORTER: Reporter = Reporter {
    component: "metal3-baremetal-controller",
    controller: "metal3.io/baremetal-controller",
};

/// Runs the operator until it is stopped.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::init(&args.log)?;
    tell_of_what_is_missing(&args)?;
    // Report invalid settings before waiting for anything.
    let source = args.ironic.source(&namespaces_of_ironic(&args))?;
    tell_of_source(&source, &args);
    args.networking.settings()?;
    if let Source::Settings(config) = &source {
        client_of((**config).clone())?;
    }
    let settings = HostSettings {
        budgets: args.state_budgets.clone(),
        denied_url_ranges: args.denied_url_ranges.clone(),
        requires_credentials_label: args.require_credentials_label,
        requires_bootstrap_type: args.require_bootstrap_type,
        adopts_unnamed_nodes: args.adopt_unnamed_nodes,
        ..args.ironic.hosts(
            args.max_provisioning_retries,
            args.retry_base(),
            args.build_preprov_image,
        )?
    };
    let mut process = Process::begin(&Settings {
        build: Build {
            component: PROGRAM,
            version: env!("CARGO_PKG_VERSION"),
        },
        lease: LEASE,
        pod_namespace: &args.pod_namespace,
        client: &args.client,
        namespaces: &args.namespaces,
        leader: &args.leader,
        probes: &args.probes,
        metrics: &args.metrics,
        tls: &args.tls,
    })
    .await?;
    let (client, clock) = (process.client.clone(), process.clock.clone());
    let users = webhooks::users_of_attachment(client.clone(), args.namespaces.namespace.clone());
    let certificates = webhooks::certificates(&args.pod_namespace);
    process.serve_webhooks(&args.webhooks, &args.tls, webhooks::all(users), certificates)?;
    let mut catalogue = Catalogue::new(&process.registry);
    let host_metrics = HostMetrics::new(&mut catalogue, clock.clone(), args.per_host_metrics);
    let observer = Arc::new(IronicMetrics::new(&mut catalogue));
    let events = EventMetrics::new(&mut catalogue);
    let exposures = Exposures::new(&mut catalogue);
    let (fleet, woken) = Fleet::new(args.ironic.slots());
    IronicDown::register(&mut catalogue, fleet.clone());
    let ironic = link(source, observer, &args, &client, &mut process.tasks)?;
    let (watched, stop) = (ironic.clone(), process.tasks.stop());
    process.tasks.spawn("how Ironic stands open", async move {
        exposures.watch(watched, stop).await;
        Ok::<(), BoxError>(())
    });
    let recorder = events.count(Recorder::new(client.clone(), REPORTER, clock.clone()));
    let ctx = Arc::new(Context::new(
        client.clone(),
        ironic,
        fleet,
        recorder,
        settings,
        host_metrics,
        clock,
    ));
    let stop = process.tasks.stop();
    let (leads, metrics, kinds) = (
        process.leads.clone(),
        process.controllers.clone(),
        process.kinds.clone(),
    );
    let workers = args.workers();
    process.tasks.spawn("hosts", async move {
        tokio::select! {
            () = stop.cancelled() => return Ok::<(), BoxError>(()),
            () = kinds_served(&client, &args.namespaces.namespace, &kinds) => {}
        }
        hosts::run(ctx, &args, workers, leads, metrics, woken, stop).await
    });
    process.run().await?;
    Ok(())
}

/// The connection to Ironic. If an Ironic resource holds the endpoint, a task follows it.
fn link(
    source: Source,
    observer: Arc<dyn metal3_ironic::Observer>,
    args: &Args,
    kube: &Client,
    tasks: &mut Tasks,
) -> anyhow::Result<Link> {
    match source {
        Source::Settings(config) => {
            let config = ClientConfig {
                observer: Some(observer),
                ..*config
            };
            Ok(Link::to(client_of(config)?))
        }
        Source::Resource(reference) => {
            let link = Link::unsaid();
            let follower = Follower {
                kube: kube.clone(),
                reference,
                args: args.ironic.clone(),
                observer: Some(observer),
                link: link.clone(),
            };
            let stop = tasks.stop();
            tasks.spawn("the Ironic resource", async move {
                follower.run(stop).await;
                Ok::<(), BoxError>(())
            });
            Ok(link)
        }
    }
}

fn client_of(config: ClientConfig) -> anyhow::Result<metal3_ironic::Client> {
    metal3_ironic::Client::new(config).context("the settings for Ironic cannot be used")
}

/// Warns of upstream flags that request a feature this version does not have.
fn tell_of_what_is_missing(args: &Args) -> anyhow::Result<()> {
    if let Some(refusal) = args.compat.refusal() {
        anyhow::bail!(refusal);
    }
    for complaint in args.compat.complaints() {
        tracing::warn!("{complaint}");
    }
    Ok(())
}

fn tell_of_source(source: &Source, args: &Args) {
    match source {
        Source::Resource(reference) => {
            tracing::info!("{reference} tells where Ironic is; IRONIC_ENDPOINT does not count");
        }
        Source::Settings(_) if !args.ironic.ironic_name.is_empty() => tracing::warn!(
            "IRONIC_NAME does not count, because the namespace of the resource is not known: set IRONIC_NAMESPACE or POD_NAMESPACE"
        ),
        Source::Settings(_) => {}
    }
}

/// The namespaces to search for an Ironic resource by default.
fn namespaces_of_ironic(args: &Args) -> [&str; 2] {
    [
        args.pod_namespace.as_str(),
        args.namespaces.namespace.single().unwrap_or_default(),
    ]
}

/// Waits until the kinds are served.
async fn kinds_served(client: &Client, namespaces: &Namespaces, check: &Check) {
    let ask = async || {
        vec![
            served::one(namespaces.apis::<BareMetalHost>(client)).await,
            served::one(namespaces.apis::<HardwareData>(client)).await,
        ]
    };
    served::all(check, ask).await;
}
