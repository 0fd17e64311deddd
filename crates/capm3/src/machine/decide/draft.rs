//! A plan in the making.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::capi::names::{condition, reason};
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::conditions;
use metal3_runtime::events::{Note, Severity};

use serde_json::{Map, Value};

use crate::conditions::{LegacySeverity, Setter};
use crate::machine::decide::plan::{Decision, Effect, HostPatch, Plan};
use crate::machine::names::{ASSOCIATED, BOOTSTRAP_DATA, CLAIMED, DATA_READY, METADATA, NODE, UP_TO_DATE};
use crate::machine::node::Gift;
use crate::machine::observed::Observed;
use crate::machine::untold::Claim;

/// The names of the conditions in the older style.
mod legacy {
    pub const ASSOCIATED: &str = "AssociateBMH";
    pub const DATA_READY: &str = "Metal3DataReady";
    pub const NODE_READY: &str = "KubernetesNodeReady";
}

/// Why something does not hold, in both styles.
#[derive(Clone, Copy, Debug)]
pub struct Why<'a> {
    /// Reason of the standard condition.
    pub reason: &'static str,
    /// Reason in the older style.
    pub legacy: &'static str,
    /// How bad it is, in the older style.
    pub severity: LegacySeverity,
    /// In words.
    pub message: &'a str,
}

/// A host that the status says is the machine's.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its name.
    pub host: String,
    /// The Secret with the credentials of its BMC; empty if there is none.
    pub secret: String,
    /// The name of the Cluster.
    pub cluster: String,
}

/// The status in the making, with what is done about it.
pub struct Draft<'a> {
    pub seen: &'a Observed,
    pub status: Metal3MachineStatus,
    pub effects: Vec<Effect>,
    /// Changes of the machine's metadata, which are written before all else.
    pub metadata: Map<String, Value>,
    /// The same for its spec.
    pub spec: Map<String, Value>,
    /// Whether all is done only if the machine is still as it was seen, even where nothing of it changes.
    pub insist: bool,
    /// Whether the next step follows at once.
    pub is_again: bool,
    /// How long the status may wait, because it is likely to be another soon.
    pub patience: Option<Duration>,
    /// What the Node is to carry.
    pub gift: Option<Gift>,
    /// The host, until it is told.
    pub taken: Option<Taken>,
    /// How it is claimed, if it is.
    pub claim: Option<Claim>,
    pub now: Timestamp,
    set: Setter,
    notes: Vec<Note>,
}

impl<'a> Draft<'a> {
    pub fn new(seen: &'a Observed, now: Timestamp) -> Self {
        Self {
            seen,
            status: seen.machine.status.clone().unwrap_or_default(),
            effects: Vec::new(),
            metadata: Map::new(),
            spec: Map::new(),
            gift: None,
            taken: None,
            claim: None,
            insist: false,
            is_again: false,
            patience: None,
            now,
            set: Setter {
                generation: seen.machine.metadata.generation,
                now,
            },
            notes: Vec::new(),
        }
    }

    pub fn paused(&mut self, why: Option<&str>) {
        let word = why.map_or(reason::NOT_PAUSED, |_| condition::PAUSED);
        let list = &mut self.status.conditions;
        self.set
            .set(list, condition::PAUSED, why.is_some(), word, why.unwrap_or_default());
    }

    /// The host is ours.
    pub fn associated(&mut self, reason: &'static str) {
        if conditions::is_true(&self.status.conditions, ASSOCIATED) {
            return;
        }
        self.set.set(&mut self.status.conditions, ASSOCIATED, true, reason, "");
        let list = &mut self.status.deprecated.v1beta1.conditions;
        self.set.legacy(list, legacy::ASSOCIATED, None);
    }

    /// There is no host, and why. `failure`, of the older style, is for what will not mend itself.
    pub fn not_associated(&mut self, why: Why<'_>, failure: Option<&str>) {
        self.set
            .set(&mut self.status.conditions, ASSOCIATED, false, why.reason, why.message);
        let legacy = &mut self.status.deprecated.v1beta1;
        let said = Some((why.severity, why.legacy, why.message));
        self.set.legacy(&mut legacy.conditions, legacy::ASSOCIATED, said);
        self.failure(failure.map(|reason| (reason, why.message)));
        self.not_ready(why);
    }

    /// Whether the wish for data is there, if one is needed.
    pub fn wish_for_data(&mut self, why: Option<Why<'_>>) {
        let list = &mut self.status.conditions;
        match why {
            None => self
                .set
                .set(list, METADATA, true, "AssociateMetal3MachineMetaDataSuccess", ""),
            Some(why) => self.set.set(list, METADATA, false, why.reason, why.message),
        }
    }

    /// The data is there, for this reason, or it is not.
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

    /// The machine is being deleted, and this is waited for.
    pub fn deleting(&mut self, message: &str) {
        let why = Why {
            reason: "Deleting",
            legacy: "Deleting",
            severity: LegacySeverity::Info,
            message,
        };
        self.wish_for_data(Some(why));
        let list = &mut self.status.deprecated.v1beta1.conditions;
        let said = Some((why.severity, why.legacy, message));
        self.set.legacy(list, legacy::NODE_READY, said);
        self.not_ready(why);
    }

    /// Whether the Node carries its provider ID, and if not, why.
    pub fn node(&mut self, holds: bool, reason: &str, message: &str) {
        self.set.set(&mut self.status.conditions, NODE, holds, reason, message);
    }

    /// Why the host does not run what the machine asks for, as a reason and in words; or nothing.
    pub fn up_to_date(&mut self, why: Option<(&str, &str)>) {
        let list = &mut self.status.conditions;
        match why {
            Some((reason, message)) => self.set.set(list, UP_TO_DATE, false, reason, message),
            None => {
                conditions::remove(list, UP_TO_DATE);
            }
        }
    }

    /// Why the bootstrap data is not complete, as a reason and in words; or nothing.
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

    /// What will not mend itself, as a word and in words; or nothing.
    pub fn failure(&mut self, failure: Option<(&str, &str)>) {
        let legacy = &mut self.status.deprecated.v1beta1;
        let (reason, message) = failure.unwrap_or_default();
        reason.clone_into(&mut legacy.failure_reason);
        message.clone_into(&mut legacy.failure_message);
    }

    /// Whether the standard condition says now, as stored, something else than this.
    pub fn is_news(&self, type_: &str, reason: &str) -> bool {
        let stored = self.seen.machine.status.as_ref();
        let before = stored.and_then(|status| conditions::get(&status.conditions, type_));
        before.is_none_or(|before| before.reason != reason)
    }

    /// Whether the standard condition has, as stored, other words than these.
    pub fn is_unsaid(&self, type_: &str, message: &str) -> bool {
        let stored = self.seen.machine.status.as_ref();
        let before = stored.and_then(|status| conditions::get(&status.conditions, type_));
        before.is_none_or(|before| before.message != message)
    }

    pub fn note(&mut self, severity: Severity, reason: &'static str, message: String) {
        self.notes.push(Note {
            reason,
            message,
            severity,
        });
    }

    /// A write to the host, if anything is to be changed.
    pub fn host(&mut self, host: &BareMetalHost, patch: &HostPatch, what: &'static str) {
        if !patch.is_empty() {
            self.effects.push(Effect::Host {
                what,
                host: host.name_any(),
                patch: patch.over(host.metadata.resource_version.as_deref()),
                is_claim: self.claim.is_some(),
            });
        }
    }

    /// The status says for the first time whose the host is. The Secret with the credentials of its BMC is marked as one of
    /// the cluster, and who has the host is an event, unless it has come to run meanwhile.
    fn tell_of_host(&mut self, taken: Taken) {
        let Taken { host, secret, cluster } = taken;
        if !secret.is_empty() {
            self.effects.push(Effect::LabelSecret { secret, cluster });
        }
        if self.seen.was_associated() || conditions::is_true(&self.status.conditions, condition::READY) {
            return;
        }
        let claim = self.claim.or_else(|| self.seen.untold.map(|step| step.claim));
        let (reason, among) = claim.map_or((CLAIMED, String::new()), |claim| {
            (claim.reason, format!(", one of {} looked at", claim.considered))
        });
        self.note(
            Severity::Normal,
            reason,
            format!("BareMetalHost {host} was claimed{among}"),
        );
    }

    pub fn plan(mut self) -> Decision {
        let is_new = self.seen.machine.status.as_ref() != Some(&self.status);
        // What has news is told at once.
        let patience = self.patience.filter(|_| is_new && self.notes.is_empty());
        if let Some(taken) = self.taken.take().filter(|_| patience.is_none()) {
            self.tell_of_host(taken);
        }
        let parts = [("metadata", self.metadata), ("spec", self.spec)];
        let changed = parts.into_iter().filter(|(_, fields)| !fields.is_empty());
        let patch: Map<String, Value> = changed.map(|(part, fields)| (part.to_owned(), fields.into())).collect();
        if !patch.is_empty() || self.insist {
            let mut patch = Value::Object(patch);
            patch["metadata"]["resourceVersion"] = self.seen.machine.metadata.resource_version.clone().into();
            self.effects.insert(0, Effect::Machine(patch));
        }
        Decision::Do(Box::new(Plan {
            effects: self.effects,
            claim: self.claim,
            gift: self.gift,
            patience,
            status: is_new.then_some(self.status),
            notes: self.notes,
            is_again: self.is_again,
        }))
    }

    /// The machine goes: what its status says does not matter any more.
    pub fn farewell(mut self) -> Decision {
        self.effects.push(Effect::RemoveFinalizer);
        Decision::Do(Box::new(Plan {
            effects: self.effects,
            claim: None,
            gift: None,
            patience: None,
            status: None,
            notes: self.notes,
            is_again: false,
        }))
    }
}

/// Whether the machine waits for us before it goes.
pub fn has_finalizer(machine: &Metal3Machine) -> bool {
    let finalizers = machine.metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|present| present == finalizer::MACHINE)
}
