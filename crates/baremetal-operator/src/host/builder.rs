//! The working copy of a decision: the next status as it is built, and the operations that all states share.

pub(super) mod deletion;
mod failure;
mod history;

use jiff::Timestamp;
use metal3_api::condition::Condition;
use metal3_api::metal3::{
    BareMetalHostSpec, BareMetalHostStatus, ErrorType, HardwareDetails, OperationalStatus, ProvisioningState,
};
use metal3_ironic::{Node, NodeDetail, Verb};
use metal3_runtime::conditions;

use self::deletion::{Deletion, deletion};
use super::annotations;
use super::budget::OVERDUE;
use super::conditions::WAITING;
use super::detach_error::{read_detach_error, write_detach_error};
use super::observed::{HardwareView, NodeView, Observed, SecretView, is_of_firmware};
use super::plan::{Effect, Event, EventReason, Read, Wait, WaitReason};
use super::text::for_tenant;

/// The result of a state's function.
pub(super) enum Step {
    /// Read this first, then decide again.
    Fetch(Read),
    /// Enter another state and continue in the same pass.
    Move(ProvisioningState),
    /// Continue with the next question in the order of `decide`.
    Continue,
    /// Nothing to do.
    Idle,
    /// Run another pass immediately.
    Again,
    /// Wait, and say why.
    Wait(Wait),
    /// Nothing of the host is left to manage.
    Gone,
}

/// How to proceed after a failure that Ironic shows.
pub(super) enum Verdict {
    /// The failure is recorded; wait until the next attempt.
    Hold(Step),
    /// The failure was recorded before, and the retry is due.
    Retry,
}

/// A decision being built.
pub(super) struct PlanBuilder<'a> {
    pub seen: &'a Observed,
    pub now: Timestamp,
    pub status: BareMetalHostStatus,
    pub effects: Vec<Effect>,
    pub events: Vec<Event>,
    /// The node matches the current specification.
    pub is_configured: bool,
    /// The image built for the host can be used.
    pub has_ramdisk: bool,
    /// Every known NIC has its port.
    pub has_ports: bool,
    /// The error type for a rejection of this plan's Ironic call, if the state does not determine it.
    pub refusal: Option<ErrorType>,
    /// The plan before the current state's function ran.
    pub savepoint: Option<Savepoint>,
}

/// What a state's function may change before it requests another state, which may be denied.
#[derive(Clone)]
pub(super) struct Savepoint {
    pub status: BareMetalHostStatus,
    pub effects: usize,
    pub events: usize,
}

impl<'a> PlanBuilder<'a> {
    pub fn new(seen: &'a Observed, now: Timestamp) -> Self {
        let mut status = seen.host.status.clone().unwrap_or_default();
        read_detach_error(&mut status);
        Self {
            seen,
            now,
            status,
            effects: Vec::new(),
            events: Vec::new(),
            is_configured: false,
            has_ramdisk: false,
            has_ports: false,
            refusal: None,
            savepoint: None,
        }
    }

    pub fn spec(&self) -> &'a BareMetalHostSpec {
        &self.seen.host.spec
    }

    /// Whether the host's hardware is known, from this decision or from the stored status.
    pub fn has_hardware(&self) -> bool {
        self.status.hardware.is_some() || self.seen.hardware != HardwareView::None
    }

    /// The host's hardware details, if any.
    pub fn hardware(&self) -> Result<Option<&HardwareDetails>, Step> {
        match (&self.status.hardware, &self.seen.hardware) {
            (Some(found), _) => Ok(Some(found)),
            (None, HardwareView::Known(stored)) => Ok(Some(stored)),
            (None, HardwareView::Outlined { .. }) => Err(Step::Fetch(Read::Hardware)),
            (None, HardwareView::None) => Ok(None),
        }
    }

    /// The host's architecture: from its specification, else from inspection, else the operator's own.
    pub fn architecture(&self) -> &str {
        let found = match (&self.status.hardware, &self.seen.hardware) {
            (Some(found), _) => found.cpu.arch.as_str(),
            (None, HardwareView::Known(stored)) => stored.cpu.arch.as_str(),
            (None, HardwareView::Outlined { architecture }) => architecture,
            (None, HardwareView::None) => "",
        };
        [self.spec().architecture.as_str(), found]
            .into_iter()
            .find(|architecture| !architecture.is_empty())
            .unwrap_or(self.seen.settings.default_architecture)
    }

    pub fn state(&self) -> &ProvisioningState {
        &self.status.provisioning.state
    }

    /// Whether the current state is stored. Effects that must not happen twice (a deployment, a tear-down, a removal)
    /// run in a stored state only. Otherwise an operator that dies right afterwards, or that acts on a stale copy of
    /// the host, would come from the previous state and repeat them.
    pub fn is_entered(&self) -> bool {
        self.seen.stored_state() == Some(self.state())
    }

    /// Whether the host is being deleted. A deletion that is delayed until detachment does not count before the host is
    /// at rest and can be detached.
    pub fn is_deleting(&self) -> bool {
        self.seen.host.metadata.deletion_timestamp.is_some() && !self.is_deletion_delayed()
    }

    /// Whether the host was deleted but must first be detached, or return from a detachment.
    pub fn is_deletion_delayed(&self) -> bool {
        self.seen.host.metadata.deletion_timestamp.is_some() && deletion(self) == Deletion::Delayed
    }

    /// Whether the specification was edited since the host's wait was last reported. A lock too short to report does
    /// not consume the edit.
    pub fn is_edited(&self) -> bool {
        let stored = self.stored_conditions();
        let seen = match stored.iter().find(|c| c.type_ == WAITING) {
            Some(waiting) => waiting.observed_generation,
            // Stored by an operator that does not write the condition.
            None => stored.iter().filter_map(|c| c.observed_generation).max(),
        };
        seen != self.seen.host.metadata.generation
    }

    /// Whether the Secret's content differs from what was tried last.
    pub fn has_new_credentials(&self) -> bool {
        let memory = &self.seen.memory;
        let is_untried = |version: &String| {
            *version != self.status.tried_credentials.credentials_version
                && memory.refused_secret.as_ref() != Some(version)
        };
        match &self.seen.secret {
            SecretView::NotLooked { version: Some(version) } => is_untried(version),
            SecretView::NotLooked { version: None } | SecretView::Missing | SecretView::Invalid { .. } => false,
            SecretView::Found(found) => memory.accepted_digest != Some(found.digest) && is_untried(&found.version),
        }
    }

    /// Whether a Secret of the failed deployment has changed. The next step leaves the state, so this ends only one
    /// back-off.
    fn has_new_deployment_secrets(&self) -> bool {
        let before = self.seen.memory.deployed_with.as_ref();
        *self.state() == ProvisioningState::Provisioning
            && self.status.error_type == Some(ErrorType::Provisioning)
            && before.is_some_and(|before| self.seen.deployment_secrets.differ_from(before))
    }

    /// Whether HostFirmwareSettings or HostFirmwareComponents were edited since the preparation or servicing failed.
    /// Each failure has its own record, so an edit ends only one back-off.
    fn has_new_firmware(&self) -> bool {
        let (now, failures) = (&self.seen.firmware, self.status.error_count);
        let before = self.seen.memory.failed_firmware;
        self.status.error_type.as_ref().is_some_and(is_of_firmware)
            && now.is_known()
            && before.is_some_and(|before| before.failures == failures && before.edits != now.edits())
    }

    /// The node as read in this pass, with its details. A node that was listed as locked is not read: it could not be
    /// changed, and the list will show its release.
    #[track_caller]
    pub fn live(&self) -> Result<(&'a Node, &'a NodeDetail), Step> {
        match &self.seen.node {
            NodeView::Live(node) => match &node.detail {
                Some(detail) => Ok((node, detail)),
                None => Err(Step::Fetch(Read::LiveNode)),
            },
            NodeView::Listed(node) => Err(match &node.reservation {
                Some(holder) => Step::Wait(locked(node, holder)),
                None => Step::Fetch(Read::LiveNode),
            }),
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => Err(Step::Fetch(Read::LiveNode)),
        }
    }

    /// The node as last seen, live or listed.
    pub fn known(&self) -> Option<&'a Node> {
        match &self.seen.node {
            NodeView::Live(node) | NodeView::Listed(node) => Some(node),
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => None,
        }
    }

    /// A text with what the host's owner must not see removed.
    pub fn for_owner(&self, text: &str) -> String {
        for_tenant(text, self.seen.namespace())
    }

    /// Reports this, once in a decision: the end of a servicing and the start that follows may find the same.
    pub fn event(&mut self, reason: EventReason, message: impl Into<String>) {
        let message = self.for_owner(&message.into());
        let event = Event { reason, message };
        if !self.events.contains(&event) {
            self.events.push(event);
        }
    }

    /// Calls Ironic; the result is a change of the node, which ends the wait.
    pub fn mutate(&mut self, effect: Effect, wait: Wait) -> Step {
        if let Some(step) = self.before_effect(&effect) {
            return step;
        }
        if is_abort(&effect) && self.live().is_ok_and(|(node, detail)| detail.awaits_abort(node)) {
            return Step::Wait(wait);
        }
        self.effects.push(effect);
        self.clear_error(OperationalStatus::Ok);
        Step::Wait(wait)
    }

    /// A change in Ironic after which the next step can follow immediately.
    pub fn mutate_and_go_on(&mut self, effect: Effect) -> Step {
        if let Some(step) = self.before_effect(&effect) {
            return step;
        }
        self.effects.push(effect);
        Step::Again
    }

    /// What the host does is begun anew, with other work: its budget begins anew as well.
    pub fn restart_budget(&mut self) {
        conditions::remove(&mut self.status.conditions, OVERDUE);
    }

    /// Clears the error but keeps its count, which drives the back-off.
    pub fn clear_error(&mut self, to: OperationalStatus) {
        self.status.operational_status = to;
        self.status.error_type = None;
        self.status.error_message = String::new();
    }

    /// Whether the decision has not changed the status so far.
    pub fn is_stored(&self) -> bool {
        let mut status = self.status.clone();
        write_detach_error(&mut status);
        self.seen.host.status.as_ref() == Some(&status)
    }

    /// Whether the stored status already reports this wait.
    pub fn is_told(&self, reason: WaitReason) -> bool {
        self.stored_conditions()
            .iter()
            .any(|c| c.type_ == WAITING && c.reason == reason.as_str())
    }

    /// Whether inspection is disabled, by the specification or by annotation.
    pub fn is_inspection_disabled(&self) -> bool {
        annotations::is_inspection_disabled(&self.seen.host)
    }

    /// Removes an annotation that was acted upon, unless it has a different value by now.
    pub fn remove_annotation(&mut self, key: &str) -> bool {
        let Some(value) = annotations::value(&self.seen.host, key) else {
            return false;
        };
        self.effects.push(Effect::RemoveAnnotation {
            key: key.to_owned(),
            value: value.to_owned(),
        });
        true
    }

    fn stored_conditions(&self) -> &'a [Condition] {
        self.seen.host.status.as_ref().map_or(&[], |s| s.conditions.as_slice())
    }
}

fn is_abort(effect: &Effect) -> bool {
    matches!(effect, Effect::Provision { request, .. } if request.target == Verb::Abort)
}

/// The wait for a lock that another operation holds.
#[track_caller]
pub(super) fn locked(node: &Node, holder: &str) -> Wait {
    Wait::for_node(
        WaitReason::NodeLocked,
        format!(
            "node {} is locked by {holder} in Ironic; the host goes on when the lock is gone",
            node.uuid
        ),
    )
}

/// The API stores whole seconds; keeping more would make a stored status differ from the computed one.
pub fn seconds(now: Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(metal3_runtime::conditions::whole_seconds(now))
}
