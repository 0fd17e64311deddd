//! The DataImage of a host: an ISO in its virtual drive that it can read but does not boot. It is changed before the
//! host starts, so that no running system loses a disc in use, and removed when the host is no longer in use.
//!
//! Ironic changes the disc in the background, with the node locked; the drive shows afterwards whether that worked. The
//! request is written to the DataImage's status before the call: a BMC may report a different address than the
//! requested one, so nothing else identifies the disc later. A disc whose DataImage went while the host was detached is
//! recorded on the host instead ([`disc`]).

use std::time::Duration;

use kube::api::ObjectMeta;
use metal3_api::metal3::names::condition::data_image::{ATTACH_FAILED, ATTACHING, DETACH_FAILED};
use metal3_api::metal3::{AttachedImage, DataImage, DataImageError, DataImageStatus, Image};
use metal3_ironic::Node;
use metal3_runtime::timing::operator::DISC;

use crate::host::attached::{self, Finding};
use crate::host::builder::{PlanBuilder, Step, locked, seconds};
use crate::host::disc;
use crate::host::named_url::{NamedUrl, UrlField};
use crate::host::observed::{DataImageAtHand, DiscFailure, DiscRequest, Lookup};
use crate::host::plan::{DiscRecord, Effect, EventReason, Read, Wait, WaitReason};
use crate::host::text::for_people;

/// The length of an address prefix that identifies it.
const TELLING: usize = 200;

/// After more than this many failures in a row, a deletion of the host goes on with the disc in the drive.
const GIVE_UP_AFTER: i64 = 3;

/// Why nothing is inserted, and nothing ejected: each request of ours is recorded before it is made.
const ANOTHER_MEDIUM: &str = "another medium is in the drive, which was not inserted for this DataImage. If it is needed no \
    more, eject it; a live ISO that is in use stays";

/// What the drive should hold, and for whom.
#[derive(Clone, Copy)]
struct Goal<'a> {
    image: &'a DataImage,
    /// The wanted image; none where the drive should be empty.
    url: Option<&'a str>,
    /// What the host does once that is reached.
    until: &'static str,
}

/// Returns `Continue` if the drive has the wanted content, so that the host can be started.
pub(super) fn before_start(plan: &mut PlanBuilder<'_>) -> Step {
    let image = match of_host(plan) {
        Ok(image) => image,
        Err(step) => return step,
    };
    let is_going = image.metadata.deletion_timestamp.is_some();
    let goal = Goal {
        image,
        url: Some(&*image.spec.url).filter(|url| !is_going && !url.is_empty()),
        until: "The host is started when the disc is there, or when the DataImage is deleted",
    };
    reach(plan, goal)
}

/// Returns `Continue` once the drive of a host that is no longer in use is empty, so that its next user does not find the
/// disc of the last one.
pub(super) fn after_use(plan: &mut PlanBuilder<'_>) -> Step {
    if let DataImageAtHand::Present { holds_disc: false, .. } = plan.seen.data_image_at_hand {
        return Step::Continue;
    }
    let image = match of_host(plan) {
        Ok(image) => image,
        Err(step) => return step,
    };
    let status = image.status.as_ref();
    if status.is_none_or(|status| status.attached_image.url.is_empty()) {
        return Step::Continue;
    }
    if plan.is_deleting() && status.is_some_and(|status| status.error.count > GIVE_UP_AFTER) {
        let message = format!(
            "{}: the host is deleted with the disc in its drive, which could not be emptied",
            name(&image.metadata)
        );
        plan.event(EventReason::DataImageError, message);
        return Step::Continue;
    }
    let goal = Goal {
        image,
        url: None,
        until: "The host can be used again, or is deleted, when the drive is empty",
    };
    match reach(plan, goal) {
        // Recorded first: the next question may be this one again.
        Step::Continue if !plan.effects.is_empty() => Step::Again,
        step => step,
    }
}

/// The DataImage of the host's name; the step to take where there is none, or it is not read yet.
fn of_host<'a>(plan: &PlanBuilder<'a>) -> Result<&'a DataImage, Step> {
    if plan.seen.data_image_at_hand == DataImageAtHand::Absent {
        return Err(Step::Continue);
    }
    match &plan.seen.data_image {
        Lookup::NotLooked => Err(Step::Fetch(Read::DataImage)),
        Lookup::NotFound => Err(Step::Continue),
        Lookup::Found(image) => Ok(image),
    }
}

fn reach(plan: &mut PlanBuilder<'_>, goal: Goal<'_>) -> Step {
    let (node, _) = match plan.live() {
        Ok(node) => node,
        Err(step) => return step,
    };
    if let Some(wait) = under_way(plan) {
        return Step::Wait(wait);
    }
    if let Some(holder) = &node.reservation {
        return Step::Wait(locked(node, holder));
    }
    if let Some(why) = &plan.seen.disc_refusal {
        return fail(plan, goal, why);
    }
    if let Some(step) = held_back(plan, goal) {
        return step;
    }
    match &plan.seen.disc {
        Lookup::NotLooked => Step::Fetch(Read::Disc),
        Lookup::NotFound => Step::Continue,
        Lookup::Found(Err(why)) => fail(plan, goal, why),
        Lookup::Found(Ok(is_inserted)) => change(plan, goal, node, *is_inserted),
    }
}

/// The step from what is in the drive towards what should be there.
fn change(plan: &mut PlanBuilder<'_>, goal: Goal<'_>, node: &Node, is_inserted: bool) -> Step {
    let requested = plan.seen.memory.disc_request;
    let status = goal.image.status.clone().unwrap_or_default();
    let attached = Some(&*status.attached_image.url).filter(|url| !url.is_empty());
    let is_done = is_inserted && attached.is_some() && attached == goal.url;
    let is_ours =
        attached.is_some() || requested.is_some() && !plan.spec().image.as_ref().is_some_and(Image::is_live_iso);
    let url = match goal.url.filter(|_| !is_done) {
        None => None,
        Some(url) => match NamedUrl::parse(UrlField::DataImage, url, &plan.seen.settings.denied_url_ranges) {
            Ok(url) => Some(url),
            Err(why) => return fail(plan, goal, &why),
        },
    };
    match (is_inserted, url) {
        (true, None) if is_done => {
            let url = status.attached_image.url.clone();
            done(plan, goal, status, &url)
        }
        (false, None) => done(plan, goal, status, ""),
        // It may be what the host boots from.
        (true, None) if !is_ours => done(plan, goal, status, ""),
        (true, Some(_)) if !is_ours => fail(plan, goal, ANOTHER_MEDIUM),
        (true, _) if requested == Some(DiscRequest::Detach) => {
            let why = node.last_error.as_deref();
            fail(plan, goal, why.unwrap_or("the former disc is still in the drive"))
        }
        // The disc of an earlier request, which is in the way.
        (true, _) => plan.mutate_and_go_on(Effect::DetachDisc {
            node: node.uuid.clone(),
        }),
        (false, Some(_)) if requested == Some(DiscRequest::Attach) => {
            let why = node.last_error.as_deref();
            fail(plan, goal, why.unwrap_or("the disc did not appear in the drive"))
        }
        (false, Some(url)) => {
            if attached != Some(url.as_str()) {
                let message = format!("Ironic attaches it to the drive of node {}", node.uuid);
                let finding = Finding::not_yet(ATTACHING, message);
                record(plan, goal, status, url.as_str(), Some(&finding));
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

fn done(plan: &mut PlanBuilder<'_>, goal: Goal<'_>, mut status: DataImageStatus, url: &str) -> Step {
    let is_only_noted = disc::left(&plan.seen.host).is_some() && !disc::is_note(goal.image);
    // Nothing at all is said where the API server drops conditions.
    let is_told = url.is_empty() || attached::is_seen(goal.image) || !attached::has_condition(goal.image);
    if is_only_noted || !is_told || status.attached_image.url != url || status.error != DataImageError::default() {
        status.error = DataImageError::default();
        let finding = (!url.is_empty()).then(Finding::inserted);
        record(plan, goal, status, url, finding.as_ref());
    }
    Step::Continue
}

/// What its host says of a disc that is in no drive, the DataImage's own controller says.
fn record(
    plan: &mut PlanBuilder<'_>,
    goal: Goal<'_>,
    mut status: DataImageStatus,
    url: &str,
    finding: Option<&Finding>,
) {
    match finding {
        Some(finding) => finding.set(&mut status, goal.image, plan.now),
        None => attached::forget(&mut status),
    }
    status.attached_image = AttachedImage { url: url.to_owned() };
    status.last_reconciled = Some(seconds(plan.now));
    store(plan, goal, DiscRecord { status, failure: None });
}

/// A DataImage takes over what was noted on the host, before the note goes.
fn store(plan: &mut PlanBuilder<'_>, goal: Goal<'_>, mut record: DiscRecord) {
    if disc::is_note(goal.image) {
        // Nobody reads conditions in an annotation.
        attached::forget(&mut record.status);
        plan.effects.push(Effect::NoteDisc(Box::new(record)));
        return;
    }
    let taken_over = DiscRecord {
        status: DataImageStatus::default(),
        failure: record.failure,
    };
    plan.effects.push(Effect::RecordDataImage(Box::new(record)));
    if disc::left(&plan.seen.host).is_some() {
        plan.effects.push(Effect::NoteDisc(Box::new(taken_over)));
    }
}

/// Reports the failure on the DataImage and by an event of the host. The host does not go on in the meantime: its
/// workload may need the disc, and its next user must not find it.
fn fail(plan: &mut PlanBuilder<'_>, goal: Goal<'_>, why: &str) -> Step {
    let image = goal.image;
    let mut status = image.status.clone().unwrap_or_default();
    let message = plan.for_owner(&format!("{}{why}", goal.prefix()));
    status.error = DataImageError {
        count: status.error.count.saturating_add(1),
        message: message.clone(),
    };
    status.last_reconciled = Some(seconds(plan.now));
    let reason = goal.url.map_or(DETACH_FAILED, |_| ATTACH_FAILED);
    Finding::not_yet(reason, &*message).set(&mut status, image, plan.now);
    // What was refused at the first attempt is not in the drive. A disc whose request was accepted may still come: its record stays,
    // so that it counts as ours then.
    if goal.url == Some(&status.attached_image.url) && plan.seen.disc_refusal.is_some() && status.error.count == 1 {
        status.attached_image = AttachedImage::default();
    }
    plan.event(
        EventReason::DataImageError,
        format!("{}: {message}", name(&image.metadata)),
    );
    let record = DiscRecord {
        status: status.clone(),
        failure: Some(goal.failure()),
    };
    store(plan, goal, record);
    let after = delay(plan, &status);
    Step::Wait(failing(plan, goal, &status, after))
}

/// The wait after a failure of the current change. A changed DataImage is tried at once, and so is a failed one after a
/// restart of the operator.
fn held_back(plan: &PlanBuilder<'_>, goal: Goal<'_>) -> Option<Step> {
    let status = goal.image.status.as_ref()?;
    if status.error.count == 0 || plan.seen.memory.disc_failure != Some(goal.failure()) {
        return None;
    }
    let delay = delay(plan, status);
    let due = status.last_reconciled.as_ref()?.0.checked_add(delay).ok()?;
    let left = due.duration_since(plan.now);
    (!left.is_negative() && !left.is_zero()).then(|| Step::Wait(failing(plan, goal, status, left.unsigned_abs())))
}

fn delay(plan: &PlanBuilder<'_>, status: &DataImageStatus) -> Duration {
    plan.delay_after(status.error.count).max(DISC)
}

impl Goal<'_> {
    /// The beginning of a failure message.
    fn prefix(&self) -> String {
        match self.url {
            Some(url) => format!(
                "attaching {}: ",
                for_people(url).chars().take(TELLING).collect::<String>()
            ),
            None => "detaching: ".to_owned(),
        }
    }

    fn failure(&self) -> DiscFailure {
        let request = match self.url {
            Some(_) => DiscRequest::Attach,
            None => DiscRequest::Detach,
        };
        DiscFailure {
            request,
            generation: self.image.metadata.generation,
        }
    }
}

fn failing(plan: &PlanBuilder<'_>, goal: Goal<'_>, status: &DataImageStatus, left: Duration) -> Wait {
    let since = status.last_reconciled.as_ref().map_or(plan.now, |time| time.0);
    let at = since.checked_add(delay(plan, status)).ok();
    let at = at.and_then(|at| at.round(jiff::Unit::Second).ok());
    Wait::until(
        WaitReason::DataImageFailing,
        at.unwrap_or(plan.now),
        left,
        format!(
            "{}: {}{}. {}",
            name(&goal.image.metadata),
            status.error.message,
            goal.url.map_or("", |_| "; another url is tried at once"),
            goal.until
        ),
    )
}

fn name(metadata: &ObjectMeta) -> String {
    let of = format!(
        "DataImage {}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    );
    match metadata.uid {
        Some(_) => of,
        // It stands for the note on the host.
        None => format!("the disc of the deleted {of}"),
    }
}
