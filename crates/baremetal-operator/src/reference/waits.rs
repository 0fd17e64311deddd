//! What a host waits for.

use crate::host::next_check::{Call, Latest};
use crate::host::plan::WaitReason;

/// One reason of the condition `Waiting`.
#[derive(Clone, Copy, Debug)]
pub struct WaitHelp {
    /// What is waited for.
    pub waits_for: &'static str,
    /// What has the host looked at again, besides the passing of time.
    pub call: Call,
    /// How long a host that nothing calls is left alone: one of these.
    pub latest: &'static [Latest],
    /// What to do.
    pub to_do: &'static str,
}

impl WaitHelp {
    /// When the operator looks again, in words.
    pub fn next_check(&self) -> String {
        let latest: Vec<_> = self.latest.iter().map(|latest| latest.words()).collect();
        let which = if latest.len() > 1 {
            "; the message says which"
        } else {
            ""
        };
        let latest = latest.join(" or ");
        let call = match self.call {
            // In a message it is "named here".
            Call::Change => Some("when the host or an object that the message names changes"),
            Call::Node | Call::Edit | Call::Ironic | Call::Turn | Call::None => self.call.words(),
        };
        let words = match call {
            Some(call) if self.latest == [Latest::Named] => format!("{latest}, or {call}"),
            Some(call) => format!("{call}, {latest}"),
            None => latest,
        };
        words + which
    }
}

macro_rules! waits {
    ($($variant:ident [$($latest:ident)+]: $waits_for:literal, $to_do:literal;)*) => {
        /// Every reason.
        pub const WAITS: &[WaitReason] = &[$(WaitReason::$variant),*];

        /// The section of a reason.
        pub fn wait_help(reason: WaitReason) -> WaitHelp {
            let call = Call::of(reason);
            match reason {
                $(WaitReason::$variant => WaitHelp {
                    waits_for: $waits_for,
                    call,
                    latest: &[$(Latest::$latest),+],
                    to_do: $to_do,
                },)*
            }
        }
    };
}

waits! {
    SecretMissing [HalfHour]: "the Secret of `spec.bmc.credentialsName`", "Create it; the host goes on within a second.";
    InvalidBMCDetails [HalfHour]: "a usable BMC address, Secret name, or Secret content",
        "The message names the field or key and what is wrong with it.";
    NodeNotOurs [HalfHour]: "a person: Ironic has a node with this host's name and another BMC. Rename or delete that node, or correct `spec.bmc.address`",
        "The message says what differs, and not which node it is, as a user could claim it by that. Look for it by the host's name and \
         `status.provisioning.ID` (`baremetal node list`), and whose it is, before you touch it: another cluster may use the same \
         Ironic. One without the host's namespace in its name is adopted with `--adopt-unnamed-nodes` only.";
    BMCNameUnresolved [Minutes]: "the name in `spec.bmc.address` to be resolved, where `IRONIC_EXTERNAL_URL_V6` is set",
        "The message has the resolver's words: look at the name, and at the name server of the operator's Pod. The host is not \
         disturbed meanwhile.";
    NetworkDataIncomplete [HalfHour]: "the Secret of `spec.preprovisioningNetworkDataName`", "Create or mend it.";
    RamdiskBuilding [Minutes]: "the image builder to finish the PreprovisioningImage of the host's name",
        "The message says what is missing. If nobody takes it up, is there a builder?";
    ConfigDriveIncomplete [HalfHour]: "a Secret of `spec.userData`, `networkData`, `metaData` or `preprovisioningNetworkDataName`",
        "Create or mend it.";
    ImageAuthIncomplete [HalfHour]: "a usable Secret of `spec.image.ociAuthSecretName`",
        "Create it with type `kubernetes.io/dockerconfigjson` and an entry for the image's registry.";
    InvalidImage [HalfHour]: "an image that can be deployed", "The message names the field of `spec.image`.";
    IronicNotReady [Minute]: "the resource that `IRONIC_NAME` names to exist and to be ready, with its Secrets",
        "The message names the object and what it lacks: look at that resource and at the ironic-standalone-operator.";
    IronicUnreachable [Minute]: "Ironic to answer",
        "The message has the cause: connection refused, certificate, time-out. Nothing has to be done on the host.";
    IronicUnauthorized [Minute]: "Ironic to accept the operator's own credentials",
        "Mend the Secret mounted at `METAL3_AUTH_ROOT_DIR`, or with `IRONIC_NAME` that of the resource's \
         `spec.apiCredentialsName`. The operator needs no restart: what a Secret is mounted as follows it within a minute or two. An Ironic \
         that the chart deploys does, after its own Secret `ironic-credentials` has changed: `kubectl -n NAMESPACE rollout restart \
         statefulset ironic`.";
    IronicFailing [Minute]: "Ironic to stop failing, to be new enough (API 1.89), or to have a conductor",
        "Look at Ironic's log (`kubectl -n NAMESPACE logs ironic-0 -c ironic` for one that the chart deploys), and whether a conductor \
         is alive (`baremetal conductor list`). One that does not come back by itself has to be started again.";
    IronicRefusing [Minute]: "Ironic to answer what has to be known of the host; it refuses the question as it is put",
        "The message has the question and Ironic's words. Correct what it names in the host's specification; where that is right, \
         look at Ironic's version and log.";
    NodeLocked [Seconds Minute]: "another operation on the node",
        "Nothing; it ends when the lock does. A lock that stays is that of a conductor that died: `baremetal node show NODE -c \
         reservation` names it, and it lets its locks go when it starts again (`kubectl -n NAMESPACE rollout restart statefulset \
         ironic` for one that the chart deploys).";
    Queued [HalfHour]: "one of the slots for inspection, cleaning and provisioning (`PROVISIONING_LIMIT`)",
        "Nothing; the message has the place in the queue, and `metal3_slots` how full it is. Hosts whose ramdisk comes \
         by virtual media or HTTP boot, and deletions, never wait here.";
    Verifying [Minute]: "Ironic to reach the BMC", "Nothing; a wrong address or password becomes a `registration error`.";
    Inspecting [Minute]: "the ramdisk to boot and report the hardware", "If it lasts: look at the host's console.";
    Cleaning [Minute]: "the disks to be cleaned",
        "`spec.automatedCleaningMode: disabled` does without cleaning.";
    Preparing [Minute]: "RAID, BIOS settings or firmware to be set up by a manual cleaning",
        "If it lasts: look at the host's console, and for firmware at its BMC. docs/companions.md says how to abandon a change.";
    Servicing [Minute]: "settings or firmware of a host in use to be changed, as its HostUpdatePolicy allows at a reboot",
        "If it lasts: look at the host's BMC; its console may show nothing. To have the host back without the change, see \
         docs/companions.md.";
    FirmwareUnobserved [HalfHour]: "an edit of HostFirmwareSettings or HostFirmwareComponents to be compared with what Ironic knows",
        "If it lasts: the message says what keeps the comparison from being made.";
    Deploying [Minute]: "the image to be written", "If it lasts: look at the host's console.";
    Adopting [Minute]: "Ironic to take over a host that runs", "Nothing.";
    TearingDown [Minute]: "the instance to be removed and the disks to be cleaned", "Nothing; whole disks take hours.";
    PowerChanging [Minute]: "its power to change, or for Ironic to finish another operation on the node",
        "A host that ignores a soft power-off is switched off by Ironic after three minutes.";
    Removing [Minute]: "Ironic to let go of the node", "Nothing.";
    BackOff [Named]: "the time of the next attempt after a failure",
        "Mend the cause that `errorMessage` names. Editing the specification or the Secret tries again at once; after a \
         `preparation error` or a `servicing error`, so does editing HostFirmwareSettings or HostFirmwareComponents.";
    UnexpectedNodeState [Minute HalfHour]: "the node to be in a state that the host can go on from",
        "Where somebody changed it by hand in Ironic, bring it back with `baremetal node`. Where the host was restored without its status, \
         see docs/backup.md.";
    RetryLimitReached [HalfHour]: "another `spec.image` or `spec.customDeploy`", "`--max-provisioning-retries` sets the limit.";
    Detaching [Minute]: "the node to leave Ironic, as the annotation `baremetalhost.metal3.io/detached` asks for",
        "Nothing; the server is left as it is.";
    Detached [HalfHour]: "the annotation `baremetalhost.metal3.io/detached` to be removed",
        "Remove it to have the host managed again, or deleted in the usual way. A host that was deleted with `deleteAction: delay` \
         while it was at work first goes on to where it rests, which may begin an inspection or a cleaning.";
    InvalidAnnotation [HalfHour]: "an annotation that can be read: the status of a moved host, or hardware details instead of an inspection",
        "The message names it and the mistake; nothing is done with the host until it is mended or removed.";
    RebootAnnotation [HalfHour]: "the owner of a `reboot.metal3.io/…` annotation to remove it",
        "Remove it; the host is switched on again.";
    Rebooting [Minute]: "a server that is never switched off to restart", "Nothing.";
    PowerUnknown [Minute]: "Ironic to find out whether the server is on", "Look at the BMC.";
    DataImageChanging [Minute]: "the disc of the DataImage of the host's name to be changed before the host starts", "Nothing.";
    DataImageFailing [Named]: "the next attempt to change the disc of the DataImage of the host's name",
        "The message has the reason, and so has the DataImage's status. Correct `spec.url`, or delete the DataImage to have the \
         host started without it.";
    Unsupported [HalfHour]: "a specification without what this operator or this type of BMC cannot do",
        "The message names the field.";
    KubernetesFailing [Minute]: "the API server to answer a read or to accept a write", "The message has its answer.";
}
