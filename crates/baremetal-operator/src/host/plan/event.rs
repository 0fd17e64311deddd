//! Events for users.

use metal3_api::metal3::ErrorType;
use metal3_runtime::events::{self, Severity};

/// An event for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub reason: EventReason,
    /// What happened and, where something is wrong, what to do.
    pub message: String,
}

impl From<Event> for events::Event {
    fn from(event: Event) -> Self {
        let is_warning = event.reason.is_warning();
        Self {
            reason: event.reason.as_str(),
            message: event.message,
            severity: if is_warning {
                Severity::Warning
            } else {
                Severity::Normal
            },
        }
    }
}

reasons! {
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
        ExternallyProvisioned,
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
        ServicingSkipped,
        SettingsNotApplied,
        FirmwareUnchanged,
        ImageAuthFormatUnsupported,
        ImageAuthParseError,
        Overdue,
        ImageInDoubt,
        DetachError,
        NodeLeftAlone,
        UpdateHardwareDetails,
        RemoveAnnotation,
        InvalidAnnotationValue,
        PortAddressTaken,
        PortChangeRefused,
        DataImageError,
        StatusNotStored,
    }
}

impl EventReason {
    /// Whether it reports a problem. Upstream publishes errors as `Normal`, which hides them from `--types=Warning`.
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
            | Self::ServicingSkipped
            | Self::SettingsNotApplied
            | Self::FirmwareUnchanged
            | Self::ImageAuthFormatUnsupported
            | Self::ImageAuthParseError
            | Self::ImageInDoubt
            | Self::DetachError
            | Self::NodeLeftAlone
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
            | Self::ExternallyProvisioned
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

/// The event reason for an error type.
pub fn reason_of(error: &ErrorType) -> EventReason {
    match error {
        ErrorType::ProvisionedRegistration => EventReason::ProvisionedRegistrationError,
        ErrorType::Registration => EventReason::RegistrationError,
        ErrorType::Inspection => EventReason::InspectionError,
        ErrorType::Preparation => EventReason::PreparationError,
        ErrorType::Provisioning => EventReason::ProvisioningError,
        ErrorType::PowerManagement => EventReason::PowerManagementError,
        ErrorType::Other(text) if text == "detach error" => EventReason::DetachError,
        // An unknown value comes from another version.
        ErrorType::Servicing | ErrorType::Other(_) => EventReason::ServicingError,
    }
}
