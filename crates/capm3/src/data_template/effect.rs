//! Writes that can be decided on.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3DataTemplateStatus};

/// Writes that do not depend on each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch(pub Vec<Effect>);

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
    List,
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
    /// The object that it is about: nothing more is done for it in a pass after a write whose outcome the stores do not show.
    pub fn subject(&self) -> Subject {
        match self {
            Self::HoldTemplate(template) | Self::ReleaseTemplate(template) | Self::Report(template, _) => {
                ("template", template.name_any())
            }
            Self::List => ("namespace", String::new()),
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
            Self::List => ObjectReference::default(),
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
            | Self::List
            | Self::Delete(_)
            | Self::Unlock(_)
            | Self::Discard(_) => None,
        }
    }

    /// What it is, for errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::HoldTemplate(_) => "add the finalizer of the Metal3DataTemplate",
            Self::ReleaseTemplate(_) => "remove the finalizer of the Metal3DataTemplate",
            Self::Report(..) => "store the status of the Metal3DataTemplate",
            Self::List => "list the Metal3Datas",
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
