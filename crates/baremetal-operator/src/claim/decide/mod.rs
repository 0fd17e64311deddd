//! Decides what is done for a claim. Pure.

mod release;
pub mod status;
mod sync;

use jiff::Timestamp;
use metal3_api::metal3::HostClaimStatus;
use metal3_api::metal3::names::condition::host_claim::{MISSING_HOST, NO_HOST};
use metal3_api::metal3::names::finalizer;
use metal3_runtime::controller::{Decision, Next, Plan};
use serde_json::Value;
use std::sync::Arc;

use metal3_api::metal3::BareMetalHost;

pub use self::release::is_wound_down;
use super::observed::{Data, Observed};
use super::stores::version_of;

/// What a decision may ask for.
#[derive(Debug, PartialEq)]
pub enum Read {
    /// The Secret with this data.
    Secret(Data),
    /// The hosts that do not fit, in order to say why.
    Survey,
}

/// One write.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Put the finalizer on the claim.
    AddFinalizer,
    /// Make the claim the consumer of this host, on the version that was chosen.
    Take(Arc<BareMetalHost>),
    /// Copy data to the namespace of the first host.
    Copy(Data),
    /// Change this host, on the version that was seen.
    SetHost(usize, Value),
    /// Delete a copy from the namespace of this host.
    DeleteCopy(usize, Data),
    /// Remove this one-time annotation, which the host has got, from the claim.
    Forget(String),
    /// End.
    RemoveFinalizer,
}

pub type Answer = Decision<Read, Effect, HostClaimStatus>;

pub fn decide(seen: &Observed, now: Timestamp) -> Answer {
    let metadata = &seen.claim.metadata;
    if metadata.deletion_timestamp.is_some() {
        return release::decide(seen, now);
    }
    if !seen.is_enabled {
        return Decision::idle();
    }
    let finalizers = metadata.finalizers.iter().flatten();
    if !finalizers.into_iter().any(|present| present == finalizer::HOST_CLAIM) {
        return at_once(vec![Effect::AddFinalizer]);
    }
    match seen.own.first() {
        Some(host) => sync::decide(seen, host, now),
        None => associate(seen, now),
    }
}

/// Then decide again in the same pass.
fn at_once(effects: Vec<Effect>) -> Answer {
    let plan = Plan {
        effects,
        next: Next::Decide,
        ..Plan::default()
    };
    plan.into()
}

fn associate(seen: &Observed, now: Timestamp) -> Answer {
    let bound = seen
        .claim
        .status
        .as_ref()
        .and_then(|status| status.bare_metal_host.as_ref());
    if bound.is_some() {
        // What ran there is lost; another host would start it anew without anybody having asked for that.
        let words = "the host of this claim is gone or was given to another consumer; delete the claim, and create it again to get another host";
        return status::unassociated(seen, MISSING_HOST, words, now);
    }
    let request = match &seen.request {
        Some(Ok(request)) => request,
        Some(Err(problem)) => return status::unassociated(seen, NO_HOST, problem, now),
        None => return Decision::idle(),
    };
    if request.namespaces.is_empty() {
        let own = seen.claim.metadata.namespace.as_deref().unwrap_or_default();
        let only = &seen.claim.spec.host_selector.in_namespace;
        let place = if only.is_empty() {
            ""
        } else {
            " in the namespace of spec.hostSelector.inNamespace"
        };
        let words = format!("no HostDeployPolicy{place} permits claims of namespace {own}");
        return status::unassociated(seen, NO_HOST, &words, now);
    }
    let refusals = |host: &BareMetalHost| seen.refused.get(&version_of(&host.metadata)).copied().unwrap_or(0);
    if let Some(host) = request.choose(&seen.free, refusals) {
        return at_once(vec![Effect::Take(host.clone())]);
    }
    match &seen.survey {
        None => Decision::Fetch(Read::Survey),
        Some(hosts) => status::unassociated(seen, NO_HOST, &request.explain(hosts), now),
    }
}
