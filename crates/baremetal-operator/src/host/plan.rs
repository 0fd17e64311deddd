//! The parts of a decision, as data: they can be printed, compared, and tested in bulk.

/// Reasons, each with its name as text.
macro_rules! reasons {
    ($(#[$of_enum:meta])* pub enum $name:ident { $($(#[$meta:meta])* $reason:ident,)* }) => {
        $(#[$of_enum])*
        pub enum $name {
            $($(#[$meta])* $reason,)*
        }

        impl $name {
            /// The reason as written in the object.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => stringify!($reason),)*
                }
            }
        }
    };
}

mod effect;
mod event;
mod reason;
mod wait;

use metal3_api::metal3::{BareMetalHostStatus, ErrorType};
use metal3_runtime::controller;

pub use self::effect::{DiscRecord, Effect, Intent};
pub use self::event::{Event, EventReason, reason_of};
pub use self::reason::WaitReason;
pub use self::wait::{Wait, Wake};
pub use super::detach_error::error_type;

/// The result of deciding about a host.
pub type Decision = controller::Decision<Read, Effect, HostReport>;

/// What one step of a pass does.
pub type Plan = controller::Plan<Effect, HostReport>;

/// What follows a failed effect.
pub type Outcome = controller::Outcome<HostReport>;

/// What `observe` can read on demand. Nothing here is read unless a decision requests it: an idle host costs no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// The Ironic node itself, not the fleet's last list: every mutation and every completion is based on it.
    LiveNode,
    /// The BMC credentials.
    Credentials,
    /// The ports of the host's node.
    Ports,
    /// Which node, if any, has a port with the boot MAC address.
    BootMacOwner,
    /// The result of the last inspection.
    Inventory,
    /// User data, metadata and network data.
    ConfigDrive,
    /// The credentials for the image registry.
    PullSecret,
    /// The firmware objects beside the host.
    Firmware,
    /// The BIOS settings that Ironic knows.
    Bios,
    /// The versions of the firmware that Ironic knows.
    Components,
    /// Ironic's own validation of the node before a deployment; it contacts the BMC.
    Validation,
    /// A slot for inspection, cleaning or provisioning: granted, or a place in the queue.
    Slot,
    /// The HardwareData of the host's name.
    HardwareData,
    /// The details of the hardware in the stored status.
    Hardware,
    /// The ramdisk that is built for the host.
    Ramdisk,
    /// The network data of the ramdisk.
    NetworkData,
    /// Whether Ironic reaches the BMC with the node's current access data.
    BmcAccess,
    /// Whether the BMC accepts the credentials of the host's Secret. No node that exists is used or changed for it.
    CredentialCheck,
    /// The address that the host name in the BMC address resolves to.
    BmcName,
    /// The DataImage of the host's name.
    DataImage,
    /// The content of the server's virtual drive; reading it contacts the BMC.
    Disc,
}

/// What a step reports about a host, beside its events.
#[derive(Clone, Debug, PartialEq)]
pub struct HostReport {
    /// The complete next status; without hardware if the stored hardware stays.
    pub status: BareMetalHostStatus,
    /// What follows this step.
    pub then: Then,
    /// What the step has learned. A failed step learns nothing.
    pub learned: Option<Learned>,
    /// The error type that a rejection of this step's Ironic call is recorded under.
    pub refusal: ErrorType,
    /// Published if the status cannot be stored.
    pub if_unstored: Option<Event>,
}

impl HostReport {
    /// A report of this status and nothing else.
    pub fn new(status: BareMetalHostStatus, then: Then) -> Self {
        Self {
            status,
            then,
            learned: None,
            refusal: ErrorType::Registration,
            if_unstored: None,
        }
    }
}

/// What a step has learned, to save later passes the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The node matches the observed specification and its Secrets.
    pub is_configured: bool,
    /// The image built for the host is the one that the node uses.
    pub has_ramdisk: bool,
    /// Every known NIC has its port, or cannot have one.
    pub has_ports: bool,
}

/// What follows a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Then {
    /// Nothing to do until the host, its Secret or its node changes.
    Idle,
    /// The host is gone, as far as the operator is concerned.
    Gone,
    /// Another step follows immediately; the status is stored with a later one.
    Again,
    /// Something must happen first.
    Wait(Wait),
}

impl Then {
    /// The wait, if it is one.
    pub fn wait(&self) -> Option<&Wait> {
        match self {
            Self::Wait(wait) => Some(wait),
            Self::Idle | Self::Gone | Self::Again => None,
        }
    }

    /// Whether the host waits for its node or for Ironic, so that the fleet is listed fast.
    pub fn is_for_ironic(&self) -> bool {
        let wake = self.wait().map(|wait| &wait.wake);
        matches!(wake, Some(Wake::Node | Wake::NodeOr(_) | Wake::Ironic))
    }

    /// Whether calls to Ironic or to the Kubernetes API fail.
    pub fn is_trouble(&self) -> bool {
        let wake = self.wait().map(|wait| &wait.wake);
        matches!(wake, Some(Wake::Ironic | Wake::Kubernetes))
    }

    /// Whether the status is stored and the next step follows immediately.
    pub fn is_at_once(&self) -> bool {
        self.wait()
            .is_some_and(|wait| wait.wake == Wake::After(std::time::Duration::ZERO))
    }
}
