//! Everything a decision may look at, as one value. Missing things are data, not errors.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use metal3_api::metal3::{BareMetalHost, DataImage, HardwareDetails, PreprovisioningImage, ProvisioningState};
use metal3_ironic::{Node, Port, PowerState};
use serde_json::Value;

use super::firmware;
use super::plan::{EventReason, Plan};
use super::ramdisk_surroundings;
use crate::fleet::Slot;
use crate::settings::HostSettings;

/// What was seen of one host and its surroundings.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The host; after a write of our own, as the write returned it. The hardware is not in its status, unless this
    /// reconciliation found another one that is not stored yet.
    pub host: Arc<BareMetalHost>,
    /// The hardware in the stored status.
    pub hardware: HardwareView,
    /// The BMC credentials.
    pub secret: SecretView,
    /// They may be claimed before they are read, by a patch whose answer they are.
    pub may_claim_unread: bool,
    /// The host's node in Ironic.
    pub node: NodeView,
    /// The ports of the node.
    pub ports: Lookup<Vec<Port>>,
    /// Whose port has the boot MAC address.
    pub boot_mac_owner: Lookup<MacOwner>,
    /// The result of the last inspection.
    pub inventory: Lookup<Arc<HardwareDetails>>,
    /// Whether the name in the BMC address stands for an IPv6 address, or why nobody knows.
    pub bmc_name: Lookup<Result<bool, String>>,
    /// Whether the BMC answers Ironic, or what Ironic said instead.
    pub bmc_access: Lookup<Result<(), String>>,
    /// The hardware of the HardwareData of the host's name.
    pub hardware_data: Lookup<Arc<HardwareDetails>>,
    /// The ramdisk that is built for the host.
    pub ramdisk: Lookup<Arc<PreprovisioningImage>>,
    /// The network data of the ramdisk.
    pub network_data: NetworkDataView,
    /// User data, metadata and network data.
    pub config_drive: ConfigDriveView,
    /// The credentials for the registry of the image.
    pub pull_secret: PullSecretView,
    /// The versions of the Secrets that the last two come from.
    pub deployment_secrets: DeploymentSecrets,
    /// The generation of a HardwareData of the host's name that somebody else than this operator wrote.
    pub hardware_data_edit: Option<i64>,
    /// Whether there is a DataImage of the host's name.
    pub data_image_at_hand: DataImageAtHand,
    /// The DataImage itself.
    pub data_image: Lookup<Arc<DataImage>>,
    /// Whether a disc is in the server's virtual drive, or why the BMC does not tell.
    pub disc: Lookup<Result<bool, String>>,
    /// In this reconciliation Ironic refused to change the disc: why.
    pub disc_refusal: Option<String>,
    /// What the firmware objects beside the host ask for, as far as it is kept.
    pub firmware: firmware::AtHand,
    /// The firmware objects themselves.
    pub firmware_objects: Lookup<Arc<firmware::Objects>>,
    /// The BIOS settings that Ironic knows.
    pub bios: Lookup<Arc<BTreeMap<String, String>>>,
    /// Ironic's check before a deployment: an empty list of problems means that it may go on.
    pub validation: Lookup<Vec<String>>,
    /// A slot to act on the node.
    pub slot: Lookup<Slot>,
    /// Ironic does not answer at the moment, although the node may be known from before.
    pub outage: Option<Outage>,
    /// How Ironic reaches the BMC was changed and not tried since: what Ironic said of the old way no longer counts.
    pub reconfigured: bool,
    /// This reconciliation wrote the host: the API server has it as it is here.
    pub is_confirmed: bool,
    /// The state as it is stored, where an earlier pass of this reconciliation has left it behind.
    pub stored_state: Option<ProvisioningState>,
    /// What this process remembers of the host; all of it may be lost without harm.
    pub memory: Memory,
    /// What the operator was started with.
    pub settings: Arc<HostSettings>,
}

/// Something read on demand.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup<T> {
    /// Nobody asked yet.
    NotLooked,
    /// It does not exist.
    NotFound,
    /// Here it is.
    Found(T),
}

/// The hardware in the stored status of a host, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum HardwareView {
    /// There is none.
    None,
    /// There is, and this is all that is at hand of it.
    Outlined {
        /// `cpu.arch`; empty where inspection did not find it.
        architecture: String,
    },
    /// Read, or written, by this very reconciliation.
    Known(Arc<HardwareDetails>),
}

/// The host's node as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeView {
    /// Ironic was never listed, or does not answer: the cause.
    Unknown {
        /// Why, for the user; `None` before the first list.
        cause: Option<Outage>,
    },
    /// Not in the fleet's last list.
    Unlisted,
    /// As in the fleet's last list: good for waiting and resting, not for acting.
    Listed(Arc<Node>),
    /// Read by this very pass, or returned by its own change.
    Live(Arc<Node>),
    /// Read by this very pass: there is none.
    Gone,
}

/// What is known of the host's DataImage without a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataImageAtHand {
    /// The watch has not shown all of them yet.
    #[default]
    Unknown,
    /// There is none.
    Absent,
    /// There is one.
    Present {
        /// `metadata.generation`, which grows with a deletion too.
        generation: Option<i64>,
    },
}

/// Why Ironic cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// What kind of trouble.
    pub kind: OutageKind,
    /// The real cause in one line.
    pub cause: String,
}

/// Kinds of trouble with Ironic as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// The resource that tells where Ironic is (`IRONIC_NAME`) is not ready.
    Absent,
    /// No connection, or no answer in time.
    Unreachable,
    /// The operator's own credentials or certificate are refused.
    Unauthorized,
    /// It answers with errors, is too old, or has no drivers yet.
    Failing,
}

/// The node that has a port with the host's boot MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacOwner {
    /// Its UUID.
    pub node: String,
    /// Its name, if it has one.
    pub name: Option<String>,
}

/// The credentials Secret as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum SecretView {
    /// Not read in this pass. The version is the one that the metadata watch last saw, if it has.
    NotLooked {
        /// `metadata.resourceVersion`.
        version: Option<String>,
    },
    /// There is no such Secret.
    Missing,
    /// It exists but cannot be used.
    Invalid {
        /// Which key is wrong, and how.
        problem: String,
        /// Whether it is marked as the host's all the same.
        claimed: bool,
    },
    /// Both keys are there.
    Found(SecretFound),
}

/// Usable credentials and what must be known of their Secret.
#[derive(Clone, PartialEq)]
pub struct SecretFound {
    /// User name at the BMC.
    pub username: String,
    /// Password at the BMC.
    pub password: String,
    /// `metadata.resourceVersion`, published in the host's status.
    pub version: String,
    /// A digest of user name and password: what "the same credentials" means.
    pub digest: u64,
    /// Whether label, owner reference and finalizer are in place.
    pub claimed: bool,
    /// The Secret itself, to be written back with our marks; kept no longer than the reconciliation.
    pub object: Option<Arc<Secret>>,
}

impl SecretFound {
    /// In the form that BMC drivers take.
    pub fn credentials(&self) -> metal3_bmc::Credentials {
        metal3_bmc::Credentials {
            username: self.username.clone(),
            password: self.password.clone(),
        }
    }
}

impl fmt::Debug for SecretFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretFound")
            .field("username", &self.username)
            .field("password", &"******")
            .field("version", &self.version)
            .field("claimed", &self.claimed)
            .finish_non_exhaustive()
    }
}

/// The network data of the ramdisk (`spec.preprovisioningNetworkDataName`) as far as it is known.
#[derive(Clone, PartialEq)]
pub enum NetworkDataView {
    /// Not read in this pass. What is known is what the metadata watch last saw, if it has.
    NotLooked {
        /// `metadata.resourceVersion`.
        version: Option<String>,
        /// Whether label and finalizer are in place.
        claimed: bool,
    },
    /// There is no such Secret.
    Missing,
    /// It cannot be used: why.
    Unusable(String),
    /// Here it is.
    Found {
        /// The description, in Ironic's own form; empty where the Secret has none.
        description: Arc<Value>,
        /// `metadata.resourceVersion`.
        version: String,
        /// Whether label and finalizer are in place.
        claimed: bool,
        /// The Secret itself, to be written back with our marks.
        object: Option<Arc<Secret>>,
    },
}

impl NetworkDataView {
    /// The version of the Secret, if one is known.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::NotLooked { version, .. } => version.as_deref(),
            Self::Found { version, .. } => Some(version),
            Self::Missing | Self::Unusable(_) => None,
        }
    }
}

impl fmt::Debug for NetworkDataView {
    /// Without the data: the Secret may hold more than addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLooked { version, claimed } => f
                .debug_struct("NotLooked")
                .field("version", version)
                .field("claimed", claimed)
                .finish(),
            Self::Missing => f.write_str("Missing"),
            Self::Unusable(why) => f.debug_tuple("Unusable").field(why).finish(),
            Self::Found { version, claimed, .. } => f
                .debug_struct("Found")
                .field("version", version)
                .field("claimed", claimed)
                .finish_non_exhaustive(),
        }
    }
}

/// The config drive as far as it is known.
#[derive(Clone, PartialEq)]
pub enum ConfigDriveView {
    /// Nobody asked yet.
    NotLooked,
    /// A Secret or a key is missing, or its text cannot be parsed: which.
    Unusable(String),
    /// The value for Ironic.
    Ready(Arc<Value>),
}

impl fmt::Debug for ConfigDriveView {
    /// Without the drive: user data is full of secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLooked => f.write_str("NotLooked"),
            Self::Unusable(why) => f.debug_tuple("Unusable").field(why).finish(),
            Self::Ready(_) => f.write_str("Ready(******)"),
        }
    }
}

/// The credentials for the registry of the image, as far as they are known.
#[derive(Clone, Debug, PartialEq)]
pub enum PullSecretView {
    /// Nobody asked yet.
    NotLooked,
    /// The Secret is missing or cannot be used: the event that tells of it, and why.
    Unusable(EventReason, String),
    /// Here they are.
    Ready(PullSecret),
}

/// Credentials for a registry.
#[derive(Clone, PartialEq)]
pub struct PullSecret {
    /// `user:password`.
    pub credentials: String,
    /// A digest of them: Ironic shows what it has as asterisks.
    pub digest: u64,
}

impl fmt::Debug for PullSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PullSecret(******)")
    }
}

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
    /// Ironic was given another way to the BMC and has not tried it yet: see [`Observed::reconfigured`].
    pub is_untried: bool,
    /// The digest of the registry credentials that Ironic was given last.
    pub sent_pull_secret: Option<u64>,
    /// The surroundings ([`super::ramdisk_surroundings`]) for which the ramdisk was built that the node is known to have.
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

/// A Secret that could not be let go: why, and when that was tried last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreleased {
    /// In words, for the user.
    pub why: String,
    /// When that was.
    pub at: Timestamp,
}

impl Unreleased {
    /// How long after one attempt the next one is due.
    pub const RETRY: SignedDuration = SignedDuration::from_mins(1);

    /// Whether it is to be tried again.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) >= Self::RETRY
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
    /// What was asked for, as an [effect](super::plan::Effect::label).
    pub change: &'static str,
    /// Ironic's words, for the user.
    pub why: String,
    /// When that was.
    pub at: Timestamp,
}

/// What Ironic has said of a port is not asked for again for so long.
const ANSWERED_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Whether an answer about a port is so new that Ironic need not be asked again.
pub fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < ANSWERED_FOR
}

impl Memory {
    /// Something that Ironic would not have done with a port has to be asked for again.
    pub fn has_due_port(&self, now: Timestamp) -> bool {
        let foreign = self.foreign_ports.values().map(|port| port.at);
        let mut answers = foreign.chain(self.refused_ports.values().map(|port| port.at));
        answers.any(|at| !is_recent(at, now))
    }
}

/// The versions of the Secrets that the content of a deployment comes from, as the metadata watch last saw them: `None` for
/// one that does not exist. Those that it has not seen are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentSecrets(BTreeMap<String, Option<String>>);

impl FromIterator<(String, Option<String>)> for DeploymentSecrets {
    fn from_iter<I: IntoIterator<Item = (String, Option<String>)>>(versions: I) -> Self {
        Self(versions.into_iter().collect())
    }
}

impl DeploymentSecrets {
    /// Whether one of them is known to have been another one.
    pub fn differ_from(&self, before: &Self) -> bool {
        self.0
            .iter()
            .any(|(name, version)| before.0.get(name).is_some_and(|known| known != version))
    }
}

/// A power change that Ironic accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerRequest {
    /// Wanted: on or off.
    pub on: bool,
}

impl Observed {
    /// Remembers what a plan found out, for later reconciliations to be spared the calls.
    pub fn learn(&mut self, plan: &Plan, now: Timestamp) {
        if plan.has_ports {
            // Those that are still wanted were asked for again: the others belonged to NICs that are gone.
            self.memory.foreign_ports.retain(|_, port| is_recent(port.at, now));
            self.memory.refused_ports.retain(|_, port| is_recent(port.at, now));
            self.memory.ports_with = Some(self.host.spec.boot_mac_address.to_ascii_lowercase());
        } else if plan.status.hardware.is_some() {
            // It may have other NICs.
            self.memory.ports_with = None;
        }
        if plan.is_configured {
            if let NetworkDataView::Found { version, .. } = &self.network_data {
                self.memory.network_data = Some(version.clone());
            }
            if plan.has_ramdisk {
                self.memory.ramdisk = Some(ramdisk_surroundings(&self.host, self.network_data.version()));
            }
        }
        if self.is_power_reached() {
            // What Ironic says of an error from now on is of something else.
            self.memory.power_request = None;
        }
    }

    /// The node has the power that was asked for last.
    fn is_power_reached(&self) -> bool {
        let (NodeView::Live(node) | NodeView::Listed(node)) = &self.node else {
            return false;
        };
        let wanted = self
            .memory
            .power_request
            .map(|request| if request.on { PowerState::On } else { PowerState::Off });
        wanted.is_some() && node.power_state == wanted && node.target_power_state.is_none()
    }
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
