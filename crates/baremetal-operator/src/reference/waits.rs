//! What a host waits for.

use crate::host::plan::WaitReason;

/// When the operator looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When the list of nodes shows a change of the node.
    Node,
    /// When the host or what it refers to is changed.
    Change,
    /// When Ironic answers.
    Ironic,
    /// At the time that the message names, or within seconds.
    Time,
}

impl Next {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => {
                "when Ironic's list shows a change of the node: every fraction of a second to a few seconds while a host waits"
            }
            Self::Change => "at once when the host, or a Secret that it names, is changed; every half hour besides",
            Self::Ironic => "when Ironic answers: it is asked every second",
            Self::Time => "at the time that the message names, otherwise within seconds",
        }
    }
}

/// One reason of the condition `Waiting`.
#[derive(Clone, Copy, Debug)]
pub struct WaitHelp {
    /// What is waited for.
    pub waits_for: &'static str,
    /// When the operator looks again.
    pub next: Next,
    /// What to do.
    pub to_do: &'static str,
}

macro_rules! waits {
    ($($variant:ident, $next:ident: $waits_for:literal, $to_do:literal;)*) => {
        /// Every reason.
        pub const WAITS: &[WaitReason] = &[$(WaitReason::$variant),*];

        /// The section of a reason.
        pub fn wait_help(reason: WaitReason) -> WaitHelp {
            match reason {
                $(WaitReason::$variant => WaitHelp { waits_for: $waits_for, next: Next::$next, to_do: $to_do },)*
            }
        }
    };
}

waits! {
    SecretMissing, Change: "the Secret of `spec.bmc.credentialsName`", "Create it; the host goes on within a second.";
    InvalidBMCDetails, Change: "a usable BMC address, Secret name, or Secret content",
        "The message names the field or key and what is wrong with it.";
    NetworkDataIncomplete, Change: "the Secret of `spec.preprovisioningNetworkDataName`", "Create or mend it.";
    RamdiskBuilding, Time: "the image builder to finish the PreprovisioningImage of the host's name",
        "The message says what is missing. If nobody takes it up, is there a builder?";
    ConfigDriveIncomplete, Change: "a Secret of `spec.userData`, `networkData`, `metaData` or `preprovisioningNetworkDataName`",
        "Create or mend it.";
    ImageAuthIncomplete, Change: "a usable Secret of `spec.image.ociAuthSecretName`",
        "Create it with type `kubernetes.io/dockerconfigjson` and an entry for the image's registry.";
    InvalidImage, Change: "an image that can be deployed", "The message names the field of `spec.image`.";
    IronicNotReady, Ironic: "the resource that `IRONIC_NAME` names to exist and to be ready, with its Secrets",
        "The message names the object and what it lacks: look at that resource and at the ironic-standalone-operator.";
    IronicUnreachable, Ironic: "Ironic to answer",
        "The message has the cause: connection refused, certificate, time-out. Nothing has to be done on the host.";
    IronicUnauthorized, Ironic: "Ironic to accept the operator's own credentials",
        "Mend the Secret mounted at `METAL3_AUTH_ROOT_DIR`, or with `IRONIC_NAME` that of the resource's \
         `spec.apiCredentialsName`. No restart is needed: what a Secret is mounted as follows it within a minute or two.";
    IronicFailing, Ironic: "Ironic to stop failing, to be new enough (API 1.89), or to have a conductor",
        "Look at Ironic's log.";
    NodeLocked, Node: "another operation on the node", "Nothing; it ends when the lock does. A lock that stays is a conductor that died.";
    Queued, Node: "one of the slots for inspection, cleaning and provisioning (`PROVISIONING_LIMIT`)",
        "Nothing; the message has the place in the queue, and `metal3_slots` how full it is. Hosts with virtual media and \
         deletions never wait here.";
    Verifying, Node: "Ironic to reach the BMC", "Nothing; a wrong address or password becomes a `registration error`.";
    Inspecting, Node: "the ramdisk to boot and report the hardware", "If it lasts: look at the host's console.";
    Cleaning, Node: "the disks to be cleaned, or settings to be applied",
        "`spec.automatedCleaningMode: disabled` does without cleaning.";
    Preparing, Node: "RAID, BIOS settings or firmware to be set up by a manual cleaning",
        "If it lasts: look at the host's console.";
    Servicing, Node: "settings or firmware of a host in use to be changed, as its HostUpdatePolicy allows at a reboot",
        "If it lasts: look at the host's console.";
    FirmwareUnobserved, Change: "the controller of HostFirmwareSettings or HostFirmwareComponents to look at an edit",
        "See that this controller runs.";
    Deploying, Node: "the image to be written", "If it lasts: look at the host's console.";
    Adopting, Node: "Ironic to take over a host that runs", "Nothing.";
    TearingDown, Node: "the instance to be removed and the disks to be cleaned", "Nothing; whole disks take hours.";
    PowerChanging, Node: "the host to go on or off, or what Ironic does with the node to end first",
        "A host that ignores a soft power-off is switched off by Ironic after three minutes.";
    Removing, Node: "Ironic to let go of the node", "Nothing.";
    BackOff, Time: "the time of the next attempt after a failure",
        "Mend the cause that `errorMessage` names; editing the host or its Secret tries again at once.";
    UnexpectedNodeState, Node: "the node to be in a state that the host can go on from",
        "Somebody changed it by hand in Ironic: bring it back with `baremetal node`.";
    RetryLimitReached, Change: "another `spec.image` or `spec.customDeploy`", "`--max-provisioning-retries` sets the limit.";
    Detaching, Node: "the node to leave Ironic, as the annotation `baremetalhost.metal3.io/detached` asks for",
        "Nothing; the server is left as it is.";
    Detached, Change: "the annotation `baremetalhost.metal3.io/detached` to be removed",
        "Remove it to have the host managed again, or deleted in the usual way.";
    InvalidAnnotation, Change: "an annotation that can be read: the status of a moved host, or hardware details instead of an inspection",
        "The message names it and the mistake; nothing is done with the host until it is mended or removed.";
    RebootAnnotation, Change: "the owner of a `reboot.metal3.io/…` annotation to remove it",
        "Remove it; the host is switched on again.";
    Rebooting, Node: "a server that is never switched off to restart", "Nothing.";
    PowerUnknown, Node: "Ironic to find out whether the server is on", "Look at the BMC.";
    DataImageChanging, Node: "the disc of the DataImage of the host's name to be changed before the host starts", "Nothing.";
    DataImageFailing, Time: "the next attempt to change the disc of the DataImage of the host's name",
        "The message has the reason, and so has the DataImage's status. Correct `spec.url`, or delete the DataImage to have the \
         host started without it.";
    Unsupported, Change: "a specification without what this operator or this type of BMC cannot do",
        "The message names the field.";
    KubernetesFailing, Time: "the API server to answer a read or to accept a write", "The message has its answer.";
}
