//! Failures: recorded once, and retried after their back-off.

use std::time::Duration;

use metal3_api::metal3::{BareMetalHostStatus, ErrorType, OperationalStatus};
use metal3_runtime::backoff;

use super::{PlanBuilder, Step, Verdict, seconds};
use crate::host::conditions::WAITING;
use crate::host::plan::{EventReason, Wait, WaitReason, reason_of};

impl PlanBuilder<'_> {
    /// Records a failure and returns when to retry.
    #[track_caller]
    pub fn fail(&mut self, kind: &ErrorType, message: impl Into<String>) -> Step {
        Step::Wait(self.record_failure(kind, message))
    }

    /// Like [`Self::fail`], but returns only the wait.
    #[track_caller]
    pub fn record_failure(&mut self, kind: &ErrorType, message: impl Into<String>) -> Wait {
        let message = self.for_owner(&message.into());
        record(&mut self.status, kind.clone(), &message);
        self.event(reason_of(kind), message);
        let after = self.retry_delay();
        self.back_off_wait(after)
    }

    /// Records an error that only the user can fix: no retry. It increments `errorCount`, which counts the errors since
    /// the last success; later passes do not increment it again.
    #[track_caller]
    pub fn refuse(
        &mut self,
        kind: ErrorType,
        reason: WaitReason,
        event: EventReason,
        message: impl Into<String>,
    ) -> Step {
        let message = self.for_owner(&message.into());
        if self.status.error_type.as_ref() != Some(&kind) || self.status.error_message != message {
            record(&mut self.status, kind, &message);
            self.event(event, message.clone());
        }
        Step::Wait(Wait::for_change(reason, message))
    }

    /// Judges a failure that the node shows. The first time, it is recorded; later passes wait for the end of the
    /// back-off.
    #[track_caller]
    pub fn failure(&mut self, kind: &ErrorType, message: impl Into<String>) -> Verdict {
        if self.status.error_type.as_ref() != Some(kind) {
            return Verdict::Hold(self.fail(kind, message));
        }
        match self.back_off_left() {
            Some(left) => Verdict::Hold(Step::Wait(self.back_off_wait(left))),
            None => Verdict::Retry,
        }
    }

    /// The wait for a failure of this kind that was recorded before and is not due yet: for operations whose failure
    /// the node itself does not show, because Ironic rejected their start.
    #[track_caller]
    pub fn held_back(&self, kind: &ErrorType) -> Option<Step> {
        if self.status.error_type.as_ref() != Some(kind) {
            return None;
        }
        // A closure would be the caller that the wait names.
        let left = self.back_off_left()?;
        Some(Step::Wait(self.back_off_wait(left)))
    }

    /// How long the last recorded failure still delays this host; `None` if time, a user's edit or another state ended
    /// the back-off.
    pub fn back_off_left(&self) -> Option<Duration> {
        let stored = self.seen.host.status.as_ref()?;
        if self.status.error_type.is_none()
            || stored.provisioning.state != self.status.provisioning.state
            || self.is_edited()
            || self.has_new_credentials()
            || self.has_new_deployment_secrets()
            || self.has_new_firmware()
        {
            return None;
        }
        let since = match self.stored_conditions().iter().find(|c| c.type_ == WAITING) {
            Some(waiting) if waiting.reason == WaitReason::BackOff.as_str() => waiting.last_transition_time.0,
            // The back-off had ended when something else kept the host waiting: it must not restart.
            Some(_) => return None,
            // Stored by an operator that does not write the condition.
            None => stored.last_updated.as_ref()?.0,
        };
        let due = since.checked_add(self.retry_delay()).ok()?;
        let left = due.duration_since(self.now);
        (!left.is_negative() && !left.is_zero()).then(|| left.unsigned_abs())
    }

    #[track_caller]
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
}

/// Puts a failure into a status.
fn record(status: &mut BareMetalHostStatus, kind: ErrorType, message: &str) {
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
