//! What calls look like from outside: names for metrics and messages, and the hook that counts them.

use std::fmt;
use std::time::Duration;

/// Declares the operations with a label for metrics and a phrase for messages.
macro_rules! operations {
    ($($(#[$meta:meta])* $variant:ident = $label:literal, $phrase:literal;)*) => {
        /// Every call the client makes. The number of labels is bounded by this list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation {
            $($(#[$meta])* $variant,)*
        }

        impl Operation {
            /// Label for metrics.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }

            /// What is being done, as in "reading node x".
            pub(crate) const fn phrase(self) -> &'static str {
                match self { $(Self::$variant => $phrase,)* }
            }
        }
    };
}

operations! {
    /// Version discovery.
    Discover = "discover", "negotiating the API version";
    /// Listing drivers, which tells whether a conductor is up.
    ListDrivers = "list_drivers", "listing drivers";
    /// Reading one node.
    GetNode = "get_node", "reading node";
    /// Reading all nodes.
    ListNodes = "list_nodes", "listing nodes";
    /// Creating a node.
    CreateNode = "create_node", "creating node";
    /// Patching a node.
    PatchNode = "patch_node", "patching node";
    /// Deleting a node.
    DeleteNode = "delete_node", "deleting node";
    /// Moving a node in the state machine.
    Provision = "provision", "changing the provision state of node";
    /// Changing a node's power.
    Power = "power", "changing the power of node";
    /// Telling which RAID volumes a cleaning is to create.
    SetRaid = "set_raid", "setting the RAID configuration of node";
    /// Reading the BIOS settings that Ironic knows.
    GetBios = "get_bios", "reading the BIOS settings of node";
    /// Reading the firmware versions that Ironic knows.
    GetFirmware = "get_firmware", "reading the firmware of node";
    /// Asking a BMC what is in its virtual drives.
    GetVirtualMedia = "get_virtual_media", "asking for the virtual media of node";
    /// Having a disc put into a virtual drive.
    AttachVirtualMedia = "attach_virtual_media", "attaching a disc to node";
    /// Having a virtual drive emptied.
    DetachVirtualMedia = "detach_virtual_media", "detaching the disc of node";
    /// Having a BMC send its events somewhere.
    Subscribe = "subscribe", "subscribing to the events of node";
    /// Ending a subscription.
    Unsubscribe = "unsubscribe", "ending a subscription to the events of node";
    /// Asking a BMC for its subscriptions.
    ListSubscriptions = "list_subscriptions", "listing the subscriptions to the events of node";
    /// Putting a node into maintenance.
    SetMaintenance = "set_maintenance", "setting maintenance of node";
    /// Taking a node out of maintenance.
    ClearMaintenance = "clear_maintenance", "clearing maintenance of node";
    /// Listing ports of a node, or with an address.
    ListPorts = "list_ports", "listing ports of";
    /// Creating a port.
    CreatePort = "create_port", "creating a port of node";
    /// Reading what inspection found.
    GetInventory = "get_inventory", "reading the inventory of node";
    /// Changing a port.
    PatchPort = "patch_port", "changing a port of node";
    /// Deleting a port.
    DeletePort = "delete_port", "deleting a port of node";
    /// Asking a BMC what its server boots from.
    GetBootDevice = "get_boot_device", "asking the BMC of node";
    /// Having a node's settings checked, by asking its BMC too.
    Validate = "validate", "validating node";
}

/// How one exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An HTTP status came back.
    Status(u16),
    /// None did; why, as a bounded label such as `refused`, `timeout`, `tls`.
    NoAnswer(&'static str),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => write!(f, "{code}"),
            Self::NoAnswer(label) => f.write_str(label),
        }
    }
}

/// One exchange with the server. A call that was retried makes several of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// What was asked.
    pub operation: Operation,
    /// How it ended; its `Display` is the code label for metrics.
    pub outcome: Outcome,
    /// From sending to the end of the answer, without waiting for a free slot.
    pub duration: Duration,
}

/// Is told about every exchange. Called inline: it must not block.
pub trait Observer: Send + Sync {
    /// An exchange has ended.
    fn observe(&self, exchange: &Exchange);
}
