//! The workload clusters: one client and one watch of the Nodes for each that somebody asks about.
//!
//! ```text
//!  Secret <cluster>-kubeconfig ── one watch ──▶ client, made anew with each other content
//!                                                 │
//!  Cluster gone ──▶ everything of it is dropped   └── one watch ──▶ Nodes, found by provider ID, host and name
//!                                                                     │
//!  asked by controllers at any time, answered at once ◀───────────────┴──▶ listeners: who looks again
//! ```
//!
//! Nobody waits here: a cluster that cannot be reached is a task of its own that tries again, and an answer that says so.

mod account;
mod bounds;
mod budget;
pub mod kubeconfig;
mod link;
pub mod nodes;
pub mod provider_id;
mod retries;
mod turns;
mod words;

use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use metal3_runtime::args::ClientArgs;
use metal3_runtime::error::chain;
use metal3_runtime::store::{Change, ObjectKey};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::account::{Account, Limits};
use self::bounds::Exceeded;
use self::link::Link;
pub use self::nodes::{NodeBy, Nodes};
use self::turns::Turns;

/// A workload cluster that answers.
#[derive(Clone)]
pub struct Workload {
    /// Its API server.
    pub client: Client,
    /// Its Nodes, all of them.
    pub nodes: Nodes,
    turns: Turns,
}

impl fmt::Debug for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Workload")
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

impl Workload {
    /// Makes a request that somebody waits for. Where the cluster does not answer it is silent from then on, and few wait
    /// at once: whoever works for other clusters goes on. An error says what came of it in words of our own.
    pub async fn ask<T>(&self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
        self.turns.ask(request).await.map_err(words::ours)
    }

    /// Changes a Node by a merge patch. Whoever looks for it from then on sees the answer.
    pub async fn change_node(&self, name: &str, change: &Value) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let (params, change) = (PatchParams::default(), Patch::Merge(change));
        let written = self.ask(nodes.patch(name, &params, &change)).await?;
        self.nodes.written(written);
        Ok(())
    }

    /// Gives a Node its provider ID, if it is still the Node with this UID: one that was made anew under its name may be on
    /// another server. Returns whether it has it.
    pub async fn give_id(&self, name: &str, uid: &str, id: &str) -> Result<bool, kube::Error> {
        // The API server takes the first ID only, so that nobody's is overwritten.
        let change = json!({"metadata": {"uid": uid}, "spec": {"providerID": id}});
        let Err(error) = self.change_node(name, &change).await else {
            return Ok(true);
        };
        let nodes: Api<Node> = Api::all(self.client.clone());
        let is_refused = matches!(&error, kube::Error::Api(status) if status.is_invalid() || status.is_conflict() || status.is_not_found());
        if !is_refused {
            return Err(error);
        }
        match self.ask(nodes.get_opt(name)).await? {
            Some(node) if node.metadata.uid.as_deref() == Some(uid) => Err(error),
            // The watch shows it in a moment.
            Some(_) | None => Ok(false),
        }
    }
}

/// Why there is no answer of a workload cluster. All of these end by themselves, or with a change of the Secret; whoever
/// listens is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// Its Nodes are being listed for the first time.
    #[error("the nodes of cluster {0} are being listed")]
    Connecting(ObjectKey),
    /// Cluster API has not written the Secret yet.
    #[error("Secret {0} is missing; Cluster API writes it when the cluster's certificates are there")]
    NoKubeconfig(ObjectKey),
    /// The Secret is of no use.
    #[error("Secret {secret} holds no kubeconfig that can be used: {problem}")]
    BadKubeconfig {
        /// The Secret.
        secret: ObjectKey,
        /// What is wrong with it.
        problem: String,
    },
    /// Its namespace has as many that are followed as it may have.
    #[error(
        "cluster {0} is not followed: {most} clusters of its namespace are already; delete some, or use another namespace",
        most = bounds::MOST_CLUSTERS
    )]
    TooMany(ObjectKey),
    /// It sends or has more than it may, or all of its namespace together have.
    #[error(
        "cluster {cluster} is not followed: {why}; it is tried again within 10 minutes, or when its kubeconfig changes"
    )]
    Exceeds {
        /// The cluster.
        cluster: ObjectKey,
        /// What there is too much of, and what to do.
        why: Exceeded,
    },
    /// The cluster, or the Secret's server, does not answer.
    #[error("the API server of cluster {cluster} cannot be asked: {cause}")]
    Silent {
        /// The cluster.
        cluster: ObjectKey,
        /// What was tried and what came of it.
        cause: String,
    },
}

impl Unreachable {
    /// The reason of a condition, in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Connecting(_) => "WorkloadClusterConnecting",
            Self::NoKubeconfig(_) => "WorkloadClusterKubeconfigMissing",
            Self::BadKubeconfig { .. } => "WorkloadClusterKubeconfigInvalid",
            Self::TooMany(_) | Self::Exceeds { .. } => "WorkloadClusterLimitReached",
            Self::Silent { .. } => "WorkloadClusterUnreachable",
        }
    }
}

/// What listeners are told.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A Node is now another than it was.
    Node(&'a Change<Node>),
    /// The cluster answers now, or does not any more, or for another reason.
    Link,
}

type Listener = Box<dyn Fn(&ObjectKey, News<'_>) + Send + Sync>;

/// All workload clusters. Cheap to clone.
#[derive(Clone)]
pub struct Workloads(Arc<Shared>);

impl fmt::Debug for Workloads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.lock().followed.keys()).finish()
    }
}

struct Shared {
    /// The management cluster, for the Secrets.
    client: Client,
    limits: ClientArgs,
    stop: CancellationToken,
    clusters: Mutex<Clusters>,
    account: Account,
    listeners: RwLock<Vec<Listener>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Shared {
    /// Starts a task of one cluster. It ends with what it follows, or with the last clone of all this.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(error = %chain(&error), "the task of a workload cluster broke off");
            }
        }
        tasks.spawn(task);
    }

    fn lock(&self) -> MutexGuard<'_, Clusters> {
        self.clusters.lock()
    }

    fn tell(&self, cluster: &ObjectKey, news: News<'_>) {
        let listeners = self.listeners.read();
        for listener in &*listeners {
            listener(cluster, news);
        }
    }
}

#[derive(Default)]
struct Clusters {
    followed: HashMap<ObjectKey, Followed>,
    /// Those that somebody asked about and for which their namespace has no place.
    refused: BTreeSet<ObjectKey>,
}

impl Clusters {
    fn has_place(&self, namespace: &str) -> bool {
        let beside = self.followed.keys().filter(|other| other.namespace == namespace);
        beside.count() < bounds::MOST_CLUSTERS
    }

    /// The next cluster of this namespace for which there is a place now.
    fn next(&mut self, namespace: &str) -> Option<ObjectKey> {
        let first = ObjectKey::new(namespace, "");
        let next = self.refused.range(first..).next();
        let next = next.filter(|next| next.namespace == namespace).cloned();
        let next = next.filter(|_| self.has_place(namespace))?;
        self.refused.take(&next)
    }

    /// Has those look again that would do if others took less, now that one of this namespace is gone.
    fn there_is_room(&self, namespace: &str) {
        for (cluster, followed) in &self.followed {
            let Err(Unreachable::Exceeds { why, .. }) = &followed.answer else {
                continue;
            };
            let is_elsewhere = matches!(why, Exceeded::Namespace(_)) && cluster.namespace != namespace;
            if why.is_shared() && !is_elsewhere {
                followed.room.notify_one();
            }
        }
    }
}

/// One workload cluster that somebody asked about.
struct Followed {
    answer: Result<Workload, Unreachable>,
    /// Tells its task that others take less memory now.
    room: Arc<Notify>,
    /// Its task ends with this.
    _task: DropGuard,
}

impl Workloads {
    /// None is followed yet. `limits` says how often each workload cluster may be asked; `stop` ends everything.
    pub fn new(client: Client, limits: ClientArgs, stop: CancellationToken) -> Self {
        Self(Arc::new(Shared {
            client,
            limits,
            stop,
            clusters: Mutex::default(),
            account: Account::new(Limits::DEFAULT),
            listeners: RwLock::default(),
            tasks: Mutex::default(),
        }))
    }

    /// Calls `listener` with the cluster after every piece of news from now on. It must be quick.
    pub fn listen(&self, listener: impl Fn(&ObjectKey, News<'_>) + Send + Sync + 'static) {
        let mut listeners = self.0.listeners.write();
        listeners.push(Box::new(listener));
    }

    /// The workload cluster of this Cluster, as far as it is known now. The first question has it followed from then on,
    /// until [`forget`](Self::forget).
    pub fn of(&self, cluster: &ObjectKey) -> Result<Workload, Unreachable> {
        let mut clusters = self.0.lock();
        if let Some(followed) = clusters.followed.get(cluster) {
            return followed.answer.clone();
        }
        if !clusters.has_place(&cluster.namespace) {
            clusters.refused.insert(cluster.clone());
            return Err(Unreachable::TooMany(cluster.clone()));
        }
        clusters.refused.remove(cluster);
        let followed = self.follow(cluster);
        let answer = followed.answer.clone();
        clusters.followed.insert(cluster.clone(), followed);
        answer
    }

    fn follow(&self, cluster: &ObjectKey) -> Followed {
        let (stop, room) = (self.0.stop.child_token(), Arc::<Notify>::default());
        let link = Link::new(Arc::downgrade(&self.0), cluster.clone(), stop.clone(), room.clone());
        let (client, limits) = (self.0.client.clone(), self.0.limits.clone());
        self.0.spawn(link.run(client, limits));
        Followed {
            answer: Err(Unreachable::Connecting(cluster.clone())),
            room,
            _task: stop.drop_guard(),
        }
    }

    /// The workload cluster of this Cluster if it is followed and answers. It is not followed for this: whoever writes a last
    /// word to a cluster that goes must not begin to watch it anew.
    pub fn followed(&self, cluster: &ObjectKey) -> Option<Workload> {
        self.0.lock().followed.get(cluster)?.answer.as_ref().ok().cloned()
    }

    /// One that answers and whose Nodes are these, without a watch.
    #[cfg(test)]
    pub fn connected(&self, cluster: &ObjectKey, client: Client, nodes: Nodes) {
        let turns = Turns::default();
        let followed = Followed {
            answer: Ok(Workload { client, nodes, turns }),
            room: Arc::default(),
            _task: CancellationToken::new().drop_guard(),
        };
        self.0.lock().followed.insert(cluster.clone(), followed);
    }

    /// The Cluster is gone: so are its client, its watches and its Nodes. The next one of its namespace that was refused has
    /// its place, and its listeners are told.
    pub fn forget(&self, cluster: &ObjectKey) {
        let (gone, next) = {
            let mut clusters = self.0.lock();
            clusters.refused.remove(cluster);
            let Some(gone) = clusters.followed.remove(cluster) else {
                return;
            };
            clusters.there_is_room(&cluster.namespace);
            let next = clusters.next(&cluster.namespace);
            if let Some(next) = &next {
                let followed = self.follow(next);
                clusters.followed.insert(next.clone(), followed);
            }
            (gone, next)
        };
        drop(gone);
        if let Some(next) = next {
            self.0.tell(&next, News::Link);
        }
    }

    /// Whether each of those that are followed answers, and if not, why.
    pub fn answers(&self) -> Vec<Result<(), Unreachable>> {
        let clusters = self.0.lock();
        let answers = clusters.followed.values().map(|followed| &followed.answer);
        answers
            .map(|answer| answer.as_ref().map(|_| ()).map_err(Clone::clone))
            .collect()
    }

    /// How many are followed.
    pub fn len(&self) -> usize {
        self.0.lock().followed.len()
    }

    /// Whether none is followed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
