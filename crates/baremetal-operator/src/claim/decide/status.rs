//! What a claim reports. Nothing of the host's namespace but the host's name, state and kind of error: no message of the host, which
//! may contain addresses and names of Secrets.

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::capi::names::annotation::PAUSED as CLAIM_PAUSED;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::names::annotation::{DETACHED, PAUSED};
use metal3_api::metal3::names::condition::host_claim::{
    ASSOCIATED, AVAILABLE_FOR_PROVISIONING, CONFIGURATION_SYNCED, DELETING, DELETION_FAILED, HOST_ASSOCIATED,
    INFO_REPORTED, ISSUES_REPORTED, PROVISIONED, READY, SYNCHRONIZED, UNKNOWN_REPORTED,
};
use metal3_api::metal3::{BareMetalHost, HostClaimStatus, HostRef};
use metal3_runtime::conditions::{Claim, get, set};
use metal3_runtime::controller::{Plan, Report};
use metal3_runtime::events::Event;
use metal3_runtime::store::ObjectKey;

use super::{Answer, Effect, is_wound_down};
use crate::claim::observed::Observed;
use crate::host::text::cut;

/// Bytes of a message. A selector may be as long as an object, and the summary holds three messages of at most 32 KiB.
const LONGEST: usize = 8192;

/// Why the host does not have what the claim says.
#[derive(Debug)]
pub struct Problem {
    pub reason: &'static str,
    pub message: String,
    /// Whether no watch shows the end of it.
    pub is_rechecked: bool,
}

struct Draft<'a> {
    seen: &'a Observed,
    status: HostClaimStatus,
    events: Vec<Event>,
    now: Timestamp,
}

impl<'a> Draft<'a> {
    fn new(seen: &'a Observed, now: Timestamp) -> Self {
        let status = seen.claim.status.clone().unwrap_or_default();
        let events = Vec::new();
        Self {
            seen,
            status,
            events,
            now,
        }
    }

    /// Sets a condition, with an event if it says something new. The state of a host that is being deprovisioned is no event.
    fn tell(&mut self, type_: &str, status: ConditionStatus, reason: &'static str, message: &str, event: &str) {
        let before = get(&self.status.conditions, type_);
        let is_new = before.is_none_or(|before| {
            let is_other = before.message != cut(message, LONGEST) && reason != DELETING;
            before.reason != reason || is_other
        });
        // The first settings belong to the association.
        let is_first = before.is_none() && type_ == SYNCHRONIZED;
        match status {
            ConditionStatus::True if is_new && !is_first => self.events.push(Event::normal(reason, event)),
            ConditionStatus::False if is_new => self.events.push(Event::warning(reason, event)),
            _ => {}
        }
        self.set(type_, status, reason, message);
    }

    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let claim = Claim {
            type_,
            status,
            reason,
            message: &cut(message, LONGEST),
        };
        let generation = self.seen.claim.metadata.generation;
        set(&mut self.status.conditions, &claim, generation, self.now);
    }

    /// The status with the summary, if it differs from what is stored, and the events.
    fn end(mut self) -> Report<HostClaimStatus> {
        let (status, reason, message) = summary(&self.status.conditions);
        self.set(READY, status, reason, &message);
        let is_new = self.seen.claim.status.as_ref() != Some(&self.status);
        Report {
            status: is_new.then_some(self.status),
            events: self.events,
        }
    }
}

/// The claim has no host, for this reason.
pub fn unassociated(seen: &Observed, reason: &'static str, message: &str, now: Timestamp) -> Answer {
    let mut draft = Draft::new(seen, now);
    draft.tell(ASSOCIATED, ConditionStatus::False, reason, message, message);
    let plan = Plan {
        report: draft.end(),
        ..Plan::default()
    };
    plan.into()
}

/// The claim has its first host.
pub fn associated(seen: &Observed, synced: &Result<(), Problem>, now: Timestamp) -> Report<HostClaimStatus> {
    let mut draft = Draft::new(seen, now);
    let Some(host) = seen.own.first() else {
        return Report::default();
    };
    draft.status.bare_metal_host = Some(HostRef {
        namespace: host.namespace().unwrap_or_default(),
        name: host.name_any(),
    });
    draft.status.powered_on = host.status.as_ref().is_some_and(|status| status.powered_on);
    let words = format!("the claim has host {}", ObjectKey::of(&**host));
    draft.tell(ASSOCIATED, ConditionStatus::True, HOST_ASSOCIATED, "", &words);
    let (status, reason, message, event) = match synced {
        Ok(()) => (
            ConditionStatus::True,
            CONFIGURATION_SYNCED,
            "",
            "the host has what the claim says",
        ),
        Err(problem) => (
            ConditionStatus::False,
            problem.reason,
            &*problem.message,
            &*problem.message,
        ),
    };
    draft.tell(SYNCHRONIZED, status, reason, message, event);
    let message = error_of(host);
    for type_ in [PROVISIONED, AVAILABLE_FOR_PROVISIONING] {
        let of_host = host.status.as_ref().and_then(|status| get(&status.conditions, type_));
        if let Some(of_host) = of_host {
            draft.set(type_, of_host.status.clone(), &of_host.reason, &message);
        }
    }
    draft.end()
}

/// The claim waits for its host to be deprovisioned.
pub fn deleting(seen: &Observed, now: Timestamp) -> Report<HostClaimStatus> {
    let mut draft = Draft::new(seen, now);
    let host = seen.own.iter().find(|host| !is_wound_down(host)).or(seen.own.first());
    let state = host
        .and_then(|host| host.status.as_ref())
        .map(|status| status.provisioning.state.as_str());
    let error = host.map(|host| error_of(host)).filter(|words| !words.is_empty());
    let is_held = |annotation: &&str| host.is_some_and(|host| host.annotations().contains_key(*annotation));
    let held = [PAUSED, DETACHED].into_iter().find(is_held);
    let message = format!(
        "the host is deprovisioned before it is given back; it is {}{}{}",
        state.unwrap_or("new"),
        error.map(|words| format!(", and {words}")).unwrap_or_default(),
        held.map(|annotation| format!("; nothing happens until its annotation {annotation} is removed"))
            .unwrap_or_default()
    );
    draft.tell(ASSOCIATED, ConditionStatus::False, DELETING, &message, &message);
    draft.end()
}

/// The claim waits for the end of its pause.
pub fn held_up(seen: &Observed, now: Timestamp) -> Report<HostClaimStatus> {
    let mut draft = Draft::new(seen, now);
    let message = format!("the claim is paused, and keeps its host until its annotation {CLAIM_PAUSED} is removed");
    draft.tell(ASSOCIATED, ConditionStatus::False, DELETING, &message, &message);
    draft.end()
}

/// The API server rejects this step of the claim's deletion.
pub fn not_released(seen: &Observed, step: &Effect, now: Timestamp) -> Report<HostClaimStatus> {
    let words = match step {
        Effect::DeleteCopy(_, data) => format!("the copy of the Secret of spec.{} cannot be deleted", data.field()),
        Effect::RemoveFinalizer => "the finalizer of the claim cannot be removed".to_owned(),
        Effect::Mark(_)
        | Effect::Take(_)
        | Effect::Copy(_)
        | Effect::Free(_)
        | Effect::SetHost(..)
        | Effect::DeleteOld(_)
        | Effect::Forget(_) => "the host cannot be given back".to_owned(),
    };
    let message = format!("{words}: the API server rejects the change, and the operator's log has its words");
    let mut draft = Draft::new(seen, now);
    draft.tell(ASSOCIATED, ConditionStatus::False, DELETION_FAILED, &message, &message);
    draft.end()
}

fn error_of(host: &BareMetalHost) -> String {
    let kind = host.status.as_ref().and_then(|status| status.error_type.as_ref());
    kind.map(|kind| format!("the host reports a {}", kind.as_str()))
        .unwrap_or_default()
}

/// The condition Ready: what is false counts more than what is unknown.
fn summary(conditions: &[Condition]) -> (ConditionStatus, &'static str, String) {
    let all = [ASSOCIATED, SYNCHRONIZED, PROVISIONED].map(|type_| (type_, get(conditions, type_)));
    let words = |(type_, found): &(&str, Option<&Condition>)| match found {
        None => format!("* {type_}: Condition {type_} not yet reported"),
        Some(found) if found.message.is_empty() => format!("* {type_}: {}", found.reason),
        Some(found) => format!("* {type_}: {}", found.message),
    };
    let not_true = all.iter().filter(|(_, found)| !is(*found, &ConditionStatus::True));
    let lines: Vec<String> = not_true.map(words).collect();
    if all.iter().any(|(_, found)| is(*found, &ConditionStatus::False)) {
        (ConditionStatus::False, ISSUES_REPORTED, lines.join("\n"))
    } else if lines.is_empty() {
        (ConditionStatus::True, INFO_REPORTED, String::new())
    } else {
        (ConditionStatus::Unknown, UNKNOWN_REPORTED, lines.join("\n"))
    }
}

fn is(found: Option<&Condition>, wanted: &ConditionStatus) -> bool {
    found.is_some_and(|condition| condition.status == *wanted)
}
