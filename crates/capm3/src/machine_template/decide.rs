//! Decides what to do about a machine whose template may have changed. Pure.

use std::convert::Infallible;

use kube::ResourceExt;
use metal3_api::metal3::CleaningMode;
use metal3_runtime::controller::{Decision, Plan};
use metal3_runtime::events::Event;
use serde_json::{Value, json};

use super::Observed;

/// A merge patch of the machine, guarded by its UID: another machine of this name may have another template.
#[derive(Clone, Debug, PartialEq)]
pub struct Change(pub Value);

/// Changes the machine's cleaning mode if the template's differs. A template without a mode leaves machines unchanged.
pub fn decide(seen: &Observed) -> Decision<Infallible, Change, ()> {
    let (machine, template) = (&seen.machine, &seen.template);
    let wanted = template.spec.template.spec.automated_cleaning_mode.as_ref();
    let wanted =
        wanted.filter(|mode| !mode.as_str().is_empty() && machine.spec.automated_cleaning_mode.as_ref() != Some(mode));
    let Some(wanted) = wanted.map(CleaningMode::as_str) else {
        return Decision::idle();
    };
    let name = template.name_any();
    let message = format!("spec.automatedCleaningMode becomes {wanted}, as Metal3MachineTemplate {name} says now");
    Plan::of(Change(json!({
        "metadata": {"uid": machine.metadata.uid},
        "spec": {"automatedCleaningMode": wanted},
    })))
    .with(Event::normal("AutomatedCleaningModeChanged", message))
    .into()
}
