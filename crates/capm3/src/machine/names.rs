//! The conditions of a Metal3Machine, and the reasons that several decisions give.

/// Whether the machine has its host.
pub const ASSOCIATED: &str = "AssociateBareMetalHost";

/// Whether its claim on metadata and network data is there, if it needs one.
pub const METADATA: &str = "AssociateMetal3MachineMetaData";

/// Whether the metadata and network data are there.
pub const DATA_READY: &str = "Metal3DataReady";

/// Our own condition: whether the Node of the machine carries its provider ID, and if not, what that waits for.
pub const NODE: &str = "NodeProviderIDSet";

/// Our own condition, there only while false: the metadata has all keys that the bootstrap data takes from it.
pub const BOOTSTRAP_DATA: &str = "BootstrapDataComplete";

/// Reason of [`ASSOCIATED`]: the host is the machine's.
pub const CLAIMED: &str = "AssociateBareMetalHostSuccess";

/// Our own condition, there only while false: the host runs what the machine asks for.
pub const UP_TO_DATE: &str = "HostUpToDate";

/// Reason of [`NODE`]: the workload cluster rejects the provider ID of its Node.
pub const NODE_REFUSED: &str = "NodeRefused";
