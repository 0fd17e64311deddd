//! The task that maintains the connection to one workload cluster.

use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Client;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use metal3_runtime::backoff::random_seed;
use metal3_runtime::by_name::{Found, missing, watch_or_read};
use metal3_runtime::error::{chain, is_forbidden_watch};
use metal3_runtime::find::find;
use metal3_runtime::store::{Awaited, Follow, ObjectKey};
use metal3_runtime::timing::provider::{WORKLOAD_ANSWER, WORKLOAD_FREED, WORKLOAD_PROBE, WORKLOAD_QUIET};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::bounds::{Exceeded, PAGE, bounded};
use super::budget::Budget;
use super::connect::{self, Access};
use super::pace::Pace;
use super::retries::Retries;
use super::turns::{NoAnswer, Turns};
use super::{News, Nodes, Shared, Unreachable, Workload, kubeconfig, nodes, words};

/// Why the Node watch ended.
enum Over {
    /// Restart at once.
    Anew,
    /// A request failed.
    Unanswered,
    /// A limit was exceeded, after the Nodes had been known for this time.
    Exceeded(Exceeded, Duration),
}

/// Whether Nodes can be listed: a server that responds may still deny the permission.
async fn probe(client: &Client) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let one = ListParams::default().limit(1);
    let answer = tokio::time::timeout(WORKLOAD_ANSWER, nodes.list_metadata(&one)).await;
    let answer = answer.map_err(|_| kube::Error::Service(Box::new(NoAnswer::Late)))?;
    answer.map(|_| ())
}

/// Maintains the connection to one workload cluster.
#[derive(Clone)]
pub(super) struct Link {
    shared: Weak<Shared>,
    cluster: ObjectKey,
    stop: CancellationToken,
    room: Arc<Notify>,
    pace: Pace,
}

impl Link {
    /// Runs for the cluster with this pace until `stop`; `room` signals that others use less memory now.
    pub(super) fn new(shared: Weak<Shared>, stop: CancellationToken, room: Arc<Notify>, pace: Pace) -> Self {
        Self {
            shared,
            cluster: pace.cluster().clone(),
            stop,
            room,
            pace,
        }
    }

    /// Watches the Secret, and the cluster it leads to, until stopped.
    pub(super) async fn run(self, client: Client, access: Access) {
        let secret = ObjectKey::new(
            self.cluster.namespace.clone(),
            kubeconfig::secret_name(&self.cluster.name),
        );
        let api = Api::<Secret>::namespaced(client, &secret.namespace);
        let only_this = watcher::Config::default().fields(&format!("metadata.name={}", secret.name));
        let (reads, name) = (api.clone(), secret.name.clone());
        let read = move |name: String| {
            let api = reads.clone();
            async move {
                Ok(find(&api, &name).await?.map_or_else(
                    || {
                        Found::Gone(Secret {
                            metadata: missing(&api, &name, None),
                            ..Secret::default()
                        })
                    },
                    Found::Here,
                ))
            }
        };
        let watch = |api: &Api<Secret>, config| watcher(api.clone(), config).default_backoff();
        let events = watch_or_read(api, only_this, watch, move || vec![name.clone()], read)
            .take_until(self.stop.clone().cancelled_owned());
        let mut events = pin!(events);
        let mut connection: Option<(ByteString, DropGuard)> = None;
        let mut is_there = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => is_there = false,
                Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                    is_there = true;
                    let data = data_of(&object);
                    if connection.as_ref().is_some_and(|(present, _)| *present == data) {
                        continue;
                    }
                    connection = None; // dropped before the next starts, so that only one reports
                    if let Some(connected) = self.connect(&secret, &object, &access).await {
                        connection = Some((data, connected));
                    }
                }
                Ok(watcher::Event::InitDone) if is_there => {}
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => {
                    connection = None;
                    self.lost(&self.stop, Unreachable::NoKubeconfig(secret.clone()));
                }
                // Logged once, as what the cluster is lost by.
                Err(error) if connection.is_none() && is_forbidden_watch(&error) => {
                    self.lost(&self.stop, Unreachable::Forbidden(secret.clone()));
                }
                // A failure of the management cluster: an existing connection stays.
                Err(error) => {
                    tracing::warn!(%secret, error = %chain(&error), "the watch of a kubeconfig was interrupted");
                }
            }
        }
    }

    /// Starts watching the Nodes with this kubeconfig, until the guard is dropped.
    async fn connect(&self, secret: &ObjectKey, object: &Secret, access: &Access) -> Option<DropGuard> {
        let bad = |problem: String| Unreachable::BadKubeconfig {
            secret: secret.clone(),
            problem,
        };
        let config = match kubeconfig::read(object, &access.denied).await {
            Ok(config) => config,
            Err(problem) => {
                self.lost(&self.stop, bad(problem.to_string()));
                return None;
            }
        };
        let shared = self.shared.upgrade()?;
        let places = shared.lookups.of(&self.cluster.namespace);
        let Ok(client) = connect::client(&config, access, places, &self.pace) else {
            // The library's message may quote keys.
            let problem = "its certificates or keys cannot be used".to_owned();
            self.lost(&self.stop, bad(problem));
            return None;
        };
        let stop = self.stop.child_token();
        let client = bounded(client, &shared.account, &self.cluster.namespace, &self.pace);
        shared.spawn(self.clone().follow(client, stop.clone()));
        Some(stop.drop_guard())
    }

    async fn follow(self, client: Client, stop: CancellationToken) {
        // A changed kubeconfig gets a new task, which starts from scratch.
        let mut retries = Retries::default();
        let follow = async {
            // The Node watch ends with `stop` too, without yielding: restarting it here would loop for ever.
            while !stop.is_cancelled() {
                let begun = Instant::now();
                let mut over = self.follow_until_over(&client, &stop).await;
                if matches!(over, Over::Anew | Over::Unanswered) {
                    self.pause(retries.after_interruption(begun.elapsed(), random_seed()), &stop)
                        .await;
                }
                while let Some(next) = self.wait_after(over, &client, &stop, &mut retries).await {
                    over = next;
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow => {}
        }
    }

    /// Backs off from a cluster whose watch breaks repeatedly.
    async fn pause(&self, delay: Duration, stop: &CancellationToken) {
        if delay.is_zero() {
            return;
        }
        let cluster = self.cluster.clone();
        let cause = "the watch of its Nodes breaks off again and again; it is tried again within 10 minutes".to_owned();
        self.lost(stop, Unreachable::Silent { cluster, cause });
        tokio::time::sleep(delay).await;
    }

    /// Waits until it is worth watching the Nodes again. The situation may change meanwhile.
    async fn wait_after(
        &self,
        over: Over,
        client: &Client,
        stop: &CancellationToken,
        retries: &mut Retries,
    ) -> Option<Over> {
        match over {
            Over::Anew => {}
            Over::Unanswered => {
                self.lost(stop, self.silent(&NoAnswer::Late));
                tokio::time::sleep(WORKLOAD_QUIET).await;
                while let Err(error) = probe(client).await {
                    if let Some(why) = self.lost_by(stop, &error) {
                        return Some(Over::Exceeded(why, Duration::ZERO));
                    }
                    tokio::time::sleep(WORKLOAD_PROBE).await;
                }
            }
            Over::Exceeded(why, was_good_for) => {
                let cluster = self.cluster.clone();
                self.lost(stop, Unreachable::Exceeds { cluster, why });
                tokio::select! {
                    () = tokio::time::sleep(retries.next(was_good_for, random_seed())) => {}
                    () = self.room.notified(), if why.is_shared() => tokio::time::sleep(WORKLOAD_FREED).await,
                }
            }
        }
        None
    }

    /// Watches the Nodes until a request fails, a limit is exceeded, or the cluster responds again after an interruption: its
    /// watch may then show nothing for minutes. Releases the stored Nodes at the end.
    async fn follow_until_over(&self, client: &Client, stop: &CancellationToken) -> Over {
        let Some(account) = self.shared.upgrade().map(|shared| shared.account.clone()) else {
            return std::future::pending().await; // shutting down
        };
        let (nodes, share) = (nodes::nodes(), account.share(&self.cluster.namespace));
        self.tell_of_nodes(&nodes, stop);
        let budget = Budget::new(nodes.clone(), share);
        let workload = Workload {
            client: client.clone(),
            nodes,
            budget: budget.clone(),
            turns: Turns::default(),
        };
        let nodes = Follow {
            api: Api::<Node>::all(client.clone()),
            config: watcher::Config::default().page_size(PAGE),
            store: budget.clone(),
            is_optional: false,
        };
        let (listed, interrupted) = (OnceLock::<Instant>::new(), Notify::new());
        let heard = |heard: Result<(), &watcher::Error>| match heard {
            // Some are missing, and it is arbitrary which.
            Ok(()) if budget.is_exceeded() => {}
            Ok(()) => {
                budget.list_is_complete();
                listed.get_or_init(Instant::now);
                self.found(stop, &workload);
            }
            Err(error) => {
                budget.list_begins_anew();
                match self.lost_by(stop, error) {
                    Some(why) => budget.exceed(why),
                    None => interrupted.notify_one(),
                }
            }
        };
        // A resumed watch does not report that it recovered.
        let resumption = async {
            loop {
                interrupted.notified().await;
                while listed.get().is_some() {
                    tokio::time::sleep(WORKLOAD_PROBE).await;
                    match probe(client).await {
                        Ok(()) => {
                            self.found(stop, &workload);
                            break;
                        }
                        Err(error) => self
                            .lost_by(stop, &error)
                            .into_iter()
                            .for_each(|why| budget.exceed(why)),
                    }
                }
            }
        };
        let awaited = Awaited::default();
        awaited.expect();
        tokio::select! {
            () = nodes.run_heard(awaited, stop.clone(), heard) => Over::Anew,
            () = resumption => Over::Anew,
            () = workload.turns.unanswered() => Over::Unanswered,
            why = budget.exceeded() => {
                Over::Exceeded(why, listed.get().map(Instant::elapsed).unwrap_or_default())
            }
        }
    }

    fn tell_of_nodes(&self, nodes: &Nodes, stop: &CancellationToken) {
        let (link, until) = (self.clone(), stop.clone());
        nodes.listen(move |change| {
            if let Some(shared) = link.shared.upgrade().filter(|_| !until.is_cancelled()) {
                shared.tell(&link.cluster, News::Node(change));
            }
        });
    }

    fn silent(&self, error: &(dyn std::error::Error + 'static)) -> Unreachable {
        Unreachable::Silent {
            cluster: self.cluster.clone(),
            cause: words::told(error),
        }
    }

    /// The Nodes are currently unknown for this reason. Returns the exceeded limit, if there is one: then the cluster is left
    /// alone for a while.
    fn lost_by(&self, until: &CancellationToken, error: &(dyn std::error::Error + 'static)) -> Option<Exceeded> {
        let too_much = words::exceeded(error).filter(|why| !why.ends_watch_only());
        if too_much.is_none() {
            self.lost(until, self.silent(error));
        }
        too_much
    }

    /// All Nodes are known.
    fn found(&self, until: &CancellationToken, workload: &Workload) {
        self.answer(until, |answer| {
            let is_news = answer.is_err();
            *answer = Ok(workload.clone());
            is_news
        });
    }

    /// The Nodes are currently unknown.
    fn lost(&self, until: &CancellationToken, why: Unreachable) {
        self.answer(until, |answer| {
            let is_news = answer.as_ref().err() != Some(&why);
            if is_news {
                tracing::warn!(cluster = %self.cluster, %why, "a workload cluster cannot be asked");
            }
            *answer = Err(why);
            is_news
        });
    }

    /// Changes the state, unless stopped in the meantime, and notifies the listeners if it is new.
    fn answer(&self, until: &CancellationToken, change: impl FnOnce(&mut Result<Workload, Unreachable>) -> bool) {
        let Some(shared) = self.shared.upgrade() else { return };
        let is_news = {
            let mut clusters = shared.lock();
            // Stopped under the same lock, or later: a successor's state is not overwritten.
            match clusters.followed.get_mut(&self.cluster) {
                Some(followed) if !until.is_cancelled() => change(&mut followed.answer),
                _ => false,
            }
        };
        if is_news {
            shared.tell(&self.cluster, News::Link);
        }
    }
}

fn data_of(secret: &Secret) -> ByteString {
    let data = secret.data.as_ref();
    data.and_then(|data| data.get("value").cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workloads;

    // OWN 23h: a changed kubeconfig, or a stopping provider, sometimes kept a thread busy for ever.
    #[test]
    fn a_cluster_that_is_stopped_is_not_followed_anew() {
        let follow = async {
            let mut config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
            config.default_retry = false;
            let client = Client::try_from(config).unwrap();
            let stop = CancellationToken::new();
            let workloads = Workloads::new(client.clone(), crate::sim::limits(), stop.clone());
            let (shared, pace) = (
                Arc::downgrade(&workloads.0),
                workloads.0.paces.of(ObjectKey::new("ns", "c")),
            );
            stop.cancel();
            // The order in which a select polls its branches is random.
            for _ in 0..50 {
                let link = Link::new(shared.clone(), stop.clone(), Arc::default(), pace.clone());
                link.follow(client.clone(), stop.clone()).await;
            }
        };
        // In its own thread: no timer can interrupt a loop that never yields.
        let (over, is_over) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(follow);
            over.send(()).unwrap();
        });
        is_over.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
