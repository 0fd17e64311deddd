//! What to do about a machine whose template may say something else by now. Pure.

use kube::ResourceExt;
use metal3_runtime::events::{Note, Severity};
use serde_json::{Value, json};

use super::Observed;

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// The merge patch of the machine. It insists on the UID: another machine of this name may have another template.
    pub(super) patch: Value,
    /// What the user is told.
    pub(super) note: Note,
}

/// Nothing, unless the template has a mode and the machine another one. A template without a mode leaves machines as they
/// are.
pub(super) fn decide(seen: &Observed) -> Option<Plan> {
    let (machine, template) = (&seen.machine, &seen.template);
    let wanted = template.spec.template.spec.automated_cleaning_mode.as_ref();
    let wanted = wanted.filter(|mode| !mode.as_str().is_empty())?;
    if machine.spec.automated_cleaning_mode.as_ref() == Some(wanted) {
        return None;
    }
    let message = format!(
        "spec.automatedCleaningMode becomes {}, as Metal3MachineTemplate {} says now",
        wanted.as_str(),
        template.name_any()
    );
    Some(Plan {
        patch: json!({
            "metadata": {"uid": machine.metadata.uid},
            "spec": {"automatedCleaningMode": wanted.as_str()},
        }),
        note: Note {
            reason: "AutomatedCleaningModeChanged",
            message,
            severity: Severity::Normal,
        },
    })
}
