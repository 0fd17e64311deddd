//! The watches that fill the stores.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use metal3_runtime::args::Namespaces;
use metal3_runtime::by_namespace::Needed;
use metal3_runtime::error::is_forbidden;
use metal3_runtime::probes::Check;
use metal3_runtime::served;
use metal3_runtime::store::{Awaited, Follow, Store};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Stores;
use super::data::SECRET_TYPE;

impl Stores {
    /// Shows every store to `visitor`.
    fn visit(&self, visitor: &mut impl Visitor) {
        visitor.kind(&self.clusters);
        visitor.kind(&self.machines);
        visitor.kind(&self.machine_sets);
        visitor.kind(&self.metal3_clusters);
        visitor.kind(&self.metal3_machines);
        visitor.kind(&self.templates);
        visitor.kind(&self.hosts);
        visitor.kind(&self.data_templates);
        visitor.kind(&self.data_claims);
        visitor.kind(&self.datas);
        visitor.kind(&self.remediations);
        // Whoever uses no pools of a kind need not install it.
        visitor.watched(&self.ip_claims, watcher::Config::default(), true);
        visitor.watched(&self.ip_address_claims, watcher::Config::default(), true);
    }

    /// Starts the watches. They end with `stop`. What is returned says when all have shown what there is.
    pub fn follow(
        &self,
        client: &Client,
        namespaces: &Namespaces,
        watches: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Awaited {
        let needed = self.namespaces_of_data();
        let mut starter = Starter {
            client,
            namespaces,
            tasks: watches,
            stop,
            awaited: Awaited::default(),
        };
        self.visit(&mut starter);
        let (objects, all) = (starter.awaited, Awaited::default());
        all.expect();
        let (stores, client, listed, stop) = (self.clone(), client.clone(), all.clone(), stop.clone());
        watches.spawn(async move {
            tokio::select! {
                () = objects.all() => {}
                () = stop.cancelled() => return,
            }
            stores.follow_rendered(client, needed, listed, stop).await;
        });
        all
    }

    /// Where there are Metal3Datas, from now on.
    fn namespaces_of_data(&self) -> Needed {
        let needed = Needed::default();
        let count = needed.clone();
        self.datas.listen(move |change| match (&change.before, &change.after) {
            (None, Some(_)) => count.add(&change.key.namespace),
            (Some(_), None) => count.remove(&change.key.namespace),
            _ => {}
        });
        needed
    }

    /// Follows the rendered Secrets of each namespace with Metal3Datas. Says to `all` when those of the namespaces that have
    /// data at the start are known, or are known to be forbidden: one namespace without rights holds up no other.
    async fn follow_rendered(self, client: Client, needed: Needed, all: Awaited, stop: CancellationToken) {
        let first = Awaited::default();
        let present = needed.now();
        for namespace in &present {
            // Until it is listed.
            needed.add(namespace);
            first.expect();
        }
        let mut unlisted = present.clone();
        let follow = |namespace: String, stop: CancellationToken| {
            let follow = Follow {
                api: Api::namespaced(client.clone(), &namespace),
                store: self.secrets.clone(),
                config: watcher::Config::default().fields(&format!("type={SECRET_TYPE}")),
                is_optional: false,
            };
            let (mut is_awaited, first) = (unlisted.remove(&namespace), first.clone());
            let heard = move |heard: Result<(), &watcher::Error>| {
                let is_known = match heard {
                    Ok(()) => true,
                    Err(watcher::Error::InitialListFailed(why)) => is_forbidden(why),
                    Err(_) => false,
                };
                if is_known && std::mem::take(&mut is_awaited) {
                    first.arrived();
                }
            };
            let own = Awaited::default();
            own.expect();
            let (stores, of) = (self.clone(), namespace.clone());
            let names = move || stores.names_of_rendered(&of);
            follow.run_or_read(names, own, stop, heard)
        };
        let listed = async {
            first.all().await;
            for namespace in &present {
                needed.remove(namespace);
            }
            all.arrived();
        };
        tokio::join!(needed.run(None, stop, follow), listed);
    }

    /// The names of the Secrets that the Metal3Datas of a namespace have, and of those that were made for others there.
    fn names_of_rendered(&self, namespace: &str) -> Vec<String> {
        let datas = self.datas.objects();
        let datas = datas
            .iter()
            .filter(|data| data.namespace().as_deref() == Some(namespace));
        let references = datas.flat_map(|data| [&data.spec.meta_data, &data.spec.network_data]);
        let wanted = references.flatten().map(|secret| secret.name.clone());
        let known = self.secrets.all().into_iter().filter(|key| key.namespace == namespace);
        let names: BTreeSet<String> = wanted.chain(known.map(|key| key.name)).collect();
        names.into_iter().collect()
    }

    /// Waits until all kinds are served, Cluster API's too.
    pub async fn served(&self, client: &Client, namespaces: &Namespaces, check: &Check) {
        let ask = || {
            let mut asker = Asker {
                client,
                namespaces,
                answers: Vec::new(),
            };
            self.visit(&mut asker);
            join_all(asker.answers)
        };
        served::all(check, ask).await;
    }
}

/// What a watch can fill a store with.
trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K> Watched for K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
}

/// What the objects of a store can be found by.
trait Key: Eq + Hash + Clone + Send + Sync + 'static {}

impl<By: Eq + Hash + Clone + Send + Sync + 'static> Key for By {}

/// Does something with each store.
trait Visitor {
    /// One whose kind must be there, with all its objects.
    fn kind<K: Watched, By: Key>(&mut self, store: &Store<K, By>) {
        self.watched(store, watcher::Config::default(), false);
    }

    fn watched<K: Watched, By: Key>(&mut self, store: &Store<K, By>, config: watcher::Config, is_optional: bool);
}

struct Starter<'a> {
    client: &'a Client,
    namespaces: &'a Namespaces,
    tasks: &'a mut JoinSet<()>,
    stop: &'a CancellationToken,
    awaited: Awaited,
}

impl Visitor for Starter<'_> {
    fn watched<K: Watched, By: Key>(&mut self, store: &Store<K, By>, config: watcher::Config, is_optional: bool) {
        for api in self.namespaces.apis::<K>(self.client) {
            let follow = Follow {
                api,
                store: store.clone(),
                config: config.clone(),
                is_optional,
            };
            self.awaited.expect();
            self.tasks.spawn(follow.run(self.awaited.clone(), self.stop.clone()));
        }
    }
}

struct Asker<'a> {
    client: &'a Client,
    namespaces: &'a Namespaces,
    answers: Vec<BoxFuture<'static, Result<(), String>>>,
}

impl Visitor for Asker<'_> {
    fn watched<K: Watched, By: Key>(&mut self, _: &Store<K, By>, _: watcher::Config, is_optional: bool) {
        if !is_optional {
            self.answers
                .push(served::one(self.namespaces.apis::<K>(self.client)).boxed());
        }
    }
}
