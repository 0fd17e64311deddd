//! Decides what to do about the BIOS settings of a host. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use metal3_api::metal3::{
    FirmwareSchemaSpec, HostFirmwareSettings, HostFirmwareSettingsStatus, HostUpdatePolicy, SchemaReference,
};
use metal3_ironic::BiosSetting;
use metal3_runtime::conditions::whole_seconds;
use metal3_runtime::controller::{self, Next, Plan, Report};
use metal3_runtime::events::Event;

use crate::companion::{Question, Surroundings};
use crate::host::annotations;
use crate::host::companions::digested;
use crate::host::firmware::pending::{Kind, pending};
use crate::host::firmware::settings::{problems, schema, schema_name, status};
use crate::host::firmware::{Made, Wish, retold, settings_wish};
use crate::host::ownership::{Ownership, ownership};

/// The observed state.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The host and its node.
    pub around: Surroundings,
    /// The object as it is kept, its maps [reduced](digested).
    pub settings: Option<Arc<HostFirmwareSettings>>,
    /// When the host may be changed.
    pub policy: Option<Arc<HostUpdatePolicy>>,
    /// Whether the schema that the object refers to is gone.
    pub lacks_schema: bool,
    /// What Ironic knows of the BIOS.
    pub bios: Option<Bios>,
    /// The whole object.
    pub whole: Option<HostFirmwareSettings>,
}

/// The BIOS settings as Ironic read them.
#[derive(Clone, Debug)]
pub struct Bios {
    /// All of them.
    pub settings: Vec<BiosSetting>,
    /// Whether there is a schema for them.
    pub has_schema: bool,
}

/// A read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The BIOS settings.
    Bios,
    /// The whole object, because users want settings.
    Whole,
}

/// An effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Creates an object that requests nothing.
    Create,
    /// Makes the host an owner of the object.
    Adopt,
    /// Deletes the object of an earlier host of this name.
    DeleteFormer,
    /// Makes the host an owner of the user's HostUpdatePolicy.
    AdoptPolicy,
    /// Creates the schema of this kind of host, with its maker and model.
    CreateSchema(Box<FirmwareSchemaSpec>, String),
    /// Remembers that this was looked at.
    Remember(String),
}

/// The status of the object.
pub type Status = Box<HostFirmwareSettingsStatus>;

/// A decision.
pub type Decision = controller::Decision<Read, Effect, Status>;

/// The most events of one look: anyone may write thousands of impossible settings into an object.
const MOST_EVENTS: usize = 10;

/// Decides on one host.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    let host = &seen.around.host;
    if !seen.around.has_companions() {
        return Decision::idle();
    }
    let Some(settings) = seen.settings.as_deref() else {
        return first(Effect::Create);
    };
    if settings.metadata.deletion_timestamp.is_some() {
        return Decision::idle();
    }
    match ownership(&settings.metadata, host) {
        Ownership::Former => return first(Effect::DeleteFormer),
        Ownership::Unowned => return first(Effect::Adopt),
        Ownership::Ours => {}
    }
    let question = Question {
        is_open: seen.lacks_schema || is_open(settings),
        // The schema bears the vendor and model that an inspection finds. Without one there is nothing to wait for, and the host
        // may be available a moment later.
        is_early: annotations::is_inspection_disabled(host),
    };
    let Some((_, look)) = seen.around.due(question) else {
        return retell(seen, settings);
    };
    match &seen.bios {
        None => Decision::Fetch(Read::Bios),
        Some(bios) => compare(seen, settings, bios, look, now),
    }
}

/// Whether the object says nothing yet, or nothing of what is asked for.
pub(super) fn is_open(settings: &HostFirmwareSettings) -> bool {
    settings.status.is_none() || settings_wish(settings) == Wish::Unobserved
}

/// Without a look at the BIOS: what makes a pending change happen depends on the host and its policy, which may have changed.
fn retell(seen: &Observed, kept: &HostFirmwareSettings) -> Decision {
    let object = seen.whole.as_ref().unwrap_or(kept);
    let before = object.status.clone().unwrap_or_default();
    let told = retold(&before.conditions, object.metadata.generation, &pending_of(seen));
    let mut plan = Plan {
        afterwards: policy_to_adopt(seen),
        next: seen.around.again(),
        ..Plan::default()
    };
    if let Some(conditions) = told {
        // The kept object does not have the settings of its status.
        if seen.whole.is_none() {
            return Decision::Fetch(Read::Whole);
        }
        plan.report.status = Some(Box::new(HostFirmwareSettingsStatus { conditions, ..before }));
    }
    plan.into()
}

fn pending_of(seen: &Observed) -> String {
    pending(&seen.around.host, seen.policy.as_deref(), Kind::Settings)
}

/// The host becomes the owner of its policy last: what the policy applies to does not wait for that.
fn policy_to_adopt(seen: &Observed) -> Vec<Effect> {
    let host = &seen.around.host;
    let policy = seen.policy.as_deref();
    let unowned = policy.filter(|policy| ownership(&policy.metadata, host) == Ownership::Unowned);
    unowned.map(|_| Effect::AdoptPolicy).into_iter().collect()
}

/// An effect after which to decide again.
fn first(effect: Effect) -> Decision {
    Plan {
        next: Next::Decide,
        ..Plan::of(effect)
    }
    .into()
}

fn compare(seen: &Observed, kept: &HostFirmwareSettings, bios: &Bios, look: String, now: Timestamp) -> Decision {
    if seen.whole.is_none() && !kept.spec.settings.is_empty() {
        return Decision::Fetch(Read::Whole);
    }
    if !bios.settings.is_empty() && !bios.has_schema {
        let spec = schema(&bios.settings);
        return first(Effect::CreateSchema(Box::new(spec), schema_name(&bios.settings)));
    }
    let object = seen.whole.as_ref().unwrap_or(kept);
    let before = object.status.clone().unwrap_or_default();
    let wanted = &object.spec.settings;
    let problems = problems(wanted, &bios.settings);
    let after = HostFirmwareSettingsStatus {
        schema: (!bios.settings.is_empty()).then(|| SchemaReference {
            namespace: seen.around.host.metadata.namespace.clone().unwrap_or_default(),
            name: schema_name(&bios.settings),
        }),
        ..status(
            &before,
            wanted,
            object.metadata.generation,
            &bios.settings,
            &problems,
            Made::No(&pending_of(seen)),
            now,
        )
    };
    let mut plan = Plan {
        afterwards: [vec![Effect::Remember(look)], policy_to_adopt(seen)].concat(),
        ..Plan::default()
    };
    let is_whole = seen.whole.is_some();
    let as_kept = if is_whole {
        after.settings.clone()
    } else {
        digested(&after.settings)
    };
    let is_stored = object.status.is_some()
        && HostFirmwareSettingsStatus {
            settings: as_kept,
            ..after.clone()
        } == before;
    if !is_stored {
        plan.report = Report {
            events: events(&after, &problems),
            status: Some(Box::new(HostFirmwareSettingsStatus {
                last_updated: Some(Time(whole_seconds(now))),
                ..after
            })),
        };
    }
    plan.into()
}

/// What a user has to correct. Nothing is said of a host whose settings are not known.
fn events(after: &HostFirmwareSettingsStatus, problems: &[String]) -> Vec<Event> {
    if after.settings.is_empty() {
        return Vec::new();
    }
    let told = problems.iter().take(MOST_EVENTS);
    told.map(|problem| Event::warning("ValidationFailed", problem))
        .collect()
}
