//! Whether a host may be taken by whoever needs one. The same rules for machines and for HostClaims.

use kube::ResourceExt;

use super::{BareMetalHost, ProvisioningState};
use crate::infra::names::annotation::{UNHEALTHY, UNHEALTHY_OLD};
use crate::metal3::names::annotation::{DETACHED, PAUSED};
use crate::reference::ObjectReference;

/// Why nobody may take a host at the moment, whatever is required of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is being deleted.
    Deleting,
    /// Its last operation failed, of this type.
    Error(String),
    /// It is paused.
    Paused,
    /// It is detached: it cannot be provisioned.
    Detached,
    /// Remediation gave up on it.
    Unhealthy,
    /// It is in this state instead of available.
    State(ProvisioningState),
    /// It has an image that nobody who takes it has asked for.
    HasImage,
}

impl Unfit {
    /// A bounded name for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Deleting => "deleting",
            Self::Error(_) => "error",
            Self::Paused => "paused",
            Self::Detached => "detached",
            Self::Unhealthy => "unhealthy",
            Self::State(_) => "state",
            Self::HasImage => "has_image",
        }
    }
}

impl BareMetalHost {
    /// Who uses the host, of any kind. Go clients may write a missing reference as an empty one.
    pub fn consumer(&self) -> Option<&ObjectReference> {
        let reference = self.spec.consumer_ref.as_ref()?;
        (!reference.name.is_empty() || !reference.kind.is_empty()).then_some(reference)
    }

    /// Whether it is ready for an image.
    pub fn is_available(&self) -> bool {
        matches!(
            self.provisioning_state(),
            Some(ProvisioningState::Available | ProvisioningState::Ready)
        )
    }

    /// Whether it has an image. Without a consumer it is about to be provisioned with that image, and whoever took it would get it.
    pub fn has_image(&self) -> bool {
        self.spec.wanted_image().is_some() || self.spec.custom_deploy.is_some()
    }

    /// Why nobody may take it, apart from its state.
    pub fn unfit(&self) -> Option<Unfit> {
        if self.metadata.deletion_timestamp.is_some() {
            return Some(Unfit::Deleting);
        }
        let status = self.status.as_ref();
        if let Some(status) = status.filter(|status| !status.error_message.is_empty()) {
            let kind = status.error_type.as_ref().map_or("error", |kind| kind.as_str());
            return Some(Unfit::Error(kind.to_owned()));
        }
        let annotations = self.annotations();
        if annotations.contains_key(PAUSED) {
            return Some(Unfit::Paused);
        }
        if annotations.contains_key(DETACHED) {
            return Some(Unfit::Detached);
        }
        let is_unhealthy = [UNHEALTHY, UNHEALTHY_OLD]
            .into_iter()
            .any(|key| annotations.contains_key(key));
        is_unhealthy.then_some(Unfit::Unhealthy)
    }

    /// Why its state does not let anybody take it.
    pub fn unready(&self) -> Option<Unfit> {
        if !self.is_available() {
            return Some(Unfit::State(self.provisioning_state().cloned().unwrap_or_default()));
        }
        self.has_image().then_some(Unfit::HasImage)
    }

    fn provisioning_state(&self) -> Option<&ProvisioningState> {
        self.status.as_ref().map(|status| &status.provisioning.state)
    }
}
