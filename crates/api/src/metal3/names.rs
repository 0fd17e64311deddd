//! Keys that are part of the interface: annotations, finalizers, labels and Secret keys.

/// The API group.
pub const GROUP: &str = "metal3.io";

/// Annotations of a BareMetalHost.
pub mod annotation {
    /// While present, with any value, the host is left alone: no reconciliation, no deletion, no status write.
    pub const PAUSED: &str = "baremetalhost.metal3.io/paused";

    /// Value of [`PAUSED`] that the Cluster API provider writes, so that it removes only its own pause.
    pub const PAUSED_BY_CAPM3: &str = "metal3.io/capm3";

    /// Value of [`PAUSED`] that is reserved for the HostClaim controller.
    pub const PAUSED_BY_HOST_CLAIM: &str = "metal3.io/hostclaim";

    /// On a host whose consumer is a HostClaim: the host's own UID. A host that was moved to another cluster, or restored from
    /// a backup, has another UID, and its consumer is not looked for among the claims that are there.
    pub const CLAIMED: &str = "baremetalhost.metal3.io/claimed";

    /// On a paused HostClaim: its UID, and the namespace and the name of its host, joined by `/`. By this the claim finds its
    /// host again after both were moved to another cluster.
    pub const HOST_OF_CLAIM: &str = "hostclaim.metal3.io/host";

    /// While present the host is out of Ironic and its machine untouched. The value may be JSON, see
    /// [`DetachedArguments`](crate::metal3::DetachedArguments).
    pub const DETACHED: &str = "baremetalhost.metal3.io/detached";

    /// JSON of a whole status, to restore a host that was moved here from another cluster. Used only while the host
    /// has no status, and removed once it was looked at.
    pub const STATUS: &str = "baremetalhost.metal3.io/status";

    /// Asks for a new inspection, or forbids inspection with the value [`INSPECT_DISABLED`].
    pub const INSPECT: &str = "inspect.metal3.io";

    /// Value of [`INSPECT`] that forbids inspection.
    pub const INSPECT_DISABLED: &str = "disabled";

    /// JSON of hardware details that stand in for inspection. Always removed once it was looked at.
    pub const HARDWARE_DETAILS: &str = "inspect.metal3.io/hardwaredetails";

    /// Asks for one reboot. The operator removes it once the host was seen powered off. The value may be JSON, see
    /// [`RebootArguments`](crate::metal3::RebootArguments).
    pub const REBOOT: &str = "reboot.metal3.io";

    /// This operator's own: the names of the Secrets that carry its marks for the host, with commas between. Written before the first
    /// mark; a Secret that the host has no use for any more is struck off when its marks are off. Without it, what the
    /// specification and the status name counts.
    pub const HELD_SECRETS: &str = "baremetalhost.metal3.io/held-secrets";

    /// This operator's own: the status of a DataImage, as JSON, that was deleted while its disc may be in the drive of the detached host.
    /// Written before the DataImage is released, and removed when the drive was seen empty.
    pub const LEFT_DISC: &str = "baremetalhost.metal3.io/left-disc";

    /// This operator's own, of a BMCEventSubscription: a digest of the UID and the BMC address of the host for which its
    /// subscription is made. Written before Ironic is asked for it. `status.subscriptionID` counts only for the same host and
    /// address; without the annotation it is upstream's, and counts.
    pub const SUBSCRIBED_ON: &str = "baremetalhost.metal3.io/subscribed-on";

    /// Beginning of the annotations that keep the host powered off for as long as one exists. Only who set one removes
    /// it. The values are those of [`REBOOT`].
    pub const REBOOT_PREFIX: &str = "reboot.metal3.io/";

    /// This operator's own, of a DataImage or HostFirmwareComponents: JSON of what only the status knows, for an object
    /// that is created again without its status. Used only while the object has no status.
    pub const RECORDED_STATUS: &str = "baremetalhost.metal3.io/recorded-status";
}

/// Conditions and their reasons, by kind.
pub mod condition;

/// Finalizers.
pub mod finalizer {
    /// On a BareMetalHost, until its machine is released and its node deleted from Ironic.
    pub const HOST: &str = "baremetalhost.metal3.io";

    /// On the Secrets a host cannot be released without: BMC credentials and network data of the ramdisk.
    pub const SECRET: &str = "baremetalhost.metal3.io/secret";

    /// On the HardwareData of a host.
    pub const HARDWARE_DATA: &str = "baremetalhost.metal3.io/hardwareData";

    /// On a PreprovisioningImage, set by the controller of hosts: until the host is gone.
    pub const PREPROVISIONING_IMAGE_OF_HOST: &str = "baremetalhost.metal3.io/preprovisioningImage";

    /// On a PreprovisioningImage, set by who builds it: until it is discarded, which comes after all other finalizers.
    pub const PREPROVISIONING_IMAGE: &str = "preprovisioningimage.metal3.io";

    /// On a BMCEventSubscription, until the BMC has forgotten it.
    pub const EVENT_SUBSCRIPTION: &str = "bmceventsubscription.metal3.io";

    /// On a DataImage, until nothing is attached any more.
    pub const DATA_IMAGE: &str = "dataimage.metal3.io";

    /// On a HostClaim, until its host is released.
    pub const HOST_CLAIM: &str = "metal3.io/hostclaim";
}

/// Labels.
pub mod label {
    /// On every Secret that the operator has read, so that it can watch those and no others.
    pub const ENVIRONMENT: &str = "environment.metal3.io";

    /// Value of [`ENVIRONMENT`].
    pub const ENVIRONMENT_BAREMETAL: &str = "baremetal";

    /// On a Namespace, with any value: Secrets that HostClaims name may be copied here, beside the hosts that the claims get. Who may
    /// label namespaces says so for the claims of all others.
    pub const TAKES_SECRETS: &str = "hostclaim.metal3.io/takes-secrets";

    /// On a BareMetalHost: where it stands, for HostClaims and machines that prefer a failure domain.
    pub const FAILURE_DOMAIN: &str = "infrastructure.cluster.x-k8s.io/failure-domain";
}

/// Keys of the data of Secrets.
pub mod secret_key {
    /// BMC user name. Whitespace around it is not part of it.
    pub const USERNAME: &str = "username";

    /// BMC password. Whitespace around it is not part of it.
    pub const PASSWORD: &str = "password";

    /// User data for the first boot.
    pub const USER_DATA: &str = "userData";

    /// Network configuration, YAML or JSON.
    pub const NETWORK_DATA: &str = "networkData";

    /// Metadata for the first boot, YAML or JSON.
    pub const META_DATA: &str = "metaData";

    /// Private SSH key for a switch, preferred to [`PASSWORD`].
    pub const SSH_PRIVATE_KEY: &str = "ssh-privatekey";

    /// Password for a switch's privileged mode. Optional.
    pub const ADMIN_PASSWORD: &str = "admin-password";

    /// Where user data, network data and metadata are looked for when their own key is missing.
    pub const VALUE: &str = "value";
}
