//! The wait while Ironic as a whole is unavailable.

use crate::host::observed::{Outage, OutageKind};
use crate::host::plan::{Wait, WaitReason};

/// Reports the cause, and that nothing has to be done on the host.
#[track_caller]
pub(in crate::host) fn outage(cause: Option<&Outage>) -> Wait {
    let Some(outage) = cause else {
        return Wait::for_ironic(WaitReason::IronicUnreachable, "Ironic has not answered yet");
    };
    let (reason, what) = match outage.kind {
        OutageKind::Absent => (WaitReason::IronicNotReady, "it is not known where Ironic is"),
        OutageKind::Unreachable => (WaitReason::IronicUnreachable, "Ironic cannot be reached"),
        OutageKind::Unauthorized => (
            WaitReason::IronicUnauthorized,
            "Ironic refuses the operator's credentials",
        ),
        OutageKind::Failing => (WaitReason::IronicFailing, "Ironic cannot be used"),
    };
    Wait::for_ironic(
        reason,
        format!("{what}: {}; the host goes on by itself when this ends", outage.cause),
    )
}
