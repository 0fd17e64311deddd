//! Decides what to do about the firmware components of a host. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use metal3_api::metal3::{
    FirmwareComponentStatus, HostFirmwareComponents, HostFirmwareComponentsStatus, HostUpdatePolicy,
};
use metal3_runtime::controller::{self, Next, Plan, Report};
use metal3_runtime::events::Event;
use serde_json::Value;

use crate::companion::{Question, Surroundings};
use crate::host::firmware::components::{changed, problems};
use crate::host::firmware::pending::{Kind, pending};
use crate::host::firmware::{Made, Wish, retold, updates_wish};
use crate::host::ownership::{Ownership, ownership};
use crate::host::record;
use crate::settings::HostSettings;

/// The observed state.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The host and its node.
    pub around: Surroundings,
    /// The object.
    pub object: Option<Arc<HostFirmwareComponents>>,
    /// When the host may be changed.
    pub policy: Option<Arc<HostUpdatePolicy>>,
    /// What Ironic knows.
    pub components: Option<Vec<FirmwareComponentStatus>>,
    /// The operator's settings.
    pub settings: Arc<HostSettings>,
}

/// A read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The components.
    Components,
}

/// An effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Creates an object that requests nothing.
    Create,
    /// Makes the host an owner of the object.
    Adopt,
    /// Deletes the object of an earlier host of this name.
    DeleteFormer,
    /// Records the updates that were made, on the version that was judged.
    Note(Value),
    /// Remembers that this was looked at.
    Remember(String),
}

/// The status of the object.
pub type Status = Box<HostFirmwareComponentsStatus>;

/// A decision.
pub type Decision = controller::Decision<Read, Effect, Status>;

/// The most events of one look.
const MOST_EVENTS: usize = 10;

/// Decides on one host.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    if !seen.around.has_companions() {
        return Decision::idle();
    }
    let object = seen.object.as_deref();
    if let Some(object) = object {
        if object.metadata.deletion_timestamp.is_some() {
            return Decision::idle();
        }
        match ownership(&object.metadata, &seen.around.host) {
            Ownership::Former => return first(Effect::DeleteFormer),
            Ownership::Unowned => return first(Effect::Adopt),
            Ownership::Ours => {}
        }
        if let Some(note) = record::noted(object) {
            return first(Effect::Note(note));
        }
    }
    let question = Question {
        is_open: match object {
            Some(object) => is_open(object),
            // The node is being inspected at once, and would not be at rest before that is over.
            None => seen.around.last_look.is_none(),
        },
        // Without it, nobody knows whether the host has any components.
        is_early: object.is_none_or(|object| object.status.is_none()),
    };
    let Some((_, look)) = seen.around.due(question) else {
        return retell(seen, object);
    };
    match (&seen.components, object) {
        (None, _) => Decision::Fetch(Read::Components),
        (Some(found), None) if found.is_empty() => looked(look).into(),
        (Some(_), None) => first(Effect::Create),
        (Some(found), Some(object)) => compare(seen, object, found, look, now).into(),
    }
}

/// Whether the object says nothing yet, or nothing of what is asked for.
pub(super) fn is_open(object: &HostFirmwareComponents) -> bool {
    object.status.is_none() || updates_wish(object) == Wish::Unobserved
}

/// Without a look at the components: what makes a pending update happen depends on the host and its policy, which may have changed.
fn retell(seen: &Observed, object: Option<&HostFirmwareComponents>) -> Decision {
    let mut plan = Plan {
        next: seen.around.again(),
        ..Plan::default()
    };
    if let Some(object) = object {
        let before = object.status.clone().unwrap_or_default();
        plan.report.status = retold(&before.conditions, object.metadata.generation, &pending_of(seen))
            .map(|conditions| Box::new(HostFirmwareComponentsStatus { conditions, ..before }));
    }
    plan.into()
}

fn pending_of(seen: &Observed) -> String {
    pending(&seen.around.host, seen.policy.as_deref(), Kind::Updates)
}

/// An effect after which to decide again.
fn first(effect: Effect) -> Decision {
    Plan {
        next: Next::Decide,
        ..Plan::of(effect)
    }
    .into()
}

fn looked(look: String) -> Plan<Effect, Status> {
    Plan {
        afterwards: vec![Effect::Remember(look)],
        ..Plan::default()
    }
}

fn compare(
    seen: &Observed,
    object: &HostFirmwareComponents,
    found: &[FirmwareComponentStatus],
    look: String,
    now: Timestamp,
) -> Plan<Effect, Status> {
    let denied = &seen.settings.denied_url_ranges;
    let Some(status) = changed(object, found.to_vec(), denied, Made::No(&pending_of(seen)), now) else {
        return looked(look);
    };
    let problems = problems(&object.spec.updates, denied).into_iter().take(MOST_EVENTS);
    Plan {
        report: Report {
            status: Some(Box::new(status)),
            events: problems
                .map(|(_, message)| Event::warning("ValidationFailed", message))
                .collect(),
        },
        ..looked(look)
    }
}
