//! The watches of claims, policies and namespaces.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use metal3_api::metal3::names::label::TAKES_SECRETS;
use metal3_api::metal3::{HostClaim, HostDeployPolicy};
use metal3_runtime::args::Namespaces;
use metal3_runtime::controller::{Controller as _, Controllers};
use metal3_runtime::metrics::ControllerMetrics;
use metal3_runtime::secrets::SecretVersions;
use metal3_runtime::store::{Awaited, Change, Follow, ObjectKey, Sink, Store};
use metal3_runtime::timing::operator::{DEBOUNCE, NET};
use metal3_runtime::work::Queue;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::Claims;
use super::apply::Writer;
use super::orphans::Orphans;
use super::policies::{Invalids, Policies};
use super::stores::{ClaimBy, HostIndex, keys_of};
use super::waiting::Waiting;
use crate::host::context::Context;

/// Concurrent passes. Each claim needs few requests; with many, claims would lose the same host to each other.
const WORKERS: u16 = 4;

/// Follows claims and what they depend on, and reconciles them until `stop`. Call it before the store of hosts is filled.
pub fn run(
    ctx: &Arc<Context>,
    is_enabled: bool,
    namespaces: &Namespaces,
    metrics: ControllerMetrics,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let queue = Queue::new();
    let (controller, invalid) = parts(ctx, is_enabled, queue.clone());
    let mut work = Controllers::new(metrics, ctx.clock.clone(), stop.clone());
    work.add_with(queue.clone(), controller.clone(), WORKERS);
    let orphans = Orphans {
        clock: ctx.clock.clone(),
        writer: controller.writer.clone(),
        hosts: controller.hosts.clone(),
    };
    let of_orphans = Queue::new();
    work.add_with(of_orphans.clone(), orphans.clone(), 1);
    let listed = Awaited::default();
    let watches = watches(&controller, namespaces, &listed, stop);
    let (ctx, stop) = (ctx.clone(), stop.clone());
    async move {
        let push = {
            let queue = queue.clone();
            move |key| queue.push_in(key, DEBOUNCE)
        };
        let secrets = controller.secrets.follow(&ctx.kube, None, stop.clone(), push);
        let invalid = invalid.report(ctx.recorder.clone());
        let work = async {
            // A host that is not known yet may belong to a claim already.
            tokio::select! {
                () = stop.cancelled() => return,
                ((), ()) = async { tokio::join!(listed.all(), ctx.all_hosts.all()) } => {}
            }
            for key in controller.all() {
                queue.push(key);
            }
            for key in orphans.all() {
                of_orphans.push(key);
            }
            work.run(NET).await;
        };
        tokio::select! {
            () = work => {}
            _ = async { tokio::join!(join_all(watches), secrets, invalid) } => {}
        }
    }
}

/// A controller with empty stores, for tests.
#[cfg(test)]
pub fn controller(ctx: &Context, is_enabled: bool, queue: Queue<ObjectKey>) -> Claims {
    parts(ctx, is_enabled, queue).0
}

/// A controller with empty stores, and the invalid policies that it will meet.
fn parts(ctx: &Context, is_enabled: bool, queue: Queue<ObjectKey>) -> (Claims, Invalids) {
    let claims = Store::new(keys_of);
    let namespaces: super::stores::Namespaces = Store::new(|_| Vec::new());
    let (policies, invalid) = {
        let (claims, queue, namespaces) = (claims.clone(), queue.clone(), namespaces.clone());
        Policies::new(ctx.metrics.claims.policies.clone(), move |change| {
            let mut known = HashMap::new();
            let mut all = claims.objects();
            all.retain(|claim: &Arc<HostClaim>| {
                let namespace = claim.namespace().unwrap_or_default();
                *known.entry(namespace.clone()).or_insert_with(|| {
                    let own = namespaces.get(&ObjectKey::new("", &namespace));
                    change.is_about(&namespace, |key| own.as_ref()?.labels().get(key).cloned())
                })
            });
            wake(&queue, &all);
        })
    };
    let (labelled, of_namespace) = (claims.clone(), queue.clone());
    namespaces.listen(move |change: &Change<PartialObjectMeta<Namespace>>| {
        if change.affects(|namespace| namespace.metadata.labels.clone()) {
            wake(&of_namespace, &labelled.find(&ClaimBy(change.key.name.clone())));
        }
        if change.affects(|namespace| namespace.labels().contains_key(TAKES_SECRETS)) {
            // Also those with hosts there, whose Secrets are copied from now on.
            for key in labelled.all() {
                of_namespace.push_in(key, DEBOUNCE);
            }
        }
    });
    let controller = Claims {
        clock: ctx.clock.clone(),
        is_enabled,
        writer: Writer {
            client: ctx.kube.clone(),
            claims,
            hosts: ctx.hosts.clone(),
            recorder: ctx.recorder.clone(),
            settings: ctx.settings.clone(),
        },
        hosts: HostIndex::new(ctx.hosts.clone(), is_enabled),
        policies,
        namespaces,
        secrets: SecretVersions::default(),
        copied: Arc::default(),
        refused: Arc::default(),
        reserved: Arc::default(),
        waiting: Waiting::default(),
        metrics: ctx.metrics.claims.clone(),
        queue,
    };
    (controller, invalid)
}

/// The watches, and what they fill. Without `--hostclaims` only claims are watched.
fn watches(
    controller: &Claims,
    namespaces: &Namespaces,
    listed: &Awaited,
    stop: &CancellationToken,
) -> Vec<BoxFuture<'static, ()>> {
    let client = &controller.writer.client;
    let mut watches = follow(
        namespaces.apis::<HostClaim>(client),
        &controller.writer.claims,
        listed,
        stop,
    );
    if controller.is_enabled {
        let policies = namespaces.apis::<HostDeployPolicy>(client);
        watches.extend(follow(policies, &controller.policies, listed, stop));
        let labels = vec![Api::<PartialObjectMeta<Namespace>>::all(client.clone())];
        watches.extend(follow(labels, &controller.namespaces, listed, stop));
    }
    watches
}

fn follow<K, S>(apis: Vec<Api<K>>, store: &S, listed: &Awaited, stop: &CancellationToken) -> Vec<BoxFuture<'static, ()>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K> + Clone + Send + Sync + 'static,
{
    let each = apis.into_iter().map(|api| {
        listed.expect();
        let follow = Follow {
            api,
            store: store.clone(),
            config: watcher::Config::default(),
            is_optional: true,
        };
        follow.run(listed.clone(), stop.clone()).boxed()
    });
    each.collect()
}

/// Wakes those of these claims that have no host.
fn wake(queue: &Queue<ObjectKey>, claims: &[Arc<HostClaim>]) {
    let bound = |claim: &HostClaim| {
        claim
            .status
            .as_ref()
            .is_some_and(|status| status.bare_metal_host.is_some())
    };
    for claim in claims.iter().filter(|claim| !bound(claim)) {
        let key = ObjectKey::new(claim.namespace().unwrap_or_default(), claim.name_any());
        queue.push_in(key, DEBOUNCE);
    }
}
