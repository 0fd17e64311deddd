//! Everything that a decision may use, as one value. Missing things are data, not errors.

mod memory;
mod remember;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use metal3_api::metal3::{
    BareMetalHost, BareMetalHostStatus, DataImage, FirmwareComponentStatus, HardwareDetails, PreprovisioningImage,
    ProvisioningState,
};
use metal3_ironic::{BiosSetting, Fields, Node, Port, PowerState, ProvisionState};

pub use self::memory::{
    Conflict, FailedFirmware, ForeignPort, Memory, PowerRequest, RefusedPort, Unreleased, is_of_firmware, is_recent,
};
pub use self::secrets::{
    ConfigDriveView, DeploymentSecrets, NetworkDataView, PullSecret, PullSecretView, SecretFound, SecretView,
};
pub use super::disc::{DiscFailure, DiscRequest};
use super::plan::{HostReport, Learned, WaitReason};
use super::ramdisk::surroundings;
use super::text::for_tenant;
use super::{cached, disc, firmware, identity};
use crate::fleet::Slot;
pub use crate::fleet::{NodeView, Outage, OutageKind};
use crate::settings::HostSettings;

/// The observed state of one host and its surroundings.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The host; after a write of our own, as the write returned it. Its status has no hardware, unless this
    /// reconciliation found new hardware that is not stored yet.
    pub host: Arc<BareMetalHost>,
    /// The hardware in the stored status.
    pub hardware: HardwareView,
    /// The BMC credentials.
    pub secret: SecretView,
    /// Whether the Secret may be marked before it is read, by a patch whose response is the Secret.
    pub may_claim_unread: bool,
    /// The host's node in Ironic.
    pub node: NodeView,
    /// The ports of the node.
    pub ports: Lookup<Vec<Port>>,
    /// The node whose port has the boot MAC address.
    pub boot_mac_owner: Lookup<MacOwner>,
    /// The result of the last inspection.
    pub inventory: Lookup<Arc<HardwareDetails>>,
    /// Whether the host name in the BMC address resolves to an IPv6 address, or why it does not resolve.
    pub bmc_name: Lookup<Result<bool, String>>,
    /// Whether the BMC answers Ironic, or Ironic's error.
    pub bmc_access: Lookup<Result<(), String>>,
    /// Whether the BMC accepts the credentials of the host's Secret, or Ironic's error.
    pub credential_check: Lookup<Result<(), String>>,
    /// The hardware of the HardwareData of the host's name.
    pub hardware_data: Lookup<Arc<HardwareDetails>>,
    /// The ramdisk that is built for the host.
    pub ramdisk: Lookup<Arc<PreprovisioningImage>>,
    /// The network data of the ramdisk.
    pub network_data: NetworkDataView,
    /// User data, metadata and network data.
    pub config_drive: ConfigDriveView,
    /// The credentials for the image registry.
    pub pull_secret: PullSecretView,
    /// The versions of the Secrets that the last two come from.
    pub deployment_secrets: DeploymentSecrets,
    /// The generation of a HardwareData of the host's name, if another client wrote it.
    pub hardware_data_edit: Option<i64>,
    /// Whether there is a DataImage of the host's name.
    pub data_image_at_hand: DataImageAtHand,
    /// The DataImage itself.
    pub data_image: Lookup<Arc<DataImage>>,
    /// Whether a disc is in the server's virtual drive, or why the BMC does not report it.
    pub disc: Lookup<Result<bool, String>>,
    /// Why Ironic rejected a change of the disc in this reconciliation.
    pub disc_refusal: Option<String>,
    /// The cached requests of the firmware objects.
    pub firmware: firmware::AtHand,
    /// Why their controllers have not compared them, where that is known.
    pub firmware_trouble: firmware::Trouble,
    /// The firmware objects themselves.
    pub firmware_objects: Lookup<Arc<firmware::Objects>>,
    /// The BIOS settings as Ironic read them.
    pub bios: Lookup<Arc<Vec<BiosSetting>>>,
    /// The versions of the firmware as Ironic read them.
    pub components: Lookup<Arc<Vec<FirmwareComponentStatus>>>,
    /// Ironic's validation before a deployment: an empty list of problems means that the deployment may start.
    pub validation: Lookup<Vec<String>>,
    /// A slot to act on the node.
    pub slot: Lookup<Slot>,
    /// Ironic is currently unavailable, although the node may be known from before.
    pub outage: Option<Outage>,
    /// Ironic's access to the BMC was changed and not tried since: earlier errors no longer count.
    pub reconfigured: bool,
    /// This reconciliation wrote the host, so this is the version in the API server.
    pub is_confirmed: bool,
    /// The stored status: an earlier step of this pass may have moved beyond it.
    pub stored: Option<Arc<BareMetalHostStatus>>,
    /// The stored status before the intent of this step replaced it.
    pub before_intent: Option<Arc<BareMetalHostStatus>>,
    /// Ironic rejected a power change in this step.
    pub has_refused_power: bool,
    /// What this process remembers of the host; all of it may be lost without harm.
    pub memory: Memory,
    /// The number of passes in a row that met trouble with Ironic or the Kubernetes API.
    pub failures: u32,
    /// The seed for jitter.
    pub seed: u64,
    /// The operator's settings.
    pub settings: Arc<HostSettings>,
}

/// Something read on demand.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup<T> {
    /// Not read yet.
    NotLooked,
    /// It does not exist.
    NotFound,
    /// It was found.
    Found(T),
}

/// The hardware in the stored status of a host, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum HardwareView {
    /// There is no hardware.
    None,
    /// There is hardware, and only this is cached.
    Outlined {
        /// `cpu.arch`; empty if inspection did not find it.
        architecture: String,
    },
    /// Read, or written, by this reconciliation.
    Known(Arc<HardwareDetails>),
}

/// What is known of the host's DataImage without a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataImageAtHand {
    /// The watch has not delivered all of them yet.
    #[default]
    Unknown,
    /// There is none.
    Absent,
    /// There is one.
    Present {
        /// `metadata.generation`, which grows with a deletion too.
        generation: Option<i64>,
        /// Whether its status names a disc that we have put into the drive, or may have.
        holds_disc: bool,
    },
}

impl DataImageAtHand {
    /// With what the host's note says about the disc in its drive.
    #[must_use]
    pub fn with_note(self, host: &BareMetalHost) -> Self {
        if disc::left(host).is_none() {
            return self;
        }
        let generation = match self {
            Self::Unknown => return self,
            Self::Absent => None,
            Self::Present { generation, .. } => generation,
        };
        Self::Present {
            generation,
            holds_disc: true,
        }
    }
}

/// The node that has a port with the host's boot MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacOwner {
    /// Its UUID.
    pub node: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its `driver_info`.
    pub bmc: Fields,
}

impl Observed {
    /// An observation with this host, trimmed or not, and nothing else.
    pub fn new(mut host: BareMetalHost, settings: Arc<HostSettings>) -> Self {
        let hardware = cached::take_hardware(&mut host);
        Self {
            stored: host.status.clone().map(Arc::new),
            host: Arc::new(host),
            hardware,
            settings,
            secret: SecretView::NotLooked { version: None },
            may_claim_unread: false,
            node: NodeView::Unlisted,
            ports: Lookup::NotLooked,
            boot_mac_owner: Lookup::NotLooked,
            inventory: Lookup::NotLooked,
            bmc_name: Lookup::NotLooked,
            bmc_access: Lookup::NotLooked,
            credential_check: Lookup::NotLooked,
            hardware_data: Lookup::NotLooked,
            ramdisk: Lookup::NotLooked,
            network_data: NetworkDataView::NotLooked {
                version: None,
                claimed: false,
            },
            config_drive: ConfigDriveView::NotLooked,
            pull_secret: PullSecretView::NotLooked,
            deployment_secrets: DeploymentSecrets::default(),
            hardware_data_edit: None,
            data_image_at_hand: DataImageAtHand::Unknown,
            data_image: Lookup::NotLooked,
            disc: Lookup::NotLooked,
            disc_refusal: None,
            firmware: firmware::AtHand::default(),
            firmware_trouble: firmware::Trouble::default(),
            firmware_objects: Lookup::NotLooked,
            bios: Lookup::NotLooked,
            components: Lookup::NotLooked,
            validation: Lookup::NotLooked,
            slot: Lookup::NotLooked,
            outage: None,
            reconfigured: false,
            is_confirmed: false,
            before_intent: None,
            has_refused_power: false,
            memory: Memory::default(),
            failures: 0,
            seed: 0,
        }
    }

    /// The stored state.
    pub fn stored_state(&self) -> Option<&ProvisioningState> {
        self.stored.as_ref().map(|status| &status.provisioning.state)
    }

    /// The host's namespace.
    pub fn namespace(&self) -> &str {
        self.host.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Changes the firmware objects as one of this pass's effects has: its next decision must not see them as they were.
    pub fn learn_firmware_objects(&mut self, change: impl FnOnce(&mut firmware::Objects)) {
        if let Lookup::Found(objects) = &mut self.firmware_objects {
            change(Arc::make_mut(objects));
        }
    }

    /// Whether a node is known to be proven the host's: the record of a list does not have the mark.
    pub fn has_proven(&self, node: &Node) -> bool {
        identity::is_proven_for(node, &self.host) || self.memory.proven_node.as_ref() == Some(&node.uuid)
    }

    /// How long a refusal of the host's credentials still counts.
    pub fn refusal_left(&self, now: Timestamp) -> Option<Duration> {
        let left = self.memory.refused_until?.duration_since(now);
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }

    /// The node as Ironic has just shown it.
    pub fn learn_node(&mut self, node: Node) {
        // One that was enrolled for the host needs no mark.
        let is_marked = !identity::is_enrolled_for(&node, &self.host) && identity::is_proven_for(&node, &self.host);
        self.memory.proven_node = is_marked.then(|| node.uuid.clone());
        self.node = NodeView::Live(Arc::new(node));
    }

    /// Remembers that Ironic has the credentials that were read.
    pub fn learn_credentials(&mut self) {
        if let SecretView::Found(found) = &self.secret {
            self.memory.accepted_digest = Some(found.digest);
        }
    }

    /// Remembers what a step learned, to save later passes the calls.
    pub fn learn(&mut self, told: &HostReport, learned: Learned, now: Timestamp) {
        if learned.has_ports {
            // Ports that are still wanted were requested again: the others belonged to NICs that are gone.
            self.memory.foreign_ports.retain(|_, port| is_recent(port.at, now));
            self.memory.refused_ports.retain(|_, port| is_recent(port.at, now));
            self.memory.ports_with = Some(self.host.spec.boot_mac_address.to_ascii_lowercase());
        } else if told.status.hardware.is_some() {
            // It may have other NICs.
            self.memory.ports_with = None;
        }
        if learned.is_configured {
            if let NetworkDataView::Found { version, .. } | NetworkDataView::WithoutKey { version } = &self.network_data
            {
                self.memory.network_data = Some(version.clone());
            }
            if learned.has_ramdisk {
                self.memory.ramdisk = Some(surroundings(&self.host, self.network_data.version()));
            }
        }
        if self.is_power_reached() {
            // Ironic's errors from now on are about something else.
            self.memory.power_request = None;
        }
        if !matches!(self.hardware_data, Lookup::NotLooked) {
            self.memory.hardware_data = self.hardware_data_edit;
        }
        let reason = told.then.wait().map(|wait| wait.reason);
        self.memory.locked_since = match reason {
            Some(WaitReason::NodeLocked) => self.memory.locked_since.or(Some(now)),
            _ => None,
        };
        if reason == Some(WaitReason::BackOff) {
            // After a restart, assume that the failed attempt used the current Secrets.
            let now = || self.deployment_secrets.clone();
            self.memory.deployed_with.get_or_insert_with(now);
        }
        self.learn_firmware(&told.status);
        self.learn_deployment_error();
    }

    /// Remembers what Ironic says of a running deployment: it is there for a second only.
    fn learn_deployment_error(&mut self) {
        if let NodeView::Live(node) | NodeView::Listed(node) = &self.node
            && matches!(
                node.provision_state,
                ProvisionState::Deploying | ProvisionState::DeployWait
            )
            && self.has_proven(node)
            && let Some(error) = &node.last_error
        {
            let namespace = self.host.metadata.namespace.as_deref().unwrap_or_default();
            self.memory.deployment_error = Some(for_tenant(error, namespace));
        }
    }

    /// Remembers the firmware objects of a failure, so that an edit ends its back-off. After a restart, assume that the
    /// failed attempt used the current ones.
    fn learn_firmware(&mut self, status: &BareMetalHostStatus) {
        let failures = status.error_count;
        if !status.error_type.as_ref().is_some_and(is_of_firmware) {
            self.memory.failed_firmware = None;
        } else if self.firmware.is_known() && self.memory.failed_firmware.is_none_or(|f| f.failures != failures) {
            self.memory.failed_firmware = Some(FailedFirmware {
                failures,
                edits: self.firmware.edits(),
            });
        }
    }

    /// Whether the node has reached the last requested power state.
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
