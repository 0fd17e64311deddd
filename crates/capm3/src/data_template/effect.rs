//! Writes that can be decided on.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3DataTemplateStatus};

use super::news::Focus;
use super::observed::Observed;

/// A write. Each may be repeated, and each may be the last one before the process dies.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// From now on we are asked before the template goes.
    HoldTemplate(Arc<Metal3DataTemplate>),
    /// The template may go.
    ReleaseTemplate(Arc<Metal3DataTemplate>),
    /// Says which indexes are in use.
    Report(Arc<Metal3DataTemplate>, Metal3DataTemplateStatus),
    /// Asks the API server for the Metal3Datas of the namespace: what the store shows could be late.
    Look,
    /// From now on we are asked before the claim goes. Only then is anything made for it.
    HoldClaim(Arc<Metal3DataClaim>),
    /// The claim may go.
    ReleaseClaim(Arc<Metal3DataClaim>),
    /// Makes a Metal3Data. Its name is the lock on the index: who comes second looks at what is there.
    Create {
        /// For whom.
        claim: Arc<Metal3DataClaim>,
        /// From what.
        template: Arc<Metal3DataTemplate>,
        /// With which index.
        index: i32,
    },
    /// Answers the claim with the Metal3Data of this name, unless somebody else has written to the claim: this is the lock on
    /// the claim.
    Announce(Arc<Metal3DataClaim>, String),
    /// Says on the claim why it is not answered.
    Explain(Arc<Metal3DataClaim>, String),
    /// Deletes a Metal3Data whose claim is being deleted.
    Delete(Arc<Metal3Data>),
    /// Lets a Metal3Data go that is being deleted.
    Unlock(Arc<Metal3Data>),
    /// Deletes and unlocks a Metal3Data that nobody uses, as long as a look at its claim shows the same.
    Discard(Arc<Metal3Data>),
}

/// The object that a write is about: what it is, and its name.
pub type Subject = (&'static str, String);

impl Effect {
    /// The object that it is about: nothing more is done for it in a pass in which a write for it failed.
    pub fn subject(&self) -> Subject {
        match self {
            Self::HoldTemplate(template) | Self::ReleaseTemplate(template) | Self::Report(template, _) => {
                ("template", template.name_any())
            }
            Self::Look => ("namespace", String::new()),
            Self::HoldClaim(claim)
            | Self::ReleaseClaim(claim)
            | Self::Create { claim, .. }
            | Self::Announce(claim, _)
            | Self::Explain(claim, _) => ("claim", claim.name_any()),
            Self::Delete(data) | Self::Unlock(data) | Self::Discard(data) => ("data", data.name_any()),
        }
    }

    /// The same for events.
    pub fn regarding(&self) -> ObjectReference {
        match self {
            Self::HoldTemplate(template) | Self::ReleaseTemplate(template) | Self::Report(template, _) => {
                template.object_ref(&())
            }
            Self::Look => ObjectReference::default(),
            Self::HoldClaim(claim)
            | Self::ReleaseClaim(claim)
            | Self::Create { claim, .. }
            | Self::Announce(claim, _)
            | Self::Explain(claim, _) => claim.object_ref(&()),
            Self::Delete(data) | Self::Unlock(data) | Self::Discard(data) => data.object_ref(&()),
        }
    }

    /// The claim that is not answered, or not let go, if this write is refused.
    pub fn claim(&self) -> Option<&Arc<Metal3DataClaim>> {
        match self {
            Self::HoldClaim(claim) | Self::ReleaseClaim(claim) | Self::Create { claim, .. } => Some(claim),
            // These would be told by the very write that is refused, or are no claim's.
            Self::Announce(..)
            | Self::Explain(..)
            | Self::HoldTemplate(_)
            | Self::ReleaseTemplate(_)
            | Self::Report(..)
            | Self::Look
            | Self::Delete(_)
            | Self::Unlock(_)
            | Self::Discard(_) => None,
        }
    }

    /// Whether its cost grows with all that there is, and not with what has changed.
    pub fn is_about_all(&self) -> bool {
        matches!(self, Self::Look | Self::Report(..))
    }

    /// What has to be looked at when it is to be tried again. Whether a template is held or goes comes of all that there is.
    pub fn left_over(&self, seen: &Observed) -> Focus {
        match self {
            Self::HoldTemplate(_) | Self::ReleaseTemplate(_) => Focus::whole(),
            Self::Report(..) => Focus::lists(),
            _ => self.concerns(seen),
        }
    }

    /// What has to be looked at when it is done, besides what changes by it.
    pub fn concerns(&self, seen: &Observed) -> Focus {
        let mut focus = Focus::default();
        match self {
            Self::HoldTemplate(_) | Self::ReleaseTemplate(_) | Self::Report(..) => {}
            Self::Look => {
                let unknown = seen.claims.iter().filter(|claim| !claim.is_known);
                focus.claims.extend(unknown.map(|claim| claim.object.name_any()));
            }
            Self::HoldClaim(claim)
            | Self::ReleaseClaim(claim)
            | Self::Create { claim, .. }
            | Self::Announce(claim, _)
            | Self::Explain(claim, _) => {
                focus.claims.insert(claim.name_any());
            }
            Self::Delete(data) | Self::Unlock(data) | Self::Discard(data) => {
                focus.claims.insert(data.spec.claim.name.clone());
                focus.datas.insert(data.name_any());
            }
        }
        focus
    }

    /// What it is, for errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::HoldTemplate(_) => "add the finalizer of the Metal3DataTemplate",
            Self::ReleaseTemplate(_) => "remove the finalizer of the Metal3DataTemplate",
            Self::Report(..) => "store the status of the Metal3DataTemplate",
            Self::Look => "list the Metal3Datas",
            Self::HoldClaim(_) => "add the finalizer of the Metal3DataClaim",
            Self::ReleaseClaim(_) => "remove the finalizer of the Metal3DataClaim",
            Self::Create { .. } => "create the Metal3Data",
            Self::Announce(..) => "answer the Metal3DataClaim",
            Self::Explain(..) => "store the status of the Metal3DataClaim",
            Self::Delete(_) => "delete the Metal3Data",
            Self::Unlock(_) => "remove the finalizer of the Metal3Data",
            Self::Discard(_) => "delete the unused Metal3Data",
        }
    }
}
