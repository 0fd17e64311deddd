//! Error types and events.

use metal3_api::metal3::ErrorType;

use crate::host::plan::EventReason;

/// One error type.
#[derive(Clone, Debug)]
pub struct ErrorHelp {
    /// As it stands in `status.errorType`.
    pub name: &'static str,
    /// What it means.
    pub means: &'static str,
    /// What to do.
    pub to_do: &'static str,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct EventHelp {
    /// When it is published.
    pub when: &'static str,
}

macro_rules! errors {
    ($($variant:ident $name:literal: $means:literal, $to_do:literal;)*) => {
        /// Every error type that this operator records.
        pub const ERRORS: &[ErrorHelp] = &[
            $(ErrorHelp { name: $name, means: $means, to_do: $to_do },)*
        ];

        /// The section of an error type; `None` for the words of other versions.
        pub fn error_help(kind: &ErrorType) -> Option<&'static ErrorHelp> {
            let name = match kind {
                $(ErrorType::$variant => $name,)*
                ErrorType::Other(text) => text.as_str(),
            };
            ERRORS.iter().find(|help| help.name == name)
        }
    };
}

errors! {
    Registration "registration error":
        "The BMC cannot be reached or refuses the credentials, or Ironic refuses the description of the host. Also: Ironic does not \
         let the node of a detached host go; then the message begins with `detaching failed`, and it is tried again by itself.",
        "`errorMessage` has Ironic's words. Check `spec.bmc.address`, the Secret, and whether Ironic's machine reaches the BMC \
         (`curl -k https://BMC/redfish/v1`, `ipmitool`). Editing the specification or the Secret tries again at once.";
    ProvisionedRegistration "provisioned registration error":
        "Ironic lost the node of a running host, and could not adopt it again. The host itself is left as it is.",
        "`baremetal node show` names the reason. It is tried again by itself; nothing on the host has to be done.";
    Inspection "inspection error":
        "The ramdisk or the BMC delivered no inventory.",
        "Look at the host's console: does it boot `DEPLOY_ISO_URL`, has it an address, can it reach Ironic? \
         `spec.inspectionMode: disabled` does without an inventory.";
    Preparation "preparation error":
        "A setting could not be applied before the host is offered.",
        "`errorMessage` has Ironic's words or names the field. Correct or remove the setting in the host, in HostFirmwareSettings or in \
         HostFirmwareComponents; the next attempt then follows at once.";
    Provisioning "provisioning error":
        "The image could not be written, or the host could not be torn down or cleaned.",
        "Check `spec.image`: can the ramdisk download the URL, is the checksum of that file and of the right type, is the disk \
         large enough? The host is cleaned before each attempt; `status.provisioningFailCount` counts them.";
    PowerManagement "power management error":
        "The BMC did not change the power as it was asked to.",
        "Switch the host by hand at its BMC. A BMC that hangs usually needs a reset of its own.";
    Servicing "servicing error":
        "A change of settings or firmware of a host in use failed. Its server is off until the change succeeds or is abandoned.",
        "`errorMessage` has Ironic's words. Undo or correct the change in HostFirmwareSettings or HostFirmwareComponents; the host then \
         goes on, or tries the corrected change, at once.";
}

macro_rules! events {
    ($($variant:ident: $when:literal;)*) => {
        /// Every reason of events.
        pub const EVENTS: &[EventReason] = &[$(EventReason::$variant),*];

        /// When an event is published.
        pub fn event_help(reason: EventReason) -> EventHelp {
            match reason {
                $(EventReason::$variant => EventHelp { when: $when },)*
            }
        }
    };
}

events! {
    Discovered: "A host without `spec.bmc` was created.";
    Registered: "The host was enrolled in Ironic.";
    BMCAccessValidated: "Ironic reached the BMC with these credentials for the first time.";
    BMCCredentialError: "The Secret, the address or a key cannot be used as it is.";
    ProfileSet: "A hardware profile was recorded.";
    InspectionStarted: "An inspection began.";
    InspectionSkipped: "Inspection is disabled.";
    ExternallyProvisioned: "What runs on the host is taken over as it is. The message says what taking `spec.externallyProvisioned` back would do.";
    InspectionComplete: "The inventory is there.";
    ProvisioningStarted: "A deployment began.";
    ProvisioningComplete: "The image runs.";
    DeprovisioningStarted: "The tear-down began.";
    DeprovisioningComplete: "The host is torn down and clean.";
    PowerOn: "Ironic was asked to switch the host on.";
    PowerOff: "Ironic was asked to switch the host off.";
    RegistrationError: "A `registration error` was recorded.";
    ProvisionedRegistrationError: "A `provisioned registration error` was recorded.";
    InspectionError: "An `inspection error` was recorded.";
    PreparationError: "A `preparation error` was recorded.";
    ProvisioningError: "A `provisioning error` was recorded.";
    PowerManagementError: "A `power management error` was recorded.";
    ServicingError: "A `servicing error` was recorded.";
    SettingsNotApplied: "BIOS settings were made while the host was prepared or serviced, Ironic says that this is done, and the server has the \
        values from before. Condition `ChangeDetected` of HostFirmwareSettings names them, and says how to have them tried again.";
    FirmwareUnchanged: "Firmware was updated while the host was prepared or serviced, Ironic says that this is done, and a component has the version from \
        before. Condition `ChangeDetected` of HostFirmwareComponents names it, and says how to have it updated again.";
    ServicingSkipped: "The host starts without its pending settings and firmware: it runs what others put there, and its node is available in \
        Ironic. They are changed when the host is prepared.";
    ImageAuthFormatUnsupported: "The Secret of `spec.image.ociAuthSecretName` has a type that cannot be used.";
    ImageAuthParseError: "The Secret of `spec.image.ociAuthSecretName` cannot be understood, or does not name the registry.";
    ImageInDoubt: "Something else than the image that was meant may be installed: its checksum is MD5, or a registry's tag names it.";
    DetachError: "Ironic refused to let the node of a detached host go.";
    NodeLeftAlone: "The host was deleted, and a node to which it led stays in Ironic as it is, since it is not the host's.";
    UpdateHardwareDetails: "The inventory was taken from a HardwareData or from the annotation.";
    RemoveAnnotation: "An annotation that could not be used, or is used up, was removed.";
    InvalidAnnotationValue: "An annotation has a value that cannot be used; the message names it.";
    PortAddressTaken: "A NIC of the host has a MAC address that a port of another node has in Ironic.";
    PortChangeRefused: "Ironic refuses to create, change or remove a port of the host, or the host has more NICs than may have ports; it goes on without that.";
    DataImageError: "The disc of the host's DataImage could not be changed.";
    StatusNotStored: "The API server refuses or fails to store the host's status, so that the status cannot tell it itself.";
    Overdue: "The host has been in its state for longer than the budget; told once.";
}
