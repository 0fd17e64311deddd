//! What the subscriptions of one host need. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use metal3_api::metal3::names::finalizer::EVENT_SUBSCRIPTION;
use metal3_api::metal3::{BMCEventSubscription, BMCEventSubscriptionStatus};
use metal3_ironic::{NewSubscription, Subscription};
use metal3_runtime::controller::{Decision, Next, Plan};
use metal3_runtime::events::Event;
use metal3_runtime::patch::finalizer_removed;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::operator::PROOF_AGAIN;

use super::{Doubt, Headers, HostNode, Known, Observed, Subject};
use crate::host::annotations;
use crate::host::named_url::{NamedUrl, UrlField};
use crate::left_behind;
use crate::live::Live;

/// A read that a decision may request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Whether a host that the store does not have is gone.
    Host,
    /// The host's node in Ironic.
    Node,
    /// The subscriptions that the BMC has, for all objects of the host at once.
    Known,
    /// The headers in the Secret of this name.
    Headers(String),
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Adds finalizer and annotation to an object, or removes the finalizer, on the version that was judged.
    Patch {
        /// Which object.
        name: String,
        /// The merge patch.
        patch: serde_json::Value,
    },
    /// Stores a status.
    Store {
        /// Whose.
        name: String,
        /// The whole of it.
        status: BMCEventSubscriptionStatus,
    },
    /// Creates a subscription on the BMC.
    Subscribe {
        /// For which object.
        name: String,
        /// The node.
        node: String,
        /// What to create.
        wanted: Box<NewSubscription>,
    },
    /// Ends a subscription.
    Unsubscribe {
        /// Of which object.
        name: String,
        /// The node.
        node: String,
        /// Its identifier on the BMC.
        id: String,
    },
    /// Ends a subscription that a BMC made late, and that nobody knows.
    EndSurplus {
        /// Like which object's it is.
        name: String,
        /// The node.
        node: String,
        /// Its identifier on the BMC.
        id: String,
    },
    /// The BMC has no subscription that nobody knows.
    Settle,
    /// Publishes an event.
    Publish {
        /// About which object.
        name: String,
        /// The event.
        event: Event,
    },
    /// Fails the pass with the first failure of one of its objects, so that it is retried with back-off.
    Conclude,
}

/// Published when the BMC begins to send its events.
const CREATED: &str = "SubscriptionCreated";
/// Published when the BMC sends its events no more.
const ENDED: &str = "SubscriptionDeleted";
/// Published with each new error in the status.
const FAILED: &str = "SubscriptionFailed";

/// A BMC keeps a subscription that it made late.
pub(super) fn left_surplus(host: &ObjectKey, id: &str, why: &str) -> Event {
    Event::warning(
        left_behind::SUBSCRIPTION,
        format!(
            "the BMC of BareMetalHost {host} has made subscription {id} late, beside the one that it was asked for again, and does not \
             delete it: it sends its events twice until the subscription is deleted there ({why})"
        ),
    )
}

/// What one object needs next.
enum Step {
    Fetch(Read),
    Do(Effect),
    /// Nothing can be done until something changes; the text is for the status.
    Blocked(String),
    Done,
}

/// More steps than this are left to another pass.
const STEPS: usize = 48;

/// The objects are taken one after the other, by name. One that fails does not hold up the others.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision<Read, Effect, ()> {
    let mut is_blocked = false;
    for subject in &seen.subjects {
        if seen.steps > STEPS && seen.failure.is_none() {
            return Plan {
                next: Next::Now,
                ..Plan::default()
            }
            .into();
        }
        match step(seen, subject) {
            Step::Fetch(read) => return Decision::Fetch(read),
            Step::Do(effect) => return go_on(seen, subject, effect),
            Step::Blocked(problem) => {
                is_blocked = true;
                if let Some(effect) = told(subject, &problem) {
                    return go_on(seen, subject, effect);
                }
            }
            Step::Done => {}
        }
    }
    if seen.failure.is_some() {
        return Plan::of(Effect::Conclude).into();
    }
    let Some(Doubt::Until(due)) = seen.doubt else {
        return match seen.node {
            HostNode::Unproven(_) if is_blocked => ask_again(),
            _ => Decision::idle(),
        };
    };
    let left = due.duration_since(now);
    match left.try_into() {
        Ok(left) if left > Duration::ZERO => Plan {
            next: Next::After(left),
            ..Plan::default()
        }
        .into(),
        _ => sweep(seen),
    }
}

/// The BMC may only have been away, and then nothing shows that it is back.
fn ask_again() -> Decision<Read, Effect, ()> {
    Plan {
        next: Next::After(PROOF_AGAIN),
        ..Plan::default()
    }
    .into()
}

/// Ends what the BMC has made late.
fn sweep(seen: &Observed) -> Decision<Read, Effect, ()> {
    let node = match &seen.node {
        HostNode::NotLooked => return Decision::Fetch(Read::Node),
        // Who has no node by now has no such subscription either, or none that could be ended.
        HostNode::None | HostNode::Unknown(_) => return settle(),
        HostNode::Unproven(_) => return ask_again(),
        HostNode::Own(node) => node,
    };
    for subject in &seen.subjects {
        match surplus(seen, subject) {
            Err(Step::Fetch(read)) => return Decision::Fetch(read),
            Ok(Some(id)) => return again(end_surplus(subject, node, id)),
            Ok(None) | Err(_) => {}
        }
    }
    settle()
}

fn settle() -> Decision<Read, Effect, ()> {
    again(Effect::Settle)
}

fn again(effect: Effect) -> Decision<Read, Effect, ()> {
    Plan {
        effects: vec![effect],
        next: Next::Decide,
        ..Plan::default()
    }
    .into()
}

fn end_surplus(subject: &Subject, node: &str, id: &str) -> Effect {
    Effect::EndSurplus {
        name: subject.name(),
        node: node.to_owned(),
        id: id.to_owned(),
    }
}

/// A subscription that is just as this object's, and not known to be anybody's. While another object waits for one like it, it may be
/// that one's.
fn surplus<'a>(seen: &'a Observed, subject: &Subject) -> Result<Option<&'a str>, Step> {
    let found = match &seen.known {
        Known::NotLooked => return Err(Step::Fetch(Read::Known)),
        Known::Unknown(_) | Known::NoNode => return Ok(None),
        Known::Found(found) => found,
    };
    let waits = |other: &&Subject| other.ids().next().is_none() && other.object.metadata.deletion_timestamp.is_none();
    let taken: BTreeSet<&str> = seen.subjects.iter().flat_map(Subject::ids).collect();
    let is_surplus = |one: &&Subscription| {
        let may_be_of = |other: &Subject| other.is_for(one);
        let is_awaited = seen.subjects.iter().filter(waits).any(may_be_of);
        let is_same = subject.is_for(one) && one.context == subject.object.spec.context;
        is_same && !is_awaited && !taken.contains(one.id.as_str())
    };
    Ok(found.iter().find(is_surplus).map(|one| one.id.as_str()))
}

fn go_on(seen: &Observed, subject: &Subject, effect: Effect) -> Decision<Read, Effect, ()> {
    let event = event_of(seen, subject, &effect).map(|event| Effect::Publish {
        name: subject.name(),
        event,
    });
    Plan {
        effects: [effect].into_iter().chain(event).collect(),
        next: Next::Decide,
        ..Plan::default()
    }
    .into()
}

/// What an effect means to users, once it has succeeded.
fn event_of(seen: &Observed, subject: &Subject, effect: &Effect) -> Option<Event> {
    let before = subject.status();
    match effect {
        Effect::Store { status, .. } if !status.error.is_empty() => Some(Event::warning(FAILED, &*status.error)),
        Effect::Store { status, .. } => {
            let is_new = !status.subscription_id.is_empty() && status.subscription_id != before.subscription_id;
            let id = &status.subscription_id;
            let words = || {
                format!(
                    "the BMC of BareMetalHost {} sends its events: subscription {id}",
                    seen.key
                )
            };
            is_new.then(|| Event::normal(CREATED, words()))
        }
        Effect::Patch { .. } if subject.object.metadata.deletion_timestamp.is_some() => {
            released(seen, subject, &before)
        }
        Effect::Patch { .. }
        | Effect::Subscribe { .. }
        | Effect::Unsubscribe { .. }
        | Effect::EndSurplus { .. }
        | Effect::Settle
        | Effect::Publish { .. }
        | Effect::Conclude => None,
    }
}

fn released(seen: &Observed, subject: &Subject, before: &BMCEventSubscriptionStatus) -> Option<Event> {
    let (key, id) = (&seen.key, &before.subscription_id);
    if is_moved(subject) && !id.is_empty() {
        let words = format!(
            "clusterctl moved the object away: subscription {id} on the BMC of BareMetalHost {key} is left to it at the new place"
        );
        return Some(Event::warning(left_behind::SUBSCRIPTION, words));
    }
    if subject.is_ended {
        return Some(Event::normal(
            ENDED,
            format!("the BMC of BareMetalHost {key} sends its events no more"),
        ));
    }
    if id.is_empty() {
        let words = || {
            format!(
                "the BMC of BareMetalHost {key} has not answered a request for a subscription, and may make it yet: if it does, it \
                 sends its events until the subscription is deleted there"
            )
        };
        return seen
            .doubt
            .is_some()
            .then(|| Event::warning(left_behind::SUBSCRIPTION, words()));
    }
    let why = match &seen.host {
        None => "is gone",
        Some(host) if annotations::detached(host).is_some() => "is detached",
        Some(host) if subject.id_on(host).is_empty() => "has another BMC now",
        Some(_) => "has no node in Ironic",
    };
    let words = format!(
        "BareMetalHost {key} {why}, so that subscription {id} was not ended: its BMC sends its events until the subscription is deleted \
         there"
    );
    Some(Event::warning(left_behind::SUBSCRIPTION, words))
}

fn step(seen: &Observed, subject: &Subject) -> Step {
    if let Some(why) = &subject.failure {
        return Step::Blocked(why.clone());
    }
    if subject.object.metadata.deletion_timestamp.is_some() {
        return end(seen, subject);
    }
    let Some(host) = &seen.host else {
        return Step::Blocked(format!("BareMetalHost {} does not exist", seen.key));
    };
    let status = subject.status();
    let id = subject.id_on(host);
    // With the annotation renewed, an identifier of another server would count.
    if id.is_empty() && !status.subscription_id.is_empty() {
        return store(subject, "", "");
    }
    if let Some(patch) = subject.held_for(host) {
        let name = subject.name();
        return Step::Do(Effect::Patch { name, patch });
    }
    if id.is_empty() {
        return match &subject.made {
            Some(id) => store(subject, id, ""),
            None => begin(seen, subject),
        };
    }
    if seen.node == HostNode::None {
        return without_node(seen);
    }
    if status.error.is_empty() {
        Step::Done
    } else {
        store(subject, id, "")
    }
}

fn without_node(seen: &Observed) -> Step {
    Step::Blocked(format!("BareMetalHost {} has no node in Ironic", seen.key))
}

/// The host's node, or what to do without it.
fn node_of(seen: &Observed) -> Result<&str, Step> {
    match &seen.node {
        HostNode::NotLooked => Err(Step::Fetch(Read::Node)),
        HostNode::None => Err(without_node(seen)),
        HostNode::Unknown(why) | HostNode::Unproven(why) => Err(Step::Blocked(why.clone())),
        HostNode::Own(node) => Ok(node),
    }
}

/// Creates the subscription, unless the BMC already has it: an operator may have died before it stored the identifier, or the object
/// was made again, such as after a move.
fn begin(seen: &Observed, subject: &Subject) -> Step {
    let node = match node_of(seen) {
        Ok(node) => node,
        Err(step) => return step,
    };
    let spec = &subject.object.spec;
    if let Err(why) = NamedUrl::parse(UrlField::Destination, &spec.destination, &seen.denied) {
        return Step::Blocked(why);
    }
    let headers = match headers(seen, subject) {
        Ok(headers) => headers,
        Err(step) => return step,
    };
    match known(seen, subject) {
        Err(step) => return step,
        Ok(Some(id)) => return store(subject, id, ""),
        Ok(None) if seen.known == Known::NoNode => return without_node(seen),
        Ok(None) => {}
    }
    let wanted = NewSubscription {
        destination: spec.destination.clone(),
        context: spec.context.clone(),
        headers,
    };
    Step::Do(Effect::Subscribe {
        name: subject.name(),
        node: node.to_owned(),
        wanted: Box::new(wanted),
    })
}

/// Ends the subscription and releases the object. One that `clusterctl move` took elsewhere goes on there. Without its host, or
/// while that is detached or was never registered, nothing can be asked of the BMC. A node that Ironic has lost, or that is not
/// proven to be the host's, is waited for.
fn end(seen: &Observed, subject: &Subject) -> Step {
    let Some(patch) = finalizer_removed(&subject.object.metadata, EVENT_SUBSCRIPTION) else {
        return Step::Done;
    };
    let name = subject.name();
    let release = Step::Do(Effect::Patch {
        name: name.clone(),
        patch,
    });
    if is_moved(subject) {
        return release;
    }
    let Some(host) = &seen.host else {
        return match seen.live {
            None => Step::Fetch(Read::Host),
            Some(Live::Gone) => release,
            Some(Live::Exists | Live::Unknown) => Step::Blocked(format!(
                "BareMetalHost {} cannot be read: correct the types and times in it, or delete it",
                seen.key
            )),
        };
    };
    if subject.is_ended {
        return end_late(seen, subject).unwrap_or(release);
    }
    if seen.node == HostNode::None {
        // With a node before and none now, Ironic has lost it, and gets it again. The BMC goes on sending meanwhile.
        let is_lost = HostNode::at_hand(Some(host)) != HostNode::None;
        return match subject.id_on(host) {
            id if is_lost && !id.is_empty() => Step::Blocked(format!(
                "BareMetalHost {} has no node in Ironic now: subscription {id} is ended on its BMC when the host is registered again; \
                 if the host is deleted, this is not waited for",
                seen.key
            )),
            _ => release,
        };
    }
    let node = match node_of(seen) {
        Ok(node) => node,
        Err(step) => return step,
    };
    let id = match subject.id_on(host) {
        "" => match known(seen, subject) {
            Err(step) => return step,
            Ok(None) => return release,
            Ok(Some(id)) => id,
        },
        id => id,
    };
    Step::Do(Effect::Unsubscribe {
        name,
        node: node.to_owned(),
        id: id.to_owned(),
    })
}

/// Where the BMC may have made another one like it late, that ends with it.
fn end_late(seen: &Observed, subject: &Subject) -> Option<Step> {
    let HostNode::Own(node) = &seen.node else { return None };
    seen.doubt?;
    match surplus(seen, subject) {
        Err(step) => Some(step),
        Ok(id) => id.map(|id| Step::Do(end_surplus(subject, node, id))),
    }
}

/// Whether `clusterctl move` deletes the object because it is at another place now, where the subscription is still wanted.
fn is_moved(subject: &Subject) -> bool {
    subject.object.annotations().contains_key(DELETE_FOR_MOVE)
}

/// The identifier of a subscription of the BMC that was made for this object, and not stored.
fn known<'a>(seen: &'a Observed, subject: &Subject) -> Result<Option<&'a str>, Step> {
    let found = match &seen.known {
        Known::NotLooked => return Err(Step::Fetch(Read::Known)),
        Known::Unknown(why) => return Err(Step::Blocked(why.clone())),
        Known::NoNode => return Ok(None),
        Known::Found(found) => found,
    };
    let taken: BTreeSet<&str> = seen.subjects.iter().flat_map(Subject::ids).collect();
    let is_this = |one: &&Subscription| subject.is_for(one) && !taken.contains(one.id.as_str());
    Ok(found.iter().find(is_this).map(|one| one.id.as_str()))
}

fn headers(seen: &Observed, subject: &Subject) -> Result<Vec<(String, String)>, Step> {
    let Some(reference) = &subject.object.spec.http_headers else {
        return Ok(Vec::new());
    };
    // Without the webhook, an object may name a Secret of another tenant.
    let Ok(local) = reference.own(&seen.key.namespace) else {
        return Err(Step::Blocked(
            "spec.httpHeadersRef.namespace: it must be the object's own namespace".to_owned(),
        ));
    };
    let name = local.name();
    match seen.headers.get(name) {
        None => Err(Step::Fetch(Read::Headers(name.to_owned()))),
        Some(Headers::Missing) => Err(Step::Blocked(format!(
            "failed to retrieve HTTP headers secret: Secret {}/{name} does not exist",
            seen.key.namespace
        ))),
        Some(Headers::Refused) => Err(Step::Blocked(format!(
            "Secret {}/{name} is not sent to a BMC: it has the key password, userData, networkData, metaData or value, or another \
             type than Opaque",
            seen.key.namespace
        ))),
        Some(Headers::Unusable) => Err(Step::Blocked(format!(
            "Secret {}/{name}: its keys and values must be names and values of HTTP headers",
            seen.key.namespace
        ))),
        Some(Headers::Found(headers)) => Ok(headers.clone()),
    }
}

fn told(subject: &Subject, problem: &str) -> Option<Effect> {
    let before = subject.status();
    (before.error != problem).then(|| Effect::Store {
        name: subject.name(),
        status: BMCEventSubscriptionStatus {
            error: problem.to_owned(),
            ..before
        },
    })
}

fn store(subject: &Subject, id: &str, error: &str) -> Step {
    Step::Do(Effect::Store {
        name: subject.name(),
        status: BMCEventSubscriptionStatus {
            subscription_id: id.to_owned(),
            error: error.to_owned(),
        },
    })
}

/// The Secret that an object waits for.
pub(super) fn secret_of(object: &BMCEventSubscription) -> Option<&str> {
    let status = object.status.as_ref();
    let is_made = status.is_some_and(|status| !status.subscription_id.is_empty());
    let is_going = object.metadata.deletion_timestamp.is_some();
    let reference = object.spec.http_headers.as_ref().filter(|_| !is_made && !is_going)?;
    let own = object.metadata.namespace.as_deref().unwrap_or_default();
    reference.own(own).ok().map(|local| local.name())
}
