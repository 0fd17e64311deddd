//! The hosts: their watches, what wakes them, and the passes over them.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use metal3_api::metal3::{BareMetalHost, PreprovisioningImage};
use metal3_runtime::BoxError;
use metal3_runtime::args::Namespaces;
use metal3_runtime::controller::{Controllers, Next, Reconcile};
use metal3_runtime::error::chain;
use metal3_runtime::metrics::ControllerMetrics;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::fleet::{self, Fleet, Pace};
use crate::host::{self, ReconcileError, context::Context};

/// Bursts of events of one host become one reconciliation. Short, because every step of a host's life pays for it, and
/// because a reconciliation that finds nothing changed makes no call.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// How long the controllers wait for Ironic's first answer, so that a healthy start does not tell every host of an outage.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// Lists the fleet and runs a controller per watched namespace (or one for the cluster) while leading.
pub async fn run(
    ctx: Arc<Context>,
    args: &Args,
    workers: u16,
    leads: watch::Receiver<bool>,
    metrics: ControllerMetrics,
    mut woken: mpsc::UnboundedReceiver<ObjectKey>,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    let mut bells = Vec::new();
    let mut controllers = JoinSet::new();
    let watched = namespaces(&args.namespaces.namespace);
    ctx.fleet.expect_lists(watched.len());
    // One for all watches: however many namespaces there are, they share the workers.
    let queue = Queue::new();
    let mut stores = Vec::new();
    for (namespace, api) in watched.into_iter().zip(args.namespaces.namespace.apis(&ctx.kube)) {
        let (bell, by_node) = mpsc::unbounded_channel();
        bells.push((namespace.clone(), bell));
        let (store, writer) = reflector::store::<BareMetalHost>();
        stores.push((namespace.clone(), store.clone()));
        let watched = Watched {
            namespace,
            api,
            by_node,
            store,
            writer,
            queue: queue.clone(),
            leads: leads.clone(),
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
    let hosts = Hosts {
        ctx: ctx.clone(),
        stores: stores.into(),
    };
    let mut work = Controllers::new(metrics.clone(), ctx.clock.clone(), stop.clone());
    work.add_with(queue, hosts, workers);
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
    let follow = async {
        while let Some(ended) = controllers.join_next().await {
            ended??;
        }
        Ok(())
    };
    tokio::select! {
        ended = follow => ended,
        // It ends with the last pass after `stop`.
        () = work.run(host::next_check::NET) => Ok(()),
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
fn by_ramdisk(ctx: &Arc<Context>, namespace: Option<&str>) -> BoxStream<'static, ObjectKey> {
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
                    let key = ObjectKey {
                        namespace: image.namespace().unwrap_or_default(),
                        name: image.name_any(),
                    };
                    host::ramdisk_changed(&ctx, &key);
                    Some(key)
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
    by_node: mpsc::UnboundedReceiver<ObjectKey>,
    store: Store<BareMetalHost>,
    writer: Writer<BareMetalHost>,
    queue: Queue<ObjectKey>,
    leads: watch::Receiver<bool>,
}

impl Watched {
    async fn run(mut self, ctx: Arc<Context>, stop: CancellationToken) -> Result<(), BoxError> {
        let (store, queue) = (self.store, self.queue);
        let hosts = watcher(self.api, watcher::Config::default())
            .default_backoff()
            .modify(host::cached::trim);
        let hosts = ctx.secret_users.follow(hosts, host::held::used).reflect(self.writer);
        let (secret, by_secret) = mpsc::unbounded_channel();
        let secrets = ctx
            .secrets
            .follow(&ctx.kube, self.namespace.as_deref(), stop.clone(), move |host| {
                let host = ObjectKey {
                    namespace: host.namespace.unwrap_or_default(),
                    name: host.name,
                };
                // What is woken below ends first.
                secret.send(host).ok();
            });
        let by_ramdisk = by_ramdisk(&ctx, self.namespace.as_deref());
        let by_firmware = ctx.companions.watch(&ctx.kube, self.namespace.as_deref());
        let [by_node, by_secret] = [self.by_node, by_secret]
            .map(|woken| stream::unfold(woken, async |mut woken| Some((woken.recv().await?, woken))));
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            led = self.leads.wait_for(|leads| *leads) => { led?; }
        }
        tokio::time::timeout(FIRST_ANSWER, ctx.fleet.first_answer()).await.ok();
        let woken = stream::select(
            stream::select(by_secret, by_firmware),
            stream::select(by_node, by_ramdisk),
        );
        let listed = CancellationToken::new();
        let wake = async {
            // A pass over a host that is not listed yet would take it for one that is gone.
            let (mut woken, mut early) = (pin!(woken), HashSet::new());
            loop {
                tokio::select! {
                    () = listed.cancelled() => break,
                    Some(host) = woken.next() => { early.insert(host); }
                }
            }
            let mut woken = stream::iter(early).chain(woken);
            while let Some(host) = woken.next().await {
                queue.push_in(host, DEBOUNCE);
            }
        };
        tokio::join!(follow(hosts, &ctx.fleet, &store, &queue, &listed), wake, secrets);
        Ok(())
    }
}

/// Asks for a look at each host that changes. Hosts that are new, and those that are listed, can wait for the others: what
/// was begun goes on first, or a thousand new hosts would keep those that Ironic has done with from their next step.
/// After a start it is Ironic's first list that wakes whoever has a node, all of them at once. Says when the first list is
/// complete.
async fn follow(
    hosts: impl Stream<Item = watcher::Result<watcher::Event<BareMetalHost>>>,
    fleet: &Fleet,
    store: &Store<BareMetalHost>,
    queue: &Queue<ObjectKey>,
    are_listed: &CancellationToken,
) {
    let mut hosts = pin!(hosts);
    // The store shows a list when it is complete.
    let mut listed = Vec::new();
    while let Some(event) = hosts.next().await {
        match event {
            Ok(watcher::Event::Init) => listed = store.state().iter().map(|host| host::key_of(host)).collect(),
            Ok(watcher::Event::InitApply(host)) => {
                let key = host::key_of(&host);
                if let Some(turn) = host::queue::turn_in_queue(&host).filter(|_| !are_listed.is_cancelled()) {
                    fleet.remember_in_queue(&key, turn);
                }
                listed.push(key);
            }
            Ok(watcher::Event::InitDone) => {
                if !are_listed.is_cancelled() {
                    are_listed.cancel();
                    fleet.hosts_listed();
                }
                for host in std::mem::take(&mut listed) {
                    queue.push_behind(host, DEBOUNCE);
                }
            }
            Ok(watcher::Event::Apply(host)) if host::is_new(&host) => queue.push_behind(host::key_of(&host), DEBOUNCE),
            Ok(watcher::Event::Apply(host) | watcher::Event::Delete(host)) => {
                queue.push_in(host::key_of(&host), DEBOUNCE);
            }
            Err(error) => tracing::warn!(error = %chain(&error), "the watch of hosts was interrupted"),
        }
    }
}

/// The controller of the hosts. Cheap to clone.
#[derive(Clone)]
struct Hosts {
    ctx: Arc<Context>,
    /// By watched namespace.
    stores: Arc<[(Option<String>, Store<BareMetalHost>)]>,
}

impl Hosts {
    fn get(&self, key: &ObjectKey) -> Option<Arc<BareMetalHost>> {
        let is_watched = |namespace: &Option<String>| namespace.as_ref().is_none_or(|name| *name == key.namespace);
        let store = self.stores.iter().find(|(namespace, _)| is_watched(namespace));
        let object = ObjectRef::new(&key.name).within(&key.namespace);
        store.and_then(|(_, hosts)| hosts.get(&object))
    }
}

impl Reconcile for Hosts {
    const NAME: &'static str = "baremetalhost";
    type Error = ReconcileError;

    /// The watches push what they show.
    fn listen(&self, _: &Queue<ObjectKey>) {}

    /// Each host says itself when it is to be looked at without a reason.
    fn all(&self) -> Vec<ObjectKey> {
        Vec::new()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let Some(host) = self.get(key) else {
            host::vanished(&self.ctx, &key.namespace, &key.name);
            return Ok(Next::Change);
        };
        let again = host::reconcile(host, self.ctx.clone()).await?;
        Ok(again.map_or(Next::Change, Next::After))
    }

    fn after_error(&self, key: &ObjectKey, error: &ReconcileError) -> Option<Duration> {
        Some(host::on_error(key, error, &self.ctx))
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use clap::Parser;
    use kube::runtime::watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
    use metal3_ironic::Link;
    use metal3_testkit::played;
    use serde_json::json;
    use tokio::time::{Instant, sleep};

    use super::*;

    fn host(name: &str, state: &str) -> BareMetalHost {
        serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": name, "namespace": "n"}, "spec": {"online": true},
            "status": {"provisioning": {"state": state}}}))
        .unwrap()
    }

    /// The hosts in the order in which they are looked at after these events.
    async fn looks(events: Vec<watcher::Event<BareMetalHost>>) -> Vec<String> {
        let (store, writer) = reflector::store();
        let (fleet, _woken) = Fleet::new(1);
        let queue = Queue::new();
        let events = stream::iter(events.into_iter().map(Ok)).then(|event| async {
            tokio::time::advance(Duration::from_millis(1)).await;
            event
        });
        follow(
            events.reflect(writer),
            &fleet,
            &store,
            &queue,
            &CancellationToken::new(),
        )
        .await;
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

    /// When each write was begun, and of which namespace.
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
                let names = (0..hosts).filter(|_| is_hosts).map(|n| host(&format!("h{n}"), ""));
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
        // OWN 13a: Each namespace had as many as all should have. OWN 22b: The first one's hosts held up those of the other.
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
        let order = looks(vec![
            Init,
            InitApply(host("listed", "available")),
            InitDone,
            Apply(host("new", "")),
            Apply(host("begun", "inspecting")),
            Apply(host("other", "registering")),
        ])
        .await;
        assert_eq!(order, ["begun", "other", "listed", "new"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_went_while_nobody_watched_is_looked_at() {
        let order = looks(vec![
            Init,
            InitApply(host("a", "available")),
            InitApply(host("gone", "available")),
            InitDone,
            Delete(host("a", "available")),
            Init,
            InitDone,
        ])
        .await;
        assert_eq!(order, ["a", "gone"]);
    }
}
