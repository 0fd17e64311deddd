//! The process: which tasks there are, what they share, and in which order they start and end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use metal3_api::metal3::{BareMetalHost, HardwareData, PreprovisioningImage};
use metal3_ironic::{ClientConfig, Link};
use metal3_runtime::args::Namespaces;
use metal3_runtime::error::{Classified, chain};
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::metrics::{Build, ControllerMetrics};
use metal3_runtime::process::{Process, Settings, warn_of_missing_webhooks};
use metal3_runtime::shutdown::Tasks;
use metal3_runtime::{BoxError, backoff, served, telemetry};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::fleet::{self, Fleet, HostKey, Pace};
use crate::host::{
    self,
    context::{Context, Memories},
};
use crate::ironic_config::Source;
use crate::ironic_resource::Follower;
use crate::metrics::{Catalogue, HostMetrics, IronicMetrics};
use crate::settings::HostSettings;

const LEASE: &str = "baremetal-operator";
const REPORTER: Reporter = Reporter {
    component: "metal3-baremetal-controller",
    controller: "metal3.io/baremetal-controller",
};
/// Bursts of events of one host become one reconciliation. Short, because every step of a host's life pays for it, and
/// because a reconciliation that finds nothing changed makes no call.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// How long the controllers wait for Ironic's first answer, so that a healthy start does not tell every host of an outage.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// Runs the operator until it is told to stop.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::init(&args.log)?;
    tell_of_what_is_missing(&args)?;
    // What is wrong with the settings is said before anything is waited for.
    let source = args.ironic.source(&namespaces_of_ironic(&args))?;
    tell_of_source(&source, &args);
    if let Source::Settings(config) = &source {
        client_of((**config).clone())?;
    }
    let settings = HostSettings {
        budgets: args.state_budgets.clone(),
        ..args.ironic.hosts(
            args.max_provisioning_retries,
            args.retry_base(),
            args.build_preprov_image,
        )?
    };
    let mut process = Process::begin(&Settings {
        build: Build {
            component: "baremetal-operator",
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
    let mut catalogue = Catalogue::new(&process.registry);
    let host_metrics = HostMetrics::new(&mut catalogue, clock.clone(), args.per_host_metrics);
    let observer = Arc::new(IronicMetrics::new(&mut catalogue));
    let ironic = link(source, observer, &args, &client, &mut process.tasks)?;
    let (fleet, woken) = Fleet::new(args.ironic.slots());
    let ctx = Arc::new(Context {
        kube: client.clone(),
        ironic,
        fleet,
        secrets: host::secret_versions(),
        companions: host::companions::Companions::default(),
        bmc_names: host::bmc_names::BmcNames::default(),
        written: metal3_runtime::written::Written::default(),
        recorder: Recorder::new(client.clone(), REPORTER, clock.clone()),
        clock,
        settings: Arc::new(settings),
        metrics: host_metrics,
        attempts: backoff::Attempts::default(),
        quiet: host::quiet::Quiet::default(),
        memory: Memories::default(),
        rights: host::claim::Rights::default(),
    });
    let stop = process.tasks.stop();
    let (leads, metrics, kinds_ready) = (
        process.leads.clone(),
        process.controllers.clone(),
        process.kinds_ready.clone(),
    );
    let workers = args.workers();
    process.tasks.spawn("hosts", async move {
        tokio::select! {
            () = stop.cancelled() => return Ok::<(), BoxError>(()),
            () = kinds_served(&client, &args.namespaces.namespace) => {}
        }
        kinds_ready.set(true);
        hosts(ctx, &args, workers, leads, metrics, woken, stop).await
    });
    process.run().await?;
    Ok(())
}

/// The way to Ironic. If a resource tells where it is, a task follows that.
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

/// Flags of upstream that ask for something this version does not have.
fn tell_of_what_is_missing(args: &Args) -> anyhow::Result<()> {
    warn_of_missing_webhooks(args.webhook_port);
    if let Some(refusal) = args.compat.refusal() {
        anyhow::bail!(refusal);
    }
    for complaint in args.compat.complaints() {
        tracing::warn!("{complaint}");
    }
    if args.hostclaims {
        tracing::warn!("HostClaims are not reconciled by this version");
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

/// Where an Ironic resource is looked for if nothing else is said.
fn namespaces_of_ironic(args: &Args) -> [&str; 2] {
    [
        args.pod_namespace.as_str(),
        args.namespaces.namespace.single().unwrap_or_default(),
    ]
}

/// Waits until the kinds are served.
async fn kinds_served(client: &Client, namespaces: &Namespaces) {
    let ask = async || {
        vec![
            served::one(namespaces.apis::<BareMetalHost>(client)).await,
            served::one(namespaces.apis::<HardwareData>(client)).await,
        ]
    };
    served::all(ask).await;
}

/// Lists the fleet and runs a controller per watched namespace (or one for the cluster) while leading.
async fn hosts(
    ctx: Arc<Context>,
    args: &Args,
    workers: u16,
    leads: watch::Receiver<bool>,
    metrics: ControllerMetrics,
    mut woken: mpsc::UnboundedReceiver<HostKey>,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    let mut bells = Vec::new();
    let mut controllers = JoinSet::new();
    for (namespace, api) in namespaces(&args.namespaces.namespace)
        .into_iter()
        .zip(args.namespaces.namespace.apis(&ctx.kube))
    {
        let (bell, by_node) = mpsc::unbounded_channel();
        bells.push((namespace.clone(), bell));
        let watched = Watched {
            namespace,
            api,
            by_node,
            workers,
            leads: leads.clone(),
            metrics: metrics.clone(),
        };
        controllers.spawn(watched.run(ctx.clone(), stop.clone()));
    }
    let ring = async {
        while let Some(host) = woken.recv().await {
            host::woken(&ctx, &host);
            for (_, bell) in bells
                .iter()
                .filter(|(n, _)| n.as_ref().is_none_or(|n| *n == host.namespace))
            {
                // A controller that has ended is noticed below.
                bell.send(host.clone()).ok();
            }
        }
    };
    let mut may_poll = leads.clone();
    let poll = async {
        tokio::select! {
            () = stop.cancelled() => return,
            led = may_poll.wait_for(|leads| *leads) => if led.is_err() { return },
        }
        metrics.set_leading(true);
        tokio::select! {
            () = stop.cancelled() => return,
            () = ctx.ironic.told() => {}
        }
        fleet::run(
            ctx.fleet.clone(),
            ctx.ironic.clone(),
            Pace::default(),
            ctx.clock.clone(),
            stop.clone(),
        )
        .await;
    };
    let work = async {
        while let Some(ended) = controllers.join_next().await {
            ended??;
        }
        Ok(())
    };
    tokio::select! {
        ended = work => ended,
        ((), ()) = async { tokio::join!(poll, ring) } => Ok(()),
    }
}

/// The names that [`Namespaces::apis`] makes an interface for, in its order.
fn namespaces(namespaces: &Namespaces) -> Vec<Option<String>> {
    match namespaces {
        Namespaces::All => vec![None],
        Namespaces::Only(names) => names.iter().cloned().map(Some).collect(),
    }
}

/// Hosts whose own ramdisk changed, where ramdisks are built.
fn by_ramdisk(ctx: &Arc<Context>, namespace: Option<&str>) -> BoxStream<'static, ObjectRef<BareMetalHost>> {
    if !ctx.settings.builds_ramdisks {
        return stream::pending().boxed();
    }
    let api: Api<PartialObjectMeta<PreprovisioningImage>> = namespace.map_or_else(
        || Api::all(ctx.kube.clone()),
        |name| Api::namespaced(ctx.kube.clone(), name),
    );
    let ctx = ctx.clone();
    watcher(api, watcher::Config::default())
        .default_backoff()
        .touched_objects()
        .filter_map(move |image| {
            let host = match image {
                Ok(image) => {
                    let key = HostKey {
                        namespace: image.namespace().unwrap_or_default(),
                        name: image.name_any(),
                    };
                    host::ramdisk_changed(&ctx, &key);
                    Some(ObjectRef::new(&key.name).within(&key.namespace))
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "the watch of PreprovisioningImages was interrupted");
                    None
                }
            };
            std::future::ready(host)
        })
        .boxed()
}

/// One watch with what belongs to it. Two watches cannot share a store: the list of one would empty it of the other's.
struct Watched {
    namespace: Option<String>,
    api: Api<BareMetalHost>,
    by_node: mpsc::UnboundedReceiver<HostKey>,
    workers: u16,
    leads: watch::Receiver<bool>,
    metrics: ControllerMetrics,
}

impl Watched {
    async fn run(mut self, ctx: Arc<Context>, stop: CancellationToken) -> Result<(), BoxError> {
        let (store, writer) = reflector::store::<BareMetalHost>();
        let hosts = watcher(self.api, watcher::Config::default())
            .default_backoff()
            .modify(host::cached::trim)
            .inspect_ok({
                let fleet = ctx.fleet.clone();
                let mut is_first_list = true;
                move |event| match event {
                    watcher::Event::InitApply(host) if is_first_list => {
                        if let Some(since) = host::queue::queued_since(host) {
                            fleet.remember_in_queue(&host::key_of(host), since);
                        }
                    }
                    watcher::Event::InitDone => is_first_list = false,
                    watcher::Event::Init
                    | watcher::Event::InitApply(_)
                    | watcher::Event::Apply(_)
                    | watcher::Event::Delete(_) => {}
                }
            })
            .reflect(writer)
            .touched_objects()
            .inspect_err(|error| tracing::warn!(error = %chain(error), "the watch of hosts was interrupted"));
        let by_secret = ctx
            .secrets
            .watch(&ctx.kube, self.namespace.as_deref(), watcher::Config::default());
        let by_ramdisk = by_ramdisk(&ctx, self.namespace.as_deref());
        let by_firmware = ctx
            .companions
            .watch(&ctx.kube, self.namespace.as_deref())
            .map(|host| ObjectRef::new(&host.name).within(&host.namespace));
        let by_node = stream::unfold(self.by_node, async |mut woken| {
            let host = woken.recv().await?;
            Some((ObjectRef::new(&host.name).within(&host.namespace), woken))
        });
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            led = self.leads.wait_for(|leads| *leads) => { led?; }
        }
        tokio::time::timeout(FIRST_ANSWER, ctx.fleet.first_answer()).await.ok();
        let metrics = self.metrics;
        let timed = move |host: Arc<BareMetalHost>, ctx: Arc<Context>| {
            let metrics = metrics.clone();
            async move {
                let start = ctx.clock.elapsed();
                let answer = host::reconcile(host, ctx.clone()).await;
                let outcome = answer.as_ref().map_or_else(|error| error.class().as_str(), |_| "ok");
                metrics.observe("baremetalhost", outcome, ctx.clock.elapsed().saturating_sub(start));
                answer
            }
        };
        let config = controller::Config::default()
            .debounce(DEBOUNCE)
            .concurrency(self.workers);
        let seen_gone = ctx.clone();
        let results = Controller::for_stream(hosts, store)
            .with_config(config)
            .reconcile_on(by_secret)
            .reconcile_on(by_firmware)
            .reconcile_on(by_node)
            .reconcile_on(by_ramdisk)
            .graceful_shutdown_on(stop.cancelled_owned())
            .run(timed, |host, error, ctx| host::on_error(&host, error, &ctx), ctx);
        pin!(results)
            .for_each(|result| {
                if let Err(controller::Error::ObjectNotFound(host)) = result {
                    host::vanished(&seen_gone, host.namespace.as_deref().unwrap_or_default(), &host.name);
                }
                std::future::ready(())
            })
            .await;
        Ok(())
    }
}
