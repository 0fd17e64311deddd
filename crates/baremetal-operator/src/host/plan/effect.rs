//! What a pass changes outside of this process.

use std::collections::BTreeSet;
use std::fmt;

use metal3_api::metal3::{
    BareMetalHostStatus, DataImageStatus, FirmwareUpdate, HardwareDetails, PreprovisioningImageSpec,
};
use metal3_ironic::{CreateNode, PatchOp, PowerTarget, ProvisionRequest, Verb};

use super::event::Event;
use crate::host::disc::DiscFailure;
use crate::host::mark;
use crate::host::named_url::NamedUrl;

/// What is stored before a destructive effect.
#[derive(Clone, PartialEq)]
pub struct Intent {
    /// The status.
    pub status: BareMetalHostStatus,
    /// Published when it is stored.
    pub events: Vec<Event>,
}

impl fmt::Debug for Intent {
    /// Without the status: image URLs may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intent").finish_non_exhaustive()
    }
}

/// What is recorded in a DataImage.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscRecord {
    /// The next status.
    pub status: DataImageStatus,
    /// The failure that the status reports.
    pub failure: Option<DiscFailure>,
}

/// One external effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Adds our finalizer to the host before anything exists that needs cleanup, and in the same write the note of
    /// [`NoteSecrets`](Self::NoteSecrets).
    AddFinalizer {
        /// The Secrets that the host may come to hold.
        secrets: BTreeSet<String>,
    },
    /// Records all Secrets that the host may hold in an annotation, before another one is marked.
    NoteSecrets(BTreeSet<String>),
    /// Adds labels and a finalizer to the credentials Secret. A Secret that was not read yet is read by this.
    ClaimSecret,
    /// Requests a ramdisk of this description, with the host's labels.
    WriteRamdisk(Box<PreprovisioningImageSpec>),
    /// Removes our finalizer from the PreprovisioningImage.
    ReleaseRamdisk,
    /// Adds the label and the finalizer to the Secret with the ramdisk's network data.
    ClaimNetworkData,
    /// Writes the inventory to a HardwareData object of the host's name.
    WriteHardwareData(Box<HardwareDetails>),
    /// Records the applied firmware updates in the status of HostFirmwareComponents.
    RecordFirmware {
        /// All that were made, now or earlier.
        updates: Vec<FirmwareUpdate>,
        /// What those that were made now have not changed.
        unchanged: Option<String>,
    },
    /// Records the BIOS settings in the status of HostFirmwareSettings.
    RecordSettings {
        /// Whether those that still differ were made: the BMC did not apply them.
        is_made: bool,
    },
    /// Records the content of the server's virtual drive in the status of the DataImage.
    RecordDataImage(Box<DiscRecord>),
    /// Records on the host the content of its drive, where no DataImage does; an empty drive removes the record.
    NoteDisc(Box<DiscRecord>),
    /// Removes our finalizer from the HardwareData.
    ReleaseHardwareData,
    /// Removes our finalizer from the credentials Secret.
    ReleaseSecret,
    /// Removes our marks from a Secret that the host no longer uses, and its name from the note.
    ReleaseFormerSecret(String),
    /// Removes our marks from a Secret that turned out to be no credentials Secret when it was marked.
    UnclaimSecret,
    /// Removes our finalizer from the host: the last effect of its life.
    RemoveFinalizer,
    /// Removes an annotation that was acted upon, if it still has this value.
    RemoveAnnotation {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Ensures that the decision was made on the current host: caches lag, and a leader may lose its lease without
    /// noticing. It precedes every effect that [erases or interrupts](Effect::is_destructive).
    ConfirmHost {
        /// Stored first, if it differs: the write succeeds on the judged version only, and records the intent before
        /// the effect.
        intent: Option<Box<Intent>>,
    },
    /// Enrols the host.
    CreateNode(Box<CreateNode>),
    /// Creates the port of a NIC that the host boots from.
    CreatePort {
        /// Its node.
        node: String,
        /// Its MAC address, in lower case.
        mac: String,
        /// Whether the host may boot from it.
        pxe_enabled: bool,
        /// Whether the host needs this port. A port that it can do without may fail because another node has the
        /// address.
        is_needed: bool,
    },
    /// Allows or forbids booting from an existing port.
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
    /// Removes the port of a NIC that the host no longer has.
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
    /// Sets the RAID volumes that the next cleaning creates.
    SetTargetRaid {
        /// Which node.
        node: String,
        /// The volumes in Ironic's format.
        logical_disks: Vec<serde_json::Value>,
    },
    /// Requests a provision state.
    Provision {
        /// Which node.
        node: String,
        /// The verb and its data.
        request: Box<ProvisionRequest>,
    },
    /// Requests a power state.
    Power {
        /// Which node.
        node: String,
        /// The wanted state.
        target: PowerTarget,
    },
    /// Inserts an ISO into the server's virtual drive.
    AttachDisc {
        /// Which node.
        node: String,
        /// The location of the ISO.
        url: NamedUrl,
    },
    /// Empties the server's virtual drive.
    DetachDisc {
        /// Which node.
        node: String,
    },
    /// Sets maintenance, to allow the removal of a node in a state that forbids it.
    SetMaintenance {
        /// Which node.
        node: String,
    },
    /// Clears maintenance.
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
            | Self::RecordFirmware { .. }
            | Self::RecordSettings { .. }
            | Self::RecordDataImage(_)
            | Self::NoteDisc(_)
            | Self::ReleaseHardwareData
            | Self::ReleaseSecret
            | Self::ReleaseFormerSecret(_)
            | Self::UnclaimSecret
            | Self::RemoveFinalizer
            | Self::RemoveAnnotation { .. }
            | Self::ConfirmHost { .. } => false,
        }
    }

    /// Whether the effect erases data, interrupts a workload, removes the node, selects what to erase, or releases a
    /// Secret that the host may reference by now.
    pub fn is_destructive(&self) -> bool {
        match self {
            // An adoption erases nothing, but a node adopted by mistake is not easily given back.
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
            | Self::RecordFirmware { .. }
            | Self::RecordSettings { .. }
            | Self::RecordDataImage(_)
            | Self::NoteDisc(_)
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

    /// The MAC address of the port to change, if the host can do without the change.
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
            Self::RecordFirmware { .. } => "record firmware",
            Self::RecordSettings { .. } => "record settings",
            Self::RecordDataImage(_) => "record data image",
            Self::NoteDisc(_) => "note disc",
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
