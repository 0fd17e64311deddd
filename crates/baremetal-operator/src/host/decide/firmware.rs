//! The firmware changes of a host, looked up only if there may be any.

use super::outage::outage;
use crate::host::builder::{PlanBuilder, Step};
use crate::host::firmware::settings::not_applied;
use crate::host::firmware::{Changes, Kinds, Objects, Wish, made_after_failure, settings_wish, updates_wish};
use crate::host::mark::{self, Progress};
use crate::host::observed::{Lookup, NodeView};
use crate::host::ownership::{Ownership, ownership};
use crate::host::plan::{Effect, EventReason, Read, Wait, WaitReason};
use kube::ResourceExt;
use kube::core::ObjectMeta;
use metal3_api::metal3::HostFirmwareSettings;
use metal3_api::metal3::names::condition::firmware::CHANGE_DETECTED;
use metal3_ironic::{Node, NodeDetail};
use metal3_runtime::conditions;

/// What a user does about changes that keep failing.
pub(super) const ABANDON: &str = "remove it from the spec of HostFirmwareSettings or HostFirmwareComponents";

/// What the HostUpdatePolicy allows for a host in use. It is read if its watch has not delivered all policies: a policy
/// that is not known yet, taken for none, would abort a servicing midway.
pub(super) fn on_reboot(plan: &PlanBuilder<'_>) -> Result<Kinds, Step> {
    match (plan.seen.firmware.on_reboot, &plan.seen.firmware_objects) {
        (Some(kinds), _) => Ok(kinds),
        (None, Lookup::NotLooked) => Err(Step::Fetch(Read::Firmware)),
        (None, Lookup::NotFound) => Ok(Kinds::default()),
        (None, Lookup::Found(objects)) => Ok(objects.policy.as_ref().map(Kinds::on_reboot).unwrap_or_default()),
    }
}

/// The changes that objects of these kinds request. `must_look` checks even if they are known to request none.
pub(super) fn changes(plan: &PlanBuilder<'_>, kinds: Kinds, must_look: bool) -> Result<Changes, Step> {
    let seen = plan.seen;
    let mut changes = Changes::default();
    if kinds == Kinds::default() || !must_look && !seen.firmware.may_ask(kinds) {
        return Ok(changes);
    }
    let objects = match &seen.firmware_objects {
        Lookup::NotLooked => return Err(Step::Fetch(Read::Firmware)),
        Lookup::NotFound => return Ok(changes),
        Lookup::Found(objects) => objects,
    };
    let Objects { settings, updates, .. } = &**objects;
    let settings = settings.as_ref().filter(|_| kinds.settings);
    let updates = updates.as_ref().filter(|_| kinds.updates);
    changes.is_wanted =
        settings.is_some_and(|s| !s.spec.settings.is_empty()) || updates.is_some_and(|u| !u.spec.updates.is_empty());
    if let Some(object) = updates {
        former(plan, "HostFirmwareComponents", &object.metadata)?;
        match updates_wish(object) {
            Wish::Unobserved => {
                let trouble = seen.firmware_trouble.updates.as_deref();
                return Err(unobserved(plan, "HostFirmwareComponents", &object.metadata, trouble));
            }
            Wish::Changes => changes.add_updates(object),
            Wish::Nothing | Wish::Unknown => {}
        }
    }
    if let Some(object) = settings {
        former(plan, "HostFirmwareSettings", &object.metadata)?;
        match settings_wish(object) {
            Wish::Unobserved if is_without_settings(object) => {
                return Err(waits(
                    "HostFirmwareSettings",
                    &object.metadata,
                    "requests settings, and Ironic has found none on the host: its BMC or its driver does not offer any. Empty spec.settings, \
                     or have the host inspected again once its BMC offers them",
                ));
            }
            Wish::Unobserved => {
                let trouble = seen.firmware_trouble.settings.as_deref();
                return Err(unobserved(plan, "HostFirmwareSettings", &object.metadata, trouble));
            }
            // Their controller may not have seen the last change yet; Ironic knows the values.
            Wish::Changes => match (&seen.bios, &seen.node) {
                (Lookup::Found(bios), _) => changes.add_settings(object, bios),
                (Lookup::NotFound, _) => {}
                (Lookup::NotLooked, NodeView::Unknown { cause }) => return Err(Step::Wait(outage(cause.as_ref()))),
                (Lookup::NotLooked, _) => return Err(Step::Fetch(Read::Bios)),
            },
            Wish::Nothing | Wish::Unknown => {}
        }
    }
    Ok(changes)
}

/// Records the changes that were made, before the host reports that it is done with them. Settings among them that still differ are
/// those that the BMC did not apply.
pub(super) fn record(plan: &mut PlanBuilder<'_>, changes: &Changes) -> Result<(), Step> {
    let updates = changes.has_updates().then(|| made(plan, changes)).transpose()?;
    let settings = changes.has_pending_settings().then(|| Effect::RecordSettings {
        is_made: changes.differences().is_some(),
    });
    for effect in updates.into_iter().chain(settings) {
        if !plan.effects.contains(&effect) {
            plan.effects.push(effect);
        }
    }
    Ok(())
}

/// Records the updates that were made, and reports those that have not changed the version.
fn made(plan: &mut PlanBuilder<'_>, changes: &Changes) -> Result<Effect, Step> {
    let found = match &plan.seen.components {
        Lookup::NotLooked => return Err(Step::Fetch(Read::Components)),
        Lookup::NotFound => None,
        Lookup::Found(found) => Some(found),
    };
    let unchanged = found.and_then(|found| changes.unchanged(found));
    if let Some(unchanged) = &unchanged {
        let told = format!(
            "{unchanged}. Condition ChangeDetected of HostFirmwareComponents {}/{} says what to do",
            plan.seen.namespace(),
            plan.seen.host.name_any()
        );
        plan.event(EventReason::FirmwareUnchanged, told);
    }
    Ok(Effect::RecordFirmware {
        updates: changes.applied.clone(),
        unchanged,
    })
}

/// Reports settings that were made, and that the BMC did not apply.
pub(super) fn report_not_applied(plan: &mut PlanBuilder<'_>, changes: &Changes) {
    if let Some(differences) = changes.differences() {
        let told = format!(
            "{}. Condition ChangeDetected of HostFirmwareSettings {}/{} says what to do",
            not_applied(differences),
            plan.seen.namespace(),
            plan.seen.host.name_any()
        );
        plan.event(EventReason::SettingsNotApplied, told);
    }
}

/// Added to Ironic's words about a preparation or servicing that failed: when a step that sets the BIOS takes too long, they only tell
/// the user to look at a ramdisk, and there is none.
pub(super) fn never_seen(words: &str, changes: &Changes) -> String {
    match changes.differences().filter(|_| is_late(words)) {
        Some(differences) => {
            format!(
                "; Ironic has not seen all of these BIOS settings in force, so read the BMC's own log: {differences}"
            )
        }
        None => String::new(),
    }
}

/// The changes of a preparation that failed like that; none if it failed otherwise, or if they are not known.
pub(super) fn late(plan: &PlanBuilder<'_>, words: &str) -> Result<Changes, Step> {
    if !is_late(words) {
        return Ok(Changes::default());
    }
    match changes(plan, Kinds::ALL, false) {
        Err(Step::Fetch(read)) => Err(Step::Fetch(read)),
        found => Ok(found.unwrap_or_default()),
    }
}

fn is_late(words: &str) -> bool {
    words.contains("Timeout reached") && words.contains("apply_configuration")
}

/// Records the updates of a node at rest that were made with something that was edited meanwhile: what is wanted now was
/// not begun, and firmware is not written twice. Returns whether there are any. `names` are those of the node's mark.
pub(super) fn record_made(
    plan: &mut PlanBuilder<'_>,
    (node, detail): (&Node, &NodeDetail),
    changes: &Changes,
    names: [&'static str; 2],
) -> Result<bool, Step> {
    let mut parts = changes.parts(names);
    parts.retain(|(kind, _)| *kind == names[1]);
    let is_made = !parts.is_empty() && mark::progress(node, detail, &parts) == Progress::Done;
    if is_made {
        let effect = made(plan, changes)?;
        plan.effects.push(effect);
    }
    Ok(is_made)
}

/// Forgets the versions that a preparation or servicing is about to replace, or may have replaced when it failed, so that they
/// can be requested again.
/// Returns whether there are any.
pub(super) fn forget_tried(plan: &mut PlanBuilder<'_>) -> Result<bool, Step> {
    let objects = match &plan.seen.firmware_objects {
        Lookup::NotLooked => return Err(Step::Fetch(Read::Firmware)),
        Lookup::NotFound => return Ok(false),
        Lookup::Found(objects) => objects,
    };
    let left = objects.updates.as_ref().and_then(made_after_failure);
    let is_changed = left.is_some();
    plan.effects.extend(left.map(|updates| Effect::RecordFirmware {
        updates,
        unchanged: None,
    }));
    Ok(is_changed)
}

/// An object of an earlier host of this name says nothing about this one.
fn former(plan: &PlanBuilder<'_>, kind: &str, object: &ObjectMeta) -> Result<(), Step> {
    if ownership(object, &plan.seen.host) != Ownership::Former {
        return Ok(());
    }
    let (namespace, name) = (plan.seen.namespace(), object.name.as_deref().unwrap_or_default());
    Err(Step::Wait(Wait::for_change(
        WaitReason::FirmwareUnobserved,
        format!("{kind} {namespace}/{name} belongs to an earlier host of this name, and is about to be replaced"),
    )))
}

/// Whether the current edit was compared, with a host that has no settings.
fn is_without_settings(object: &HostFirmwareSettings) -> bool {
    let status = object.status.as_ref();
    status.is_some_and(|status| {
        let compared = conditions::get(&status.conditions, CHANGE_DETECTED);
        let is_current = compared.is_some_and(|found| found.observed_generation == object.metadata.generation);
        is_current && status.settings.is_empty()
    })
}

/// The object's controller has not compared it yet, and for what it waits.
fn unobserved(plan: &PlanBuilder<'_>, kind: &str, metadata: &ObjectMeta, trouble: Option<&str>) -> Step {
    let because = match trouble {
        _ if plan.seen.firmware_trouble.is_unlisted => {
            ", because not all firmware objects, update policies and schemas of the namespace could be listed"
                .to_owned()
        }
        Some(trouble) => format!(", because that failed, and is tried again: {trouble}"),
        None => String::new(),
    };
    let told = "is new or was edited, and has not been compared with what Ironic knows of the host yet";
    waits(kind, metadata, &format!("{told}{because}"))
}

fn waits(kind: &str, metadata: &ObjectMeta, told: &str) -> Step {
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    Step::Wait(Wait::for_change(
        WaitReason::FirmwareUnobserved,
        format!("{kind} {namespace}/{name} {told}"),
    ))
}
