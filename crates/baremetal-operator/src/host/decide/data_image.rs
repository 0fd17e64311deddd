//! The DataImage of a host: an ISO in its virtual drive that it can read but does not boot. It is changed before the
//! host starts, so that no running system loses a disc in use.
//!
//! Ironic changes the disc in the background, with the node locked; the drive shows afterwards whether that worked. The
//! request is written to the DataImage's status before the call: a BMC may report a different address than the
//! requested one, so nothing else identifies the disc later.

use std::time::Duration;

use kube::api::ObjectMeta;
use metal3_api::metal3::{AttachedImage, DataImage, DataImageError, DataImageStatus};
use metal3_runtime::timing::operator::DISC;

use crate::host::builder::{PlanBuilder, Step, locked, seconds};
use crate::host::named_url::{NamedUrl, UrlField};
use crate::host::observed::{DataImageAtHand, DiscRequest, Lookup};
use crate::host::plan::{Effect, EventReason, Read, Wait, WaitReason};
use crate::host::text::for_people;

/// The length of an address prefix that identifies it.
const TELLING: usize = 200;

/// Returns `Continue` if the drive has the wanted content, so that the host can be started.
pub(super) fn before_start(plan: &mut PlanBuilder<'_>) -> Step {
    if plan.seen.data_image_at_hand == DataImageAtHand::Absent {
        return Step::Continue;
    }
    let image = match &plan.seen.data_image {
        Lookup::NotLooked => return Step::Fetch(Read::DataImage),
        Lookup::NotFound => return Step::Continue,
        Lookup::Found(image) => image,
    };
    let (node, _) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    let requested = plan.seen.memory.disc_request;
    if let Some(why) = &plan.seen.disc_refusal {
        return fail(plan, image, why);
    }
    if let Some(step) = held_back(plan, image) {
        return step;
    }
    let is_inserted = match &plan.seen.disc {
        Lookup::NotLooked => return Step::Fetch(Read::Disc),
        Lookup::NotFound => return Step::Continue,
        Lookup::Found(Err(why)) => return fail(plan, image, why),
        Lookup::Found(Ok(is_inserted)) => *is_inserted,
    };
    let status = image.status.clone().unwrap_or_default();
    let attached = Some(&*status.attached_image.url).filter(|url| !url.is_empty());
    let is_done = is_inserted && attached.is_some() && attached == wanted(image);
    let url = match wanted(image).filter(|_| !is_done) {
        None => None,
        Some(url) => match NamedUrl::parse(UrlField::DataImage, url, &plan.seen.settings.denied_url_ranges) {
            Ok(url) => Some(url),
            Err(why) => return fail(plan, image, &why),
        },
    };
    match (is_inserted, url) {
        (true, None) if is_done => {
            let url = status.attached_image.url.clone();
            done(plan, status, &url)
        }
        (false, None) => done(plan, status, ""),
        (true, _) if requested == Some(DiscRequest::Detach) => {
            let why = node.last_error.as_deref();
            fail(plan, image, why.unwrap_or("the former disc is still in the drive"))
        }
        // A disc of an earlier request, or of unknown origin, which is in the way.
        (true, _) => plan.mutate_and_go_on(Effect::DetachDisc {
            node: node.uuid.clone(),
        }),
        (false, Some(_)) if requested == Some(DiscRequest::Attach) => {
            let why = node.last_error.as_deref();
            fail(plan, image, why.unwrap_or("the disc did not appear in the drive"))
        }
        (false, Some(url)) => {
            if attached != Some(url.as_str()) {
                record(plan, status, url.as_str());
            }
            plan.mutate_and_go_on(Effect::AttachDisc {
                node: node.uuid.clone(),
                url,
            })
        }
    }
}

/// The wait for a requested change: the node's lock is due to our own request.
pub(super) fn under_way(plan: &PlanBuilder<'_>) -> Option<Wait> {
    let node = plan.known().filter(|node| node.reservation.is_some())?;
    plan.seen.memory.disc_request?;
    let metadata = &plan.seen.host.metadata;
    Some(Wait::for_node(
        WaitReason::DataImageChanging,
        format!(
            "Ironic changes the disc in the drive of node {}, as {} asks for",
            node.uuid,
            name(metadata)
        ),
    ))
}

/// The image that should be in the drive; `None` where it should be empty.
fn wanted(image: &DataImage) -> Option<&str> {
    let is_going = image.metadata.deletion_timestamp.is_some();
    Some(&*image.spec.url).filter(|url| !is_going && !url.is_empty())
}

fn done(plan: &mut PlanBuilder<'_>, mut status: DataImageStatus, url: &str) -> Step {
    if status.attached_image.url != url || status.error != DataImageError::default() {
        status.error = DataImageError::default();
        record(plan, status, url);
    }
    Step::Continue
}

fn record(plan: &mut PlanBuilder<'_>, mut status: DataImageStatus, url: &str) {
    status.attached_image = AttachedImage { url: url.to_owned() };
    status.last_reconciled = Some(seconds(plan.now));
    plan.effects.push(Effect::RecordDataImage(Box::new(status)));
}

/// Reports the failure on the DataImage and by an event of the host. The host is not started in the meantime: its
/// workload may need the disc.
fn fail(plan: &mut PlanBuilder<'_>, image: &DataImage, why: &str) -> Step {
    let mut status = image.status.clone().unwrap_or_default();
    let message = plan.for_owner(&format!("{}{why}", goal(image)));
    status.error = DataImageError {
        count: status.error.count.saturating_add(1),
        message: message.clone(),
    };
    status.last_reconciled = Some(seconds(plan.now));
    // A disc that could not be inserted is not in the drive.
    let is_requested = plan.seen.memory.disc_request == Some(DiscRequest::Attach) || plan.seen.disc_refusal.is_some();
    if wanted(image) == Some(&status.attached_image.url) && is_requested {
        status.attached_image = AttachedImage::default();
    }
    plan.event(
        EventReason::DataImageError,
        format!("{}: {message}", name(&image.metadata)),
    );
    plan.effects.push(Effect::RecordDataImage(Box::new(status.clone())));
    let after = delay(plan, &status);
    Step::Wait(failing(plan, image, &status, after))
}

/// The wait after a failure of the current change.
fn held_back(plan: &PlanBuilder<'_>, image: &DataImage) -> Option<Step> {
    let status = image.status.as_ref()?;
    if status.error.count == 0 || !status.error.message.starts_with(&goal(image)) {
        return None;
    }
    let delay = delay(plan, status);
    let due = status.last_reconciled.as_ref()?.0.checked_add(delay).ok()?;
    let left = due.duration_since(plan.now);
    (!left.is_negative() && !left.is_zero()).then(|| Step::Wait(failing(plan, image, status, left.unsigned_abs())))
}

fn delay(plan: &PlanBuilder<'_>, status: &DataImageStatus) -> Duration {
    plan.delay_after(status.error.count).max(DISC)
}

/// The prefix of a failure message; a different request is tried immediately.
fn goal(image: &DataImage) -> String {
    match wanted(image) {
        Some(url) => format!(
            "attaching {}: ",
            for_people(url).chars().take(TELLING).collect::<String>()
        ),
        None => "detaching: ".to_owned(),
    }
}

fn failing(plan: &PlanBuilder<'_>, image: &DataImage, status: &DataImageStatus, left: Duration) -> Wait {
    let since = status.last_reconciled.as_ref().map_or(plan.now, |time| time.0);
    let at = since.checked_add(delay(plan, status)).ok();
    let at = at.and_then(|at| at.round(jiff::Unit::Second).ok());
    Wait::until(
        WaitReason::DataImageFailing,
        at.unwrap_or(plan.now),
        left,
        format!(
            "{}: {}; another url is tried at once. The host is started when the disc is there, or when the DataImage is deleted",
            name(&image.metadata),
            status.error.message
        ),
    )
}

fn name(metadata: &ObjectMeta) -> String {
    format!(
        "DataImage {}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}
