//! The workload clusters: one client and one Node watch for each cluster in use.
//!
//! ```text
//!  Secret <cluster>-kubeconfig ── one watch ──▶ client, made anew with each other content
//!                                                 │
//!  Cluster gone ──▶ everything of it is dropped   └── one watch ──▶ Nodes, found by provider ID, host and name
//!                                                                     │
//!  asked by controllers at any time, answered at once ◀───────────────┴──▶ listeners: who looks again
//! ```
//!
//! No caller waits here: an unreachable cluster has its own task that retries, and lookups return that state at once.

mod account;
mod bounds;
mod budget;
mod connect;
pub mod kubeconfig;
mod link;
mod metered;
pub mod nodes;
mod pace;
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
use metal3_runtime::error::chain;
use metal3_runtime::lookups::Lookups;
use metal3_runtime::store::{Change, ObjectKey};
use metal3_runtime::timing::provider::WORKLOAD_CONNECT;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::account::{Account, Limits};
use self::bounds::Exceeded;
use self::budget::Budget;
pub use self::connect::Access;
use self::link::Link;
pub use self::nodes::{NodeBy, Nodes};
use self::pace::{Pace, Paces};
use self::turns::Turns;

/// A reachable workload cluster.
#[derive(Clone)]
pub struct Workload {
    /// Client of its API server.
    pub client: Client,
    /// All its Nodes.
    pub nodes: Nodes,
    /// Fills the store of its Nodes, within the limits.
    budget: Budget,
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
    /// Sends a request with a bounded wait. On a timeout the cluster counts as unreachable, and concurrent requests are limited,
    /// so that passes for other clusters continue. Error messages are our own.
    pub async fn ask<T>(&self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
        self.turns.ask(request).await.map_err(words::ours)
    }

    /// Changes a Node by a merge patch. The store reflects the response.
    pub async fn change_node(&self, name: &str, change: &Value) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let (params, change) = (PatchParams::default(), Patch::Merge(change));
        let written = self.ask(nodes.patch(name, &params, &change)).await?;
        self.budget.answered(written);
        Ok(())
    }

    /// Reads a Node. The store reflects the response.
    pub async fn read_node(&self, name: &str) -> Result<Option<Node>, kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = self.ask(nodes.get_opt(name)).await?;
        if let Some(node) = &node {
            self.budget.answered(node.clone());
        }
        Ok(node)
    }

    /// Sets a Node's provider ID, if the Node still has this UID: one recreated under its name may be on another server. Returns
    /// whether the Node has the ID.
    pub async fn give_id(&self, name: &str, uid: &str, id: &str) -> Result<bool, kube::Error> {
        // The API server accepts only the first ID, so no ID is overwritten.
        let change = json!({"metadata": {"uid": uid}, "spec": {"providerID": id}});
        let Err(error) = self.change_node(name, &change).await else {
            return Ok(true);
        };
        let is_refused = matches!(&error, kube::Error::Api(status) if status.is_invalid() || status.is_conflict() || status.is_not_found());
        if !is_refused {
            return Err(error);
        }
        match self.read_node(name).await? {
            Some(node) if node.metadata.uid.as_deref() == Some(uid) => Err(error),
            // The watch will show it soon.
            Some(_) | None => Ok(false),
        }
    }
}

/// Why a workload cluster is unavailable. Each state ends by itself or with a change of the Secret; listeners are notified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// The first list of its Nodes is in progress.
    #[error("the nodes of cluster {0} are being listed")]
    Connecting(ObjectKey),
    /// Cluster API has not written the Secret yet.
    #[error("Secret {0} is missing; Cluster API writes it when the cluster's certificates are there")]
    NoKubeconfig(ObjectKey),
    /// The provider's role does not let it read the Secret.
    #[error(
        "the provider may not read Secret {0}: bind the ClusterRole capm3-secrets-role in its namespace; it is tried again by itself"
    )]
    Forbidden(ObjectKey),
    /// The Secret is invalid.
    #[error("Secret {secret} holds no kubeconfig that can be used: {problem}")]
    BadKubeconfig {
        /// The Secret.
        secret: ObjectKey,
        /// The error.
        problem: String,
    },
    /// Its namespace has reached the maximum of connected clusters.
    #[error(
        "cluster {0} is not followed: {most} clusters of its namespace are already; delete some, or use another namespace",
        most = bounds::MOST_CLUSTERS
    )]
    TooMany(ObjectKey),
    /// It, or its namespace in total, exceeds a limit.
    #[error(
        "cluster {cluster} is not followed: {why}; it is tried again within 10 minutes, or when its kubeconfig changes"
    )]
    Exceeds {
        /// The cluster.
        cluster: ObjectKey,
        /// What exceeds the limit, and what to do.
        why: Exceeded,
    },
    /// The cluster, or the API server with the Secret, does not respond.
    #[error("the API server of cluster {cluster} cannot be asked: {cause}")]
    Silent {
        /// The cluster.
        cluster: ObjectKey,
        /// The failed request and its error.
        cause: String,
    },
}

impl Unreachable {
    /// The condition reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Connecting(_) => "WorkloadClusterConnecting",
            Self::NoKubeconfig(_) => "WorkloadClusterKubeconfigMissing",
            Self::Forbidden(_) => "WorkloadClusterKubeconfigForbidden",
            Self::BadKubeconfig { .. } => "WorkloadClusterKubeconfigInvalid",
            Self::TooMany(_) | Self::Exceeds { .. } => "WorkloadClusterLimitReached",
            Self::Silent { .. } => "WorkloadClusterUnreachable",
        }
    }
}

/// News for listeners.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A Node has changed.
    Node(&'a Change<Node>),
    /// The cluster became available or unavailable, or the reason changed.
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
    /// Client of the management cluster, for the Secrets.
    client: Client,
    access: Access,
    stop: CancellationToken,
    clusters: Mutex<Clusters>,
    account: Account,
    paces: Paces,
    lookups: Lookups,
    listeners: RwLock<Vec<Listener>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Shared {
    /// Starts the task of one cluster. It ends with the cluster, or with the last clone of this struct.
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
    /// Clusters in use without a free place in their namespace.
    refused: BTreeSet<ObjectKey>,
}

impl Clusters {
    fn has_place(&self, namespace: &str) -> bool {
        let beside = self.followed.keys().filter(|other| other.namespace == namespace);
        beside.count() < bounds::MOST_CLUSTERS
    }

    /// The next cluster of this namespace, if a place is free.
    fn next(&mut self, namespace: &str) -> Option<ObjectKey> {
        let first = ObjectKey::new(namespace, "");
        let next = self.refused.range(first..).next();
        let next = next.filter(|next| next.namespace == namespace).cloned();
        let next = next.filter(|_| self.has_place(namespace))?;
        self.refused.take(&next)
    }

    /// Retries clusters that would fit if others used less, now that one of this namespace is gone.
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

/// One workload cluster in use.
struct Followed {
    answer: Result<Workload, Unreachable>,
    /// Signals its task that others use less memory now.
    room: Arc<Notify>,
    /// How fast its watch is read.
    pace: Pace,
    /// Stops its task on drop.
    _task: DropGuard,
}

impl Workloads {
    /// No clusters yet. `access` says how they may be accessed; `stop` ends everything.
    pub fn new(client: Client, access: impl Into<Access>, stop: CancellationToken) -> Self {
        Self(Arc::new(Shared {
            client,
            access: access.into(),
            stop,
            clusters: Mutex::default(),
            account: Account::new(Limits::DEFAULT),
            paces: Paces::default(),
            // The connect timeout includes this wait, and would hide its reason.
            lookups: Lookups::new(WORKLOAD_CONNECT / 2),
            listeners: RwLock::default(),
            tasks: Mutex::default(),
        }))
    }

    /// Calls `listener` with the cluster for all news from now on. It must be fast.
    pub fn listen(&self, listener: impl Fn(&ObjectKey, News<'_>) + Send + Sync + 'static) {
        let mut listeners = self.0.listeners.write();
        listeners.push(Box::new(listener));
    }

    /// The current state of this Cluster's workload cluster. The first call connects it until [`forget`](Self::forget).
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
        let pace = self.0.paces.of(cluster.clone());
        let link = Link::new(Arc::downgrade(&self.0), stop.clone(), room.clone(), pace.clone());
        let (client, access) = (self.0.client.clone(), self.0.access.clone());
        self.0.spawn(link.run(client, access));
        Followed {
            answer: Err(Unreachable::Connecting(cluster.clone())),
            room,
            pace,
            _task: stop.drop_guard(),
        }
    }

    /// The workload cluster of this Cluster if it is already connected and available. This does not connect it: a last write to a
    /// cluster being deleted must not start a new watch.
    pub fn followed(&self, cluster: &ObjectKey) -> Option<Workload> {
        self.0.lock().followed.get(cluster)?.answer.as_ref().ok().cloned()
    }

    /// An available cluster with these Nodes, without a watch.
    #[cfg(test)]
    pub fn connected(&self, cluster: &ObjectKey, client: Client, nodes: Nodes) {
        let workload = Workload {
            client,
            budget: Budget::new(nodes.clone(), self.0.account.share(&cluster.namespace)),
            nodes,
            turns: Turns::default(),
        };
        self.answered(cluster, Ok(workload));
    }

    /// What is known of a cluster, without a watch.
    #[cfg(test)]
    pub fn answered(&self, cluster: &ObjectKey, answer: Result<Workload, Unreachable>) {
        let followed = Followed {
            answer,
            room: Arc::default(),
            pace: self.0.paces.of(cluster.clone()),
            _task: CancellationToken::new().drop_guard(),
        };
        self.0.lock().followed.insert(cluster.clone(), followed);
    }

    /// The Cluster is gone: drops its client, watches and Nodes. Its place goes to the next refused cluster of its namespace,
    /// whose listeners are notified.
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

    /// Whether each connected cluster is available, and if not, why.
    pub fn answers(&self) -> Vec<(ObjectKey, Result<(), Unreachable>)> {
        let clusters = self.0.lock();
        let answer = |followed: &Followed| followed.answer.as_ref().map(|_| ()).map_err(Clone::clone);
        let answers = clusters.followed.iter();
        answers
            .map(|(cluster, followed)| (cluster.clone(), answer(followed)))
            .collect()
    }

    /// The namespaces of the clusters whose watch was read with pauses lately, once for each cluster.
    pub fn slowed(&self) -> Vec<String> {
        let clusters = self.0.lock();
        let slowed = clusters
            .followed
            .iter()
            .filter(|(_, followed)| followed.pace.is_slowed());
        slowed.map(|(cluster, _)| cluster.namespace.clone()).collect()
    }

    /// The number of connected clusters.
    pub fn len(&self) -> usize {
        self.0.lock().followed.len()
    }

    /// Whether no cluster is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
