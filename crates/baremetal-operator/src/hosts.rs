//! The watches of hosts and their companion objects, and which hosts they enqueue.

use std::fmt::Debug;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{self, OptionFuture};
use k8s_openapi::NamespaceResourceScope;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Resource};
use metal3_api::metal3::{BareMetalHost, PreprovisioningImage};
use metal3_runtime::BoxError;
use metal3_runtime::args::Namespaces;
use metal3_runtime::controller::Controllers;
use metal3_runtime::error::chain;
use metal3_runtime::metrics::ControllerMetrics;
use metal3_runtime::store::{Awaited, Follow, ObjectKey, Sink};
use metal3_runtime::timing::operator::{DEBOUNCE, FIRST_ANSWER, NET};
use metal3_runtime::work::Queue;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::claim;
use crate::companion::Looks;
use crate::data_image::DataImages;
use crate::firmware_components::FirmwareComponents;
use crate::firmware_schema::FirmwareSchemas;
use crate::firmware_settings::FirmwareSettings;
use crate::fleet::{self, Pace};
use crate::host::Hosts;
use crate::host::companions::{Both, Wake};
use crate::host::context::Context;
use crate::leftovers::Leftovers;
use crate::preprovisioning::{Images, Ramdisks};
use crate::subscription::Subscriptions;
use crate::switch;

/// Lists the fleet, watches each namespace (or the cluster), and reconciles the hosts while leading.
pub async fn run(
    ctx: Arc<Context>,
    args: &Args,
    workers: u16,
    mut leads: watch::Receiver<bool>,
    metrics: ControllerMetrics,
    woken: mpsc::UnboundedReceiver<ObjectKey>,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        led = leads.wait_for(|leads| *leads) => drop(led?),
    }
    metrics.set_leading(true);
    let switches = switches(&ctx, args, &metrics, &stop)?.boxed();
    let claims = claim::run(
        &ctx,
        args.hostclaims,
        &args.namespaces.namespace,
        metrics.clone(),
        &stop,
    )
    .boxed();
    let namespaces = &args.namespaces.namespace;
    // One queue for all watches: all namespaces share the workers.
    let queue = Queue::new();
    let mut work = Controllers::new(metrics, ctx.clock.clone(), stop.clone());
    work.add_with(queue.clone(), Hosts(ctx.clone()), workers);
    add_firmware(&mut work, &ctx, workers);
    work.add(DataImages::new(ctx.clone()), workers);
    work.add(Leftovers::new(ctx.clone()), 1);
    let subscriptions = Subscriptions::new(ctx.clone());
    work.add_with(subscriptions.queue(), subscriptions.clone(), workers);
    let ramdisks = built_in(&ctx, args);
    if let Some(ramdisks) = &ramdisks {
        work.add_with(ramdisks.queue(), ramdisks.clone(), workers);
    }
    count(&ctx, &subscriptions, ramdisks.as_ref());
    let names = watched(namespaces);
    ctx.fleet.expect_lists(names.len());
    for _ in &names {
        ctx.all_hosts.expect();
    }
    let apis = names.into_iter().zip(namespaces.apis(&ctx.kube));
    let watches = apis.map(|(namespace, hosts)| {
        let watch = Watched {
            namespace,
            ctx: ctx.clone(),
            queue: queue.clone(),
            subscriptions: subscriptions.clone(),
            ramdisks: ramdisks.clone(),
            stop: stop.clone(),
        };
        watch.run(hosts)
    });
    let work = async {
        tokio::select! {
            () = stop.cancelled() => {}
            _ = tokio::time::timeout(FIRST_ANSWER, ctx.fleet.first_answer()) => {}
        }
        tokio::join!(work.run(NET), switches, claims);
    };
    tokio::select! {
        // It ends with the last pass after `stop`.
        () = work => Ok(()),
        _ = async { tokio::join!(future::join_all(watches), poll(&ctx, &stop), wake(&ctx, namespaces, &queue, woken)) } => Ok(()),
    }
}

/// The controller that answers PreprovisioningImages from the settings, if it is to run.
fn built_in(ctx: &Context, args: &Args) -> Option<Ramdisks> {
    if !args.build_preprov_image {
        return None;
    }
    let images = Images::new(&args.ironic, std::env::vars());
    if images.is_none() {
        tracing::info!(
            "no DEPLOY_* setting names a ramdisk: another program is to build those of PreprovisioningImages"
        );
    }
    images.map(|images| Ramdisks::new(ctx.kube.clone(), ctx.clock.clone(), &ctx.recorder, images))
}

/// Counts the objects beside hosts, from their stores. No store has the PreprovisioningImages that another program builds.
fn count(ctx: &Context, subscriptions: &Subscriptions, ramdisks: Option<&Ramdisks>) {
    let (metrics, companions) = (&ctx.metrics.companions, &ctx.companions);
    metrics.follow(&companions.settings);
    metrics.follow(&companions.updates);
    metrics.follow(&companions.data_images);
    metrics.follow(&subscriptions.objects);
    if let Some(ramdisks) = ramdisks {
        metrics.follow(&ramdisks.objects);
    }
}

fn add_firmware(work: &mut Controllers, ctx: &Arc<Context>, workers: u16) {
    let looks = Looks::default();
    work.add(FirmwareSettings::new(ctx.clone(), looks.clone()), workers);
    work.add(FirmwareComponents::new(ctx.clone()), workers);
    let ctx = ctx.clone();
    work.add(FirmwareSchemas { ctx, looks }, 1);
}

/// The controller of switches, if it is wanted.
fn switches(
    ctx: &Context,
    args: &Args,
    metrics: &ControllerMetrics,
    stop: &CancellationToken,
) -> Result<impl Future<Output = ()> + use<>, BoxError> {
    let places = (&args.namespaces.namespace, args.pod_namespace.as_str());
    let clients = (ctx.kube.clone(), ctx.clock.clone(), ctx.recorder.clone());
    let settings = args.networking.settings()?;
    let run = settings.map(|settings| {
        switch::run(
            clients,
            settings,
            places,
            (metrics.clone(), &ctx.metrics.companions),
            stop,
        )
    });
    Ok(OptionFuture::from(run).map(|_| ()))
}

/// The namespaces that [`Namespaces::apis`] creates an API for, in its order.
fn watched(namespaces: &Namespaces) -> Vec<Option<String>> {
    match namespaces {
        Namespaces::All => vec![None],
        Namespaces::Only(names) => names.iter().cloned().map(Some).collect(),
    }
}

async fn poll(ctx: &Context, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => return,
        () = ctx.ironic.told() => {}
    }
    let (fleet, ironic, clock) = (ctx.fleet.clone(), ctx.ironic.clone(), ctx.clock.clone());
    fleet::run(fleet, ironic, Pace::default(), clock, stop.clone()).await;
}

/// Enqueues the hosts that the fleet wakes. Nodes of other namespaces are ignored.
async fn wake(
    ctx: &Context,
    namespaces: &Namespaces,
    queue: &Queue<ObjectKey>,
    mut woken: mpsc::UnboundedReceiver<ObjectKey>,
) {
    while let Some(host) = woken.recv().await {
        let is_watched = match namespaces {
            Namespaces::All => true,
            Namespaces::Only(names) => names.contains(&host.namespace),
        };
        if is_watched {
            // The cached state may look unchanged: it is the host's turn for a slot, or its node changed and changed
            // back.
            ctx.memory.wake(&host);
            queue.push_in(host, DEBOUNCE);
        }
    }
    future::pending::<()>().await;
}

/// The watches of one namespace, or of the cluster.
struct Watched {
    namespace: Option<String>,
    ctx: Arc<Context>,
    queue: Queue<ObjectKey>,
    subscriptions: Subscriptions,
    ramdisks: Option<Ramdisks>,
    stop: CancellationToken,
}

impl Watched {
    async fn run(self, hosts: Api<BareMetalHost>) {
        let (ctx, namespace, queue) = (&self.ctx, self.namespace.as_deref(), self.queue.clone());
        let wake = move |host| queue.push_in(host, DEBOUNCE);
        let by_companion: Wake = Arc::new(wake.clone());
        tokio::join!(
            self.hosts(hosts),
            self.ramdisks(),
            self.subscriptions.watch(namespace, &self.stop),
            ctx.secrets.follow(&ctx.kube, namespace, self.stop.clone(), wake),
            ctx.companions.watch(&ctx.kube, namespace, &self.stop, &by_companion),
        );
    }

    async fn hosts(&self, api: Api<BareMetalHost>) {
        let heard = |heard: Result<(), &watcher::Error>| match heard {
            Ok(()) => self.listed(),
            Err(error) => warn_of::<BareMetalHost>(error),
        };
        self.follow(api, self.ctx.hosts.clone(), false, heard).await;
    }

    /// A list of hosts is complete. The listed hosts can wait for those with work in progress.
    fn listed(&self) {
        let namespace = self.namespace.as_deref();
        if !self.ctx.hosts_listed(namespace) {
            return;
        }
        self.ctx.fleet.hosts_listed();
        self.ctx.all_hosts.arrived();
        let is_own = |host: &ObjectKey| namespace.is_none_or(|name| name == host.namespace);
        for host in self.ctx.hosts.all().into_iter().filter(is_own) {
            self.queue.push_behind(host, DEBOUNCE);
        }
    }

    /// Enqueues hosts whose own ramdisk changes, if ramdisks are built.
    async fn ramdisks(&self) {
        let heard = |heard: Result<(), &watcher::Error>| {
            if let Err(error) = heard {
                warn_of::<PreprovisioningImage>(error);
            }
        };
        let going = self.ctx.companions.going_ramdisks.clone();
        if !self.ctx.settings.builds_ramdisks {
            let api: Api<PartialObjectMeta<PreprovisioningImage>> = self.api();
            self.follow(api, going, true, heard).await;
            return;
        }
        let hosts = Both(going, HostsOfRamdisks(self.ctx.clone(), self.queue.clone()));
        let Some(ramdisks) = &self.ramdisks else {
            let api: Api<PartialObjectMeta<PreprovisioningImage>> = self.api();
            self.follow(api, hosts, false, heard).await;
            return;
        };
        let api: Api<PreprovisioningImage> = self.api();
        tokio::join!(
            self.follow(api, Both(ramdisks.objects.clone(), hosts), false, heard),
            ramdisks.watch_secrets(self.namespace.as_deref(), &self.stop),
        );
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        match &self.namespace {
            None => Api::all(self.ctx.kube.clone()),
            Some(name) => Api::namespaced(self.ctx.kube.clone(), name),
        }
    }

    async fn follow<K, S>(
        &self,
        api: Api<K>,
        store: S,
        is_optional: bool,
        heard: impl FnMut(Result<(), &watcher::Error>),
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
        S: Sink<K>,
    {
        let follow = Follow {
            api,
            store,
            config: watcher::Config::default(),
            is_optional,
        };
        let awaited = Awaited::default();
        awaited.expect();
        follow.run_heard(awaited, self.stop.clone(), heard).await;
    }
}

fn warn_of<K: Resource<DynamicType = ()>>(error: &watcher::Error) {
    tracing::warn!(kind = %K::kind(&()), error = %chain(error), "a watch was interrupted");
}

/// The sink of the ramdisk watch: it keeps nothing and enqueues the hosts.
struct HostsOfRamdisks(Arc<Context>, Queue<ObjectKey>);

impl<K: Resource<DynamicType = ()>> Sink<K> for HostsOfRamdisks {
    fn put(&self, image: K) {
        <Self as Sink<K>>::remove(self, &ObjectKey::of(&image), "");
    }

    fn remove(&self, host: &ObjectKey, _: &str) {
        self.0.memory.ramdisk_changed(host);
        self.1.push_in(host.clone(), DEBOUNCE);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use clap::Parser;
    use metal3_ironic::Link;
    use metal3_runtime::controller::Controller;
    use metal3_testkit::played;
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::fleet::Fleet;
    use crate::host;

    fn host(name: &str, state: &str, version: u64) -> BareMetalHost {
        serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": name, "namespace": "n", "uid": format!("u-{name}"), "resourceVersion": version.to_string()}, "spec": {"online": true},
            "status": {"provisioning": {"state": state}}}))
        .unwrap()
    }

    /// Hosts as the watch has delivered them, and the queue that it fills.
    fn shown(hosts: &[(&str, &str)]) -> (Watched, Queue<ObjectKey>) {
        let (ctx, _) = host::context::out_of_reach(1);
        let ctx = Arc::new(ctx);
        let watched = Watched {
            namespace: None,
            queue: Queue::new(),
            subscriptions: Subscriptions::new(ctx.clone()),
            ramdisks: None,
            ctx,
            stop: CancellationToken::new(),
        };
        Hosts(watched.ctx.clone()).listen(&watched.queue);
        for (name, state) in hosts {
            watched.ctx.hosts.put(host(name, state, 1));
        }
        watched.listed();
        let queue = watched.queue.clone();
        (watched, queue)
    }

    /// The hosts in the order of their passes.
    async fn looks(queue: Queue<ObjectKey>) -> Vec<String> {
        tokio::time::advance(DEBOUNCE).await; // all are due
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
        let (log, end, expected) = (seen.clone(), stop.clone(), queue.len());
        let work = move |host: ObjectKey| {
            let mut log = log.lock();
            log.push(host.name);
            if log.len() == expected {
                end.cancel();
            }
            std::future::ready(None)
        };
        queue.run(1, stop, work).await;
        std::mem::take(&mut *seen.lock())
    }

    /// The start of each write, and its namespace.
    type Writes = Arc<Mutex<Vec<(Instant, String)>>>;

    /// An API server with this many new hosts in each namespace. Every write takes ten seconds and fails.
    fn slow_server(hosts: usize) -> (kube::Client, Writes) {
        let writes = Writes::default();
        let (log, listed) = (writes.clone(), Arc::new(Mutex::new(HashSet::new())));
        let client = played::client("a", move |request| {
            let (log, listed) = (log.clone(), listed.clone());
            async move {
                let namespace = request.path.split('/').skip_while(|part| *part != "namespaces").nth(1);
                let namespace = namespace.unwrap_or_default().to_owned();
                if request.is_write() {
                    log.lock().push((Instant::now(), namespace));
                    sleep(Duration::from_secs(10)).await;
                    return played::failure(500, "InternalError");
                }
                let is_new = listed.lock().insert(request.path.clone());
                if !is_new {
                    return std::future::pending().await; // a watch
                }
                let is_hosts = request.path.ends_with("/baremetalhosts");
                let names = (0..hosts).filter(|_| is_hosts).map(|n| host(&format!("h{n}"), "", 1));
                let items: Vec<_> = names
                    .map(|mut host| {
                        host.metadata.namespace = Some(namespace.clone());
                        host
                    })
                    .collect();
                (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}))
            }
        });
        (client, writes)
    }

    #[tokio::test(start_paused = true)]
    async fn passes_of_all_namespaces_share_one_limit() {
        // OWN 13a: each namespace had as many workers as all should share. OWN 22b: the first namespace's hosts delayed
        // those of the other.
        let (mut ctx, registry) = host::context::out_of_reach(1);
        let (kube, writes) = slow_server(50);
        (ctx.kube, ctx.ironic) = (kube, Link::unsaid());
        let args = Args::parse_from(["test", "--namespace=a,b"]);
        let (metrics, (_fleet, woken)) = (ControllerMetrics::new(&registry), Fleet::new(1));
        let (_lead, leads) = watch::channel(true);
        let run = run(Arc::new(ctx), &args, 1, leads, metrics, woken, CancellationToken::new());
        tokio::time::timeout(Duration::from_secs(95), run).await.ok();
        let writes = writes.lock();
        let apart = |pair: &[(Instant, String)]| pair[1].0.duration_since(pair[0].0) >= Duration::from_secs(10);
        assert!(writes.windows(2).all(apart), "{writes:?}");
        let of = |name| writes.iter().filter(|(_, namespace)| namespace == name).count();
        assert!(of("a") >= 3 && of("b") >= 3, "{writes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_begun_goes_on_before_new_hosts_and_before_lists() {
        let (watched, queue) = shown(&[("begun", ""), ("other", "")]);
        assert_eq!(looks(queue.clone()).await.len(), 2);
        for (name, state, version) in [
            ("listed", "available", 1),
            ("new", "", 1),
            ("begun", "inspecting", 2),
            ("other", "registering", 2),
        ] {
            watched.ctx.hosts.put(host(name, state, version));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(looks(queue).await, ["begun", "other", "listed", "new"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_goes_is_looked_at_and_forgotten() {
        let (watched, queue) = shown(&[("a", "available"), ("gone", "available")]);
        assert_eq!(looks(queue.clone()).await.len(), 2);
        watched.ctx.hosts.remove(&ObjectKey::new("n", "gone"), "u-gone");
        assert_eq!(looks(queue).await, ["gone"]);
    }

    #[tokio::test]
    async fn nothing_is_done_for_a_host_before_its_namespace_is_listed() {
        let (ctx, _) = host::context::out_of_reach(1);
        let (hosts, key) = (Hosts(Arc::new(ctx)), ObjectKey::new("n", "h"));
        hosts.0.hosts.put(host("h", "available", 1));
        hosts.0.hosts_listed(Some("other"));
        assert!(hosts.observe(&key).await.unwrap().is_none());
        hosts.0.hosts_listed(Some("n"));
        assert!(hosts.observe(&key).await.unwrap().is_some());
    }
}
