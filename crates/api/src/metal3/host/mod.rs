//! BareMetalHost: one physical machine.

pub mod choice;
mod fitness;
mod spec;
mod status;

pub use fitness::Unfit;
pub use spec::{
    BareMetalHost, BareMetalHostSpec, BmcDetails, BootMode, CleaningMode, FirmwareConfig, HostNetworkAttachmentRef,
    InspectionMode, NetworkInterface, SwitchPort, Taint,
};
pub use status::{
    BareMetalHostStatus, CredentialsStatus, ErrorType, OperationHistory, OperationMetric, OperationalStatus,
    ProvisionStatus, ProvisioningState,
};
