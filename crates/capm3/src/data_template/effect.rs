//! The writes that a decision may consist of.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3DataTemplateStatus};

/// Independent writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch(pub Vec<Effect>);

/// A write. Each is idempotent, and the process may die after any of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Adds the template's finalizer.
    HoldTemplate(Arc<Metal3DataTemplate>),
    /// Removes the template's finalizer.
    ReleaseTemplate(Arc<Metal3DataTemplate>),
    /// Reports which indexes are in use.
    Report(Arc<Metal3DataTemplate>, Metal3DataTemplateStatus),
    /// Lists the namespace's Metal3Datas from the API server, because the store may lag.
    List,
    /// Adds the claim's finalizer. Only then is anything created for it.
    HoldClaim(Arc<Metal3DataClaim>),
    /// Removes the claim's finalizer.
    ReleaseClaim(Arc<Metal3DataClaim>),
    /// Creates a Metal3Data. Its name is the lock on the index: the loser of a race reads the existing object.
    Create {
        /// The claim.
        claim: Arc<Metal3DataClaim>,
        /// The template.
        template: Arc<Metal3DataTemplate>,
        /// The index.
        index: i32,
    },
    /// Answers the claim with the Metal3Data of this name, unless the claim has changed since: its resource version is the lock
    /// on the claim.
    Announce(Arc<Metal3DataClaim>, String),
    /// Reports on the claim why it is not answered.
    Explain(Arc<Metal3DataClaim>, String),
    /// Deletes a Metal3Data whose claim is being deleted.
    Delete(Arc<Metal3Data>),
    /// Removes our finalizer from a Metal3Data being deleted.
    Unlock(Arc<Metal3Data>),
    /// Deletes and releases an unused Metal3Data, provided that a fresh read of its claim confirms it.
    Discard(Arc<Metal3Data>),
}

/// The kind and name of the object that is written.
pub type Subject = (&'static str, String);

impl Effect {
    /// The object this concerns: if the stores do not show the result of a write, nothing more is done for it in this pass.
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

    /// The claim that stays unanswered or unreleased if this write is rejected.
    pub fn claim(&self) -> Option<&Arc<Metal3DataClaim>> {
        match self {
            Self::HoldClaim(claim) | Self::ReleaseClaim(claim) | Self::Create { claim, .. } => Some(claim),
            // Reported by the rejected write itself, or not related to a claim.
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

    /// Describes the effect in errors.
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
