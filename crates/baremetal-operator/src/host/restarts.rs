//! The reboot annotations of a host in use, and the record of those that were served.

use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, reboot_requests};
use metal3_runtime::conditions;

/// Our own condition. It exists only while a server that is never powered off (`spec.disablePowerOff`) has reboot
/// annotations: `False` while the restart is pending, `True` when it is done.
pub(super) const REBOOTED: &str = "Rebooted";

/// The combined request of the annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    /// Power is cut without asking the operating system; one annotation that requests it is enough.
    pub is_hard: bool,
    /// Whether the annotation that we remove is among them.
    pub has_own: bool,
    /// The keys of the other annotations, which their owners remove.
    pub held: Vec<String>,
    /// Key and value of each, the value shortened to a number.
    pub marks: Vec<String>,
}

impl Requests {
    /// The requests that count. Without a deployment only those with `force` do.
    pub fn on(host: &BareMetalHost, only_forced: bool) -> Self {
        let mut all = Self::default();
        let Some(annotations) = &host.metadata.annotations else {
            return all;
        };
        for request in reboot_requests(annotations) {
            // An unreadable one is reported elsewhere, and counts as a soft request.
            let is_held = request.is_held();
            let key = request.key.to_owned();
            let arguments = request.arguments.unwrap_or_default();
            if only_forced && !arguments.force {
                continue;
            }
            all.is_hard |= arguments.is_hard();
            let value = annotations.get(&key).map_or("", String::as_str);
            all.marks.push(format!("{key}#{:08x}", shortened(value)));
            if is_held {
                all.held.push(key);
            } else {
                all.has_own = true;
            }
        }
        all
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The keys of the annotations that others remove, for a message.
    pub fn holders(&self) -> String {
        self.held.join(", ")
    }
}

/// The keys of the annotations for which a host in use is still to be restarted. A server that is never powered off was, once that is
/// recorded, although the annotations that others remove may stay.
pub(super) fn awaited(host: &BareMetalHost) -> Vec<String> {
    let requests = Requests::on(host, false);
    let status = host.status.as_ref();
    let is_done = || status.is_some_and(|status| record(status, &requests) == Record::Done);
    if host.spec.disable_power_off && is_done() {
        return Vec::new();
    }
    let keys = requests.marks.iter().filter_map(|mark| mark.rsplit_once('#'));
    keys.map(|(key, _)| key.to_owned()).collect()
}

/// The progress of the restart for the current requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// At least one request was not seen before.
    New,
    /// The restart was about to be requested, on a node with this record.
    Begun(String),
    /// The restart is done.
    Done,
}

/// Reads the record.
pub(super) fn record(status: &BareMetalHostStatus, requests: &Requests) -> Record {
    let Some(Condition { status, message, .. }) = conditions::get(&status.conditions, REBOOTED) else {
        return Record::New;
    };
    let known: Vec<&str> = message.split_whitespace().collect();
    if requests.marks.iter().any(|mark| !known.contains(&mark.as_str())) {
        return Record::New;
    }
    if *status == ConditionStatus::True {
        return Record::Done;
    }
    Record::Begun(known.last().map(|at| (*at).to_owned()).unwrap_or_default())
}

/// FNV-1a: stable across processes, unlike the standard hashers.
fn shortened(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
