//! What a decision consists of: data, so that it can be printed, compared and tested by the thousand.

use std::collections::BTreeSet;
use std::panic::Location;
use std::time::Duration;

use jiff::Timestamp;
use metal3_api::metal3::{
    BareMetalHostStatus, DataImageStatus, ErrorType, FirmwareUpdate, HardwareDetails, PreprovisioningImageSpec,
};
use metal3_ironic::{CreateNode, PatchOp, PowerTarget, ProvisionRequest, Verb};

pub use super::draft::error_type;

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
    /// Label, owner reference and finalizer on the credentials Secret. One that was not read yet is read by it.
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
    ConfirmHost,
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
        url: String,
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
            | Self::ConfirmHost => false,
        }
    }

    /// Whether the effect erases data, interrupts what runs, takes the node away, says what is to be erased, or lets a Secret go
    /// that the host may name by now.
    pub fn is_destructive(&self) -> bool {
        match self {
            // An adoption erases nothing, but a node that was taken over by mistake is not easily given back.
            Self::Provision { request, .. } => request.target != Verb::Manage,
            Self::Power { target, .. } => *target != PowerTarget::On,
            Self::PatchNode { ops, .. } => super::mark::is_in(ops),
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
            | Self::ConfirmHost
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
            Self::ConfirmHost => "confirm host",
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

/// An event for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub reason: EventReason,
    /// What happened and, where something is wrong, what to do.
    pub message: String,
}

/// Reasons of events on a host; the names are those that upstream's users filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it, and docs/ describes each")]
pub enum EventReason {
    Discovered,
    Registered,
    BMCAccessValidated,
    BMCCredentialError,
    ProfileSet,
    InspectionStarted,
    InspectionSkipped,
    InspectionComplete,
    ProvisioningStarted,
    ProvisioningComplete,
    DeprovisioningStarted,
    DeprovisioningComplete,
    PowerOn,
    PowerOff,
    RegistrationError,
    ProvisionedRegistrationError,
    InspectionError,
    PreparationError,
    ProvisioningError,
    PowerManagementError,
    ServicingError,
    ImageAuthFormatUnsupported,
    ImageAuthParseError,
    Overdue,
    DetachError,
    UpdateHardwareDetails,
    RemoveAnnotation,
    InvalidAnnotationValue,
    PortAddressTaken,
    PortChangeRefused,
    DataImageError,
    StatusNotStored,
}

impl EventReason {
    /// The reason as it stands in the Event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discovered => "Discovered",
            Self::Registered => "Registered",
            Self::BMCAccessValidated => "BMCAccessValidated",
            Self::BMCCredentialError => "BMCCredentialError",
            Self::ProfileSet => "ProfileSet",
            Self::InspectionStarted => "InspectionStarted",
            Self::InspectionSkipped => "InspectionSkipped",
            Self::InspectionComplete => "InspectionComplete",
            Self::ProvisioningStarted => "ProvisioningStarted",
            Self::ProvisioningComplete => "ProvisioningComplete",
            Self::DeprovisioningStarted => "DeprovisioningStarted",
            Self::DeprovisioningComplete => "DeprovisioningComplete",
            Self::PowerOn => "PowerOn",
            Self::PowerOff => "PowerOff",
            Self::RegistrationError => "RegistrationError",
            Self::ProvisionedRegistrationError => "ProvisionedRegistrationError",
            Self::InspectionError => "InspectionError",
            Self::PreparationError => "PreparationError",
            Self::ProvisioningError => "ProvisioningError",
            Self::PowerManagementError => "PowerManagementError",
            Self::ServicingError => "ServicingError",
            Self::Overdue => "Overdue",
            Self::ImageAuthFormatUnsupported => "ImageAuthFormatUnsupported",
            Self::ImageAuthParseError => "ImageAuthParseError",
            Self::DetachError => "DetachError",
            Self::UpdateHardwareDetails => "UpdateHardwareDetails",
            Self::RemoveAnnotation => "RemoveAnnotation",
            Self::InvalidAnnotationValue => "InvalidAnnotationValue",
            Self::PortAddressTaken => "PortAddressTaken",
            Self::PortChangeRefused => "PortChangeRefused",
            Self::DataImageError => "DataImageError",
            Self::StatusNotStored => "StatusNotStored",
        }
    }

    /// Whether it tells of something wrong. Upstream publishes errors as `Normal`, which hides them from `--types=Warning`.
    pub fn is_warning(self) -> bool {
        match self {
            Self::BMCCredentialError
            | Self::Overdue
            | Self::RegistrationError
            | Self::ProvisionedRegistrationError
            | Self::InspectionError
            | Self::PreparationError
            | Self::ProvisioningError
            | Self::PowerManagementError
            | Self::ServicingError
            | Self::ImageAuthFormatUnsupported
            | Self::ImageAuthParseError
            | Self::DetachError
            | Self::InvalidAnnotationValue
            | Self::PortAddressTaken
            | Self::PortChangeRefused
            | Self::DataImageError
            | Self::StatusNotStored => true,
            Self::Discovered
            | Self::Registered
            | Self::BMCAccessValidated
            | Self::ProfileSet
            | Self::InspectionStarted
            | Self::InspectionSkipped
            | Self::InspectionComplete
            | Self::ProvisioningStarted
            | Self::ProvisioningComplete
            | Self::DeprovisioningStarted
            | Self::DeprovisioningComplete
            | Self::PowerOn
            | Self::PowerOff
            | Self::UpdateHardwareDetails
            | Self::RemoveAnnotation => false,
        }
    }
}

/// The event reason that goes with an error type.
pub fn reason_of(error: &ErrorType) -> EventReason {
    match error {
        ErrorType::ProvisionedRegistration => EventReason::ProvisionedRegistrationError,
        ErrorType::Registration => EventReason::RegistrationError,
        ErrorType::Inspection => EventReason::InspectionError,
        ErrorType::Preparation => EventReason::PreparationError,
        ErrorType::Provisioning => EventReason::ProvisioningError,
        ErrorType::PowerManagement => EventReason::PowerManagementError,
        ErrorType::Other(text) if text == "detach error" => EventReason::DetachError,
        // An unknown text comes from another version.
        ErrorType::Servicing | ErrorType::Other(_) => EventReason::ServicingError,
    }
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

/// A wait that explains itself.
#[derive(Clone, Debug)]
pub struct Wait {
    /// Why, as the reason of the `Waiting` condition.
    pub reason: WaitReason,
    /// For a person: which object is waited for and what unblocks it.
    pub message: String,
    /// What ends it.
    pub wake: Wake,
    /// The time of day that is waited for, where it is that.
    pub until: Option<Timestamp>,
    /// Whether the condition tells of it.
    pub is_shown: bool,
    /// The line that decided, for logs.
    pub decided_at: &'static Location<'static>,
}

impl PartialEq for Wait {
    fn eq(&self, other: &Self) -> bool {
        (self.reason, &self.message, &self.wake, self.until) == (other.reason, &other.message, &other.wake, other.until)
    }
}

impl Wait {
    /// A wait that ends when the host's node in Ironic changes.
    #[track_caller]
    pub fn for_node(reason: WaitReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::Node,
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// A wait that ends when the user (or another controller) changes the host or its Secret.
    #[track_caller]
    pub fn for_change(reason: WaitReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::Change,
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// A wait that ends when Ironic can be used again.
    #[track_caller]
    pub fn for_ironic(reason: WaitReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::Ironic,
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// A wait that ends when the Kubernetes API does what it refused or failed.
    #[track_caller]
    pub fn for_kubernetes(message: impl Into<String>) -> Self {
        Self {
            reason: WaitReason::KubernetesFailing,
            message: message.into(),
            wake: Wake::Kubernetes,
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// The same without the wait: the status is stored, and the next look follows.
    #[must_use]
    pub fn at_once(self) -> Self {
        Self {
            wake: Wake::After(Duration::ZERO),
            ..self
        }
    }

    /// A wait of a known length.
    #[track_caller]
    pub fn for_time(reason: WaitReason, after: Duration, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::After(after),
            until: None,
            is_shown: true,
            decided_at: Location::caller(),
        }
    }

    /// A wait until this time, which is so far away. Whatever is looked at in between counts on from the same start, so that
    /// the time stays as it was told.
    #[track_caller]
    pub fn until(reason: WaitReason, at: Timestamp, left: Duration, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            wake: Wake::After(left),
            until: Some(at),
            is_shown: true,
            decided_at: Location::caller(),
        }
    }
}

/// What ends a wait. Every wait is also looked at again after a long time, as a net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The node changes: the fleet view polls fast while anybody waits for this.
    Node,
    /// The node changes, or time passes.
    NodeOr(Duration),
    /// The host or its Secret changes.
    Change,
    /// Ironic answers again.
    Ironic,
    /// The Kubernetes API takes what it refused or failed, which shows only when it is tried.
    Kubernetes,
    /// Time passes.
    After(Duration),
}

/// Reasons of the `Waiting` condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// The credentials Secret does not exist.
    SecretMissing,
    /// The credentials or the BMC address cannot be used as they are.
    InvalidBMCDetails,
    /// Nobody knows what the name in the BMC address stands for.
    BMCNameUnresolved,
    /// The host's own ramdisk is being built.
    RamdiskBuilding,
    /// The Secret with the ramdisk's network data is missing or cannot be used.
    NetworkDataIncomplete,
    /// A Secret for the config drive is missing or cannot be used.
    ConfigDriveIncomplete,
    /// The Secret with the credentials for the image's registry is missing or cannot be used.
    ImageAuthIncomplete,
    /// The image cannot be deployed as it is described.
    InvalidImage,
    /// The resource that tells where Ironic is does not exist or is not ready.
    IronicNotReady,
    /// Ironic does not answer.
    IronicUnreachable,
    /// Ironic refuses the operator's own credentials.
    IronicUnauthorized,
    /// Ironic answers, but with an error of its own.
    IronicFailing,
    /// Ironic will not answer what has to be known of this host.
    IronicRefusing,
    /// The node is locked by another operation.
    NodeLocked,
    /// Others are inspected, cleaned or provisioned first.
    Queued,
    /// Ironic tries the BMC.
    Verifying,
    /// The ramdisk or the BMC collects the inventory.
    Inspecting,
    /// Manual cleaning sets up RAID, BIOS settings and firmware.
    Preparing,
    /// Settings or firmware of a host in use are being changed.
    Servicing,
    /// A firmware object was edited, and its controller has not looked at it since.
    FirmwareUnobserved,
    /// Disks are being cleaned.
    Cleaning,
    /// The image is being written.
    Deploying,
    /// A host that runs already is being taken over.
    Adopting,
    /// The instance is being torn down.
    TearingDown,
    /// Power is changing.
    PowerChanging,
    /// The node is being removed.
    Removing,
    /// A failed operation is tried again later.
    BackOff,
    /// The node is in a state that this host's state does not account for.
    UnexpectedNodeState,
    /// The image cannot be tried again until the user changes it.
    RetryLimitReached,
    /// The node is being taken out of Ironic, as an annotation asks for.
    Detaching,
    /// The annotation that keeps the host out of Ironic to be removed.
    Detached,
    /// The annotation with the status of a moved host cannot be read.
    InvalidAnnotation,
    /// An annotation keeps the host switched off, or asks for something that it then only has to be removed for.
    RebootAnnotation,
    /// The server restarts without being seen off.
    Rebooting,
    /// Ironic cannot tell whether the server is on.
    PowerUnknown,
    /// The disc of a DataImage is being put into the server's drive, or taken out, before the server starts.
    DataImageChanging,
    /// The disc of a DataImage could not be changed; it is tried again later.
    DataImageFailing,
    /// The specification asks for something that is not supported.
    Unsupported,
    /// The Kubernetes API refused or failed a read or a write.
    KubernetesFailing,
}

impl WaitReason {
    /// The reason as it stands in the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SecretMissing => "SecretMissing",
            Self::InvalidBMCDetails => "InvalidBMCDetails",
            Self::BMCNameUnresolved => "BMCNameUnresolved",
            Self::RamdiskBuilding => "RamdiskBuilding",
            Self::NetworkDataIncomplete => "NetworkDataIncomplete",
            Self::ConfigDriveIncomplete => "ConfigDriveIncomplete",
            Self::ImageAuthIncomplete => "ImageAuthIncomplete",
            Self::InvalidImage => "InvalidImage",
            Self::IronicNotReady => "IronicNotReady",
            Self::IronicUnreachable => "IronicUnreachable",
            Self::IronicUnauthorized => "IronicUnauthorized",
            Self::IronicFailing => "IronicFailing",
            Self::IronicRefusing => "IronicRefusing",
            Self::NodeLocked => "NodeLocked",
            Self::Queued => "Queued",
            Self::Verifying => "Verifying",
            Self::Inspecting => "Inspecting",
            Self::Preparing => "Preparing",
            Self::Servicing => "Servicing",
            Self::FirmwareUnobserved => "FirmwareUnobserved",
            Self::Cleaning => "Cleaning",
            Self::Deploying => "Deploying",
            Self::Adopting => "Adopting",
            Self::TearingDown => "TearingDown",
            Self::PowerChanging => "PowerChanging",
            Self::Removing => "Removing",
            Self::BackOff => "BackOff",
            Self::UnexpectedNodeState => "UnexpectedNodeState",
            Self::RetryLimitReached => "RetryLimitReached",
            Self::Detaching => "Detaching",
            Self::Detached => "Detached",
            Self::InvalidAnnotation => "InvalidAnnotation",
            Self::RebootAnnotation => "RebootAnnotation",
            Self::Rebooting => "Rebooting",
            Self::PowerUnknown => "PowerUnknown",
            Self::DataImageChanging => "DataImageChanging",
            Self::DataImageFailing => "DataImageFailing",
            Self::Unsupported => "Unsupported",
            Self::KubernetesFailing => "KubernetesFailing",
        }
    }
}
