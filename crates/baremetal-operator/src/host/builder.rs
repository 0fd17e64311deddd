//! The working copy of a decision: the next status as it takes shape, with the few verbs that all states share.

pub(super) mod deletion;
mod failure;
mod history;

use jiff::Timestamp;
use metal3_api::condition::Condition;
use metal3_api::metal3::{
    BareMetalHostSpec, BareMetalHostStatus, ErrorType, HardwareDetails, OperationalStatus, ProvisioningState,
};
use metal3_ironic::{Node, NodeDetail};

use self::deletion::{Deletion, deletion};
use super::annotations;
use super::conditions::WAITING;
use super::detach_error::{read_detach_error, write_detach_error};
use super::observed::{HardwareView, NodeView, Observed, SecretView};
use super::plan::{Effect, Event, EventReason, Read, Wait, WaitReason};
use super::text::for_tenant;

/// What a state's function answers.
pub(super) enum Step {
    /// Read this first.
    Fetch(Read),
    /// Enter another state and go on in the same pass.
    Move(ProvisioningState),
    /// Pass over to what comes next in the order of `decide`.
    Continue,
    /// Nothing to do.
    Idle,
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
pub(super) struct PlanBuilder<'a> {
    pub seen: &'a Observed,
    pub now: Timestamp,
    pub status: BareMetalHostStatus,
    pub effects: Vec<Effect>,
    pub events: Vec<Event>,
    /// The node carries everything that the present specification says of it.
    pub is_configured: bool,
    /// The image that was built for the host can be used.
    pub has_ramdisk: bool,
    /// Every NIC that is known has its port.
    pub has_ports: bool,
    /// Under which error type a refusal of this plan's Ironic call is recorded, where the state does not say it.
    pub refusal: Option<ErrorType>,
    /// As it was before the present state had its say.
    pub savepoint: Option<Savepoint>,
}

/// What a state's function may change before it asks for another state, which it may not get.
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

    /// The host's hardware is known: found by this very decision, or stored.
    pub fn has_hardware(&self) -> bool {
        self.status.hardware.is_some() || self.seen.hardware != HardwareView::None
    }

    /// The details of the host's hardware, if there are any.
    pub fn hardware(&self) -> Result<Option<&HardwareDetails>, Step> {
        match (&self.status.hardware, &self.seen.hardware) {
            (Some(found), _) => Ok(Some(found)),
            (None, HardwareView::Known(stored)) => Ok(Some(stored)),
            (None, HardwareView::Outlined { .. }) => Err(Step::Fetch(Read::Hardware)),
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
        self.seen.stored_state() == Some(self.state())
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
                None => Err(Step::Fetch(Read::LiveNode)),
            },
            NodeView::Listed(node) => Err(node
                .reservation
                .as_ref()
                .map_or(Step::Fetch(Read::LiveNode), |holder| Step::Wait(locked(node, holder)))),
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => Err(Step::Fetch(Read::LiveNode)),
        }
    }

    /// The node as last seen in whatever way.
    pub fn known(&self) -> Option<&'a Node> {
        match &self.seen.node {
            NodeView::Live(node) | NodeView::Listed(node) => Some(node),
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => None,
        }
    }

    /// A text as the host's owner may read it.
    pub fn for_owner(&self, text: &str) -> String {
        for_tenant(text, self.seen.namespace())
    }

    pub fn event(&mut self, reason: EventReason, message: impl Into<String>) {
        let message = self.for_owner(&message.into());
        self.events.push(Event { reason, message });
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

    /// Forgets the error, but not how often it happened: that drives the back-off.
    pub fn clear_error(&mut self, to: OperationalStatus) {
        self.status.operational_status = to;
        self.status.error_type = None;
        self.status.error_message = String::new();
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

/// The wire has whole seconds; keeping more would make a stored status differ from the one computed.
pub fn seconds(now: Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(metal3_runtime::conditions::whole_seconds(now))
}
