//! Keys that are part of the interface: annotations and finalizers.

/// The API group.
pub const GROUP: &str = "ipam.metal3.io";

/// Annotations.
pub mod annotation {
    /// On a claim of either family: the address that it asks for. Empty means none in particular.
    pub const REQUESTED_ADDRESS: &str = "ipAddress";
}

/// Finalizers.
pub mod finalizer {
    /// On an IPPool, until no address refers to it.
    pub const POOL: &str = "ippool.ipam.metal3.io";

    /// On an IPClaim, until its address is released.
    pub const CLAIM: &str = "ipclaim.ipam.metal3.io";

    /// On an IPAddress, so that it goes only with its claim.
    pub const ADDRESS: &str = "ipaddress.ipam.metal3.io";

    /// On Cluster API's IPAddressClaim, until its address is released.
    pub const CAPI_CLAIM: &str = "ipam.metal3.io/ipaddressclaim";

    /// On Cluster API's IPAddress, so that it goes only with its claim.
    pub const CAPI_ADDRESS: &str = "ipam.metal3.io/ipaddress";
}

/// Value of the label `cluster.x-k8s.io/provider` on what belongs to this provider: its pools, and what installs it.
pub const PROVIDER: &str = "ipam-metal3";
