//! DataImages: what keeps one until its disc is out of the drive.
//!
//! ```text
//!  DataImage ─┐
//!  host ──────┴▶ observe ─▶ decide (pure) ─▶ finalizer and owner: while its host exists and may have the disc;
//!                                            a note on the host of a disc that is left in its drive;
//!                                            the status of an object that was moved here without it;
//!                                            what a disc waits for that its host has not begun to attach
//!
//!  the host's own passes (host/decide/data_image.rs) attach and detach, and record it in the DataImage
//! ```
//!
//! This controller changes nothing in Ironic, and asks it only about a deleted DataImage whose disc is recorded as
//! attached.

mod decide;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use metal3_api::metal3::{BareMetalHost, DataImage};
use metal3_ironic::{ErrorClass, on_behalf_of};
use metal3_runtime::controller::{Controller, Report};
use metal3_runtime::error::{Class, Classified, chain, is_not_found};
use metal3_runtime::events::Event;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use metal3_runtime::{Clock, status};
use serde_json::Value;

use self::decide::{Decision, Effect, Read, Status};
use crate::host::ObserveError;
use crate::host::context::Context;
use crate::host::text::for_tenant;
use crate::host::{OwnNode, annotations, attached, cached, is_paused, read_own_node};
use crate::live::{self, Live};

/// The controller. Its keys are those of DataImages, which are their hosts' as well.
#[derive(Clone)]
pub struct DataImages(Arc<Context>, Arc<AtomicBool>);

impl DataImages {
    /// Of the operator's objects.
    pub fn new(ctx: Arc<Context>) -> Self {
        Self(ctx, Arc::new(AtomicBool::new(true)))
    }
}

/// What a decision depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    image: Arc<DataImage>,
    /// None if the store has no host of its name.
    host: Option<Arc<BareMetalHost>>,
    /// Of a host that the store does not have; none until it is read.
    live: Option<Live>,
    drive: Drive,
    /// Whether the API server stores conditions. With upstream's definition of the kind it drops them.
    keeps_conditions: bool,
}

/// The host's virtual drive.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Drive {
    NotLooked,
    /// Ironic has no node for the host.
    NoNode,
    /// Ironic was not asked: the text says why the node is not proven to be the host's.
    Unproven(String),
    /// Ironic works on the node, perhaps on its drive: what is in it now says nothing of what will be.
    Busy,
    Empty,
    Full,
}

impl DataImages {
    async fn note(&self, seen: &Observed, namespace: &str, note: &Value) -> Result<(), ObserveError> {
        let api: Api<BareMetalHost> = Api::namespaced(self.0.kube.clone(), namespace);
        let name = seen.image.name_any();
        let mut host = api.patch(&name, &PatchParams::default(), &Patch::Merge(note)).await?;
        cached::trim(&mut host);
        self.0.hosts.written(host);
        Ok(())
    }
}

impl Controller for DataImages {
    const NAME: &'static str = "dataimage";
    type Observed = Observed;
    type Read = Read;
    type Effect = Effect;
    type Status = Status;
    type Error = ObserveError;

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let images = &self.0.companions.data_images;
        let of_image = queue.clone();
        images.listen(move |change| {
            if change.affects(|image| (image.metadata.clone(), image.status.clone())) {
                of_image.push(change.key.clone());
            }
        });
        let (images, of_host) = (self.0.companions.data_images.clone(), queue.clone());
        self.0.hosts.listen(move |change| {
            if change.affects(read_of_host) && images.get(&change.key).is_some() {
                of_host.push(change.key.clone());
            }
        });
        let (controller, at_list) = (self.clone(), queue.clone());
        self.0.at_list(move || {
            for key in Controller::all(&controller) {
                at_list.push(key);
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.0.companions.data_images.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, ObserveError> {
        if !self.0.is_listed(key) {
            return Ok(None);
        }
        let host = self.0.hosts.get(key);
        Ok(self.0.companions.data_images.get(key).map(|image| Observed {
            image,
            host,
            live: None,
            drive: Drive::NotLooked,
            keeps_conditions: self.1.load(Ordering::Relaxed),
        }))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision {
        decide::decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), ObserveError> {
        if read == Read::Host {
            seen.live = Some(live::host(&self.0.kube, &ObjectKey::of(&*seen.image)).await);
            return Ok(());
        }
        let node = match seen.host.as_deref() {
            Some(host) => read_own_node(&self.0, host).await?,
            None => OwnNode::None,
        };
        let node = match node {
            OwnNode::Own(node) => node,
            OwnNode::None => {
                seen.drive = Drive::NoNode;
                return Ok(());
            }
            OwnNode::Unproven(why) => {
                seen.drive = Drive::Unproven(why);
                return Ok(());
            }
        };
        let client = self.0.ironic.client()?;
        let namespace = seen.image.namespace().unwrap_or_default();
        let live = on_behalf_of(&namespace, client.node(&node)).await?;
        if live.is_some_and(|node| node.reservation.is_some()) {
            seen.drive = Drive::Busy;
            return Ok(());
        }
        seen.drive = match on_behalf_of(&namespace, client.virtual_media(&node)).await {
            Ok(drives) if drives.iter().any(|drive| drive.is_disc_drive() && drive.inserted) => Drive::Full,
            Ok(_) => Drive::Empty,
            Err(error) if error.class() == ErrorClass::NotFound => Drive::NoNode,
            Err(error) => return Err(error.into()),
        };
        Ok(())
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), ObserveError> {
        let namespace = seen.image.namespace().unwrap_or_default();
        let name = seen.image.name_any();
        let written = match effect {
            Effect::Note(note) => return self.note(seen, &namespace, note).await,
            Effect::Patch(patch) => {
                let api: Api<DataImage> = Api::namespaced(self.0.kube.clone(), &namespace);
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await
            }
            Effect::Restore(status) => status::replace(&self.0.kube, &*seen.image, (**status).clone()).await,
        };
        match written {
            Ok(written) => self.0.companions.data_images.written(written),
            // The watch will show it.
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error.into()),
        }
        tracing::info!(%namespace, name, "finalizer, owner and record of a DataImage are as they should be");
        Ok(())
    }

    async fn report(&self, seen: &mut Observed, report: Report<Status>) -> Result<(), ObserveError> {
        if let Some(status) = report.status {
            match status::replace(&self.0.kube, &*seen.image, *status).await {
                Ok(written) => {
                    let is_kept = attached::has_condition(&written);
                    self.0.companions.data_images.written(written);
                    if !is_kept {
                        self.1.store(false, Ordering::Relaxed);
                        return Ok(());
                    }
                }
                // The watch will show it.
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        let regarding = seen.image.object_ref(&());
        for event in &report.events {
            self.0.recorder.publish(&regarding, None, event).await;
        }
        Ok(())
    }

    fn refused(&self, seen: &Observed, error: &ObserveError) -> Report<Status> {
        if !error.is_of_ironic() || matches!(error.class(), Class::Throttled(_)) {
            return Report::default();
        }
        let key = ObjectKey::of(&*seen.image);
        let message = format!(
            "it is not known whether the disc is out of the drive of BareMetalHost {key}: {}",
            for_tenant(&chain(error).to_string(), &key.namespace)
        );
        Report {
            status: None,
            events: vec![Event::warning("DataImageError", message)],
        }
    }
}

/// What a decision reads of the host.
fn read_of_host(host: &BareMetalHost) -> impl PartialEq + use<> {
    let provisioning = host.status.as_ref().map(|status| &status.provisioning);
    (
        host.metadata.uid.clone(),
        host.metadata.deletion_timestamp.is_some(),
        is_paused(host),
        annotations::detached(host).is_some(),
        provisioning.map(|provisioning| (provisioning.state.clone(), provisioning.id.clone())),
        attached::read_of(host),
    )
}
