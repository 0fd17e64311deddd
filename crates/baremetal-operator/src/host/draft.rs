//! The working copy of a decision: the next status as it takes shape, with the few verbs that all states share.

use std::time::Duration;

use jiff::Timestamp;
use metal3_api::condition::Condition;
use metal3_api::metal3::{
    BareMetalHostSpec, BareMetalHostStatus, BootMode, ErrorType, HardwareDetails, OperationMetric, OperationalStatus,
    ProvisioningState,
};
use metal3_ironic::{Node, NodeDetail};
use metal3_runtime::backoff;

use super::annotations;
use super::conditions::{self, WAITING};
use super::decide::{Deletion, deletion};
use super::observed::{HardwareView, NodeView, Observed, SecretView};
use super::plan::{Effect, EventReason, Need, Note, Wait, WaitReason, reason_of};
use super::text::for_people;

/// What a state's function answers.
pub(super) enum Step {
    /// Read this first.
    Look(Need),
    /// Enter another state and go on in the same pass.
    Move(ProvisioningState),
    /// Pass over to what comes next in the order of `decide`.
    Continue,
    /// Nothing to do.
    Rest,
    /// Another pass at once.
    Again,
    /// Wait, and say why.
    Wait(Wait),
    /// Nothing of us is left.
    Gone,
}

/// What to do about a failure that Ironic shows.
pub(super) enum Verdict {
    /// It is recorded; this is the wait until the next attempt.
    Hold(Step),
    /// It was recorded before and the time has come.
    Retry,
}

/// A decision in the making.
pub(super) struct Draft<'a> {
    pub seen: &'a Observed,
    pub now: Timestamp,
    pub status: BareMetalHostStatus,
    pub effects: Vec<Effect>,
    pub notes: Vec<Note>,
    /// The node carries everything that the present specification says of it.
    pub is_configured: bool,
    /// The image that was built for the host can be used.
    pub has_ramdisk: bool,
    /// Every NIC that is known has its port.
    pub has_ports: bool,
    /// Under which error type a refusal of this plan's Ironic call is recorded, where the state does not say it.
    pub refusal: Option<ErrorType>,
    /// As it was before the present state had its say.
    pub mark: Option<Mark>,
}

/// What a state's function may change before it asks for another state, which it may not get.
#[derive(Clone)]
pub(super) struct Mark {
    pub status: BareMetalHostStatus,
    pub effects: usize,
    pub notes: usize,
}

impl<'a> Draft<'a> {
    pub fn new(seen: &'a Observed, now: Timestamp) -> Self {
        let mut status = seen.host.status.clone().unwrap_or_default();
        read_detach_error(&mut status);
        Self {
            seen,
            now,
            status,
            effects: Vec::new(),
            notes: Vec::new(),
            is_configured: false,
            has_ramdisk: false,
            has_ports: false,
            refusal: None,
            mark: None,
        }
    }

    pub fn spec(&self) -> &'a BareMetalHostSpec {
        &self.seen.host.spec
    }

    /// The host's hardware is known: found by this very decision, or stored.
    pub fn has_hardware(&self) -> bool {
        self.status.hardware.is_some() || self.seen.hardware != HardwareView::None
    }

    /// The details of the host's hardware, if there are any.
    pub fn hardware(&self) -> Result<Option<&HardwareDetails>, Step> {
        match (&self.status.hardware, &self.seen.hardware) {
            (Some(found), _) => Ok(Some(found)),
            (None, HardwareView::Known(stored)) => Ok(Some(stored)),
            (None, HardwareView::Outlined { .. }) => Err(Step::Look(Need::Hardware)),
            (None, HardwareView::None) => Ok(None),
        }
    }

    /// The host's architecture: as its specification says, as was found, or the operator's own.
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

    /// The present state is stored. What would hurt when it is done twice (a deployment, a tear-down, a removal) is done
    /// in a stored state only: an operator that dies right afterwards, or acts on an old copy of the host, would else
    /// come from the state before and do it again.
    pub fn is_entered(&self) -> bool {
        let seen = self.seen;
        let stored = seen
            .stored_state
            .as_ref()
            .or(seen.host.status.as_ref().map(|s| &s.provisioning.state));
        stored == Some(self.state())
    }

    /// The host is on its way out. One whose deletion is to wait until it is detached lives on until it rests, where it can be.
    pub fn is_deleting(&self) -> bool {
        self.seen.host.metadata.deletion_timestamp.is_some() && !self.is_deletion_delayed()
    }

    /// The host was deleted, and its detachment, or its return from one, comes first.
    pub fn is_deletion_delayed(&self) -> bool {
        self.seen.host.metadata.deletion_timestamp.is_some() && deletion(self) == Deletion::Delayed
    }

    /// The specification was edited since the host was last told what it waits for. A lock that is not worth telling does
    /// not use up the edit.
    pub fn is_edited(&self) -> bool {
        let stored = self.stored_conditions();
        let seen = match stored.iter().find(|c| c.type_ == WAITING) {
            Some(waiting) => waiting.observed_generation,
            // Stored by an operator that does not write the condition.
            None => stored.iter().filter_map(|c| c.observed_generation).max(),
        };
        seen != self.seen.host.metadata.generation
    }

    /// The Secret's content differs from what Ironic was given last.
    pub fn has_new_credentials(&self) -> bool {
        match &self.seen.secret {
            SecretView::NotLooked { version: Some(version) } => {
                *version != self.status.tried_credentials.credentials_version
            }
            SecretView::NotLooked { version: None } | SecretView::Missing | SecretView::Invalid { .. } => false,
            SecretView::Found(found) => {
                self.seen.memory.accepted_digest != Some(found.digest)
                    && found.version != self.status.tried_credentials.credentials_version
            }
        }
    }

    /// A Secret that the failed deployment took its content from has changed. What follows leads out of the state, so that it
    /// ends one back-off only.
    fn has_new_deployment_secrets(&self) -> bool {
        let before = self.seen.memory.deployed_with.as_ref();
        *self.state() == ProvisioningState::Provisioning
            && self.status.error_type == Some(ErrorType::Provisioning)
            && before.is_some_and(|before| self.seen.deployment_secrets.differ_from(before))
    }

    /// The node as this very pass read it, with its details. A node that was listed as locked is not even read: it
    /// could not be changed, and its release will be listed.
    pub fn live(&self) -> Result<(&'a Node, &'a NodeDetail), Step> {
        match &self.seen.node {
            NodeView::Live(node) => match &node.detail {
                Some(detail) => Ok((node, detail)),
                None => Err(Step::Look(Need::LiveNode)),
            },
            NodeView::Listed(node) => Err(node
                .reservation
                .as_ref()
                .map_or(Step::Look(Need::LiveNode), |holder| Step::Wait(locked(node, holder)))),
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => Err(Step::Look(Need::LiveNode)),
        }
    }

    /// The node as last seen in whatever way.
    pub fn known(&self) -> Option<&'a Node> {
        match &self.seen.node {
            NodeView::Live(node) | NodeView::Listed(node) => Some(node),
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => None,
        }
    }

    pub fn note(&mut self, reason: EventReason, message: impl Into<String>) {
        self.notes.push(Note {
            reason,
            message: for_people(&message.into()),
        });
    }

    /// Asks Ironic for something; the answer to it is a change of the node, which ends the wait.
    pub fn mutate(&mut self, effect: Effect, wait: Wait) -> Step {
        if let Some(step) = self.before_effect(&effect) {
            return step;
        }
        self.effects.push(effect);
        self.clear_error(OperationalStatus::Ok);
        Step::Wait(wait)
    }

    /// A change in Ironic after which the next step can follow at once.
    pub fn mutate_and_go_on(&mut self, effect: Effect) -> Step {
        if let Some(step) = self.before_effect(&effect) {
            return step;
        }
        self.effects.push(effect);
        Step::Again
    }

    /// Enters `next`: closes the history of the old state, opens that of the new one.
    pub fn enter(&mut self, next: ProvisioningState) {
        let now = self.now;
        self.mark = None;
        // A deletion gives up after failures of its own, not after those of a deployment before it.
        if next == ProvisioningState::Deprovisioning && self.is_deleting() {
            self.status.error_count = 0;
        }
        // Whoever starts the count afresh has succeeded: what failed on the way there is over.
        if self.status.error_count == 0 && self.status.error_type.is_some() {
            self.clear_error(OperationalStatus::Ok);
        }
        let old = std::mem::replace(&mut self.status.provisioning.state, next);
        // Only what is in use is serviced. Left standing, the word of another operator, or of another life of this host,
        // would have us end a service that somebody else began.
        let is_in_use = matches!(
            old,
            ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned
        );
        let is_serviced = self.status.operational_status == OperationalStatus::Servicing
            || self.status.error_type == Some(ErrorType::Servicing);
        if !is_in_use && is_serviced {
            self.clear_error(OperationalStatus::Ok);
        }
        if let Some(metric) = metric_of(&mut self.status, &old) {
            end(metric, now);
        }
        let next = self.status.provisioning.state.clone();
        if let Some(metric) = metric_of(&mut self.status, &next) {
            begin(metric, now);
        }
        // Boot mode edits take effect on entry to these states only, so that a running operation is not changed under way.
        if matches!(
            next,
            ProvisioningState::Registering | ProvisioningState::Inspecting | ProvisioningState::Provisioning
        ) {
            let wanted = Some(self.spec().boot_mode.clone().unwrap_or(BootMode::Uefi));
            if self.status.provisioning.boot_mode != wanted {
                self.status.provisioning.boot_mode = wanted;
                // The node was configured for the old one.
                conditions::confirm(&mut self.status, None, now);
            }
        }
    }

    /// Opens a new interval of `operationHistory.register` for a registration after the first.
    pub fn begin_registration(&mut self) {
        begin(&mut self.status.operation_history.register, self.now);
    }

    /// Closes it.
    pub fn end_registration(&mut self) {
        end(&mut self.status.operation_history.register, self.now);
    }

    /// Forgets the error, but not how often it happened: that drives the back-off.
    pub fn clear_error(&mut self, to: OperationalStatus) {
        self.status.operational_status = to;
        self.status.error_type = None;
        self.status.error_message = String::new();
    }

    /// Records a failure and says when it is tried again.
    pub fn fail(&mut self, kind: &ErrorType, message: impl Into<String>) -> Step {
        let message = for_people(&message.into());
        record(&mut self.status, kind.clone(), &message);
        self.note(reason_of(kind), message);
        let after = self.retry_delay();
        Step::Wait(self.back_off_wait(after))
    }

    /// Records something that only the user can mend: no retry. It counts as one error more, because `errorCount` says how
    /// many a host has met since the last success; looking at it again counts nothing.
    pub fn refuse(
        &mut self,
        kind: ErrorType,
        reason: WaitReason,
        event: EventReason,
        message: impl Into<String>,
    ) -> Step {
        let message = for_people(&message.into());
        if self.status.error_type.as_ref() != Some(&kind) || self.status.error_message != message {
            record(&mut self.status, kind, &message);
            self.note(event, message.clone());
        }
        Step::Wait(Wait::for_change(reason, message))
    }

    /// Judges a failure that the node shows. The first sight records it; later ones wait for the back-off to pass.
    pub fn failure(&mut self, kind: &ErrorType, message: impl Into<String>) -> Verdict {
        if self.status.error_type.as_ref() != Some(kind) {
            return Verdict::Hold(self.fail(kind, message));
        }
        match self.back_off_left() {
            Some(left) => Verdict::Hold(Step::Wait(self.back_off_wait(left))),
            None => Verdict::Retry,
        }
    }

    /// The wait of a failure of this kind that was recorded before and is not due yet: for operations whose failure the
    /// node itself does not show, because Ironic refused to start them.
    pub fn held_back(&self, kind: &ErrorType) -> Option<Step> {
        if self.status.error_type.as_ref() != Some(kind) {
            return None;
        }
        self.back_off_left().map(|left| Step::Wait(self.back_off_wait(left)))
    }

    /// How long the last recorded failure still holds this host back; `None` where the time, a user's edit or another
    /// state ended it.
    pub fn back_off_left(&self) -> Option<Duration> {
        let stored = self.seen.host.status.as_ref()?;
        if self.status.error_type.is_none()
            || stored.provisioning.state != self.status.provisioning.state
            || self.is_edited()
            || self.has_new_credentials()
            || self.has_new_deployment_secrets()
        {
            return None;
        }
        let since = match self.stored_conditions().iter().find(|c| c.type_ == WAITING) {
            Some(waiting) if waiting.reason == WaitReason::BackOff.as_str() => waiting.last_transition_time.0,
            // Its time had come when something else kept the host: it must not begin anew.
            Some(_) => return None,
            // Stored by an operator that does not write the condition.
            None => stored.last_updated.as_ref()?.0,
        };
        let due = since.checked_add(self.retry_delay()).ok()?;
        let left = due.duration_since(self.now);
        (!left.is_negative() && !left.is_zero()).then(|| left.unsigned_abs())
    }

    pub fn back_off_wait(&self, after: Duration) -> Wait {
        // The wait says a point in time, not a length: a length would change with every look and be stored again. It is
        // counted from whole seconds, as they are stored, or else the next look would find another one.
        let since = self
            .stored_conditions()
            .iter()
            .find(|c| c.type_ == WAITING && c.reason == WaitReason::BackOff.as_str())
            .filter(|_| {
                self.seen
                    .host
                    .status
                    .as_ref()
                    .is_some_and(|s| s.error_count == self.status.error_count)
            })
            .map_or_else(|| seconds(self.now).0, |c| c.last_transition_time.0);
        let at = since
            .checked_add(self.retry_delay())
            .unwrap_or(self.now)
            .round(jiff::Unit::Second)
            .unwrap_or(self.now);
        let tries = self.status.error_count;
        let message = format!(
            "{}: failure {tries} in a row; {}",
            self.status.error_type.as_ref().map_or("error", ErrorType::as_str),
            self.status.error_message
        );
        Wait::until(WaitReason::BackOff, at, after, message)
    }

    /// The back-off after the current number of failures: the same at every look and after every restart.
    fn retry_delay(&self) -> Duration {
        self.delay_after(self.status.error_count.into())
    }

    /// The back-off after so many failures in a row.
    pub fn delay_after(&self, failures: i64) -> Duration {
        let uid = self.seen.host.metadata.uid.as_deref().unwrap_or_default();
        let failures = u32::try_from(failures).unwrap_or_default();
        backoff::failure_delay(self.seen.settings.retry_base, failures, seed_of(uid, failures))
    }

    /// The decision has changed nothing of the status so far.
    pub fn is_stored(&self) -> bool {
        let mut status = self.status.clone();
        write_detach_error(&mut status);
        self.seen.host.status.as_ref() == Some(&status)
    }

    /// The stored status says that the host waits for this already, so that the user was told.
    pub fn is_told(&self, reason: WaitReason) -> bool {
        self.stored_conditions()
            .iter()
            .any(|c| c.type_ == WAITING && c.reason == reason.as_str())
    }

    /// Inspection is off by the specification or by annotation.
    pub fn is_inspection_disabled(&self) -> bool {
        annotations::is_inspection_disabled(&self.seen.host)
    }

    /// Takes an annotation off that was acted upon, unless somebody has given it another value meanwhile.
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

/// The wait for a lock that another operation holds.
pub(super) fn locked(node: &Node, holder: &str) -> Wait {
    Wait::for_node(
        WaitReason::NodeLocked,
        format!(
            "node {} is locked by {holder} in Ironic; the host goes on when the lock is gone",
            node.uuid
        ),
    )
}

/// `<namespace>~<name>`: `~` can stand in neither.
pub fn node_name(host: &metal3_api::metal3::BareMetalHost) -> String {
    format!(
        "{}~{}",
        host.metadata.namespace.as_deref().unwrap_or_default(),
        host.metadata.name.as_deref().unwrap_or_default()
    )
}

/// How the message of a failed detachment begins.
const DETACHING_FAILED: &str = "detaching failed: ";

/// The type of a failed detachment, as the decision sees it. The API has no text for it that could be stored: see
/// [`write_detach_error`].
pub fn detach_error() -> ErrorType {
    ErrorType::Other("detach error".to_owned())
}

/// Puts a failed detachment into the form in which it is stored.
pub fn write_detach_error(status: &mut BareMetalHostStatus) {
    if status.error_type == Some(detach_error()) {
        status.error_type = Some(ErrorType::Registration);
        if !status.error_message.starts_with(DETACHING_FAILED) {
            status.error_message.insert_str(0, DETACHING_FAILED);
        }
    }
}

/// Recognises the stored form of a failed detachment.
fn read_detach_error(status: &mut BareMetalHostStatus) {
    status.error_type = error_type(status);
}

/// The type of a status's error, where that of a failed detachment is told from others.
pub fn error_type(status: &BareMetalHostStatus) -> Option<ErrorType> {
    let is_detaching = status.error_message.starts_with(DETACHING_FAILED);
    match &status.error_type {
        Some(ErrorType::Registration) if is_detaching => Some(detach_error()),
        other => other.clone(),
    }
}

/// Puts a failure into a status.
pub fn record(status: &mut BareMetalHostStatus, kind: ErrorType, message: &str) {
    status.operational_status = OperationalStatus::Error;
    status.error_type = Some(kind);
    message.clone_into(&mut status.error_message);
    status.error_count = status.error_count.saturating_add(1);
}

/// A seed that depends on the host and the attempt alone.
fn seed_of(uid: &str, attempt: u32) -> u64 {
    // FNV-1a: stable across processes, which the standard hashers are not.
    uid.bytes()
        .chain(attempt.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

fn metric_of<'s>(status: &'s mut BareMetalHostStatus, state: &ProvisioningState) -> Option<&'s mut OperationMetric> {
    let history = &mut status.operation_history;
    match state {
        ProvisioningState::Registering => Some(&mut history.register),
        ProvisioningState::Inspecting => Some(&mut history.inspect),
        ProvisioningState::Provisioning => Some(&mut history.provision),
        ProvisioningState::Deprovisioning => Some(&mut history.deprovision),
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::MatchProfile
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => None,
    }
}

/// A retried operation keeps its earliest start.
fn begin(metric: &mut OperationMetric, now: Timestamp) {
    if metric.start.is_none() || metric.end.is_some() {
        *metric = OperationMetric {
            start: Some(seconds(now)),
            end: None,
        };
    }
}

fn end(metric: &mut OperationMetric, now: Timestamp) {
    if metric.start.is_some() && metric.end.is_none() {
        metric.end = Some(seconds(now));
    }
}

/// The wire has whole seconds; keeping more would make a stored status differ from the one computed.
pub fn seconds(now: Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(metal3_runtime::conditions::whole_seconds(now))
}
