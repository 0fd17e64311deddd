//! What a host's ports lack, and does without.

use metal3_api::condition::ConditionStatus;
use metal3_runtime::conditions::{self, Claim};

use crate::host::draft::Draft;
use crate::host::plan::EventReason;
use crate::host::text::for_people;

/// Our own condition, there only while it is `False`.
const PORTS_COMPLETE: &str = "PortsComplete";
const ADDRESS_TAKEN: &str = "AddressTaken";
const CHANGE_REFUSED: &str = "ChangeRefused";

/// The host has no node, and so no ports that could lack anything.
pub(in crate::host::decide) fn forget(draft: &mut Draft<'_>) {
    conditions::remove(&mut draft.status.conditions, PORTS_COMPLETE);
}

/// What was not done, and is told.
#[derive(Default)]
pub(super) struct Lacking {
    /// NICs with the MAC address of another node's port: both.
    pub taken: Vec<String>,
    /// Changes that Ironic refused, with its words.
    pub refused: Vec<String>,
    /// Ports may have to be taken back, which an inspection decides.
    pub has_surplus: bool,
}

impl Lacking {
    /// By the condition, and once for each word of it by an event.
    pub fn tell(self, draft: &mut Draft<'_>) {
        let stored = conditions::get(&draft.status.conditions, PORTS_COMPLETE);
        let parts = [self.taken_part(), self.refused_part()];
        let Some(reason) = parts.iter().flatten().next().map(|part| part.reason) else {
            // What an inspection was refused is asked for by the next one.
            if !(self.has_surplus && stored.is_some_and(|stored| stored.reason == CHANGE_REFUSED)) {
                conditions::remove(&mut draft.status.conditions, PORTS_COMPLETE);
            }
            return;
        };
        let told = stored.map(|stored| stored.message.clone()).unwrap_or_default();
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        for part in parts.iter().filter(|part| !told.contains(&part.words)) {
            draft.note(part.event, part.words.clone());
        }
        let words: Vec<_> = parts.iter().map(|part| part.words.as_str()).collect();
        let claim = Claim {
            type_: PORTS_COMPLETE,
            status: ConditionStatus::False,
            reason,
            message: &words.join(". "),
        };
        let generation = draft.seen.host.metadata.generation;
        conditions::set(&mut draft.status.conditions, &claim, generation, draft.now);
    }

    fn taken_part(&self) -> Option<Part> {
        let words = format!(
            "NICs of this host have MAC addresses that Ironic has as those of ports of other nodes: {}. The host goes on without \
             these ports. Where the NIC was moved here, have that node's host inspected again by its ramdisk (annotation \
             inspect.metal3.io), which removes a port of the operator's, or remove it by `baremetal port delete`; then have this \
             host inspected again, or edit it an hour later",
            self.taken.join(", ")
        );
        (!self.taken.is_empty()).then_some(Part {
            reason: ADDRESS_TAKEN,
            event: EventReason::PortAddressTaken,
            words,
        })
    }

    fn refused_part(&self) -> Option<Part> {
        let words = for_people(&format!(
            "Ironic refuses to change ports of this host. It goes on with them as they are; Ironic is asked again after the next \
             inspection (annotation inspect.metal3.io): {}",
            self.refused.join(", ")
        ));
        (!self.refused.is_empty()).then_some(Part {
            reason: CHANGE_REFUSED,
            event: EventReason::PortChangeRefused,
            words,
        })
    }
}

struct Part {
    reason: &'static str,
    event: EventReason,
    words: String,
}
