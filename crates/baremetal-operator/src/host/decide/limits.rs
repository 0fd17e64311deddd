//! Limits on the load of the provisioning network. The fleet grants the slots.

use metal3_api::metal3::{BareMetalHost, OperationalStatus, ProvisioningState};
use metal3_bmc::BmcAddress;
use metal3_ironic::Verb;

use crate::fleet::{Place, Slot};
use crate::host::annotations;
use crate::host::builder::{PlanBuilder, Savepoint, Step};
use crate::host::observed::{Lookup, Outage};
use crate::host::plan::{Effect, EventReason, Read, Wait, WaitReason};

/// Whether the effect starts an operation that takes a slot.
pub fn takes_slot(effect: &Effect) -> bool {
    let Effect::Provision { request, .. } = effect else {
        return false;
    };
    match request.target {
        Verb::Inspect | Verb::Clean | Verb::Provide | Verb::Active | Verb::Deleted => true,
        Verb::Manage | Verb::Adopt | Verb::Abort | Verb::Service => false,
    }
}

/// Whether the host needs no slot: its ramdisk comes by virtual media or HTTP, or it is being deleted, which nothing
/// may delay.
pub fn is_exempt(host: &BareMetalHost) -> bool {
    let is_deleted = host.metadata.deletion_timestamp.is_some();
    is_deleted && !annotations::delays_deletion(host)
        || BmcAddress::parse(&host.spec.bmc.address).is_ok_and(|address| address.access().supports_iso())
}

/// Whether a host takes a slot as soon as it is in this state.
fn begins_with_a_slot(state: &ProvisioningState) -> bool {
    match state {
        ProvisioningState::Inspecting | ProvisioningState::Provisioning | ProvisioningState::Deprovisioning => true,
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => false,
    }
}

impl PlanBuilder<'_> {
    /// What keeps the host from entering a state in which it would take a slot.
    pub(super) fn before_entry(&mut self, next: &ProvisioningState) -> Option<Step> {
        // While Ironic is unavailable nothing can start; the state already shows what the host will do afterwards.
        // Queued hosts keep their places: otherwise all of them would come at once, in any order.
        let is_away = self.seen.outage.is_some() && !self.is_told(WaitReason::Queued);
        if !begins_with_a_slot(next) || is_away {
            return None;
        }
        let step = self.slot()?;
        // The state is not left: anything counted or reported on the way out would repeat in every pass.
        if let (Step::Wait(_), Some(mark)) = (&step, self.savepoint.take()) {
            self.status = mark.status;
            self.effects.truncate(mark.effects);
            self.events.truncate(mark.events);
            self.delay();
        }
        Some(step)
    }

    /// Whether the host has a place in the queue, according to its stored status, and still wants one.
    pub(in crate::host) fn is_in_queue(&self) -> bool {
        self.is_told(WaitReason::Queued) && self.is_entered() && !is_exempt(&self.seen.host)
    }

    /// Saves the plan before the state's function runs.
    pub(super) fn remember(&mut self) {
        self.savepoint = (!is_exempt(&self.seen.host)).then(|| Savepoint {
            status: self.status.clone(),
            effects: self.effects.len(),
            events: self.events.len(),
        });
    }

    fn delay(&mut self) {
        // A step that resets the count has succeeded, as when a state is entered.
        if self.status.error_count == 0 {
            self.clear_error(OperationalStatus::Delayed);
        }
        // An error stays visible until the next attempt.
        if self.status.error_type.is_none() {
            self.status.operational_status = OperationalStatus::Delayed;
        }
    }

    /// What keeps the effect from being requested.
    pub(in crate::host) fn before_effect(&mut self, effect: &Effect) -> Option<Step> {
        if !takes_slot(effect) {
            return None;
        }
        let step = self.slot()?;
        // The operation has not started after all.
        self.events.retain(|note| {
            !matches!(
                note.reason,
                EventReason::InspectionStarted | EventReason::ProvisioningStarted | EventReason::ImageInDoubt
            )
        });
        Some(step)
    }

    fn slot(&mut self) -> Option<Step> {
        if is_exempt(&self.seen.host) {
            return None;
        }
        match self.seen.slot {
            Lookup::Found(Slot::Granted) => None,
            Lookup::Found(Slot::Queued(place)) => {
                self.delay();
                Some(Step::Wait(queued(place, self.seen.outage.as_ref())))
            }
            Lookup::Found(Slot::Unsorted) => {
                self.delay();
                Some(Step::Wait(unsorted()))
            }
            Lookup::NotLooked | Lookup::NotFound => Some(Step::Fetch(Read::Slot)),
        }
    }
}

/// The wait of a queued host that trouble keeps from being processed: its waiting time keeps counting from the start.
pub(super) fn keep_place(trouble: &Wait) -> Wait {
    let message = format!("{}; this host keeps its place in the queue", trouble.message);
    Wait::for_node(WaitReason::Queued, message)
}

fn unsorted() -> Wait {
    Wait::for_node(
        WaitReason::Queued,
        "which hosts come first is not known before the hosts of every watched namespace are listed; this host goes on by itself \
         then, and the operator's log says what keeps a list from coming",
    )
}

fn queued(place: Place, outage: Option<&Outage>) -> Wait {
    let Place {
        number,
        limit,
        reserved,
    } = place;
    if let Some(outage) = outage {
        return Wait::for_node(
            WaitReason::Queued,
            format!(
                "{}; this host keeps its place {number} in the queue of its namespace",
                super::outage(Some(outage)).message
            ),
        );
    }
    let what = match limit {
        0 => "nothing may be inspected, cleaned or provisioned: PROVISIONING_LIMIT is 0".to_owned(),
        1 => "the only slot for inspection, cleaning and provisioning is taken".to_owned(),
        2.. => format!(
            "all {limit} slots for inspection, cleaning and provisioning are taken{}",
            kept(reserved)
        ),
    };
    Wait::for_node(
        WaitReason::Queued,
        format!("{what}; this host has place {number} in the queue of its namespace and goes on by itself"),
    )
}

/// Slots may be free and yet not for this host.
fn kept(reserved: usize) -> String {
    match reserved {
        0 => String::new(),
        1 => " or, the last one, kept for namespaces that hold none".to_owned(),
        2.. => format!(" or, the last {reserved}, kept for namespaces that hold none"),
    }
}
