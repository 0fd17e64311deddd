//! Conditions and their reasons, by kind. Those of BareMetalHost are beside what computes them.

/// Of BareMetalHost, what not only its own controller reads.
pub mod host {
    /// Our own: the host waits for something, with the reason, the object waited for and what unblocks it. Its transition
    /// time follows the reason, so that it tells since when the host waits for this.
    pub const WAITING: &str = "Waiting";
}

/// Of BareMetalSwitch.
pub mod switch {
    /// The switch is part of Ironic's configuration.
    pub const VALID: &str = "Valid";

    /// [`VALID`] holds.
    pub const RECONCILED: &str = "Reconciled";

    /// [`VALID`] does not hold: the Secret is missing or lacks a key.
    pub const CREDENTIAL_ERROR: &str = "CredentialError";

    /// [`VALID`] does not hold: a field cannot be written to the configuration, or the configuration itself cannot be written.
    /// Our own; upstream reports nothing then.
    pub const CONFIGURATION_ERROR: &str = "ConfigurationError";
}

/// Of HostFirmwareSettings and HostFirmwareComponents. Hosts wait until both conditions carry the object's generation.
pub mod firmware {
    /// What is wanted differs from what the host has.
    pub const CHANGE_DETECTED: &str = "ChangeDetected";

    /// What is wanted can be applied.
    pub const VALID: &str = "Valid";

    /// HostFirmwareSettings: looked at without trouble, whether or not there is a change.
    pub const SUCCESS: &str = "Success";

    /// HostFirmwareSettings: a wanted setting does not exist, cannot be changed, or has a value that it cannot have.
    pub const CONFIGURATION_ERROR: &str = "ConfigurationError";

    /// [`CHANGE_DETECTED`] holds although the change was made: the BMC accepted it and did not apply it. Our own.
    pub const NOT_APPLIED: &str = "NotApplied";

    /// HostFirmwareComponents: looked at without trouble, whether or not there is a change.
    pub const OK: &str = "OK";

    /// HostFirmwareComponents: an update is for a component that cannot be updated.
    pub const INVALID_COMPONENT: &str = "InvalidComponent";
}

/// Of DataImage. All are our own: upstream's has no conditions.
pub mod data_image {
    /// The disc of the current `spec.url` is in the drive.
    pub const ATTACHED: &str = "Attached";

    /// [`ATTACHED`] holds: Ironic has seen it there.
    pub const INSERTED: &str = "Inserted";

    /// Ironic was asked to attach it.
    pub const ATTACHING: &str = "Attaching";

    /// It could not be attached, and that is tried again.
    pub const ATTACH_FAILED: &str = "AttachFailed";

    /// The disc in the drive could not be detached, and that is tried again.
    pub const DETACH_FAILED: &str = "DetachFailed";

    /// Unknown: it was asked for earlier, by an operator that has not said whether it came.
    pub const RECORDED: &str = "Recorded";

    /// `spec.url` is empty.
    pub const NO_URL: &str = "NoURL";

    /// There is no host of the name.
    pub const NO_HOST: &str = "NoBareMetalHost";

    /// The host is paused.
    pub const HOST_PAUSED: &str = "HostPaused";

    /// The host is detached.
    pub const HOST_DETACHED: &str = "HostDetached";

    /// The host is being deleted.
    pub const HOST_DELETING: &str = "HostDeleting";

    /// Nothing runs on the host.
    pub const HOST_NOT_PROVISIONED: &str = "HostNotProvisioned";

    /// The host is off, and stays so.
    pub const HOST_OFF: &str = "HostOff";

    /// The host runs, and nobody has asked for a restart.
    pub const RESTART_NEEDED: &str = "RestartNeeded";

    /// The host is about to start.
    pub const STARTING: &str = "Starting";
}

/// Of PreprovisioningImage.
pub mod preprovisioning_image {
    /// The image can be used.
    pub const READY: &str = "Ready";

    /// The image cannot be built.
    pub const ERROR: &str = "Error";

    /// The image was built.
    pub const IMAGE_SUCCESS: &str = "ImageSuccess";

    /// No image can be had for this architecture or in one of these formats.
    pub const CONFIGURATION_ERROR: &str = "ConfigurationError";

    /// The Secret with network configuration is missing.
    pub const MISSING_NETWORK_DATA: &str = "MissingNetworkData";

    /// Who builds images refuses this one.
    pub const IMAGE_BUILD_INVALID: &str = "ImageBuildInvalid";
}

/// Of HostClaim.
pub mod host_claim {
    /// Sums up the others: false if one of them is, unknown if one is unknown or missing.
    pub const READY: &str = "Ready";

    /// A host belongs to the claim.
    pub const ASSOCIATED: &str = "Associated";

    /// The host has what the claim says.
    pub const SYNCHRONIZED: &str = "Synchronized";

    /// The host runs what the claim says.
    pub const PROVISIONED: &str = "Provisioned";

    /// The host waits for an image.
    pub const AVAILABLE_FOR_PROVISIONING: &str = "AvailableForProvisioning";

    /// [`ASSOCIATED`] holds.
    pub const HOST_ASSOCIATED: &str = "BareMetalHostAssociated";

    /// [`ASSOCIATED`]: the host of the claim is gone, or was given to another consumer.
    pub const MISSING_HOST: &str = "MissingBareMetalHost";

    /// [`SYNCHRONIZED`] holds.
    pub const CONFIGURATION_SYNCED: &str = "ConfigurationSynced";

    /// [`SYNCHRONIZED`]: the Secret with user data cannot be copied.
    pub const USER_DATA_FAILURE: &str = "UserDataSecretSyncFailure";

    /// [`SYNCHRONIZED`]: the Secret with metadata cannot be copied.
    pub const META_DATA_FAILURE: &str = "MetaDataSecretSyncFailure";

    /// [`SYNCHRONIZED`]: the Secret with network configuration cannot be copied.
    pub const NETWORK_DATA_FAILURE: &str = "NetworkDataSecretSyncFailure";

    /// [`ASSOCIATED`]: no host will do, or none is free.
    pub const NO_HOST: &str = "NoBareMetalHost";

    /// [`ASSOCIATED`]: the host was found but could not be taken. [`SYNCHRONIZED`]: it cannot get what the claim says.
    pub const HOST_NOT_SYNCHRONIZED: &str = "BareMetalHostNotSynchronized";

    /// [`SYNCHRONIZED`]: the claim is paused, and its host with it.
    pub const HOST_PAUSED: &str = "HostPaused";

    /// [`ASSOCIATED`]: the claim is being deleted.
    pub const DELETING: &str = "HostClaimDeleting";

    /// [`ASSOCIATED`]: the host could not be released.
    pub const DELETION_FAILED: &str = "HostClaimDeletionFailed";

    /// [`READY`]: a condition is false.
    pub const ISSUES_REPORTED: &str = "IssuesReported";

    /// [`READY`]: a condition is unknown or missing.
    pub const UNKNOWN_REPORTED: &str = "UnknownReported";

    /// [`READY`] holds.
    pub const INFO_REPORTED: &str = "InfoReported";
}
