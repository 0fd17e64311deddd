//! What a host can wait for.

reasons! {
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
        /// A node in Ironic has the host's name and another BMC.
        NodeNotOurs,
        /// The specification asks for something that is not supported.
        Unsupported,
        /// The Kubernetes API refused or failed a read or a write.
        KubernetesFailing,
    }
}
