//! Missing ports and port changes that a host does without.

use metal3_api::condition::ConditionStatus;
use metal3_runtime::conditions::{self, Claim};

use super::MOST_PORTS;
use crate::host::builder::PlanBuilder;
use crate::host::plan::EventReason;
use crate::host::text::for_people;

/// Our own condition, there only while it is `False`.
const PORTS_COMPLETE: &str = "PortsComplete";
const ADDRESS_TAKEN: &str = "AddressTaken";
const TOO_MANY: &str = "TooManyNICs";
const CHANGE_REFUSED: &str = "ChangeRefused";

/// The host has no node, and so no ports that could be missing.
pub(in crate::host::decide) fn forget(plan: &mut PlanBuilder<'_>) {
    conditions::remove(&mut plan.status.conditions, PORTS_COMPLETE);
}

/// The omitted changes to report.
#[derive(Default)]
pub(super) struct Lacking {
    /// NICs whose MAC address another node's port has: both.
    pub taken: Vec<String>,
    /// The number of NICs beyond the maximum.
    pub beyond: usize,
    /// Changes that Ironic rejected, with its message.
    pub refused: Vec<String>,
    /// Changes that only an inspection requests: the message prefix, in case one of them was rejected.
    pub undecided: Vec<String>,
}

impl Lacking {
    /// Reports them by the condition, and each new item by an event.
    pub fn tell(mut self, plan: &mut PlanBuilder<'_>) {
        let stored = conditions::get(&plan.status.conditions, PORTS_COMPLETE);
        let told = stored.map(|stored| stored.message.clone()).unwrap_or_default();
        // The next inspection repeats a request that Ironic rejected; until then the earlier report stays.
        let undecided = self.undecided.iter().filter_map(|begin| told_before(&told, begin));
        self.refused.extend(undecided.map(str::to_owned));
        let parts = [self.taken_part(), self.beyond_part(), self.refused_part()];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        let Some(reason) = parts.first().map(|part| part.reason) else {
            conditions::remove(&mut plan.status.conditions, PORTS_COMPLETE);
            return;
        };
        let is_news = |part: &&Part| !told.contains(&part.words) && !part.items.iter().all(|item| told.contains(item));
        for part in parts.iter().filter(is_news) {
            plan.event(part.event, part.words.clone());
        }
        let words: Vec<_> = parts.iter().map(|part| part.words.as_str()).collect();
        let claim = Claim {
            type_: PORTS_COMPLETE,
            status: ConditionStatus::False,
            reason,
            message: &words.join(". "),
        };
        let generation = plan.seen.host.metadata.generation;
        conditions::set(&mut plan.status.conditions, &claim, generation, plan.now);
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
            items: self.taken.clone(),
            words,
        })
    }

    fn beyond_part(&self) -> Option<Part> {
        let words = format!(
            "{} NICs of this host get no port in Ironic, because the operator creates at most {MOST_PORTS} for a host. The host goes \
             on without these ports. Correct its HardwareData; where ports of earlier NICs are left, have the host inspected again \
             by its ramdisk (annotation inspect.metal3.io), which removes them",
            self.beyond
        );
        (self.beyond > 0).then(|| Part {
            reason: TOO_MANY,
            event: EventReason::PortChangeRefused,
            items: vec![words.clone()],
            words,
        })
    }

    fn refused_part(&self) -> Option<Part> {
        let words = for_people(&format!(
            "Ironic refuses to change ports of this host. It goes on with them as they are; Ironic is asked again after the next \
             inspection (annotation inspect.metal3.io, while nothing is deployed on the host), and to create or enable a port also \
             when the host is edited an hour later: {}",
            self.refused.join(", ")
        ));
        (!self.refused.is_empty()).then_some(Part {
            reason: CHANGE_REFUSED,
            event: EventReason::PortChangeRefused,
            items: self.refused.clone(),
            words,
        })
    }
}

struct Part {
    reason: &'static str,
    event: EventReason,
    /// What it lists.
    items: Vec<String>,
    words: String,
}

/// The item of a message that starts with this prefix. Rejections are at the end of the message, and each has its own
/// `(cannot`.
fn told_before<'m>(message: &'m str, begin: &str) -> Option<&'m str> {
    let item = &message[message.find(begin)?..];
    let next = item.match_indices(" (cannot ").nth(1);
    Some(next.map_or(item, |(at, _)| {
        item[..at].rsplit_once(", ").map_or(item, |(item, _)| item)
    }))
}
