//! HardwareData and PreprovisioningImages in deletion whose finalizers nothing else removes.
//!
//! ```text
//!  object in deletion ─┐
//!  host ───────────────┴▶ observe ─▶ decide (pure) ─▶ its finalizers; an event that names the host which needs it
//! ```
//!
//! A host releases these objects at the end of its own deletion. `clusterctl move`, or a person, may remove the host's
//! finalizer and so skip that. And without `--build-preprov-image` no controller discards the PreprovisioningImages that an
//! operator with that flag has built. Those of other programs are left to these.
//!
//! The store has no host that cannot be read. That a host is gone is read from the API server.

mod decide;

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Api, Resource};
use metal3_api::metal3::names::finalizer::PREPROVISIONING_IMAGE;
use metal3_api::metal3::{BareMetalHost, HardwareData, PreprovisioningImage};
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Decision, Report};
use metal3_runtime::error::is_not_found;
use metal3_runtime::store::{Change, ObjectKey, Store};
use metal3_runtime::work::Queue;
use parking_lot::Mutex;
use serde_json::Value;

use self::decide::{Builder, Effect, Held, Read};
use crate::host::context::Context;
use crate::live::{self, Live};

/// A kind of object that a host may leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The hardware that was found.
    HardwareData,
    /// The ramdisk.
    PreprovisioningImage,
}

/// The controller. Its keys are those of the objects, which are their hosts' as well.
#[derive(Clone)]
pub struct Leftovers {
    ctx: Arc<Context>,
    /// The UIDs of the objects that were told to be held.
    told: Arc<Mutex<HashSet<String>>>,
}

/// What a decision depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    key: ObjectKey,
    /// None if the store has no host of the name.
    host: Option<Arc<BareMetalHost>>,
    /// Of a host that the store does not have; none until it is read.
    live: Option<Live>,
    /// Those in deletion.
    left: Vec<(Kind, ObjectMeta)>,
    builds_ramdisks: bool,
    builder: Builder,
    /// The UIDs of those that were told to be held.
    told: HashSet<String>,
}

impl Leftovers {
    /// A controller that has told nothing yet.
    pub fn new(ctx: Arc<Context>) -> Self {
        let told = Arc::default();
        Self { ctx, told }
    }

    fn hardware(&self) -> &Store<PartialObjectMeta<HardwareData>> {
        &self.ctx.companions.going_hardware.0
    }

    fn ramdisks(&self) -> &Store<PartialObjectMeta<PreprovisioningImage>> {
        &self.ctx.companions.going_ramdisks.0
    }
}

impl Leftovers {
    /// Stores do not keep who wrote what.
    async fn read_builder(&self, seen: &mut Observed) -> Result<(), kube::Error> {
        let mut left = seen.left.iter();
        let Some((_, ramdisk)) = left.find(|(kind, _)| *kind == Kind::PreprovisioningImage) else {
            return Ok(());
        };
        let (namespace, name) = names(ramdisk);
        let api: Api<PreprovisioningImage> = Api::namespaced(self.ctx.kube.clone(), namespace);
        seen.builder = match api.get_metadata(name).await {
            Ok(found) => decide::builder_of(&found.metadata),
            Err(error) if is_not_found(&error) => Builder::Other,
            Err(error) => return Err(error),
        };
        if seen.builder == Builder::Other {
            let finalizer = PREPROVISIONING_IMAGE;
            tracing::info!(
                namespace,
                name,
                finalizer,
                "a PreprovisioningImage in deletion stays until the program that set the finalizer removes it"
            );
        }
        Ok(())
    }
}

impl Controller for Leftovers {
    const NAME: &'static str = "leftovers";
    type Observed = Observed;
    type Read = Read;
    type Effect = Effect;
    type Status = Vec<Held>;
    type Error = kube::Error;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let (of_hardware, of_ramdisk) = (queue.clone(), queue.clone());
        let (told_hardware, told_ramdisks) = (self.told.clone(), self.told.clone());
        self.hardware().listen(move |change| {
            forget(&told_hardware, change);
            of_hardware.push(change.key.clone());
        });
        self.ramdisks().listen(move |change| {
            forget(&told_ramdisks, change);
            of_ramdisk.push(change.key.clone());
        });
        let (left, of_host) = (self.clone(), queue.clone());
        self.ctx.hosts.listen(move |change: &Change<BareMetalHost>| {
            let is_left = || left.hardware().get(&change.key).is_some() || left.ramdisks().get(&change.key).is_some();
            if change.affects(|host| host.metadata.uid.clone()) && is_left() {
                of_host.push(change.key.clone());
            }
        });
        let (left, at_list) = (self.clone(), queue.clone());
        self.ctx.at_list(move || {
            for key in Controller::all(&left) {
                at_list.push(key);
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        [self.hardware().all(), self.ramdisks().all()].concat()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, kube::Error> {
        if !self.ctx.is_listed(key) {
            return Ok(None);
        }
        let hardware = self.hardware().get(key);
        let hardware = hardware.map(|object| (Kind::HardwareData, object.metadata.clone()));
        let ramdisk = self.ramdisks().get(key);
        let ramdisk = ramdisk.map(|object| (Kind::PreprovisioningImage, object.metadata.clone()));
        let left: Vec<_> = hardware.into_iter().chain(ramdisk).collect();
        let told = self.told.lock();
        let uids = left.iter().filter_map(|(_, object)| object.uid.clone());
        Ok(Some(Observed {
            told: uids.filter(|uid| told.contains(uid)).collect(),
            key: key.clone(),
            host: self.ctx.hosts.get(key),
            live: None,
            left,
            builds_ramdisks: self.ctx.settings.builds_ramdisks,
            builder: Builder::NotLooked,
        }))
    }

    fn decide(seen: &Observed, _: Timestamp) -> Decision<Read, Effect, Vec<Held>> {
        decide::decide(seen)
    }

    async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), kube::Error> {
        match read {
            Read::Builder => self.read_builder(seen).await,
            Read::Host => {
                seen.live = Some(live::host(&self.ctx.kube, &seen.key).await);
                Ok(())
            }
        }
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        let Some((kind, object)) = seen.left.iter().find(|(kind, _)| *kind == effect.kind) else {
            return Ok(());
        };
        match kind {
            Kind::HardwareData => release(&self.ctx, self.hardware(), object, &effect.patch).await,
            Kind::PreprovisioningImage => release(&self.ctx, self.ramdisks(), object, &effect.patch).await,
        }
    }

    async fn report(&self, seen: &mut Observed, report: Report<Vec<Held>>) -> Result<(), kube::Error> {
        for held in report.status.iter().flatten() {
            let Some((kind, object)) = seen.left.iter().find(|(kind, _)| *kind == held.kind) else {
                continue;
            };
            self.ctx
                .recorder
                .publish(&reference(*kind, object), None, &held.event)
                .await;
            self.told.lock().extend(object.uid.clone());
        }
        Ok(())
    }
}

/// Drops what was told of an object that is gone.
fn forget<K>(told: &Mutex<HashSet<String>>, change: &Change<PartialObjectMeta<K>>)
where
    K: Resource<DynamicType = ()>,
{
    let uid = |object: &Arc<PartialObjectMeta<K>>| object.metadata.uid.clone();
    let (before, after) = (
        change.before.as_ref().and_then(uid),
        change.after.as_ref().and_then(uid),
    );
    if let Some(gone) = before.filter(|before| Some(before) != after.as_ref()) {
        told.lock().remove(&gone);
    }
}

fn reference(kind: Kind, object: &ObjectMeta) -> ObjectReference {
    let (api_version, kind) = match kind {
        Kind::HardwareData => (HardwareData::api_version(&()), HardwareData::kind(&())),
        Kind::PreprovisioningImage => (PreprovisioningImage::api_version(&()), PreprovisioningImage::kind(&())),
    };
    ObjectReference {
        api_version: Some(api_version.into_owned()),
        kind: Some(kind.into_owned()),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        uid: object.uid.clone(),
        ..ObjectReference::default()
    }
}

fn names(object: &ObjectMeta) -> (&str, &str) {
    let [namespace, name] = [&object.namespace, &object.name].map(|name| name.as_deref().unwrap_or_default());
    (namespace, name)
}

async fn release<K>(
    ctx: &Context,
    store: &Store<PartialObjectMeta<K>>,
    object: &ObjectMeta,
    patch: &Value,
) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: Clone + Debug + serde::de::DeserializeOwned,
{
    let (namespace, name) = names(object);
    let api: Api<K> = Api::namespaced(ctx.kube.clone(), namespace);
    match api
        .patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Ok(written) => store.written(written),
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    let kind = K::kind(&());
    tracing::info!(%kind, namespace, name, "an object in deletion whose host did not release it is released");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use metal3_api::metal3::names::finalizer::HARDWARE_DATA;
    use metal3_runtime::controller::{Next, Reconcile};
    use metal3_runtime::store::Sink as _;
    use metal3_runtime::timing::operator::RELEASE;
    use metal3_testkit::played::{self, Request};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::host::context::out_of_reach;

    // OWN 31re: a host that could not be read when the leader started counted as gone, and its HardwareData was released.
    #[tokio::test]
    async fn a_host_is_gone_when_the_api_server_says_so() {
        let owner = json!([{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "h", "uid": "u"}]);
        let hardware = json!({"metadata": {"name": "h", "namespace": "n", "uid": "d", "resourceVersion": "7",
            "ownerReferences": owner, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [HARDWARE_DATA]}});
        let host = json!({"metadata": {"name": "h", "namespace": "n", "uid": "u"}});
        let missing = |name: &str| {
            let (code, mut status) = played::failure(404, "NotFound");
            status["details"]["name"] = json!(name);
            (code, status)
        };
        for (answer, is_released) in [
            ((200, host), false),
            (played::failure(503, "ServiceUnavailable"), false),
            (missing(""), false),
            (missing("h"), true),
        ] {
            let words = answer.1.to_string();
            let (log, stored) = (Arc::new(Mutex::new(Vec::new())), hardware.clone());
            let asked = log.clone();
            let (mut ctx, _) = out_of_reach(1);
            ctx.kube = played::client("n", move |request: Request| {
                let is_read = request.method == "GET";
                asked
                    .lock()
                    .push(format!("{} {}", request.method, request.below_namespace()));
                ready(if is_read { answer.clone() } else { (200, stored.clone()) })
            });
            let left = Leftovers::new(Arc::new(ctx));
            left.ctx.hosts_listed(None);
            left.hardware().put(serde_json::from_value(hardware.clone()).unwrap());
            let next = left.reconcile(&ObjectKey::new("n", "h")).await.unwrap();
            let read = ["GET baremetalhosts/h", "PATCH hardwaredata/h"];
            let asked = &read[..if is_released { 2 } else { 1 }];
            assert_eq!(*log.lock(), asked, "{words}");
            let wait = if is_released {
                Next::Change
            } else {
                Next::After(RELEASE)
            };
            assert_eq!(next, wait, "{words}");
        }
    }
}
