//! What one process remembers of a host between reconciliations. Without it everything is read again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use metal3_api::metal3::ErrorType;
use metal3_runtime::timing::operator::{PORT_ANSWER, RELEASE};

use super::DeploymentSecrets;
use crate::host::disc::{DiscFailure, DiscRequest};
use crate::host::firmware::Edit;

/// Hints that save calls or sharpen error messages. Losing them on a restart costs a call, never a repetition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The digest of the credentials that Ironic was given last.
    pub accepted_digest: Option<u64>,
    /// The UUID of the node that is marked as the host's (see [`identity`](crate::host::identity::PROVEN_FOR)).
    pub proven_node: Option<String>,
    /// The version of the Secret whose credentials the BMC did not accept before Ironic was given them for the host's
    /// node: another version ends the back-off.
    pub refused_secret: Option<String>,
    /// Until when that counts, for a host that rests beside a node which is not proven to be its own.
    pub refused_until: Option<Timestamp>,
    /// The requested power change, until it is observed.
    pub power_request: Option<PowerRequest>,
    /// Since when the host finds its node locked.
    pub locked_since: Option<Timestamp>,
    /// The boot MAC address, in lower case, with which the node was seen to have a port for every NIC of the stored hardware.
    pub ports_with: Option<String>,
    /// The MAC addresses that it cannot have a port for, because another node has it.
    pub foreign_ports: BTreeMap<String, ForeignPort>,
    /// The rejected changes of the ports with these MAC addresses, since the last inspection was requested.
    pub refused_ports: BTreeMap<String, RefusedPort>,
    /// Whether this process enrolled the node and it was not inspected since: then there is no inventory.
    pub is_uninspected: bool,
    /// Whether Ironic was given new BMC access data and has not tried it yet: see
    /// [`Observed::reconfigured`](super::Observed::reconfigured).
    pub is_untried: bool,
    /// The digest of the registry credentials that Ironic was given last.
    pub sent_pull_secret: Option<u64>,
    /// The surroundings ([`ramdisk_surroundings`](crate::host::ramdisk_surroundings)) for which the ramdisk was built that the node is known to have.
    pub ramdisk: Option<String>,
    /// The version of the ramdisk's network data that the node is known to have.
    pub network_data: Option<String>,
    /// The generation of the HardwareData that was processed.
    pub hardware_data: Option<i64>,
    /// The versions of the deployment's Secrets at the last request to Ironic.
    pub deployed_with: Option<DeploymentSecrets>,
    /// What Ironic said of the running deployment. When it powers the server off after a failed step, it loses its own message.
    pub deployment_error: Option<String>,
    /// The firmware objects at the last failed preparation or servicing.
    pub failed_firmware: Option<FailedFirmware>,
    /// The requested change of the disc, until it is observed.
    pub disc_request: Option<DiscRequest>,
    /// The change of the disc that failed last. Another change is tried at once.
    pub disc_failure: Option<DiscFailure>,
    /// Whether the BMC rejected a soft power-off.
    pub no_soft_power_off: bool,
    /// Ironic's last answer that the node's state does not allow a request.
    pub conflict: Option<Conflict>,
    /// The Secrets that could not be released.
    pub unreleased: BTreeMap<String, Unreleased>,
}

impl Memory {
    /// Whether a rejected port change is due for another attempt.
    pub fn has_due_port(&self, now: Timestamp) -> bool {
        let foreign = self.foreign_ports.values().map(|port| port.at);
        let mut answers = foreign.chain(self.refused_ports.values().map(|port| port.at));
        answers.any(|at| !is_recent(at, now))
    }
}

/// What a failed preparation or servicing was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedFirmware {
    /// `errorCount` after the failure.
    pub failures: i32,
    /// The [edits](crate::host::firmware::AtHand::edits) of the firmware objects.
    pub edits: [Option<Edit>; 2],
}

/// Whether errors of this type may come from firmware objects.
pub fn is_of_firmware(error: &ErrorType) -> bool {
    matches!(error, ErrorType::Preparation | ErrorType::Servicing)
}

/// A Secret that could not be released: why, and when that was last tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreleased {
    /// The reason, for the user.
    pub why: String,
    /// The time of the attempt.
    pub at: Timestamp,
}

impl Unreleased {
    /// Whether the release is due for another attempt.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.at.saturating_add(RELEASE).is_ok_and(|due| now >= due)
    }
}

/// Ironic's answer that something is currently not possible. As long as the node does not change, the answer does not
/// either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The requested effect.
    pub effect: &'static str,
    /// Ironic's message.
    pub message: String,
    /// `provision_updated_at` of the node that it was asked for.
    pub node_since: Option<String>,
    /// The number of times in a row.
    pub times: u32,
}

/// The number of equal answers that count as a conflict that resolves itself.
const PATIENCE: u32 = 2;

impl Conflict {
    /// With the same answer before, if there was one.
    #[must_use]
    pub fn after(self, before: Option<&Self>) -> Self {
        let same = before.filter(|before| {
            (before.effect, &before.message, &before.node_since) == (self.effect, &self.message, &self.node_since)
        });
        Self {
            times: same.map_or(1, |before| before.times.saturating_add(1)),
            ..self
        }
    }

    /// Whether it does not resolve itself.
    pub fn is_lasting(&self) -> bool {
        self.times > PATIENCE
    }
}

/// The owner of a MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignPort {
    /// The node's name, or its UUID where it has none.
    pub owner: String,
    /// When that was observed.
    pub at: Timestamp,
}

/// A rejected port change that the host does without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPort {
    /// The requested change, as an [effect](crate::host::plan::Effect::label).
    pub change: &'static str,
    /// Ironic's message, for the user.
    pub why: String,
    /// The time of the rejection.
    pub at: Timestamp,
}

/// Whether an answer about a port is recent enough that Ironic need not be asked again.
pub fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    at.saturating_add(PORT_ANSWER).is_ok_and(|end| now < end)
}

/// A power change that Ironic accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerRequest {
    /// Wanted: on or off.
    pub on: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_answer_about_the_same_node_lasts() {
        let answer = |message: &str, node_since: &str| Conflict {
            effect: "set provision state",
            message: message.to_owned(),
            node_since: Some(node_since.to_owned()),
            times: 0,
        };
        let mut last = answer("no", "1").after(None);
        let mut lasting = vec![last.is_lasting()];
        for next in [
            answer("no", "1"),
            answer("no", "1"),
            answer("no", "2"),
            answer("never", "2"),
        ] {
            last = next.after(Some(&last));
            lasting.push(last.is_lasting());
        }
        assert_eq!(lasting, [false, false, true, false, false]);
        assert_eq!(last.times, 1);
    }
}
