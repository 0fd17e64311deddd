//! The task that keeps one workload cluster at hand.

use std::pin::pin;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Client;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use metal3_runtime::args::ClientArgs;
use metal3_runtime::error::chain;
use metal3_runtime::store::{Awaited, Follow, ObjectKey};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::bounds::{PAGE, bounded, told};
use super::budget::Budget;
use super::turns::{LIMIT, NoAnswer, Turns};
use super::{News, Shared, Unreachable, Workload, kubeconfig, nodes};

/// A server that does not take a connection for so long is not there. kube's own limit is four times as long, and somebody
/// waits to be told.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);

/// Between looks whether a workload cluster that was there is back. While it answers it is not asked.
const PROBE: Duration = Duration::from_secs(5);

/// A workload cluster that has not answered a request is left alone for so long: it may answer the probe and nothing else.
const QUIET: Duration = Duration::from_secs(20);

/// Whether the Nodes can be listed: that the server answers says nothing of the right to do so.
async fn probe(client: &Client) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let one = ListParams::default().limit(1);
    let answer = tokio::time::timeout(LIMIT, nodes.list_metadata(&one)).await;
    let answer = answer.map_err(|_| kube::Error::Service(Box::new(NoAnswer::Late)))?;
    answer.map(|_| ())
}

/// Keeps one workload cluster at hand.
#[derive(Clone)]
pub(super) struct Link {
    shared: Weak<Shared>,
    cluster: ObjectKey,
    stop: CancellationToken,
}

impl Link {
    pub(super) fn new(shared: Weak<Shared>, cluster: ObjectKey, stop: CancellationToken) -> Self {
        Self { shared, cluster, stop }
    }

    /// Follows the Secret, and what it leads to, until stopped.
    pub(super) async fn run(self, client: Client, limits: ClientArgs) {
        let secret = ObjectKey::new(
            self.cluster.namespace.clone(),
            kubeconfig::secret_name(&self.cluster.name),
        );
        let api = Api::<Secret>::namespaced(client, &secret.namespace);
        let only_this = watcher::Config::default().fields(&format!("metadata.name={}", secret.name));
        let events = watcher(api, only_this)
            .default_backoff()
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
                    connection = None; // before the next begins, so that only one says what it sees
                    if let Some(connected) = self.connect(&secret, &object, &limits).await {
                        connection = Some((data, connected));
                    }
                }
                Ok(watcher::Event::InitDone) if is_there => {}
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => {
                    connection = None;
                    self.lost(&self.stop, Unreachable::NoKubeconfig(secret.clone()));
                }
                // The management cluster's trouble: what was connected stays connected.
                Err(error) => {
                    tracing::warn!(%secret, error = %chain(&error), "the watch of a kubeconfig was interrupted");
                }
            }
        }
    }

    /// Begins to follow the Nodes with this kubeconfig; they are followed until the guard is dropped.
    async fn connect(&self, secret: &ObjectKey, object: &Secret, limits: &ClientArgs) -> Option<DropGuard> {
        let bad = |problem: String| Unreachable::BadKubeconfig {
            secret: secret.clone(),
            problem,
        };
        let mut config = match kubeconfig::read(object).await {
            Ok(config) => config,
            Err(problem) => {
                self.lost(&self.stop, bad(problem.to_string()));
                return None;
            }
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let Ok(client) = limits.limited(config) else {
            // The library's words may quote keys.
            let problem = "its certificates or keys cannot be used".to_owned();
            self.lost(&self.stop, bad(problem));
            return None;
        };
        let stop = self.stop.child_token();
        let shared = self.shared.upgrade()?;
        shared.spawn(self.clone().follow(bounded(client), stop.clone()));
        Some(stop.drop_guard())
    }

    async fn follow(self, client: Client, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.follow_until_unanswered(&client, &stop).await;
        }
    }

    /// Follows the Nodes until stopped, or until the cluster answers again after it left a request without an answer: its
    /// watch may then show nothing for minutes, and is begun anew.
    async fn follow_until_unanswered(&self, client: &Client, stop: &CancellationToken) {
        let workload = Workload {
            client: client.clone(),
            nodes: nodes::nodes(),
            turns: Turns::default(),
        };
        let (link, until) = (self.clone(), stop.clone());
        workload.nodes.listen(move |change| {
            if let Some(shared) = link.shared.upgrade().filter(|_| !until.is_cancelled()) {
                shared.tell(&link.cluster, News::Node(change));
            }
        });
        let budget = Budget::new(workload.nodes.clone());
        let nodes = Follow {
            api: Api::<Node>::all(client.clone()),
            config: watcher::Config::default().page_size(PAGE),
            store: budget.clone(),
            is_optional: false,
        };
        let (is_listed, interrupted) = (AtomicBool::new(false), Notify::new());
        let heard = |heard: Result<(), &watcher::Error>| match heard {
            // Some are missing, and which of them is chance.
            Ok(()) if budget.is_exceeded() => {}
            Ok(()) => {
                is_listed.store(true, Ordering::Relaxed);
                self.found(stop, &workload);
            }
            Err(error) => {
                self.lost(stop, self.silent(error));
                interrupted.notify_one();
            }
        };
        // A watch that goes on where it was cut off does not say so.
        let resumption = async {
            loop {
                interrupted.notified().await;
                while is_listed.load(Ordering::Relaxed) {
                    tokio::time::sleep(PROBE).await;
                    match probe(client).await {
                        Ok(()) => {
                            self.found(stop, &workload);
                            break;
                        }
                        Err(error) => self.lost(stop, self.silent(&error)),
                    }
                }
            }
        };
        let awaited = Awaited::default();
        awaited.expect();
        tokio::select! {
            () = nodes.run_heard(awaited, stop.clone(), heard) => return,
            () = resumption => return,
            () = workload.turns.unanswered() => self.lost(stop, self.silent(&NoAnswer::Late)),
            why = budget.exceeded() => self.lost(stop, self.silent(&why)),
        }
        let answers = async {
            tokio::time::sleep(QUIET).await;
            while let Err(error) = probe(client).await {
                self.lost(stop, self.silent(&error));
                tokio::time::sleep(PROBE).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = answers => {}
        }
    }

    fn silent(&self, error: &(dyn std::error::Error + 'static)) -> Unreachable {
        Unreachable::Silent {
            cluster: self.cluster.clone(),
            cause: told(&chain(error).to_string()),
        }
    }

    /// All Nodes are known.
    fn found(&self, until: &CancellationToken, workload: &Workload) {
        self.answer(until, |answer| {
            let is_news = answer.is_err();
            *answer = Ok(workload.clone());
            is_news
        });
    }

    /// Nothing can be said of the Nodes at present.
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

    /// Changes the answer, unless this has been stopped meanwhile, and tells the listeners if it is news.
    fn answer(&self, until: &CancellationToken, change: impl FnOnce(&mut Result<Workload, Unreachable>) -> bool) {
        let Some(shared) = self.shared.upgrade() else { return };
        let is_news = {
            let mut clusters = shared.lock();
            // Stopped under the same lock, or after it: a successor's answer is not overwritten.
            match clusters.get_mut(&self.cluster) {
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
