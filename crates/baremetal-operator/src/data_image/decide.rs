//! What a DataImage needs. Pure.

use jiff::Timestamp;
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use metal3_api::metal3::names::annotation::PAUSED;
use metal3_api::metal3::names::finalizer::DATA_IMAGE;
use metal3_api::metal3::{BareMetalHost, DataImage, DataImageStatus, ProvisioningState};
use metal3_runtime::controller::{self, Next, Plan};
use metal3_runtime::events::Event;
use metal3_runtime::patch::finalizer_removed;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::operator::{DISC, RELEASE};
use serde_json::Value;

use super::{Drive, Observed};
use crate::host::identity::stored_uuid;
use crate::host::ownership::{self, Ownership};
use crate::host::{annotations, attached, disc, is_paused, record};
use crate::left_behind;
use crate::live::Live;

/// A read that a decision may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// What Ironic's node with this host has in its drive.
    Drive,
    /// Whether a host that the store does not have is gone.
    Host,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Changes finalizers, owners or the record, on the version that was judged.
    Patch(Value),
    /// Stores the status of an object that was created without it.
    Restore(Box<DataImageStatus>),
    /// Notes on the host what is in its drive, on the version that was judged.
    Note(Value),
}

/// The status of the object.
pub type Status = Box<DataImageStatus>;

/// A decision.
pub type Decision = controller::Decision<Read, Effect, Status>;

/// Published on a DataImage whose disc is not in the drive, when what it waits for has changed.
const NOT_YET: &str = "DataImageWaiting";
/// Published on a DataImage that waits for its disc to leave the drive.
const WAITING: &str = "DataImageDetaching";
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    let Some(host) = &seen.host else {
        return without_host(seen, now);
    };
    if ownership::ownership(&seen.image.metadata, host) == Ownership::Former {
        return of_gone(&seen.image);
    }
    let is_deleted = seen.image.metadata.deletion_timestamp.is_some();
    if is_paused(host) {
        let waits = is_deleted && finalizer_removed(&seen.image.metadata, DATA_IMAGE).is_some();
        return if waits { paused(host) } else { told(seen, now) };
    }
    if is_deleted {
        return deleted(seen, host);
    }
    let held = ownership::held(&seen.image.metadata, host, DATA_IMAGE);
    if let Some(patch) = held.or_else(|| record::noted(&*seen.image)) {
        return Plan::of(Effect::Patch(patch)).into();
    }
    match record::restored(&*seen.image) {
        Some(status) => Plan::of(Effect::Restore(Box::new(status))).into(),
        None => told(seen, now),
    }
}

/// Says what a disc waits for that its host has not begun to attach.
fn told(seen: &Observed, now: Timestamp) -> Decision {
    let image = &*seen.image;
    // A status would hide the record that the object was created with.
    if !seen.keeps_conditions || image.metadata.deletion_timestamp.is_some() || record::restored(image).is_some() {
        return Decision::idle();
    }
    let Some(finding) = attached::waiting(image, seen.host.as_deref()) else {
        return Decision::idle();
    };
    let before = image.status.clone().unwrap_or_default();
    let mut status = before.clone();
    finding.set(&mut status, image, now);
    if status == before {
        return Decision::idle();
    }
    let mut plan = Plan::default().with(Event::normal(NOT_YET, finding.message()));
    plan.report.status = Some(Box::new(status));
    plan.into()
}

/// A host that cannot be read is not in the store either, and comes back to it when it is mended.
fn without_host(seen: &Observed, now: Timestamp) -> Decision {
    let image = &*seen.image;
    if finalizer_removed(&image.metadata, DATA_IMAGE).is_none() {
        return told(seen, now);
    }
    match seen.live {
        None => Decision::Fetch(Read::Host),
        Some(Live::Gone) => of_gone(image),
        Some(Live::Exists | Live::Unknown) => Plan {
            next: Next::After(RELEASE),
            ..Plan::default()
        }
        .into(),
    }
}

/// The host's own passes detach the disc, and record that: when the host starts, or when it is no longer in use.
fn deleted(seen: &Observed, host: &BareMetalHost) -> Decision {
    let image = &*seen.image;
    if finalizer_removed(&image.metadata, DATA_IMAGE).is_none() {
        return Decision::idle();
    }
    if !holds_disc(image) {
        return release(image, None);
    }
    let key = ObjectKey::of(host);
    if annotations::detached(host).is_some() {
        let message = format!(
            "BareMetalHost {key} is detached: the disc stays in its drive until the host is attached again, and is started or \
             deprovisioned"
        );
        return leave(image, host, Some(Event::warning(left_behind::DISC, message)));
    }
    if stored_uuid(host.status.as_ref()).is_none() {
        return leave(image, host, None);
    }
    if host.metadata.deletion_timestamp.is_some() {
        // It empties the drive itself, and the image is released when it is gone.
        return Decision::idle();
    }
    match &seen.drive {
        Drive::NotLooked => Decision::Fetch(Read::Drive),
        Drive::Busy => look_again(format!(
            "Ironic works on the node of BareMetalHost {key}: whether the disc is out of its drive is seen afterwards"
        )),
        // A BMC may insert a disc late, and the host's own pass may have asked for it a moment ago: the host looks into its drive
        // once more before it is started or used again.
        Drive::Empty => leave(image, host, None),
        Drive::NoNode => look_again(no_node(&key)),
        Drive::Unproven(why) => look_again(format!("the drive of BareMetalHost {key} is not looked into: {why}")),
        Drive::Full => Plan::default()
            .with(Event::normal(WAITING, waits_for(host, &key)))
            .into(),
    }
}

fn look_again(message: String) -> Decision {
    let plan = Plan {
        next: Next::After(DISC),
        ..Plan::default()
    };
    plan.with(Event::normal(WAITING, message)).into()
}

fn paused(host: &BareMetalHost) -> Decision {
    let message = format!(
        "BareMetalHost {} is paused (annotation {PAUSED}, or {DELETE_FOR_MOVE}): the disc is detached when it no longer is",
        ObjectKey::of(host)
    );
    Plan::default().with(Event::normal(WAITING, message)).into()
}

/// The garbage collector removes the DataImage of a host that is gone. Another host of the name inherits nothing of it.
fn of_gone(image: &DataImage) -> Decision {
    let left = || {
        let key = ObjectKey::of(image);
        let message =
            format!("the BareMetalHost {key} that it belongs to is gone, and the disc was not seen to leave the drive");
        Event::warning(left_behind::DISC, message)
    };
    release(image, holds_disc(image).then(left))
}

fn no_node(key: &ObjectKey) -> String {
    format!(
        "Ironic has no node for BareMetalHost {key} now: whether the disc is out of its drive is seen when the host is \
         registered again; if the host is deleted, this is not waited for"
    )
}

/// What ends the wait of a disc that is in the drive.
fn waits_for(host: &BareMetalHost, key: &ObjectKey) -> String {
    let in_use = host.status.as_ref().is_some_and(|status| {
        matches!(
            status.provisioning.state,
            ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned
        )
    });
    if in_use {
        format!(
            "BareMetalHost {key} uses the disc: it is detached when the host is restarted (annotation reboot.metal3.io), \
             or deprovisioned"
        )
    } else {
        format!("the disc is being detached from BareMetalHost {key}")
    }
}

/// The host takes over the record of the disc, before its DataImage goes.
fn leave(image: &DataImage, host: &BareMetalHost, event: Option<Event>) -> Decision {
    let mut decision = release(image, event);
    if let Decision::Act(plan) = &mut decision
        && let Some(note) = disc::note_of(image, host)
    {
        plan.effects.insert(0, Effect::Note(note));
    }
    decision
}

fn release(image: &DataImage, event: Option<Event>) -> Decision {
    let Some(patch) = finalizer_removed(&image.metadata, DATA_IMAGE) else {
        return Decision::idle();
    };
    let plan = Plan::of(Effect::Patch(patch));
    match event {
        Some(event) => plan.with(event).into(),
        None => plan.into(),
    }
}

/// Whether a disc may be in the drive: it is recorded before Ironic is asked to insert it.
fn holds_disc(image: &DataImage) -> bool {
    record::status_of(image).is_some_and(|status| !status.attached_image.url.is_empty())
}
