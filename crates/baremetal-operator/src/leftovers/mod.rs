//! HardwareData and PreprovisioningImages in deletion whose finalizers nothing else removes.
//!
//! ```text
//!  object in deletion ─┐
//!  host ───────────────┴▶ observe ─▶ decide (pure) ─▶ its finalizers
//! ```
//!
//! A host releases these objects at the end of its own deletion. `clusterctl move`, or a person, may remove the host's
//! finalizer and so skip that. And without `--build-preprov-image` no controller discards the PreprovisioningImages that an
//! operator with that flag has built. Those of other programs are left to these.

mod decide;

use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
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
use serde_json::Value;

use self::decide::{Builder, Effect, Read};
use crate::host::context::Context;

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
pub struct Leftovers(pub Arc<Context>);

/// What a decision depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// None if there is no host of the name.
    host: Option<Arc<BareMetalHost>>,
    /// Those in deletion.
    left: Vec<(Kind, ObjectMeta)>,
    builds_ramdisks: bool,
    builder: Builder,
}

impl Leftovers {
    fn hardware(&self) -> &Store<PartialObjectMeta<HardwareData>> {
        &self.0.companions.going_hardware.0
    }

    fn ramdisks(&self) -> &Store<PartialObjectMeta<PreprovisioningImage>> {
        &self.0.companions.going_ramdisks.0
    }
}

impl Controller for Leftovers {
    const NAME: &'static str = "leftovers";
    type Observed = Observed;
    type Read = Read;
    type Effect = Effect;
    type Status = ();
    type Error = kube::Error;

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let (of_hardware, of_ramdisk) = (queue.clone(), queue.clone());
        self.hardware()
            .listen(move |change| of_hardware.push(change.key.clone()));
        self.ramdisks()
            .listen(move |change| of_ramdisk.push(change.key.clone()));
        let (left, of_host) = (self.clone(), queue.clone());
        self.0.hosts.listen(move |change: &Change<BareMetalHost>| {
            let is_left = || left.hardware().get(&change.key).is_some() || left.ramdisks().get(&change.key).is_some();
            if change.affects(|host| host.metadata.uid.clone()) && is_left() {
                of_host.push(change.key.clone());
            }
        });
        let (left, at_list) = (self.clone(), queue.clone());
        self.0.at_list(move || {
            for key in Controller::all(&left) {
                at_list.push(key);
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        [self.hardware().all(), self.ramdisks().all()].concat()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, kube::Error> {
        if !self.0.is_listed(key) {
            return Ok(None);
        }
        let hardware = self.hardware().get(key);
        let hardware = hardware.map(|object| (Kind::HardwareData, object.metadata.clone()));
        let ramdisk = self.ramdisks().get(key);
        let ramdisk = ramdisk.map(|object| (Kind::PreprovisioningImage, object.metadata.clone()));
        Ok(Some(Observed {
            host: self.0.hosts.get(key),
            left: hardware.into_iter().chain(ramdisk).collect(),
            builds_ramdisks: self.0.settings.builds_ramdisks,
            builder: Builder::NotLooked,
        }))
    }

    fn decide(seen: &Observed, _: Timestamp) -> Decision<Read, Effect, ()> {
        decide::decide(seen)
    }

    /// Stores do not keep who wrote what.
    async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), kube::Error> {
        let Read::Builder = read;
        let mut left = seen.left.iter();
        let Some((_, ramdisk)) = left.find(|(kind, _)| *kind == Kind::PreprovisioningImage) else {
            return Ok(());
        };
        let (namespace, name) = names(ramdisk);
        let api: Api<PreprovisioningImage> = Api::namespaced(self.0.kube.clone(), namespace);
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

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        let Some((kind, object)) = seen.left.iter().find(|(kind, _)| *kind == effect.kind) else {
            return Ok(());
        };
        match kind {
            Kind::HardwareData => release(&self.0, self.hardware(), object, &effect.patch).await,
            Kind::PreprovisioningImage => release(&self.0, self.ramdisks(), object, &effect.patch).await,
        }
    }

    async fn report(&self, _: &mut Observed, _: Report<()>) -> Result<(), kube::Error> {
        Ok(())
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
