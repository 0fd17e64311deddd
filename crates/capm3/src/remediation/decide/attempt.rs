//! One attempt: how it is counted, and what follows a failed one.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use metal3_api::infra::names::annotation::REMEDIATION_ATTEMPTS;
use metal3_api::infra::v1beta2::{Metal3Remediation, Metal3RemediationStatus, RemediationPhase};
use metal3_runtime::conditions::whole_seconds;
use metal3_runtime::controller::Report;
use metal3_runtime::events::Event;
use serde_json::{Value, json};

use super::plan::{Decision, Effect, Plan, Read, left, wait};
use crate::machine::observed::{Host, Related};
use crate::remediation::host;
use crate::remediation::machine::{self, is_to_be_replaced};
use crate::remediation::observed::{Limits, Observed};

/// Suffix of the number in the annotation once the server was power cycled.
const DONE: &str = " done";

/// How many attempts have begun, according to the annotation, and whether the last one's power cycle is done. An unparsable value
/// counts as none.
fn attempts(remediation: &Metal3Remediation) -> (i32, bool) {
    let text = remediation.annotations().get(REMEDIATION_ATTEMPTS);
    let text = text.map_or("", String::as_str);
    let (number, is_done) = text.strip_suffix(DONE).map_or((text, false), |number| (number, true));
    number.parse().map_or((0, false), |number| (number, is_done))
}

/// The current attempt.
pub struct Attempt<'a> {
    pub seen: &'a Observed,
    pub now: Timestamp,
    pub status: Metal3RemediationStatus,
    limits: Limits,
}

impl<'a> Attempt<'a> {
    pub fn new(seen: &'a Observed, now: Timestamp) -> Self {
        Self {
            seen,
            now,
            status: seen.remediation.status.clone().unwrap_or_default(),
            limits: seen.limits(),
        }
    }

    /// The deadline by which the machine must be healthy. Without a start time the attempt starts now.
    pub fn end(&self) -> Timestamp {
        self.began()
            .saturating_add(self.limits.timeout)
            .unwrap_or(Timestamp::MAX)
    }

    /// The deadline for work on the Node: the server needs the other half of the time to boot.
    pub fn half(&self) -> Timestamp {
        self.began()
            .saturating_add(self.limits.timeout / 2)
            .unwrap_or(Timestamp::MAX)
    }

    fn began(&self) -> Timestamp {
        self.status.last_remediated.as_ref().map_or(self.now, |time| time.0)
    }

    /// `1 of 2`.
    pub fn number(&self) -> String {
        let all = self.limits.retries.saturating_add(1);
        format!("{} of {all}", self.status.retry_count.saturating_add(1))
    }

    /// Whether its time is up.
    pub fn is_over(&self) -> bool {
        self.now >= self.end()
    }

    /// Waits for something. If the time is up, the attempt has failed because of it.
    pub fn wait(self, reason: &'static str, message: String) -> Decision {
        if self.is_over() {
            return self.failed(&message);
        }
        wait(reason, message, Some(left(self.now, self.end()))).into()
    }

    /// Waits without a limit, as for a paused Cluster: nobody does what this remediation asks for, which says nothing about the
    /// machine. The time of the attempt is dropped, and begins anew afterwards.
    pub fn hold(mut self, message: String) -> Decision {
        let mut plan = wait("HostPaused", message, None);
        if self.status.last_remediated.take().is_some() {
            plan.report = self.plan().report;
        }
        plan.into()
    }

    /// Goes on with the attempt after [`Self::hold`].
    pub fn resume(mut self) -> Decision {
        self.status.last_remediated = Some(Time(whole_seconds(self.now)));
        self.plan().into()
    }

    /// Starts the first attempt; or, after a move to this management cluster, which loses the status, continues the one in
    /// progress, with another power cycle if that was not done.
    pub fn begin(mut self) -> Decision {
        let (begun, is_cycle_done) = attempts(&self.seen.remediation);
        self.status.retry_count = begun.saturating_sub(1).min(self.limits.retries).max(0);
        let is_abandoned = self.seen.own_host().is_some_and(|host| host::is_abandoned(host));
        if begun > self.limits.retries && is_abandoned {
            return self.give_up("that was found before the remediation was moved here");
        }
        self.status.last_remediated = Some(Time(whole_seconds(self.now)));
        let (phase, what) = if is_cycle_done {
            let what = "was switched off and on again before the remediation was moved here";
            (RemediationPhase::Waiting, what)
        } else {
            (RemediationPhase::Running, "is switched off and on again")
        };
        self.status.phase = Some(phase);
        let message = format!("attempt {}: {} {what}", self.number(), self.host_in_words());
        self.plan().with(Event::normal("RemediationStarted", message)).into()
    }

    /// Records in the remediation that this attempt has begun, unless that is already recorded.
    pub fn intent(&self) -> Option<Value> {
        let number = self.status.retry_count.saturating_add(1);
        (attempts(&self.seen.remediation).0 != number).then(|| self.counted(&number.to_string()))
    }

    /// Records that its power cycle is done.
    pub fn cycle_done(&self) -> Option<Value> {
        let number = self.status.retry_count.saturating_add(1);
        (attempts(&self.seen.remediation) != (number, true)).then(|| self.counted(&format!("{number}{DONE}")))
    }

    fn counted(&self, text: &str) -> Value {
        json!({"metadata": {"resourceVersion": self.seen.remediation.resource_version(),
            "annotations": {REMEDIATION_ATTEMPTS: text}}})
    }

    /// Powers the host on again. If the provider was down until the time was up, the time restarts: the server had none to boot.
    pub fn enter_waiting(mut self) -> Plan {
        if self.is_over() {
            self.status.last_remediated = Some(Time(whole_seconds(self.now)));
        }
        self.status.phase = Some(RemediationPhase::Waiting);
        self.plan()
    }

    /// The attempt has failed: starts another, or gives up after the last.
    pub fn failed(mut self, why: &str) -> Decision {
        if self.status.retry_count >= self.limits.retries {
            return self.give_up(why);
        }
        let failed = self.number();
        self.status.retry_count = self.status.retry_count.saturating_add(1).max(1);
        self.status.phase = Some(RemediationPhase::Running);
        self.status.last_remediated = Some(Time(whole_seconds(self.now)));
        let message = format!(
            "attempt {failed} has failed after {} s: {why}; attempt {} begins",
            self.limits.timeout.as_secs(),
            self.number()
        );
        self.plan().with(Event::warning("AttemptFailed", message)).into()
    }

    /// Releases the host and marks it as unhealthy, asks the Machine's owner to replace it, and ends the remediation.
    fn give_up(mut self, why: &str) -> Decision {
        // The machine may have become healthy in the meantime.
        if !self.seen.looks.is_fresh {
            return Decision::Fetch(Read::Fresh);
        }
        if let Some(host) = self.seen.own_host()
            && let Some(patch) = host::abandon(host)
        {
            let effect = Effect::Host {
                what: "mark the host as unhealthy",
                host: host.name_any(),
                patch,
            };
            return Plan::of(effect).into();
        }
        let attempts = self.limits.retries.saturating_add(1);
        let message = format!(
            "{attempts} power cycles of {} have not helped: {why}",
            self.host_in_words()
        );
        let mut follows = "its owner is asked to replace the Machine";
        let mut effects = Vec::new();
        if let Related::Found(machine) = &self.seen.machine {
            if !is_to_be_replaced(machine) {
                effects.push(Effect::Machine {
                    machine: machine.name_any(),
                    patch: machine::to_be_replaced(machine, &message, self.now),
                });
            }
            if !machine::has_owner(machine) {
                follows = "nobody owns the Machine who could replace it: delete it";
            }
        }
        self.status.phase = Some(RemediationPhase::DeletingMachine);
        // Reported in the same pass: before the next one the owner may have deleted the Machine, and nothing would be reported.
        let plan = Plan { effects, ..self.plan() };
        plan.with(Event::warning("GivenUp", format!("{message}; {follows}")))
            .into()
    }

    /// A user who powered the host off wants it off.
    pub fn switched_off(mut self, host: &str) -> Decision {
        self.status.phase = Some(RemediationPhase::Failed);
        let message = format!(
            "BareMetalHost {host} is switched off (spec.online: false), which is left so; switch it on, or delete the Machine \
             to have it replaced"
        );
        self.plan().with(Event::warning("HostSwitchedOff", message)).into()
    }

    fn plan(self) -> Plan {
        Plan {
            report: Report {
                status: Some(self.status),
                events: Vec::new(),
            },
            ..Plan::default()
        }
    }

    fn host_in_words(&self) -> String {
        match &self.seen.host {
            Host::Ours(host) | Host::Unclaimed(host) | Host::Foreign(host, _) => {
                format!("BareMetalHost {}", host.name_any())
            }
            Host::Missing(name) => format!("BareMetalHost {name}"),
            Host::None => "the host".to_owned(),
        }
    }
}
