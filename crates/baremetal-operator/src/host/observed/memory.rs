//! What one process remembers of a host from one reconciliation to the next. Without it everything is found out again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use metal3_runtime::timing::operator::{PORT_ANSWER, RELEASE};

use super::DeploymentSecrets;
/// Hints that spare calls or sharpen error messages. Losing them on a restart costs a call, never a repetition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The digest of the credentials that Ironic was given last.
    pub accepted_digest: Option<u64>,
    /// The power change asked for and not yet seen.
    pub power_request: Option<PowerRequest>,
    /// Since when the host finds its node locked.
    pub locked_since: Option<Timestamp>,
    /// The boot MAC address, in lower case, with which the node was seen to have a port for every NIC of the stored hardware.
    pub ports_with: Option<String>,
    /// The MAC addresses that it cannot have a port for, because another node has it.
    pub foreign_ports: BTreeMap<String, ForeignPort>,
    /// What Ironic refused to change of the ports that have these MAC addresses, since the last inspection was asked for.
    pub refused_ports: BTreeMap<String, RefusedPort>,
    /// This process enrolled the node, and nobody inspected it since: there is no inventory to ask for.
    pub is_uninspected: bool,
    /// Ironic was given another way to the BMC and has not tried it yet: see
    /// [`Observed::reconfigured`](super::Observed::reconfigured).
    pub is_untried: bool,
    /// The digest of the registry credentials that Ironic was given last.
    pub sent_pull_secret: Option<u64>,
    /// The surroundings ([`ramdisk_surroundings`](crate::host::ramdisk_surroundings)) for which the ramdisk was built that the node is known to have.
    pub ramdisk: Option<String>,
    /// The version of the ramdisk's network data that the node is known to carry.
    pub network_data: Option<String>,
    /// Which edit of the HardwareData was looked at.
    pub hardware_data: Option<i64>,
    /// What the Secrets of the deployment were when Ironic was asked for something last.
    pub deployed_with: Option<DeploymentSecrets>,
    /// What Ironic was asked to do with the disc in the drive and was not seen to have done.
    pub disc_request: Option<DiscRequest>,
    /// The BMC refused a soft power-off.
    pub no_soft_power_off: bool,
    /// What Ironic answered last that the node's state does not allow.
    pub conflict: Option<Conflict>,
    /// The Secrets that could not be let go.
    pub unreleased: BTreeMap<String, Unreleased>,
}

impl Memory {
    /// Something that Ironic would not have done with a port has to be asked for again.
    pub fn has_due_port(&self, now: Timestamp) -> bool {
        let foreign = self.foreign_ports.values().map(|port| port.at);
        let mut answers = foreign.chain(self.refused_ports.values().map(|port| port.at));
        answers.any(|at| !is_recent(at, now))
    }
}

/// A Secret that could not be let go: why, and when that was tried last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreleased {
    /// In words, for the user.
    pub why: String,
    /// When that was.
    pub at: Timestamp,
}

impl Unreleased {
    /// Whether it is to be tried again.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.at.saturating_add(RELEASE).is_ok_and(|due| now >= due)
    }
}

/// An answer of Ironic that something is not possible at the moment. While the node stays as it is, so does the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What was asked for.
    pub effect: &'static str,
    /// Ironic's words.
    pub message: String,
    /// `provision_updated_at` of the node that it was asked for.
    pub node_since: Option<String>,
    /// How often this came, one after another.
    pub times: u32,
}

/// So often the same answer is taken for a clash with something that ends by itself.
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

    /// It does not end by itself.
    pub fn is_lasting(&self) -> bool {
        self.times > PATIENCE
    }
}

/// A change of the disc in a server's virtual drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscRequest {
    /// One is put in.
    Attach,
    /// The drive is emptied.
    Detach,
}

/// Who has a MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignPort {
    /// The node's name, or its UUID where it has none.
    pub owner: String,
    /// When that was seen.
    pub at: Timestamp,
}

/// A change of a port that Ironic refused, and that the host goes on without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPort {
    /// What was asked for, as an [effect](crate::host::plan::Effect::label).
    pub change: &'static str,
    /// Ironic's words, for the user.
    pub why: String,
    /// When that was.
    pub at: Timestamp,
}

/// Whether an answer about a port is so new that Ironic need not be asked again.
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
