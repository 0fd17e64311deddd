//! What a claim reports. Nothing of the host's namespace but the host's name, state and kind of error: no message of the host, which
//! may contain addresses and names of Secrets.

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::names::annotation::{DETACHED, PAUSED};
use metal3_api::metal3::names::condition::host_claim::{
    ASSOCIATED, AVAILABLE_FOR_PROVISIONING, CONFIGURATION_SYNCED, DELETING, DELETION_FAILED, HOST_ASSOCIATED,
    INFO_REPORTED, ISSUES_REPORTED, PROVISIONED, READY, SYNCHRONIZED, UNKNOWN_REPORTED,
};
use metal3_api::metal3::{BareMetalHost, HostClaimStatus, HostRef};
use metal3_runtime::conditions::{Claim, get, set};
use metal3_runtime::controller::{Plan, Report};

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
    now: Timestamp,
}

impl<'a> Draft<'a> {
    fn new(seen: &'a Observed, now: Timestamp) -> Self {
        let status = seen.claim.status.clone().unwrap_or_default();
        Self { seen, status, now }
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

    /// The status with the summary; `None` if it is stored already.
    fn end(mut self) -> Option<HostClaimStatus> {
        let (status, reason, message) = summary(&self.status.conditions);
        self.set(READY, status, reason, &message);
        (self.seen.claim.status.as_ref() != Some(&self.status)).then_some(self.status)
    }
}

/// The claim has no host, for this reason.
pub fn unassociated(seen: &Observed, reason: &str, message: &str, now: Timestamp) -> Answer {
    let mut draft = Draft::new(seen, now);
    draft.set(ASSOCIATED, ConditionStatus::False, reason, message);
    let plan = Plan {
        report: Report {
            status: draft.end(),
            events: Vec::new(),
        },
        ..Plan::default()
    };
    plan.into()
}

/// The claim has its first host.
pub fn associated(seen: &Observed, synced: Result<(), Problem>, now: Timestamp) -> Option<HostClaimStatus> {
    let mut draft = Draft::new(seen, now);
    let host = seen.own.first()?;
    draft.status.bare_metal_host = Some(HostRef {
        namespace: host.namespace().unwrap_or_default(),
        name: host.name_any(),
    });
    draft.status.powered_on = host.status.as_ref().is_some_and(|status| status.powered_on);
    draft.set(ASSOCIATED, ConditionStatus::True, HOST_ASSOCIATED, "");
    match synced {
        Ok(()) => draft.set(SYNCHRONIZED, ConditionStatus::True, CONFIGURATION_SYNCED, ""),
        Err(problem) => draft.set(SYNCHRONIZED, ConditionStatus::False, problem.reason, &problem.message),
    }
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
pub fn deleting(seen: &Observed, now: Timestamp) -> Option<HostClaimStatus> {
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
    draft.set(ASSOCIATED, ConditionStatus::False, DELETING, &message);
    draft.end()
}

/// The API server rejects this step of the claim's deletion.
pub fn not_released(seen: &Observed, step: &Effect, now: Timestamp) -> Option<HostClaimStatus> {
    let words = match step {
        Effect::DeleteCopy(_, data) => format!("the copy of the Secret of spec.{} cannot be deleted", data.field()),
        Effect::RemoveFinalizer => "the finalizer of the claim cannot be removed".to_owned(),
        Effect::AddFinalizer | Effect::Take(_) | Effect::Copy(_) | Effect::SetHost(..) | Effect::Forget(_) => {
            "the host cannot be given back".to_owned()
        }
    };
    let message = format!("{words}: the API server rejects the change, and the operator's log has its words");
    let mut draft = Draft::new(seen, now);
    draft.set(ASSOCIATED, ConditionStatus::False, DELETION_FAILED, &message);
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
