//! Gives the host back: it is deprovisioned first.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::metal3::names::finalizer;
use metal3_api::metal3::{BareMetalHost, HostClaim, ProvisioningState};
use metal3_runtime::controller::{Decision, Plan, Report};
use metal3_runtime::events::Event;
use serde_json::{Map, Value, json};

use super::sync::OF_CLAIM;
use super::{Answer, Effect, status};
use crate::claim::moving::{unmark, unpause};
use crate::claim::observed::{Data, Observed};
use crate::claim::stores::{has_uid, has_uid_of};

/// Ends the claim, and leaves its host as it is.
pub fn forget(seen: &Observed) -> Answer {
    if is_ended(seen) {
        return Decision::idle();
    }
    Plan::of(Effect::RemoveFinalizer).into()
}

fn is_ended(seen: &Observed) -> bool {
    let mut finalizers = seen.claim.finalizers().iter();
    !finalizers.any(|present| present == finalizer::HOST_CLAIM)
}

pub fn decide(seen: &Observed, now: Timestamp) -> Answer {
    if is_ended(seen) {
        return Decision::idle();
    }
    let (mut effects, mut is_over) = (Vec::new(), true);
    for (number, host) in seen.own.iter().enumerate() {
        let (steps, is_freed) = wind_down(seen, number, host);
        effects.extend(steps);
        is_over &= is_freed;
    }
    if is_over {
        // The claim leads to them, and they lead nowhere once it is gone.
        effects.extend(seen.named.iter().cloned().map(Effect::Free));
        effects.push(Effect::RemoveFinalizer);
    }
    let report = match (is_over, seen.own.first()) {
        (false, _) => status::deleting(seen, now),
        (true, None) => Report::default(),
        (true, Some(_)) => Report {
            status: None,
            events: vec![Event::normal("HostReleased", "the host is given back")],
        },
    };
    let plan = Plan {
        effects,
        report,
        ..Plan::default()
    };
    plan.into()
}

/// The next steps to give back a host, and whether it is free after them.
pub fn wind_down(seen: &Observed, number: usize, host: &Arc<BareMetalHost>) -> (Vec<Effect>, bool) {
    let claim = &seen.claim;
    // Without the flag, too, the image of a host that bears the claim's UID is the claim's, whatever that asks for by now.
    let is_managed = (seen.is_enabled || has_uid_of(host, claim)) && !runs_what_a_person_chose(claim, host);
    let is_deployed = host.has_image() && (is_managed || runs_what_is_claimed(claim, host));
    if is_deployed && host.metadata.deletion_timestamp.is_none() {
        return (vec![Effect::SetHost(number, cleared(host))], false);
    }
    if !is_wound_down(host) && (is_managed || !host.has_image()) {
        // A host that the claim's pause has caught on the way is not deprovisioned before that ends.
        let pause = unpause(host);
        let end = json!({"metadata": {"annotations": pause}});
        let ends = (!pause.is_empty()).then_some(Effect::SetHost(number, end));
        return (ends.into_iter().collect(), false);
    }
    // All: neither the claim nor the host names a copy that the claim once had any more.
    let copies = Data::ALL.into_iter();
    let mut effects: Vec<Effect> = copies.map(|data| Effect::DeleteCopy(number, data)).collect();
    // The host comes last: it leads to everything else.
    effects.push(Effect::SetHost(number, freed(host)));
    (effects, true)
}

/// Upstream binds hosts and changes nothing else, so that a host that does not bear the claim's UID may have an image that a person
/// gave it. Where claims are not reconciled, that is left alone, as upstream leaves it.
fn runs_what_is_claimed(claim: &HostClaim, host: &BareMetalHost) -> bool {
    claim.spec.image == host.spec.image && claim.spec.custom_deploy == host.spec.custom_deploy
}

/// Whether upstream bound the host, and it has an image that a person gave it. The first settings that this operator gives a host come
/// with the claim's UID.
pub fn runs_what_a_person_chose(claim: &HostClaim, host: &BareMetalHost) -> bool {
    !has_uid(host) && host.has_image() && !runs_what_is_claimed(claim, host)
}

/// Whether nothing of the claim is left on the host's disks, or the host is about to be deleted.
pub fn is_wound_down(host: &BareMetalHost) -> bool {
    let state = host.status.as_ref().map(|status| &status.provisioning.state);
    let is_clear = match state {
        None
        | Some(
            ProvisioningState::None
            | ProvisioningState::Unmanaged
            | ProvisioningState::Registering
            | ProvisioningState::MatchProfile
            | ProvisioningState::Inspecting
            | ProvisioningState::Preparing
            | ProvisioningState::Ready
            | ProvisioningState::Available
            | ProvisioningState::ExternallyProvisioned
            | ProvisioningState::PoweringOffBeforeDelete
            | ProvisioningState::Deleting,
        ) => true,
        Some(
            ProvisioningState::Provisioning
            | ProvisioningState::Provisioned
            | ProvisioningState::Deprovisioning
            | ProvisioningState::Other(_),
        ) => false,
    };
    is_clear || host.metadata.deletion_timestamp.is_some()
}

/// The change that removes what a claim has set, as far as the host has it, and that ends the claim's pause: a paused host is not
/// deprovisioned.
pub fn cleared(host: &BareMetalHost) -> Value {
    let has = serde_json::to_value(&host.spec).unwrap_or_default();
    let fields = ["image", "customDeploy", "userData", "networkData", "metaData"].into_iter();
    let there = fields.filter(|field| has.get(*field).is_some());
    let spec: Map<String, Value> = there.map(|field| (field.to_owned(), Value::Null)).collect();
    let mut annotations = unpause(host);
    annotations.extend(reboots(host));
    json!({"metadata": {"annotations": annotations}, "spec": spec})
}

/// The change that makes a host free.
pub fn freed(host: &BareMetalHost) -> Value {
    let mut change = unclaimed(host);
    change["spec"] = json!({"consumerRef": null});
    change
}

/// The change that removes the annotations that a host has for its claim.
pub fn unclaimed(host: &BareMetalHost) -> Value {
    let mut annotations = unmark(host);
    annotations.extend(reboots(host));
    json!({"metadata": {"annotations": annotations}})
}

/// Removes the annotations that keep the host powered off for its claim.
fn reboots(host: &BareMetalHost) -> impl Iterator<Item = (String, Value)> {
    let reboots = host.annotations().keys().filter(|key| key.starts_with(OF_CLAIM));
    reboots.map(|key| (key.clone(), Value::Null))
}
