//! What a decision consists of: data, so that it can be printed, compared and tested by the thousand.

mod effect;
mod event;
mod reason;
mod wait;

use metal3_api::metal3::{BareMetalHostStatus, ErrorType};

pub use self::effect::Effect;
pub use self::event::{EventReason, Note, reason_of};
pub use self::reason::WaitReason;
pub use self::wait::{Wait, Wake};
pub use super::detach_error::error_type;

/// The outcome of one look at a host.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Something must be read before anything can be decided.
    Look(Need),
    /// Everything needed was seen.
    Act(Box<Plan>),
}

/// What `observe` can read on demand. Nothing here is read unless a decision asks for it: a host at rest costs no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// The Ironic node itself, not the fleet's last list: every mutation and every completion is judged on it.
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
    /// The credentials for the registry of the image.
    PullSecret,
    /// The firmware objects beside the host.
    Firmware,
    /// The BIOS settings that Ironic knows.
    Bios,
    /// Ironic's own check of the node before a deployment; it reaches the BMC.
    Validation,
    /// A slot for inspection, cleaning or provisioning: handed out, or a place in the queue.
    Slot,
    /// The HardwareData of the host's name.
    HardwareData,
    /// The details of the hardware in the stored status.
    Hardware,
    /// The ramdisk that is built for the host.
    Ramdisk,
    /// The network data of the ramdisk.
    NetworkData,
    /// Whether the BMC answers Ironic with the access that the node has now.
    BmcAccess,
    /// What the name in the BMC address stands for.
    BmcName,
    /// The DataImage of the host's name.
    DataImage,
    /// What is in the server's virtual drive; it reaches the BMC.
    Disc,
}

/// What one pass does.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The complete next status, if every effect succeeds; without hardware where that stays as it is stored.
    pub status: BareMetalHostStatus,
    /// In order; at most one of them changes anything in Ironic.
    pub effects: Vec<Effect>,
    /// Events for the user, published after the status is stored.
    pub notes: Vec<Note>,
    /// What happens after this pass.
    pub next: Next,
    /// The node agrees with everything that was seen of the specification and its Secrets.
    pub is_configured: bool,
    /// The image that was built for the host is the one that the node is given.
    pub has_ramdisk: bool,
    /// Every NIC that is known was seen to have its port, or cannot have one.
    pub has_ports: bool,
    /// The error type under which a refusal of this pass's Ironic call is recorded.
    pub refusal: ErrorType,
}

/// What follows a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing to do until the host, its Secret or its node changes.
    Settled,
    /// The host is gone from our side.
    Gone,
    /// Another pass at once; the status is stored with a later one.
    Again,
    /// Something must happen first.
    Wait(Wait),
}

/// What follows a failed effect: pure, like a decision.
pub struct Aftermath {
    /// The status to store.
    pub status: BareMetalHostStatus,
    /// Events.
    pub notes: Vec<Note>,
    /// What ends the trouble.
    pub next: Next,
}
