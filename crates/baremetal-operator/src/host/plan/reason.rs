//! What a host can wait for.

reasons! {
    /// Reasons of the `Waiting` condition.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum WaitReason {
        /// The credentials Secret does not exist.
        SecretMissing,
        /// The credentials or the BMC address are not usable.
        InvalidBMCDetails,
        /// The host name in the BMC address does not resolve.
        BMCNameUnresolved,
        /// The host's own ramdisk is being built.
        RamdiskBuilding,
        /// The Secret with the ramdisk's network data is missing or not usable.
        NetworkDataIncomplete,
        /// A Secret for the config drive is missing or not usable.
        ConfigDriveIncomplete,
        /// The Secret with the credentials for the image registry is missing or not usable.
        ImageAuthIncomplete,
        /// The image cannot be deployed as described.
        InvalidImage,
        /// The Ironic resource that holds the endpoint does not exist or is not ready.
        IronicNotReady,
        /// Ironic does not answer.
        IronicUnreachable,
        /// Ironic rejects the operator's own credentials.
        IronicUnauthorized,
        /// Ironic answers with an error of its own.
        IronicFailing,
        /// Ironic rejects a read that this host needs.
        IronicRefusing,
        /// Another operation holds the node's lock.
        NodeLocked,
        /// The host waits for a slot while others are inspected, cleaned or provisioned.
        Queued,
        /// Ironic verifies the access to the BMC.
        Verifying,
        /// The ramdisk or the BMC collects the inventory.
        Inspecting,
        /// Manual cleaning sets up RAID, BIOS settings and firmware.
        Preparing,
        /// Settings or firmware of a host in use are being changed.
        Servicing,
        /// A firmware object was edited, and its controller has not observed the edit yet.
        FirmwareUnobserved,
        /// Disks are being cleaned.
        Cleaning,
        /// The image is being written.
        Deploying,
        /// A running host is being adopted.
        Adopting,
        /// The instance is being torn down.
        TearingDown,
        /// Power is changing.
        PowerChanging,
        /// The node is being removed.
        Removing,
        /// A failed operation is retried later.
        BackOff,
        /// The node is in a state that does not match the host's state.
        UnexpectedNodeState,
        /// The image is not retried until the user changes it.
        RetryLimitReached,
        /// The node is being removed from Ironic, as an annotation requests.
        Detaching,
        /// The host is detached until the annotation is removed.
        Detached,
        /// The annotation with the status of a moved host cannot be read.
        InvalidAnnotation,
        /// An annotation keeps the host powered off, or requests something that takes effect once it is removed.
        RebootAnnotation,
        /// The server restarts without a separate power-off.
        Rebooting,
        /// Ironic does not know the power state.
        PowerUnknown,
        /// The disc of a DataImage is being inserted or removed before the server starts.
        DataImageChanging,
        /// The disc of a DataImage could not be changed; this is retried later.
        DataImageFailing,
        /// A node in Ironic has the host's name but a different BMC.
        NodeNotOurs,
        /// The specification requests something that is not supported.
        Unsupported,
        /// The Kubernetes API rejected or failed a read or a write.
        KubernetesFailing,
    }
}
