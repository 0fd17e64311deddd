//! What a pass changes outside of this process.

use std::collections::BTreeSet;
use std::fmt;

use metal3_api::metal3::{
    BareMetalHostStatus, DataImageStatus, FirmwareUpdate, HardwareDetails, PreprovisioningImageSpec,
};
use metal3_ironic::{CreateNode, PatchOp, PowerTarget, ProvisionRequest, Verb};

use super::event::Event;
use crate::host::mark;
use crate::host::named_url::NamedUrl;

/// What is stored before an effect that destroys something.
#[derive(Clone, PartialEq)]
pub struct Intent {
    /// The status.
    pub status: BareMetalHostStatus,
    /// Published when it is stored.
    pub events: Vec<Event>,
}

impl fmt::Debug for Intent {
    /// Without the status: URLs of images may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intent").finish_non_exhaustive()
    }
}

/// One external effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Our finalizer on the host, before anything exists that needs cleaning up, and in the same write the note of
    /// [`NoteSecrets`](Self::NoteSecrets).
    AddFinalizer {
        /// The Secrets that the host may come to hold.
        secrets: BTreeSet<String>,
    },
    /// Which Secrets the host may hold: all of them, in an annotation, before another one is marked.
    NoteSecrets(BTreeSet<String>),
    /// Labels and finalizer on the credentials Secret. One that was not read yet is read by it.
    ClaimSecret,
    /// Asks for a ramdisk of this description, with the host's labels.
    WriteRamdisk(Box<PreprovisioningImageSpec>),
    /// Our finalizer off the PreprovisioningImage.
    ReleaseRamdisk,
    /// Label and finalizer on the Secret with the ramdisk's network data.
    ClaimNetworkData,
    /// The inventory as a HardwareData object of the host's name.
    WriteHardwareData(Box<HardwareDetails>),
    /// The firmware updates that were applied, as the status of HostFirmwareComponents.
    RecordFirmware(Vec<FirmwareUpdate>),
    /// What is in the server's virtual drive, as the status of the DataImage.
    RecordDataImage(Box<DataImageStatus>),
    /// Our finalizer off the HardwareData.
    ReleaseHardwareData,
    /// Our finalizer off the credentials Secret.
    ReleaseSecret,
    /// Our marks off a Secret that the host has no use for any more, and its name off the note.
    ReleaseFormerSecret(String),
    /// Our marks off the credentials Secret, which turned out to be none when it was marked.
    UnclaimSecret,
    /// Our finalizer off the host: the last effect of its life.
    RemoveFinalizer,
    /// An annotation off the host that was acted upon, if it still has this value.
    RemoveAnnotation {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Makes sure that the decision was made on the host as it is now: caches lag, and leaders lose their lease without
    /// knowing. Stands before everything that [erases or interrupts](Effect::is_destructive).
    ConfirmHost {
        /// Stored before, if it differs: that succeeds on the judged version only, and states the intent before the effect.
        intent: Option<Box<Intent>>,
    },
    /// Enrols the host.
    CreateNode(Box<CreateNode>),
    /// A NIC that the host boots from.
    CreatePort {
        /// Its node.
        node: String,
        /// Its MAC address, in lower case.
        mac: String,
        /// Whether the host may boot from it.
        pxe_enabled: bool,
        /// Whether the host cannot do without it. Another node may have the address of a port that it can do without.
        is_needed: bool,
    },
    /// Lets the host boot from a port that exists, or not any more.
    SetPortBoot {
        /// Its node.
        node: String,
        /// Its UUID.
        port: String,
        /// Its MAC address, in lower case.
        mac: String,
        /// Whether the host may boot from it.
        pxe_enabled: bool,
    },
    /// Removes the port of a NIC that the host does not have any more.
    DeletePort {
        /// Its node.
        node: String,
        /// Its UUID.
        port: String,
        /// Its MAC address, in lower case.
        mac: String,
    },
    /// Changes fields of the node.
    PatchNode {
        /// Which node.
        node: String,
        /// Only differences.
        ops: Vec<PatchOp>,
    },
    /// Says which RAID volumes the next cleaning is to create.
    SetTargetRaid {
        /// Which node.
        node: String,
        /// The volumes, as Ironic takes them.
        logical_disks: Vec<serde_json::Value>,
    },
    /// Asks for a provision state.
    Provision {
        /// Which node.
        node: String,
        /// The verb and its data.
        request: Box<ProvisionRequest>,
    },
    /// Asks for a power state.
    Power {
        /// Which node.
        node: String,
        /// The wanted state.
        target: PowerTarget,
    },
    /// Has an ISO put into the server's virtual drive.
    AttachDisc {
        /// Which node.
        node: String,
        /// Where the ISO is.
        url: NamedUrl,
    },
    /// Has the server's virtual drive emptied.
    DetachDisc {
        /// Which node.
        node: String,
    },
    /// Allows the removal of a node in a state that forbids it.
    SetMaintenance {
        /// Which node.
        node: String,
    },
    /// Lets Ironic work on the node again.
    ClearMaintenance {
        /// Which node.
        node: String,
    },
    /// Removes the node.
    DeleteNode {
        /// Which node.
        node: String,
    },
}

impl Effect {
    /// Whether the effect changes something in Ironic.
    pub fn is_ironic_mutation(&self) -> bool {
        match self {
            Self::CreateNode(_)
            | Self::CreatePort { .. }
            | Self::SetPortBoot { .. }
            | Self::DeletePort { .. }
            | Self::PatchNode { .. }
            | Self::SetTargetRaid { .. }
            | Self::Provision { .. }
            | Self::Power { .. }
            | Self::AttachDisc { .. }
            | Self::DetachDisc { .. }
            | Self::SetMaintenance { .. }
            | Self::ClearMaintenance { .. }
            | Self::DeleteNode { .. } => true,
            Self::AddFinalizer { .. }
            | Self::NoteSecrets(_)
            | Self::ClaimSecret
            | Self::ClaimNetworkData
            | Self::WriteRamdisk(_)
            | Self::ReleaseRamdisk
            | Self::WriteHardwareData(_)
            | Self::RecordFirmware(_)
            | Self::RecordDataImage(_)
            | Self::ReleaseHardwareData
            | Self::ReleaseSecret
            | Self::ReleaseFormerSecret(_)
            | Self::UnclaimSecret
            | Self::RemoveFinalizer
            | Self::RemoveAnnotation { .. }
            | Self::ConfirmHost { .. } => false,
        }
    }

    /// Whether the effect erases data, interrupts what runs, takes the node away, says what is to be erased, or lets a Secret go
    /// that the host may name by now.
    pub fn is_destructive(&self) -> bool {
        match self {
            // An adoption erases nothing, but a node that was taken over by mistake is not easily given back.
            Self::Provision { request, .. } => request.target != Verb::Manage,
            Self::Power { target, .. } => *target != PowerTarget::On,
            Self::PatchNode { ops, .. } => mark::is_in(ops),
            Self::SetMaintenance { .. }
            | Self::DeleteNode { .. }
            | Self::SetTargetRaid { .. }
            | Self::ReleaseFormerSecret(_) => true,
            Self::AddFinalizer { .. }
            | Self::NoteSecrets(_)
            | Self::ClaimSecret
            | Self::ClaimNetworkData
            | Self::WriteRamdisk(_)
            | Self::ReleaseRamdisk
            | Self::WriteHardwareData(_)
            | Self::RecordFirmware(_)
            | Self::RecordDataImage(_)
            | Self::ReleaseHardwareData
            | Self::ReleaseSecret
            | Self::UnclaimSecret
            | Self::RemoveFinalizer
            | Self::RemoveAnnotation { .. }
            | Self::ConfirmHost { .. }
            | Self::AttachDisc { .. }
            | Self::DetachDisc { .. }
            | Self::CreateNode(_)
            | Self::CreatePort { .. }
            | Self::SetPortBoot { .. }
            | Self::DeletePort { .. }
            | Self::ClearMaintenance { .. } => false,
        }
    }

    /// The MAC address of the port that is changed, where the host can do without the change.
    pub fn dispensable_port(&self) -> Option<&str> {
        match self {
            Self::CreatePort {
                mac, is_needed: false, ..
            }
            | Self::SetPortBoot { mac, .. }
            | Self::DeletePort { mac, .. } => Some(mac),
            _ => None,
        }
    }

    /// A name for logs and metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::AddFinalizer { .. } => "add finalizer",
            Self::NoteSecrets(_) => "note secrets",
            Self::ClaimSecret => "claim secret",
            Self::WriteRamdisk(_) => "write preprovisioning image",
            Self::ReleaseRamdisk => "release preprovisioning image",
            Self::ClaimNetworkData => "claim network data",
            Self::WriteHardwareData(_) => "write hardware data",
            Self::RecordFirmware(_) => "record firmware",
            Self::RecordDataImage(_) => "record data image",
            Self::ReleaseHardwareData => "release hardware data",
            Self::ReleaseSecret => "release secret",
            Self::ReleaseFormerSecret(_) => "release former secret",
            Self::UnclaimSecret => "unclaim secret",
            Self::RemoveFinalizer => "remove finalizer",
            Self::RemoveAnnotation { .. } => "remove annotation",
            Self::ConfirmHost { .. } => "confirm host",
            Self::CreateNode(_) => "create node",
            Self::CreatePort { .. } => "create port",
            Self::SetPortBoot { pxe_enabled: true, .. } => "enable port",
            Self::SetPortBoot { .. } => "disable port",
            Self::DeletePort { .. } => "delete port",
            Self::PatchNode { .. } => "patch node",
            Self::SetTargetRaid { .. } => "set target RAID",
            Self::Provision { .. } => "set provision state",
            Self::Power { .. } => "set power state",
            Self::AttachDisc { .. } => "attach disc",
            Self::DetachDisc { .. } => "detach disc",
            Self::SetMaintenance { .. } => "set maintenance",
            Self::ClearMaintenance { .. } => "clear maintenance",
            Self::DeleteNode { .. } => "delete node",
        }
    }
}
