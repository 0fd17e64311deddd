//! PreprovisioningImages: the operator's own answer to them, with `--build-preprov-image` and a configured ramdisk.
//!
//! ```text
//!  host's controller ─▶ PreprovisioningImage ─▶ observe ─▶ decide (pure) ─▶ finalizer, and the ramdisk in the status
//!                                Secret with network data ──┘
//! ```
//!
//! Nothing is built: the status names the ramdisk of the DEPLOY_* settings. Without such settings this controller does not
//! run, and another program reports the ramdisks that it builds.

mod decide;
mod images;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use metal3_api::metal3::{PreprovisioningImage, PreprovisioningImageStatus};
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Decision, Report};
use metal3_runtime::error::is_not_found;
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::patch::status_changed;
use metal3_runtime::secrets::{Known, SecretKey, SecretVersions};
use metal3_runtime::store::{ObjectKey, Store};
use metal3_runtime::work::Queue;
use tokio_util::sync::CancellationToken;

use self::decide::{Effect, Read};
pub use self::images::Images;

const REPORTER: Reporter = Reporter {
    component: "metal3-preprovisioningimage-controller",
    controller: "metal3.io/preprovisioningimage-controller",
};

/// The controller. Its keys are those of PreprovisioningImages, which are their hosts' as well.
#[derive(Clone)]
pub struct Ramdisks {
    kube: Client,
    clock: Clock,
    recorder: Recorder,
    images: Arc<Images>,
    /// Filled by the watch that wakes hosts.
    pub objects: Store<PreprovisioningImage>,
    /// The Secrets with network data.
    secrets: SecretVersions<ObjectKey>,
    queue: Queue<ObjectKey>,
}

/// What a decision depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    image: Arc<PreprovisioningImage>,
    images: Arc<Images>,
    network_data: NetworkData,
}

/// The Secret with network data.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NetworkData {
    /// None is asked for.
    None,
    NotLooked,
    Missing,
    Found {
        version: String,
    },
}

impl Ramdisks {
    /// A controller that knows no object yet.
    pub fn new(kube: Client, clock: Clock, recorder: &Recorder, images: Images) -> Self {
        Self {
            kube,
            clock,
            recorder: recorder.of(REPORTER),
            images: Arc::new(images),
            objects: Store::new(|_| Vec::new()),
            secrets: SecretVersions::default(),
            queue: Queue::new(),
        }
    }

    /// Its queue.
    pub fn queue(&self) -> Queue<ObjectKey> {
        self.queue.clone()
    }

    /// Watches the Secrets with network data.
    pub async fn watch_secrets(&self, namespace: Option<&str>, stop: &CancellationToken) {
        let queue = self.queue.clone();
        let wake = move |image| queue.push(image);
        self.secrets.follow(&self.kube, namespace, stop.clone(), wake).await;
    }

    fn api(&self, image: &PreprovisioningImage) -> Api<PreprovisioningImage> {
        Api::namespaced(self.kube.clone(), &image.namespace().unwrap_or_default())
    }

    /// Takes the answer to a write. The watch will show that an object is gone.
    fn took(&self, seen: &mut Observed, written: Result<PreprovisioningImage, kube::Error>) -> Result<(), kube::Error> {
        match written {
            Ok(written) => {
                self.objects.written(written.clone());
                seen.image = Arc::new(written);
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The Secret that an image names.
fn secret_of(image: &PreprovisioningImage) -> Option<SecretKey> {
    let name = image.spec.network_data_name.clone();
    let namespace = image.namespace().unwrap_or_default();
    (!name.is_empty()).then_some(SecretKey { namespace, name })
}

fn version_of(secret: &ObjectMeta) -> String {
    secret.resource_version.clone().unwrap_or_default()
}

impl Controller for Ramdisks {
    const NAME: &'static str = "preprovisioningimage";
    type Observed = Observed;
    type Read = Read;
    type Effect = Effect;
    type Status = PreprovisioningImageStatus;
    type Error = kube::Error;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let queue = queue.clone();
        self.objects.listen(move |change| queue.push(change.key.clone()));
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.objects.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, kube::Error> {
        let Some(image) = self.objects.get(key) else {
            self.secrets.remove_owner(key);
            return Ok(None);
        };
        let secret = secret_of(&image);
        self.secrets.set_references(key.clone(), secret.clone());
        let network_data = match secret.map(|secret| self.secrets.get(&secret)) {
            None => NetworkData::None,
            Some(Known::Unknown) => NetworkData::NotLooked,
            Some(Known::Absent) => NetworkData::Missing,
            Some(Known::Present(found)) => NetworkData::Found {
                version: found.resource_version.clone().unwrap_or_default(),
            },
        };
        Ok(Some(Observed {
            image,
            images: self.images.clone(),
            network_data,
        }))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision<Read, Effect, PreprovisioningImageStatus> {
        decide::decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), kube::Error> {
        let Read::NetworkData = read;
        let Some(key) = secret_of(&seen.image) else {
            seen.network_data = NetworkData::None;
            return Ok(());
        };
        let api: Api<Secret> = Api::namespaced(self.kube.clone(), &key.namespace);
        let found = match api.get_metadata(&key.name).await {
            Ok(secret) => Some(secret.metadata),
            Err(error) if is_not_found(&error) => None,
            Err(error) => return Err(error),
        };
        self.secrets.learn(&key, found.as_ref());
        seen.network_data = found.map_or(NetworkData::Missing, |secret| NetworkData::Found {
            version: version_of(&secret),
        });
        Ok(())
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        let Effect::Patch(patch) = effect;
        let params = PatchParams::default();
        let written = self
            .api(&seen.image)
            .patch(&seen.image.name_any(), &params, &Patch::Merge(patch))
            .await;
        self.took(seen, written)
    }

    async fn report(&self, seen: &mut Observed, report: Report<PreprovisioningImageStatus>) -> Result<(), kube::Error> {
        let image = seen.image.clone();
        if let Some(status) = report.status {
            let patch = status_changed(&image.metadata, image.status.as_ref(), &status);
            if let Some(patch) = patch.map_err(kube::Error::SerdeError)? {
                let params = PatchParams::default();
                let api = self.api(&image);
                let patch = Patch::<()>::Json(patch);
                let written = api.patch_status(&image.name_any(), &params, &patch).await;
                self.took(seen, written)?;
                tracing::info!(image = %ObjectKey::of(&*image), "the ramdisk of a host is reported");
            }
        }
        for event in &report.events {
            self.recorder.publish(&image.object_ref(&()), None, event).await;
        }
        Ok(())
    }
}
