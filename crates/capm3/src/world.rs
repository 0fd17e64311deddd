//! What all controllers see: one watch for each kind, and an index for each question that is asked of it.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::ListParams;
use kube::{Client, Resource, ResourceExt};
use metal3_api::capi::{self, Cluster, Machine};
use metal3_api::infra;
use metal3_api::infra::v1beta2::Metal3Cluster;
use metal3_runtime::args::Namespaces;
use metal3_runtime::error::chain;
use metal3_runtime::store::{Awaited, Follow, ObjectKey, Store};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The stores. Cheap to clone.
#[derive(Clone, Debug)]
pub struct World {
    /// Cluster API's Clusters.
    pub clusters: Store<Cluster, ClusterBy>,
    /// Cluster API's Machines.
    pub machines: Store<Machine, MachineBy>,
    /// Our side of the Clusters.
    pub metal3_clusters: Store<Metal3Cluster>,
    filter: String,
}

/// What a Cluster is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClusterBy {
    /// The Metal3Cluster that it names.
    Infrastructure(ObjectKey),
}

/// What a Machine is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MachineBy {
    /// The Cluster that its label names.
    Cluster(ObjectKey),
}

impl World {
    /// Empty stores. Objects that the controllers work on must carry `filter` in the label for that, unless it is empty.
    pub fn new(filter: &str) -> Self {
        Self {
            clusters: Store::new(|cluster| {
                infrastructure(cluster)
                    .map(ClusterBy::Infrastructure)
                    .into_iter()
                    .collect()
            }),
            machines: Store::new(|machine| cluster_of(machine).map(MachineBy::Cluster).into_iter().collect()),
            metal3_clusters: Store::new(|_| Vec::new()),
            filter: filter.to_owned(),
        }
    }

    /// Whether the controllers work on this object, as far as the watch filter goes.
    pub fn is_ours(&self, object: &impl ResourceExt) -> bool {
        self.filter.is_empty() || object.labels().get(capi::names::label::WATCH_FILTER) == Some(&self.filter)
    }

    /// Shows every store to `visitor`.
    fn visit(&self, visitor: &mut impl Visitor) {
        visitor.kind(&self.clusters);
        visitor.kind(&self.machines);
        visitor.kind(&self.metal3_clusters);
    }

    /// Starts the watches. They end with `stop`. What is returned says when all have shown what there is.
    pub fn follow(
        &self,
        client: &Client,
        namespaces: &Namespaces,
        watches: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Awaited {
        let mut starter = Starter {
            client,
            namespaces,
            tasks: watches,
            stop,
            awaited: Awaited::default(),
        };
        self.visit(&mut starter);
        starter.awaited
    }

    /// Waits until all kinds are served, Cluster API's too, so that the order of installation does not matter. Asked by a
    /// list of one object, for which the rights are there anyway.
    pub async fn served(&self, client: &Client, namespaces: &Namespaces) {
        loop {
            let mut asker = Asker {
                client,
                namespaces,
                answers: Vec::new(),
            };
            self.visit(&mut asker);
            let answers = futures::future::join_all(asker.answers).await;
            let Some(error) = answers.into_iter().find_map(Result::err) else {
                return;
            };
            tracing::warn!(error = %chain(&error), "waiting until the kinds of the provider and of Cluster API can be listed");
            tokio::time::sleep(KINDS_RECHECK).await;
        }
    }
}

/// Between looks for kinds that are not served yet.
const KINDS_RECHECK: Duration = Duration::from_secs(2);

/// Does something with each store.
trait Visitor {
    fn kind<K, By>(&mut self, store: &Store<K, By>)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        By: Eq + Hash + Clone + Send + Sync + 'static;
}

struct Starter<'a> {
    client: &'a Client,
    namespaces: &'a Namespaces,
    tasks: &'a mut JoinSet<()>,
    stop: &'a CancellationToken,
    awaited: Awaited,
}

impl Visitor for Starter<'_> {
    fn kind<K, By>(&mut self, store: &Store<K, By>)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        By: Eq + Hash + Clone + Send + Sync + 'static,
    {
        for api in self.namespaces.apis::<K>(self.client) {
            let follow = Follow {
                api,
                store: store.clone(),
                reduce: |_| (),
                is_optional: false,
            };
            self.awaited.expect();
            self.tasks.spawn(follow.run(self.awaited.clone(), self.stop.clone()));
        }
    }
}

struct Asker<'a> {
    client: &'a Client,
    namespaces: &'a Namespaces,
    answers: Vec<BoxFuture<'static, Result<(), kube::Error>>>,
}

impl Visitor for Asker<'_> {
    fn kind<K, By>(&mut self, _: &Store<K, By>)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        By: Eq + Hash + Clone + Send + Sync + 'static,
    {
        for api in self.namespaces.apis::<K>(self.client) {
            let first = async move {
                let answer = api.list_metadata(&ListParams::default().limit(1)).await;
                answer.map(|_| ())
            };
            self.answers.push(first.boxed());
        }
    }
}

/// The Metal3Cluster that a Cluster names.
pub fn infrastructure(cluster: &Cluster) -> Option<ObjectKey> {
    let reference = cluster.spec.infrastructure_ref.as_ref()?;
    reference
        .is_of(infra::names::GROUP, &Metal3Cluster::kind(&()))
        .then(|| ObjectKey::new(cluster.namespace().unwrap_or_default(), &reference.name))
}

/// The Cluster that an object's label names.
pub fn cluster_of(object: &impl ResourceExt) -> Option<ObjectKey> {
    let name = object.labels().get(capi::names::label::CLUSTER_NAME)?;
    (!name.is_empty()).then(|| ObjectKey::new(object.namespace().unwrap_or_default(), name))
}

/// The name of the owner of this group and kind, whatever its version. The controller flag says nothing: Cluster API sets
/// it in some cases only.
pub fn owner<'a>(object: &'a impl ResourceExt, group: &str, kind: &str) -> Option<&'a str> {
    let owners = object.owner_references().iter();
    let mut owners = owners.filter(|owner| owner.kind == kind && group_of(&owner.api_version) == group);
    owners.next().map(|owner| owner.name.as_str())
}

/// The group in a group and version.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
