//! Decides what is done for a claim. Pure.

mod paused;
pub mod release;
pub mod status;
mod sync;

use jiff::Timestamp;
use metal3_api::metal3::HostClaimStatus;
use metal3_api::metal3::names::annotation::HOST_OF_CLAIM;
use metal3_api::metal3::names::condition::host_claim::{MISSING_HOST, NO_HOST};
use metal3_api::metal3::names::label::TAKES_SECRETS;
use metal3_runtime::controller::{Decision, Next, Plan};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::operator::RELEASE;
use serde_json::Value;
use std::sync::Arc;

use metal3_api::metal3::BareMetalHost;

pub use self::release::is_wound_down;
use super::choose::Request;
use super::moving;
use super::observed::{Bound, Data, Observed, refusals};
use crate::live::Live;

/// What a decision may ask for.
#[derive(Debug, PartialEq)]
pub enum Read {
    /// The Secret with this data.
    Secret(Data),
    /// Whether the host in the claim's status, which the store does not have, is gone.
    Host(ObjectKey),
    /// The hosts that do not fit, in order to say why.
    Survey,
}

/// One write.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Change the metadata of the claim: finalizer and annotations.
    Mark(Value),
    /// Make the claim the consumer of this host, on the version that was chosen.
    Take(Arc<BareMetalHost>),
    /// Let this host go, which only names the claim, on the version that was seen.
    Free(Arc<BareMetalHost>),
    /// Copy data to the namespace of the first host.
    Copy(Data),
    /// Change this host, on the version that was seen.
    SetHost(usize, Value),
    /// Delete a copy from the namespace of this host.
    DeleteCopy(usize, Data),
    /// Delete a copy that the first host had before it was moved here.
    DeleteOld(String),
    /// Remove this one-time annotation, which the host has got, from the claim.
    Forget(String),
    /// End.
    RemoveFinalizer,
}

pub type Answer = Decision<Read, Effect, HostClaimStatus>;

pub fn decide(seen: &Observed, now: Timestamp) -> Answer {
    let claim = &seen.claim;
    let is_deleted = claim.metadata.deletion_timestamp.is_some();
    if moving::is_moved_away(claim) {
        // Its host goes the same way. If it does not, it is released as the host of a claim that is gone.
        return if is_deleted {
            release::forget(seen)
        } else {
            Decision::idle()
        };
    }
    if moving::is_paused(claim) {
        return paused::decide(seen, now);
    }
    if is_deleted {
        return release::decide(seen, now);
    }
    if !seen.is_enabled {
        return Decision::idle();
    }
    let host = seen.own.first();
    if let Some(change) = moving::of_claim(claim, host.map(|host| &**host)) {
        return at_once(vec![Effect::Mark(change)]);
    }
    match host {
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

/// What ran on the host is lost, or cannot be seen; another host would start it anew without anybody having asked for that.
fn without_its_host(seen: &Observed, host: &ObjectKey, now: Timestamp) -> Answer {
    let again = "delete the claim, and create it again to get another host";
    let words = match seen.bound {
        Bound::Known => format!("host {host} of this claim was given to another consumer, or released; {again}"),
        Bound::NotKnown(None) => return Decision::Fetch(Read::Host(host.clone())),
        Bound::NotKnown(Some(Live::Gone)) => format!("host {host} of this claim no longer exists; {again}"),
        Bound::NotKnown(Some(Live::Exists)) => format!(
            "host {host} of this claim exists, and the operator cannot read it: types or times in it have to be corrected; until then \
             nothing of the claim is given to it"
        ),
        Bound::NotKnown(Some(Live::Unknown)) => format!(
            "it is not known whether host {host} of this claim exists: the API server does not say, and is asked again in a minute"
        ),
    };
    let answer = status::unassociated(seen, MISSING_HOST, &words, now);
    match (answer, seen.bound) {
        // No change of a host that cannot be read wakes the claim.
        (Decision::Act(mut plan), Bound::NotKnown(Some(Live::Exists | Live::Unknown))) => {
            plan.next = Next::After(RELEASE);
            Decision::Act(plan)
        }
        (answer, _) => answer,
    }
}

/// The host to take: first one that names the claim already, so that it is not in use for nobody.
fn choose<'a>(seen: &'a Observed, request: &Request) -> Option<&'a Arc<BareMetalHost>> {
    let refusals = |host: &BareMetalHost| refusals(&seen.refused, host);
    let named = request.choose_named(&seen.named, refusals);
    let free = request.choose(&seen.free, refusals);
    match (named, free) {
        (Some(named), Some(free)) if refusals(named) > refusals(free) => Some(free),
        (named, free) => named.or(free),
    }
}

fn associate(seen: &Observed, now: Timestamp) -> Answer {
    let bound = seen
        .claim
        .status
        .as_ref()
        .and_then(|status| status.bare_metal_host.as_ref());
    if let Some(bound) = bound {
        return without_its_host(seen, &ObjectKey::new(&bound.namespace, &bound.name), now);
    }
    if let Some((_, host)) = moving::origin(&seen.claim).filter(|_| moving::is_moved_here(&seen.claim)) {
        let words = format!(
            "the claim was moved from another cluster, where it had host {host}, and waits for it: the host must be moved, too, and a HostDeployPolicy of its namespace must permit the claim; to get another host instead, remove the annotation {HOST_OF_CLAIM} from the claim"
        );
        return status::unassociated(seen, MISSING_HOST, &words, now);
    }
    let request = match &seen.request {
        Some(Ok(request)) => request,
        Some(Err(problem)) => return status::unassociated(seen, NO_HOST, problem, now),
        None => return Decision::idle(),
    };
    if request.namespaces.is_empty() && seen.is_withheld {
        let words = format!(
            "policies permit the claim, but its Secrets would be copied to a namespace that it does not name: set spec.hostSelector.inNamespace, or have the label {TAKES_SECRETS} put on the Namespace of the hosts"
        );
        return status::unassociated(seen, NO_HOST, &words, now);
    }
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
    if let Some(host) = choose(seen, request) {
        return at_once(vec![Effect::Take(host.clone())]);
    }
    match &seen.survey {
        None => Decision::Fetch(Read::Survey),
        Some(hosts) => status::unassociated(seen, NO_HOST, &request.explain(hosts), now),
    }
}
