//! The kinds about a host's firmware. All but FirmwareSchema have the name and namespace of their BareMetalHost.

mod components;
mod policy;
mod schema;
mod settings;

pub use components::{
    FirmwareComponentStatus, FirmwareUpdate, HostFirmwareComponents, HostFirmwareComponentsSpec,
    HostFirmwareComponentsStatus,
};
pub use policy::{HostUpdatePolicy, HostUpdatePolicySpec, HostUpdatePolicyStatus, UpdatePolicy};
pub use schema::{AttributeType, FirmwareSchema, FirmwareSchemaSpec, SettingSchema};
pub use settings::{HostFirmwareSettings, HostFirmwareSettingsSpec, HostFirmwareSettingsStatus, SchemaReference};
