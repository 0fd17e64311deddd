//! From which state a host may come into which. The property tests hold every decision against this table.

/// One move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// From, as it stands in `status.provisioning.state`.
    pub from: &'static str,
    /// To.
    pub to: &'static str,
    /// What brings it about.
    pub when: &'static str,
    /// Only a deletion leads here.
    pub is_deletion: bool,
}

const fn go(from: &'static str, to: &'static str, when: &'static str) -> Move {
    Move {
        from,
        to,
        when,
        is_deletion: false,
    }
}

const fn end(from: &'static str, to: &'static str, when: &'static str) -> Move {
    Move {
        from,
        to,
        when,
        is_deletion: true,
    }
}

const NOTHING_THERE: &str = "deleted: nothing runs";
const OFF_FIRST: &str = "deleted: switched off first";
const TORN_DOWN_FIRST: &str = "deleted: torn down first";

/// The one move that leads from any state but the last.
pub const FROM_ANY: Move = end(
    "any state",
    "deleting",
    "deleted while detached: the node leaves Ironic, and the server is left as it runs",
);

/// Every other move there is.
pub const MOVES: &[Move] = &[
    go("", "unmanaged", "spec.bmc is empty"),
    go("", "registering", "spec.bmc is set"),
    go("unmanaged", "registering", "spec.bmc is set"),
    go("registering", "inspecting", "the BMC answered"),
    go("registering", "preparing", "the BMC answered; inspection is disabled"),
    go(
        "registering",
        "externally provisioned",
        "the BMC answered; spec.externallyProvisioned",
    ),
    go("match profile", "preparing", "at once"),
    go("inspecting", "preparing", "the inventory is there"),
    go("preparing", "available", "everything is set up"),
    go("ready", "inspecting", "the annotation inspect.metal3.io asks for it"),
    go("ready", "preparing", "settings changed"),
    go(
        "ready",
        "provisioning",
        "spec.image or spec.customDeploy is set, and spec.online",
    ),
    go("ready", "externally provisioned", "spec.externallyProvisioned"),
    go(
        "available",
        "inspecting",
        "the annotation inspect.metal3.io asks for it",
    ),
    go("available", "preparing", "settings changed"),
    go(
        "available",
        "provisioning",
        "spec.image or spec.customDeploy is set, and spec.online",
    ),
    go("available", "externally provisioned", "spec.externallyProvisioned"),
    go("provisioning", "provisioned", "the image runs"),
    go(
        "provisioning",
        "deprovisioning",
        "it failed, or something else is wanted",
    ),
    go(
        "provisioned",
        "deprovisioning",
        "the image is removed or another one is wanted",
    ),
    go(
        "externally provisioned",
        "provisioned",
        "spec.externallyProvisioned is taken back",
    ),
    go("deprovisioning", "available", "torn down and cleaned"),
    end("", "deleting", NOTHING_THERE),
    end("unmanaged", "deleting", NOTHING_THERE),
    end("registering", "deleting", NOTHING_THERE),
    end("match profile", "powering off before delete", OFF_FIRST),
    end("inspecting", "powering off before delete", OFF_FIRST),
    end("preparing", "powering off before delete", OFF_FIRST),
    end("ready", "powering off before delete", OFF_FIRST),
    end("available", "powering off before delete", OFF_FIRST),
    end("externally provisioned", "powering off before delete", OFF_FIRST),
    end("provisioning", "deprovisioning", TORN_DOWN_FIRST),
    end("provisioned", "deprovisioning", TORN_DOWN_FIRST),
    end("deprovisioning", "powering off before delete", "torn down, or given up"),
    end("deprovisioning", "deleting", "the BMC cannot be reached any more"),
    end("powering off before delete", "deleting", "off, or given up"),
];
