//! What each state is.

use metal3_api::metal3::ProvisioningState;

/// One state.
#[derive(Clone, Debug)]
pub struct StateHelp {
    /// Which.
    pub state: ProvisioningState,
    /// What the operator does in it.
    pub means: &'static str,
    /// What a user sees of it.
    pub sees: &'static str,
    /// What to do if it does not end.
    pub to_do: &'static str,
}

const fn row(state: ProvisioningState, means: &'static str, sees: &'static str, to_do: &'static str) -> StateHelp {
    StateHelp {
        state,
        means,
        sees,
        to_do,
    }
}

/// Of a host in use.
const IN_USE: &str = "Nothing, while it runs. A servicing (`operationalStatus: servicing`, 3 h) and a change of the disc of its DataImage (30 min) \
    have budgets of their own, `servicing` and `changing disc`: look at `Waiting` and at what the BMC does; \
    [how to give one up](companions.md#change-settings-or-firmware-of-a-host-in-use).";

/// Every state, in the order of a host's life.
pub const STATES: &[StateHelp] = &[
    row(
        ProvisioningState::None,
        "The host was just created.",
        "no state at all, for less than a second",
        "Without a state after some seconds: is the operator running, does it watch the namespace, is the host paused?",
    ),
    row(
        ProvisioningState::Unmanaged,
        "Nobody has said how the BMC is reached.",
        "`operationalStatus: discovered`",
        "Set `spec.bmc`.",
    ),
    row(
        ProvisioningState::Registering,
        "The host is enrolled in Ironic, and Ironic tries the BMC.",
        "`Waiting` is `Verifying`, then the node's identity stands in `status.provisioning.ID`",
        "Look at `registration error` and at the reason of `Waiting`: the address, the credentials, the way to the BMC.",
    ),
    row(
        ProvisioningState::Inspecting,
        "The ramdisk, or the BMC itself, collects the inventory.",
        "`Waiting` is `Inspecting`; afterwards `status.hardware` and a HardwareData are there",
        "Look at the host's console: does it boot the ramdisk, has it an address, does it reach Ironic?",
    ),
    row(
        ProvisioningState::MatchProfile,
        "A state of old operators; it is left at once.",
        "nothing",
        "Nothing.",
    ),
    row(
        ProvisioningState::Preparing,
        "What must be set up before the host is offered is set up.",
        "`Waiting` is `Preparing` while settings are applied",
        "Look at `preparation error`. After a failed cleaning the host stays here. RAID volumes that it wants count as not set up. The \
         cleaning is repeated without limit, after a back-off that grows to 8.5 hours. An edit of the host, of HostFirmwareSettings or of \
         HostFirmwareComponents ends the back-off. The next attempt takes the node out of maintenance first.",
    ),
    row(
        ProvisioningState::Ready,
        "The former name of `available`.",
        "the same as `available`",
        "The same as `available`.",
    ),
    row(
        ProvisioningState::Available,
        "The host waits for somebody who wants an image on it. Its power follows `spec.online`.",
        "`AvailableForProvisioning` is `True`",
        "An image was set and nothing happens: is `spec.online` true, is the retry limit reached?",
    ),
    row(
        ProvisioningState::Provisioning,
        "The disks are cleaned, then the image is written and booted.",
        "`Waiting` is `Cleaning`, then `Deploying`",
        "Look at the host's console and at `provisioning error`.",
    ),
    row(
        ProvisioningState::Provisioned,
        "An image of ours runs. Nothing is done to the host but what its owner asks for.",
        "`Provisioned` is `True`, the image stands in `status.provisioning.image`",
        IN_USE,
    ),
    row(
        ProvisioningState::ExternallyProvisioned,
        "What runs on the host was put there by somebody else. Only its power is managed. If `spec.externallyProvisioned` is taken \
         back without `spec.image`, a host whose node Ironic has adopted is deprovisioned and its disks are cleaned, unless \
         `spec.automatedCleaningMode` is `disabled`. One whose node was `available` in Ironic, because an image of ours was removed \
         from it, is `available` again, and nothing is cleaned.",
        "`Provisioned` is `True`, `status.provisioning.image` is empty",
        IN_USE,
    ),
    row(
        ProvisioningState::Deprovisioning,
        "The instance is torn down and the disks are cleaned.",
        "`Waiting` is `TearingDown`",
        "Cleaning whole disks takes hours; `spec.automatedCleaningMode` chooses. A deletion goes on after the fourth failure in a row.",
    ),
    row(
        ProvisioningState::PoweringOffBeforeDelete,
        "A deletion switches the host off before it lets it go.",
        "`Waiting` is `Removing`",
        "After the fourth failure in a row the deletion goes on. `spec.disablePowerOff` leaves the host on.",
    ),
    row(
        ProvisioningState::Deleting,
        "The node is removed from Ironic, then everything that the operator holds is released.",
        "`Waiting` is `Removing`, then the host is gone",
        "Look at the reason of `Waiting`: most often Ironic is away or the node is locked.",
    ),
];
