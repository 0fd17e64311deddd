//! The phase of a Metal3Machine.

use crate::machine::ASSOCIATED;
use jiff::Timestamp;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::conditions;

/// The phase of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has no host.
    Waiting,
    /// It has a host that is not provisioned yet.
    Provisioning,
    /// Its host is, or was, provisioned.
    Provisioned,
    /// It is being deleted.
    Deleting,
}

impl Phase {
    pub(super) const ALL: [Self; 4] = [Self::Waiting, Self::Provisioning, Self::Provisioned, Self::Deleting];

    /// The phase of a machine.
    pub(super) fn of(machine: &Metal3Machine) -> Self {
        let status = machine.status.as_ref();
        if machine.metadata.deletion_timestamp.is_some() {
            Self::Deleting
        } else if status.is_some_and(|status| status.initialization.provisioned == Some(true)) {
            Self::Provisioned
        } else if status.is_some_and(|status| conditions::is_true(&status.conditions, ASSOCIATED)) {
            Self::Provisioning
        } else {
            Self::Waiting
        }
    }

    /// The label value.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Provisioning => "provisioning",
            Self::Provisioned => "provisioned",
            Self::Deleting => "deleting",
        }
    }

    /// When a machine entered a transient phase, according to its own status, so that a restart of this process loses nothing.
    pub(super) fn since(self, machine: &Metal3Machine) -> Option<Timestamp> {
        let meta = &machine.metadata;
        match self {
            Self::Waiting => Some(meta.creation_timestamp.as_ref()?.0),
            Self::Provisioning => {
                let conditions = &machine.status.as_ref()?.conditions;
                Some(conditions::get(conditions, ASSOCIATED)?.last_transition_time.0)
            }
            Self::Provisioned => None,
            Self::Deleting => Some(meta.deletion_timestamp.as_ref()?.0),
        }
    }
}
