//! Builds a plan: the next status, the effects, and the events.

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::capi::names::{condition, reason};
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::conditions;
use metal3_runtime::controller::{Next, Report};
use metal3_runtime::events::Event;
use serde_json::{Map, Value};

use crate::conditions::{LegacySeverity, Setter};
use crate::machine::decide::plan::{Decision, Effect, HostPatch, Plan};
use crate::machine::names::{ASSOCIATED, BOOTSTRAP_DATA, DATA_READY, METADATA, NODE, UP_TO_DATE};
use crate::machine::observed::Observed;

/// The names of the v1beta1 conditions.
mod legacy {
    pub const ASSOCIATED: &str = "AssociateBMH";
    pub const DATA_READY: &str = "Metal3DataReady";
    pub const NODE_READY: &str = "KubernetesNodeReady";
}

/// Why a condition is false, in both styles.
#[derive(Clone, Copy, Debug)]
pub struct Why<'a> {
    /// Reason of the standard condition.
    pub reason: &'static str,
    /// Reason of the v1beta1 condition.
    pub legacy: &'static str,
    /// Severity of the v1beta1 condition.
    pub severity: LegacySeverity,
    /// The message.
    pub message: &'a str,
}

impl<'a> Why<'a> {
    /// Uses the same reason in both styles.
    pub fn of(reason: &'static str, severity: LegacySeverity, message: &'a str) -> Self {
        Self {
            reason,
            legacy: reason,
            severity,
            message,
        }
    }
}

/// The next status and the effects.
pub struct PlanBuilder<'a> {
    pub seen: &'a Observed,
    pub status: Metal3MachineStatus,
    pub effects: Vec<Effect>,
    /// Effects to apply before the report.
    pub afterwards: Vec<Effect>,
    /// Changes to the machine's metadata, written first.
    pub metadata: Map<String, Value>,
    /// Changes to the machine's spec, written first.
    pub spec: Map<String, Value>,
    /// Whether the effects require the observed version of the machine, even if it is not changed.
    pub insist: bool,
    /// When to requeue.
    pub next: Next,
    pub now: Timestamp,
    set: Setter,
    events: Vec<Event>,
}

impl<'a> PlanBuilder<'a> {
    pub fn new(seen: &'a Observed, now: Timestamp) -> Self {
        Self {
            seen,
            status: seen.machine.status.clone().unwrap_or_default(),
            effects: Vec::new(),
            afterwards: Vec::new(),
            metadata: Map::new(),
            spec: Map::new(),
            insist: false,
            next: Next::Change,
            now,
            set: Setter {
                generation: seen.machine.metadata.generation,
                now,
            },
            events: Vec::new(),
        }
    }

    pub fn paused(&mut self, why: Option<&str>) {
        let word = why.map_or(reason::NOT_PAUSED, |_| condition::PAUSED);
        let list = &mut self.status.conditions;
        self.set
            .set(list, condition::PAUSED, why.is_some(), word, why.unwrap_or_default());
    }

    /// The machine has its host. The first time this records an event, and labels the host's BMC Secret with the cluster name.
    pub fn associated(&mut self, host: &BareMetalHost, reason: &'static str, considered: Option<usize>) {
        let seen = self.seen;
        if seen.says_host() {
            return;
        }
        self.set.set(&mut self.status.conditions, ASSOCIATED, true, reason, "");
        let list = &mut self.status.deprecated.v1beta1.conditions;
        self.set.legacy(list, legacy::ASSOCIATED, None);
        let secret = host.spec.bmc.credentials_name.clone();
        if let Some(cluster) = seen.cluster.found().filter(|_| !secret.is_empty()) {
            let cluster = cluster.name_any();
            self.effects.push(Effect::LabelSecret { secret, cluster });
        }
        if !seen.was_associated() {
            let among = considered.map_or_else(String::new, |count| format!(", one of {count} looked at"));
            let message = format!("BareMetalHost {} was claimed{among}", host.name_any());
            self.event(Event::normal(reason, message));
        }
    }

    /// There is no host, and why. `failure`, of v1beta1, is for errors that the user must fix.
    pub fn not_associated(&mut self, why: Why<'_>, failure: Option<&str>) {
        self.set
            .set(&mut self.status.conditions, ASSOCIATED, false, why.reason, why.message);
        let legacy = &mut self.status.deprecated.v1beta1;
        let said = Some((why.severity, why.legacy, why.message));
        self.set.legacy(&mut legacy.conditions, legacy::ASSOCIATED, said);
        self.failure(failure.map(|reason| (reason, why.message)));
        self.not_ready(why);
    }

    /// Whether the data claim exists, if one is needed.
    pub fn data_claim(&mut self, why: Option<Why<'_>>) {
        let list = &mut self.status.conditions;
        match why {
            None => self
                .set
                .set(list, METADATA, true, "AssociateMetal3MachineMetaDataSuccess", ""),
            Some(why) => self.set.set(list, METADATA, false, why.reason, why.message),
        }
    }

    /// The data is ready, for this reason, or it is not.
    pub fn data(&mut self, outcome: Result<&'static str, Why<'_>>) {
        let (list, legacy) = (
            &mut self.status.conditions,
            &mut self.status.deprecated.v1beta1.conditions,
        );
        match outcome {
            Ok(reason) => {
                self.set.set(list, DATA_READY, true, reason, "");
                self.set.legacy(legacy, legacy::DATA_READY, None);
            }
            Err(why) => {
                self.set.set(list, DATA_READY, false, why.reason, why.message);
                let said = Some((why.severity, why.legacy, why.message));
                self.set.legacy(legacy, legacy::DATA_READY, said);
                self.not_ready(why);
            }
        }
    }

    /// The machine is being deleted, and waits for this.
    pub fn deleting(&mut self, message: &str) {
        let why = Why::of("Deleting", LegacySeverity::Info, message);
        self.data_claim(Some(why));
        let list = &mut self.status.deprecated.v1beta1.conditions;
        let said = Some((why.severity, why.legacy, message));
        self.set.legacy(list, legacy::NODE_READY, said);
        self.not_ready(why);
    }

    /// Whether the Node has its provider ID, and if not, why.
    pub fn node(&mut self, holds: bool, reason: &str, message: &str) {
        self.set.set(&mut self.status.conditions, NODE, holds, reason, message);
    }

    /// Why the host does not run what the machine requests, as reason and message; or nothing.
    pub fn up_to_date(&mut self, why: Option<(&str, &str)>) {
        let list = &mut self.status.conditions;
        match why {
            Some((reason, message)) => self.set.set(list, UP_TO_DATE, false, reason, message),
            None => {
                conditions::remove(list, UP_TO_DATE);
            }
        }
    }

    /// Why the bootstrap data is incomplete, as reason and message; or nothing.
    pub fn bootstrap_data(&mut self, why: Option<(&str, &str)>) {
        let list = &mut self.status.conditions;
        match why {
            Some((reason, message)) => self.set.set(list, BOOTSTRAP_DATA, false, reason, message),
            None => {
                conditions::remove(list, BOOTSTRAP_DATA);
            }
        }
    }

    pub fn not_ready(&mut self, why: Why<'_>) {
        let list = &mut self.status.conditions;
        self.set.set(list, condition::READY, false, why.reason, why.message);
        let list = &mut self.status.deprecated.v1beta1.conditions;
        let said = Some((why.severity, why.legacy, why.message));
        self.set.legacy(list, condition::READY, said);
    }

    pub fn ready(&mut self, message: &str) {
        let list = &mut self.status.conditions;
        self.set.set(list, condition::READY, true, "Ready", message);
        let list = &mut self.status.deprecated.v1beta1.conditions;
        self.set.legacy(list, condition::READY, None);
    }

    /// An error that the user must fix, as reason and message.
    pub fn failure(&mut self, failure: Option<(&str, &str)>) {
        let legacy = &mut self.status.deprecated.v1beta1;
        let (reason, message) = failure.unwrap_or_default();
        reason.clone_into(&mut legacy.failure_reason);
        message.clone_into(&mut legacy.failure_message);
    }

    /// Whether the stored condition's reason differs from this.
    pub fn is_new_reason(&self, type_: &str, reason: &str) -> bool {
        let stored = self.seen.machine.status.as_ref();
        let before = stored.and_then(|status| conditions::get(&status.conditions, type_));
        before.is_none_or(|before| before.reason != reason)
    }

    /// Whether the stored condition has another message than this.
    pub fn is_new_message(&self, type_: &str, message: &str) -> bool {
        let stored = self.seen.machine.status.as_ref();
        let before = stored.and_then(|status| conditions::get(&status.conditions, type_));
        before.is_none_or(|before| before.message != message)
    }

    pub fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// An event, unless the stored condition already has its reason.
    pub fn event_once(&mut self, type_: &str, event: Event) {
        if self.is_new_reason(type_, event.reason) {
            self.events.push(event);
        }
    }

    /// Claims the host for the machine.
    pub fn claim_host(&mut self, host: &BareMetalHost, patch: &HostPatch) {
        self.effects.push(Effect::Host {
            what: "claim the host",
            host: host.name_any(),
            patch: patch.over(host.metadata.resource_version.as_deref()),
            is_claim: true,
        });
    }

    /// Writes to the host if anything changes.
    pub fn write_host(&mut self, host: &BareMetalHost, patch: &HostPatch, what: &'static str) {
        if !patch.is_empty() {
            self.effects.push(Effect::host(host, patch, what));
        }
    }

    /// The plan. The machine is written first.
    pub fn plan(mut self) -> Decision {
        let parts = [("metadata", self.metadata), ("spec", self.spec)];
        let changed = parts.into_iter().filter(|(_, fields)| !fields.is_empty());
        let patch: Map<String, Value> = changed.map(|(part, fields)| (part.to_owned(), fields.into())).collect();
        if !patch.is_empty() || self.insist {
            let mut patch = Value::Object(patch);
            patch["metadata"]["resourceVersion"] = self.seen.machine.metadata.resource_version.clone().into();
            self.effects.insert(0, Effect::Machine(patch));
        }
        let is_new = self.seen.machine.status.as_ref() != Some(&self.status);
        Plan {
            effects: self.effects,
            report: Report {
                status: is_new.then_some(self.status),
                events: self.events,
            },
            afterwards: self.afterwards,
            next: self.next,
        }
        .into()
    }

    /// Removes our finalizer from the machine; its status no longer matters.
    pub fn finish_deletion(mut self) -> Decision {
        self.effects.push(Effect::RemoveFinalizer);
        let report = Report {
            status: None,
            events: self.events,
        };
        Plan {
            effects: self.effects,
            report,
            ..Plan::default()
        }
        .into()
    }
}

/// Whether the machine has our finalizer.
pub fn has_finalizer(machine: &Metal3Machine) -> bool {
    let finalizers = machine.metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|present| present == finalizer::MACHINE)
}
